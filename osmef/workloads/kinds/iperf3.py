"""iperf3: bulk transfers, or datagrams at a rate, as ESnet's program measures them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from osmef.errors import OutputError
from osmef.formats.iperf3 import read
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.fields import Duration, Rate, Size
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, Where
from osmef.workloads.tool import (
    Direction,
    ServerSettings,
    Tool,
    TransportProtocol,
    common,
    lost_percent,
    options,
    whole_seconds,
)


class Iperf3Settings(ServerSettings):
    """iperf3: parallel TCP connections, or UDP at a rate, by ESnet's program."""

    kind: Literal["iperf3"] = Field(default="iperf3", description="the kind of workload")
    connections: int = Field(
        default=1, ge=1, le=128, description="parallel connections of each pair (-P)"
    )
    protocol: TransportProtocol = Field(
        default=TransportProtocol.TCP, strict=False, description="TCP, or UDP at a rate (-u)"
    )
    direction: Direction = Field(
        default="forward", description="from sender to receiver, or back (-R)"
    )
    rate: Rate | None = Field(
        default=None,
        ge=0,
        description="of each connection (-b); by default TCP as fast as it goes, UDP 1 Mbit/s",
    )
    window: Size | None = Field(default=None, ge=1, description="socket buffers (-w)")
    length: Size | None = Field(
        default=None, ge=1, description="of what is written at a time, or of a datagram (-l)"
    )
    omit: Duration = Field(
        default=0.0, ge=0, le=60, description="how much of the beginning does not count (-O)"
    )

    usual_port: ClassVar = 5201

    @property
    def connections_per_pair(self) -> int | None:
        """How many connections each pair has."""
        return self.connections


class Iperf3(Tool[Iperf3Settings]):
    """A server for one client, and its client."""

    Settings = Iperf3Settings
    example = "workload: {kind: iperf3, connections: 4, duration: 10s}"
    programs = (Program("iperf3"),)
    told = (
        *common("iperf3(1)", "goodput_bps", "sent_bps", "retransmits", "loss_percent"),
        *common("RFC 1889, as iperf3 has it", "jitter_us"),
        Measure(
            name="cpu_sender_percent", unit="%", better=Better.NEITHER, label="CPU sender",
            over_pairs=OverPairs.SUM, source="iperf3(1)", help="of iperf3 at the sending end",
        ),
        Measure(
            name="cpu_receiver_percent", unit="%", better=Better.NEITHER, label="CPU receiver",
            over_pairs=OverPairs.SUM, source="iperf3(1)", help="of iperf3 at the receiving end",
        ),
    )  # fmt: skip

    def runs(self) -> Sequence[ProgramRun]:
        """Return the server, which ends with its client, and the client; or only that."""
        if self._settings.there is not None:
            address, port = self._settings.there
            client = ["iperf3", "-c", address, "-p", str(port), *self._options()]
            return (ProgramRun(on=Where.SENDER, argv=client),)
        return (
            ProgramRun(
                on=Where.RECEIVER, argv=["iperf3", "-s", "-1", "-p", "{port}", "-B", "{bind}"],
                ready="port",
            ),
            ProgramRun(
                on=Where.SENDER,
                argv=["iperf3", "-c", "{peer}", "-p", "{port}", *self._options()],
            ),
        )  # fmt: skip

    def _options(self) -> list[str]:
        s = self._settings
        return options(
            {
                "-J": True,
                "-P": s.connections,
                "-t": whole_seconds(s.duration),
                "-b": None if s.rate is None else round(s.rate),
                "-w": s.window,
                "-l": s.length,
                "-O": whole_seconds(s.omit) or None,
                "-u": s.protocol is TransportProtocol.UDP,
                "-R": s.direction == "reverse",
            }
        )

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the client's JSON, which has the numbers of both ends."""
        told = read(ended[-1].printed.text_of_stdout)
        way = told.forward
        if way is None or way.received_bps is None:
            raise OutputError("iperf3 reports no rate of the receiver", tail=ended[-1].printed.tail)
        return {
            "goodput_bps": way.received_bps,
            "sent_bps": way.sent_bps,
            "retransmits": way.retransmits,
            "loss_percent": lost_percent(way.packets, way.lost),
            "jitter_us": way.jitter_us,
            "cpu_sender_percent": told.cpu_sender_percent,
            "cpu_receiver_percent": told.cpu_receiver_percent,
        }
