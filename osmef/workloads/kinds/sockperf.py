"""sockperf: round trips alone or under a load of messages, or how many messages can be sent.

Source: client.cpp of sockperf 3. Times are microseconds of half a round trip, or with --full-rtt of
a whole one; messages of the warm-up and of the end are left out. A throughput is of what was sent:
its bandwidth is left out here, since 3.7 names it GBps with --increase_output_precision.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.formats import amount, first, of_one_run, positive, shows_tail, whole
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.base import conflict
from osmef.scenario.fields import Duration, Size
from osmef.scenario.workload import Directions
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.tool import (
    Tool,
    TransportProtocol,
    common,
    lost_percent,
    options,
    whole_seconds,
)

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_FAILED = re.compile(
    r"^(?:IP = .*)?sockperf: (ERROR: .*|No messages were received.*|No valid observations.*"
    r"|Test end before test start.*|Test ends uncompleted.*)",
    re.MULTILINE,
)
_MEAN = re.compile(
    r"^sockperf: ====> avg-(rtt|latency|lat)= *(\S+) \(std-dev= *([^\s,)]+)", re.MULTILINE
)
_VALID = re.compile(
    r"^sockperf: \[Valid Duration\] RunTime= *(\S+) sec; SentMessages= *(\S+);"
    r" ReceivedMessages= *(\S+)",
    re.MULTILINE,
)
_LOST = re.compile(
    r"^sockperf: # dropped messages = ([0-9]+); # duplicated messages = ([0-9]+);"
    r" # out-of-order messages = ([0-9]+)",
    re.MULTILINE,
)
_PERCENTILE = re.compile(r"^sockperf: ---> percentile +(\S+) = +(\S+)", re.MULTILINE)
_TOTAL = re.compile(r"^sockperf: Total of ([0-9]+) messages sent in (\S+) sec", re.MULTILINE)
_RATE = re.compile(r"^sockperf: Summary: Message Rate is (\S+) \[msg/sec\]$", re.MULTILINE)
_BANDWIDTH = re.compile(r"^sockperf: Summary: BandWidth is ", re.MULTILINE)
_LEAST = re.compile(r"^sockperf: ---> <MIN> observation = +(\S+)", re.MULTILINE)
_MOST = re.compile(r"^sockperf: ---> <MAX> observation = +(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class SockperfOutput:
    """Output of one program run. Times are round trips if ``round_trip``, else half of these.

    The messages are those of the valid duration, ``elapsed_s``; ``quantiles_us`` is by percent.
    """

    round_trip: bool
    elapsed_s: float
    sent: int
    received: int
    dropped: int
    duplicated: int
    out_of_order: int
    mean_us: float
    stdev_us: float
    min_us: float
    max_us: float
    quantiles_us: Mapping[float, float]


@dataclass(frozen=True)
class Throughput:
    """Output of a throughput run: messages sent by the client; received ones are unknown."""

    elapsed_s: float
    sent: int
    messages_per_s: float


@shows_tail
def read(text: str) -> SockperfOutput | Throughput:
    """Read the output of one client. Raises OutputError, also for a failure."""
    text = _COLOUR.sub("", text)
    refused = _FAILED.search(text)
    if refused:
        raise OutputError(f"sockperf failed: {refused[1]}")
    return _throughput(text) if _TOTAL.search(text) else _latency(text)


def _throughput(text: str) -> Throughput:
    total, rate = of_one_run(_TOTAL, text, "sockperf"), first(_RATE, text, "message rate")
    first(_BANDWIDTH, text, "bandwidth")  # the last line
    return Throughput(
        elapsed_s=positive(total[2], "the time"),
        sent=whole(total[1], "the messages sent"),
        messages_per_s=positive(rate[1], "the message rate"),
    )


def _latency(text: str) -> SockperfOutput:
    mean = of_one_run(_MEAN, text, "sockperf")
    valid, lost = first(_VALID, text, "valid duration"), first(_LOST, text, "lost messages")
    least = first(_LEAST, text, "least time")  # the last line
    return SockperfOutput(
        round_trip=mean[1] == "rtt",
        elapsed_s=positive(valid[1], "the valid duration"),
        sent=whole(valid[2], "the messages sent"),
        received=whole(valid[3], "the messages received"),
        dropped=whole(lost[1], "the dropped messages"),
        duplicated=whole(lost[2], "the duplicated messages"),
        out_of_order=whole(lost[3], "the messages out of order"),
        mean_us=positive(mean[2], "the mean time"),
        stdev_us=amount(mean[3], "the deviation"),
        min_us=amount(least[1], "the least time"),
        max_us=amount(first(_MOST, text, "greatest time")[1], "the greatest time"),
        quantiles_us={
            amount(percent, "a percent"): amount(time_us, "a percentile")
            for percent, time_us in _PERCENTILE.findall(text)
        },
    )


_SOURCE = "sockperf(1)"
_QUANTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}
_RTT = tuple(f"rtt_{one}_us" for one in ("min", "mean", *_QUANTILES, "max"))
_SENT = ("messages_per_s", "sent_bps")


class SockperfTest(StrEnum):
    """The test of sockperf."""

    PING_PONG = "ping-pong"
    UNDER_LOAD = "under-load"
    THROUGHPUT = "throughput"


class SockperfSettings(ProgramsSettings):
    """sockperf: round trips of messages, alone or under load, or the rate of sending them."""

    kind: Literal["sockperf"] = Field(default="sockperf", description="the kind of workload")
    duration: Duration = Field(
        default=10.0, ge=1, le=86400.0,
        description="how long it runs, whole seconds (-t), of which it leaves out the first 0.4"
        " and the last 0.05",
    )  # fmt: skip
    test: SockperfTest = Field(
        default=SockperfTest.PING_PONG, strict=False,
        description="ping-pong: the next message follows the answer; under-load: messages at a"
        " rate, of which some are answered; throughput: none is answered",
    )  # fmt: skip
    protocol: TransportProtocol = Field(
        default=TransportProtocol.UDP, strict=False, description="UDP, or TCP (--tcp)"
    )
    size: Size = Field(default=14, ge=14, description="of a message (-m)")
    rate: float | None = Field(
        default=None, ge=1, le=1e9,
        description="messages per second (--mps); by default under-load 10000, else as fast as it"
        " goes",
    )  # fmt: skip
    reply_every: int = Field(
        default=100, ge=1, le=10**6,
        description="of under-load: which messages are answered, and timed (--reply-every)",
    )  # fmt: skip

    @property
    def directions(self) -> Directions:
        """Which ways its data goes: in ping-pong each message comes back."""
        ping_pong = self.test is SockperfTest.PING_PONG
        return Directions.of_messages(self.size) if ping_pong else Directions.ONE

    @model_validator(mode="after")
    def _only_a_load_is_partly_answered(self) -> SockperfSettings:
        if "reply_every" in self.model_fields_set and self.test is not SockperfTest.UNDER_LOAD:
            cure = "leave reply_every out, or write test: under-load"
            raise conflict(f"{self.test.value} answers all, or none", cure, "reply_every")
        return self


class Sockperf(Tool[SockperfSettings]):
    """A server, and its client."""

    Settings = SockperfSettings
    example = "workload: {kind: sockperf, test: ping-pong, duration: 10s}"
    programs = (Program("sockperf"),)
    output_measures = (
        *common(_SOURCE, *_RTT, "exchanges_per_s", "loss_percent"),
        Measure(
            name="messages_per_s", unit="1/s", better=Better.HIGHER, label="messages",
            head="messages\n/s", digits=".0f", over_pairs=OverPairs.SUM, leading=True,
            help="messages that were sent, per second, whether or not they arrived", source=_SOURCE,
        ),
        *common(_SOURCE, "sent_bps"),
    )  # fmt: skip

    def selected_measures(self) -> Sequence[Measure]:
        """Return the measures of the test: sent messages, or latency."""
        sends = self._settings.test is SockperfTest.THROUGHPUT
        return [one for one in self.output_measures if (one.name in _SENT) is sends]

    def runs(self) -> Sequence[ProgramRun]:
        """Return the server and the client."""
        s = self._settings
        tcp = s.protocol is TransportProtocol.TCP
        under_load = s.test is SockperfTest.UNDER_LOAD
        given = {
            "-i": "{peer}",
            "-p": "{port}",
            "--tcp": tcp,
            "-t": whole_seconds(s.duration),
            "-m": s.size,
            "--mps": None if s.rate is None else round(s.rate),
            "--reply-every": s.reply_every if under_load else None,
            "--full-rtt": s.test is not SockperfTest.THROUGHPUT,
        }
        server = options({"-i": "{bind}", "-p": "{port}", "--tcp": tcp})
        return (
            ProgramRun(
                on=Where.RECEIVER, argv=["sockperf", "server", *server],
                ready="port" if tcp else "udp-port", serves=True,
            ),
            ProgramRun(on=Where.SENDER, argv=["sockperf", s.test.value, *options(given)]),
        )  # fmt: skip

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the client's numbers."""
        output = read(ended[-1].printed.text_of_stdout)
        sends = self._settings.test is SockperfTest.THROUGHPUT
        if isinstance(output, Throughput) and sends:
            bits = 8 * self._settings.size * output.messages_per_s
            return {"messages_per_s": output.messages_per_s, "sent_bps": bits}
        if isinstance(output, Throughput) or sends or not output.round_trip:
            raise OutputError("sockperf did another test", tail=ended[-1].printed.tail)
        times = {
            "min": output.min_us,
            "mean": output.mean_us,
            **{name: output.quantiles_us.get(percent) for name, percent in _QUANTILES.items()},
            "max": output.max_us,
        }
        return {
            **{f"rtt_{name}_us": value for name, value in times.items()},
            "exchanges_per_s": output.received / output.elapsed_s,
            "loss_percent": lost_percent(output.received + output.dropped, output.dropped),
        }
