"""nuttcp: bulk transfers over TCP, or UDP at a rate, as its receiver counts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from osmef.formats.nuttcp import read
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.fields import Rate, Size
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.tool import (
    Direction,
    Tool,
    TransportProtocol,
    common,
    lost_percent,
    whole_seconds,
)


class NuttcpSettings(ProgramsSettings):
    """nuttcp: parallel TCP streams, or UDP at a rate, all in one thread."""

    kind: Literal["nuttcp"] = Field(default="nuttcp", description="the kind of workload")
    connections: int = Field(
        default=1, ge=1, le=128, description="parallel streams of each pair (-N)"
    )
    protocol: TransportProtocol = Field(
        default=TransportProtocol.TCP, strict=False, description="TCP, or UDP (-u)"
    )
    direction: Direction = Field(
        default="forward", description="from sender to receiver, or back (-r)"
    )
    rate: Rate | None = Field(
        default=None,
        ge=1000,
        description="of all streams together, in whole kbit/s (-R); by default as fast as it goes",
    )
    window: Size | None = Field(
        default=None, ge=1024, description="socket buffers, in whole KiB (-w)"
    )
    length: Size | None = Field(
        default=None, ge=1, description="of what is written at a time, or of a datagram (-l)"
    )

    @property
    def connections_per_pair(self) -> int | None:
        """How many connections each pair has."""
        return self.connections


class Nuttcp(Tool[NuttcpSettings]):
    """A server for one client, and its client, at a port of their own."""

    Settings = NuttcpSettings
    example = "workload: {kind: nuttcp, connections: 4, duration: 10s}"
    programs = (Program("nuttcp"),)
    told = (
        *common("nuttcp(8)", "goodput_bps", "sent_bps", "retransmits", "loss_percent"),
        Measure(
            name="connect_rtt_us", unit="us", better=Better.LOWER, label="connect RTT",
            over_pairs=OverPairs.WORST, source="nuttcp(8)",
            help="round-trip time that the kernel saw as the connection was made, TCP",
        ),
        Measure(
            name="cpu_sender_percent", unit="%", better=Better.NEITHER, label="CPU sender",
            over_pairs=OverPairs.SUM, source="nuttcp(8)", help="of nuttcp at the sending end",
        ),
        Measure(
            name="cpu_receiver_percent", unit="%", better=Better.NEITHER, label="CPU receiver",
            over_pairs=OverPairs.SUM, source="nuttcp(8)", help="of nuttcp at the receiving end",
        ),
    )  # fmt: skip

    def runs(self) -> Sequence[ProgramRun]:
        """Return the server, which ends with its client, and the client.

        In reverse the client opens the data connections, too (-F), so that all ports are those of
        the server; UDP can't: its datagrams go to the same port of the client.
        """
        server = ["nuttcp", "-1", "--nofork", "-P{port}"]
        ports = ["-P{port}", "-p{data_port}"]
        argv = ["nuttcp", "-fparse", *ports, *self._options(), "{peer}"]
        return (
            ProgramRun(
                on=Where.RECEIVER, argv=server, ipv6=["-6"], ready="port",
                ports=1 + self._settings.connections,
            ),
            ProgramRun(on=Where.SENDER, argv=argv),
        )  # fmt: skip

    def _options(self) -> list[str]:
        s = self._settings
        udp = s.protocol is TransportProtocol.UDP
        options = [f"-T{whole_seconds(s.duration)}", f"-N{s.connections}"]
        options += ["-u", "-v"] if udp else []  # of UDP only -v tells what was sent
        options += [] if s.rate is None else [f"-R{s.rate / 1000:.0f}"]
        options += [] if s.window is None else [f"-w{s.window / 1024:.0f}"]
        options += [] if s.length is None else [f"-l{s.length}"]
        if s.direction == "reverse":
            options += ["-r"] if udp else ["-r", "-F"]
        return options

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the client's lines, which have the numbers of the receiver."""
        told = read(ended[-1].printed.text_of_stdout)
        return {
            "goodput_bps": told.received_bps,
            "sent_bps": told.sent_bps,
            "retransmits": told.retransmits,
            "loss_percent": lost_percent(told.packets, told.lost),
            "connect_rtt_us": told.connect_rtt_us,
            "cpu_sender_percent": told.cpu_sender_percent,
            "cpu_receiver_percent": told.cpu_receiver_percent,
        }
