"""qperf: the bandwidth of a stream or of datagrams, or the latency of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal

from pydantic import Field

from osmef.errors import OutputError
from osmef.formats.qperf import read
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.fields import Size
from osmef.scenario.workload import Directions
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.tool import Tool, common, lost_percent, missing, options, whole_seconds

_SOURCE = "qperf(1)"


class QperfTest(StrEnum):
    """The test of qperf."""

    TCP_BW = "tcp-bw"
    TCP_LAT = "tcp-lat"
    UDP_BW = "udp-bw"
    UDP_LAT = "udp-lat"


_TOLD = {
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
    told = (
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

    def tells(self) -> Sequence[Measure]:
        """Return the measures of the test."""
        return [one for one in self.told if one.name in _TOLD[self._settings.test]]

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
        told = read(ended[-1].printed.text_of_stdout)
        if told.test != self._name:
            raise OutputError(f"qperf did {told.test}", tail=ended[-1].printed.tail)
        sent, came = told.sent, told.received
        return {
            "goodput_bps": told.received_bps,
            "sent_bps": told.sent_bps,
            "loss_percent": lost_percent(sent, missing(sent, came)),
            "latency_us": told.latency_us,
            "messages_per_s": told.messages_per_s,
        }
