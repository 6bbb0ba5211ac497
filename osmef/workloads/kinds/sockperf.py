"""sockperf: round trips alone or under a load of messages, or how many messages can be sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.formats.sockperf import Throughput, read
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
    told = (
        *common(_SOURCE, *_RTT, "exchanges_per_s", "loss_percent"),
        Measure(
            name="messages_per_s", unit="1/s", better=Better.HIGHER, label="messages",
            head="messages\n/s", digits=".0f", over_pairs=OverPairs.SUM, leading=True,
            help="messages that were sent, per second, whether or not they arrived", source=_SOURCE,
        ),
        *common(_SOURCE, "sent_bps"),
    )  # fmt: skip

    def tells(self) -> Sequence[Measure]:
        """Return the measures of the test: sent messages, or latency."""
        sends = self._settings.test is SockperfTest.THROUGHPUT
        return [one for one in self.told if (one.name in _SENT) is sends]

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
        told = read(ended[-1].printed.text_of_stdout)
        sends = self._settings.test is SockperfTest.THROUGHPUT
        if isinstance(told, Throughput) and sends:
            bits = 8 * self._settings.size * told.messages_per_s
            return {"messages_per_s": told.messages_per_s, "sent_bps": bits}
        if isinstance(told, Throughput) or sends or not told.round_trip:
            raise OutputError("sockperf did another test", tail=ended[-1].printed.tail)
        times = {
            "min": told.min_us,
            "mean": told.mean_us,
            **{name: told.quantiles_us.get(percent) for name, percent in _QUANTILES.items()},
            "max": told.max_us,
        }
        return {
            **{f"rtt_{name}_us": value for name, value in times.items()},
            "exchanges_per_s": told.received / told.elapsed_s,
            "loss_percent": lost_percent(told.received + told.dropped, told.dropped),
        }
