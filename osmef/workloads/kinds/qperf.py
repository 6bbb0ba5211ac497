"""qperf: the bandwidth of a stream or of datagrams, or the latency of messages.

Source: qperf(1), and calc_results and view_* of qperf.c, 0.4.11. Prefixes of rates and amounts are
powers of 1000; an amount that is a whole multiple of 1024 has a prefix of that (KiB). A latency is
half of a round trip. Printed values are rounded to three digits, but for whole numbers (-uu).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pydantic import Field

from osmef.errors import OutputError
from osmef.formats import amount, failed, of_one_run, positive, shows_tail
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.fields import Size
from osmef.scenario.workload import Directions
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.tool import Tool, common, lost_percent, missing, options, whole_seconds

_HEAD = re.compile(r"^([a-z][a-z0-9_]*):$", re.MULTILINE | re.ASCII)
_ROW = re.compile(
    r" {4}(?P<name>[a-z_0-9]+) *  =  +(?P<number>[-0-9.,einfa]+) ?(?P<unit>[^\s(][^(]*?)?"
    r"(?: \([0-9,]+\))?\s*",
    re.ASCII,
)
_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_PER_S = {f"{one}/sec": factor for one, factor in _PREFIXES.items()}
_BITS_PER_S = {
    "bytes/sec": 8.0,
    "bits/sec": 1.0,
    **{f"{one}B/sec": 8 * factor for one, factor in _PREFIXES.items() if one},
    **{f"{one}b/sec": factor for one, factor in _PREFIXES.items() if one},
}
_MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "sec": 1e6}
_COUNTS = {"": 1.0, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}

_Rows = Mapping[str, tuple[str, str]]
"""Numbers and their units, as they are written, by their names."""


@dataclass(frozen=True)
class QperfOutput:
    """A test. A bandwidth test has rates, a latency test the time of one message.

    tcp_bw reports only ``received_bps``. Messages and their rate are those of -vs and -vvs; for a
    latency the rate is of both directions together, and ``sent`` and ``received`` are not reported.
    """

    test: str
    received_bps: float | None = None
    sent_bps: float | None = None
    latency_us: float | None = None
    messages_per_s: float | None = None
    sent: float | None = None
    received: float | None = None


@shows_tail
def read(text: str) -> QperfOutput:
    """Read the output of one test. Raises OutputError, also for a failure."""
    head = of_one_run(_HEAD, text, "qperf")
    rows = _rows(text)
    test = head[1]
    rate = _number(rows, "msg_rate", _PER_S) if "msg_rate" in rows else None
    if "latency" in rows:
        latency = positive(_number(rows, "latency", _MICROSECONDS), "the latency")
        return QperfOutput(test, latency_us=latency, messages_per_s=rate)
    if "bw" in rows:
        got, sent = positive(_number(rows, "bw", _BITS_PER_S), "the bandwidth"), None
    elif {"send_bw", "recv_bw"} <= rows.keys():
        got, sent = (_number(rows, name, _BITS_PER_S) for name in ("recv_bw", "send_bw"))
        positive(sent, "what was sent")
    else:
        raise OutputError(f"{test} of qperf has no bandwidth and no latency")
    return QperfOutput(
        test,
        received_bps=got,
        sent_bps=sent,
        messages_per_s=rate,
        sent=_messages(rows, "send_msgs", "loc_send_msgs"),
        received=_messages(rows, "recv_msgs", "rem_recv_msgs"),
    )


def _rows(text: str) -> _Rows:
    """Return the rows of the test; any other line is an error message."""
    found: dict[str, tuple[str, str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or _HEAD.fullmatch(line):
            continue
        row = _ROW.fullmatch(line)
        if row is None and not line.startswith(" "):
            raise failed("qperf", line.strip()[:200])
        if row is None or row["name"] in found:
            raise OutputError(f"this is no number of qperf: {line.strip()[:60]}", line=number)
        found[row["name"]] = (row["number"], row["unit"] or "")
    return found


def _number(rows: _Rows, name: str, units: Mapping[str, float]) -> float:
    text, unit = rows[name]
    if unit not in units:
        raise OutputError(f"{name} is in {unit[:20]!r}, which is no unit of it")
    return amount(text.replace(",", ""), name) * units[unit]


def _messages(rows: _Rows, *names: str) -> float | None:
    """Return a count under any of its names, which depend on -un."""
    return next((_number(rows, name, _COUNTS) for name in names if name in rows), None)


_SOURCE = "qperf(1)"


class QperfTest(StrEnum):
    """The test of qperf."""

    TCP_BW = "tcp-bw"
    TCP_LAT = "tcp-lat"
    UDP_BW = "udp-bw"
    UDP_LAT = "udp-lat"


_MEASURES_OF = {
    QperfTest.TCP_BW: ("goodput_bps", "messages_per_s"),
    QperfTest.UDP_BW: ("goodput_bps", "sent_bps", "loss_percent", "messages_per_s"),
    QperfTest.TCP_LAT: ("latency_us", "messages_per_s"),
    QperfTest.UDP_LAT: ("latency_us", "messages_per_s"),
}


class QperfSettings(ProgramsSettings):
    """qperf: bandwidth or latency over TCP or UDP."""

    kind: Literal["qperf"] = Field(default="qperf", description="the kind of workload")
    test: QperfTest = Field(
        default=QperfTest.TCP_BW, strict=False,
        description="bandwidth (bw) or latency (lat), over TCP or UDP",
    )  # fmt: skip
    size: Size | None = Field(
        default=None, ge=1,
        description="of a message (-m); by default 64 KiB of tcp-bw, 32 KiB of udp-bw, and 1 B",
    )  # fmt: skip
    window: Size | None = Field(default=None, ge=1, description="socket buffers (-sb)")

    @property
    def directions(self) -> Directions:
        """Which ways its data goes: in a latency test each message comes back."""
        if self.test in {QperfTest.TCP_BW, QperfTest.UDP_BW}:
            return Directions.ONE
        return Directions.of_messages(self.size or 1)


class Qperf(Tool[QperfSettings]):
    """A server, and its client, at a port of their own."""

    Settings = QperfSettings
    example = "workload: {kind: qperf, test: tcp-lat, duration: 10s}"
    programs = (Program("qperf"),)
    output_measures = (
        *common(_SOURCE, "goodput_bps", "sent_bps", "loss_percent"),
        Measure(
            name="latency_us", unit="us", better=Better.LOWER, label="latency",
            head="latency\nµs", digits=".1f", over_pairs=OverPairs.MEAN, leading=True,
            source=_SOURCE,
            help="mean time of a message, which is half of a round trip",
        ),
        Measure(
            name="messages_per_s", unit="1/s", better=Better.HIGHER, label="messages",
            head="messages\n/s", digits=".0f", over_pairs=OverPairs.SUM, source=_SOURCE,
            help="messages that arrived, per second; of a latency in both directions",
        ),
    )  # fmt: skip

    def selected_measures(self) -> Sequence[Measure]:
        """Return the measures of the test."""
        return [
            one for one in self.output_measures if one.name in _MEASURES_OF[self._settings.test]
        ]

    @property
    def _name(self) -> str:
        """The test's name in qperf."""
        return self._settings.test.value.replace("-", "_")

    def runs(self) -> Sequence[ProgramRun]:
        """Return the server and the client, which prints whole units (-uu)."""
        s = self._settings
        given = {
            "-lp": "{port}",
            "-ip": "{data_port}",
            "-t": whole_seconds(s.duration),
            "-m": s.size,
            "-sb": s.window,
            "-uu": True,
            "-ub": True,
            "-vvs": True,
        }
        return (
            ProgramRun(
                on=Where.RECEIVER, argv=["qperf", "-lp", "{port}"], ready="port", serves=True,
                ports=2,
            ),
            ProgramRun(on=Where.SENDER, argv=["qperf", "{peer}", *options(given), self._name]),
        )  # fmt: skip

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the client's output, which has both ends."""
        output = read(ended[-1].printed.text_of_stdout)
        if output.test != self._name:
            raise OutputError(f"qperf did {output.test}", tail=ended[-1].printed.tail)
        sent, came = output.sent, output.received
        return {
            "goodput_bps": output.received_bps,
            "sent_bps": output.sent_bps,
            "loss_percent": lost_percent(sent, missing(sent, came)),
            "latency_us": output.latency_us,
            "messages_per_s": output.messages_per_s,
        }
