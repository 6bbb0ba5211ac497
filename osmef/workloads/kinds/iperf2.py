"""iperf 2: bulk transfers, or datagrams at a rate, each connection with a thread of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.formats.iperf2 import Moved, read
from osmef.scenario.base import conflict
from osmef.scenario.fields import Rate, Size
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.tool import (
    Direction,
    Tool,
    TransportProtocol,
    common,
    lost_percent,
    options,
    whole_seconds,
)

_AT_ONCE = 0.05
"""Of the duration: iperf calls a connection that breaks as it begins a success."""


class Iperf2Settings(ProgramsSettings):
    """iperf 2: parallel TCP connections, or UDP at a rate, a thread each."""

    kind: Literal["iperf2"] = Field(default="iperf2", description="the kind of workload")
    connections: int = Field(
        default=1, ge=1, le=1000, description="parallel connections of each pair (-P)"
    )
    protocol: TransportProtocol = Field(
        default=TransportProtocol.TCP, strict=False, description="TCP, or UDP at a rate (-u)"
    )
    direction: Direction = Field(
        default="forward", description="from sender to receiver, or back (-R)"
    )
    rate: Rate | None = Field(
        default=None,
        ge=1,
        description="of each connection (-b); by default TCP as fast as it goes, UDP 1.05 Mbit/s",
    )
    window: Size | None = Field(default=None, ge=1, description="socket buffers (-w)")
    length: Size | None = Field(
        default=None, ge=1, description="of what is written at a time, or of a datagram (-l)"
    )

    @property
    def connections_per_pair(self) -> int | None:
        """How many connections each pair has."""
        return self.connections

    @model_validator(mode="after")
    def _server_sees_all(self) -> Iperf2Settings:
        if (
            self.protocol is TransportProtocol.UDP
            and self.direction == "reverse"
            and self.connections > 1
        ):
            raise conflict(
                "of several UDP connections in reverse the server of iperf 2 drops some",
                "write connections: 1, or direction: forward",
                *("connections", "direction"),
            )
        return self


class Iperf2(Tool[Iperf2Settings]):
    """A server that ends with its last connection, and its client."""

    Settings = Iperf2Settings
    example = "workload: {kind: iperf2, connections: 4, duration: 10s}"
    programs = (Program("iperf"),)
    told = (
        *common("iperf(1)", "goodput_bps", "sent_bps", "retransmits", "loss_percent"),
        *common("RFC 1889, as iperf 2 has it", "jitter_us"),
    )

    def runs(self) -> Sequence[ProgramRun]:
        """Return the server and the client; options of the sockets are for both."""
        s = self._settings
        udp, back = s.protocol is TransportProtocol.UDP, s.direction == "reverse"
        ready: Literal["port", "udp-port"] = "udp-port" if udp else "port"
        both = options(
            {
                "-p": "{port}",
                "-f": "b",
                "-e": True,
                "-u": udp,
                "-P": s.connections,
                "-w": s.window,
                "-l": s.length,
            }
        )
        rate = None if s.rate is None else round(s.rate)
        own = options({"-t": whole_seconds(s.duration), "-b": rate, "-R": back})
        server = ["iperf", "-s", "-B", "{bind}", *both]
        client = ["iperf", "-c", "{peer}", *both, *own]
        return (
            ProgramRun(on=Where.RECEIVER, argv=server, ipv6=["-V"], ready=ready),
            ProgramRun(on=Where.SENDER, argv=client, ipv6=["-V"]),
        )

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the output of both ends, each for its own counts."""
        server, client = (read(one.printed.text_of_stdout) for one in ended)
        back = self._settings.direction == "reverse"
        got = client.received if back else server.received
        sent = server.sent if back else client.sent
        if got is None or got.total is None:
            raise OutputError("iperf reports no rate of the receiver", tail=ended[0].printed.tail)
        shortest = min(one.end_s for one in got.flows)
        if shortest < _AT_ONCE * self._settings.duration:
            said = f"a connection of iperf ended after {shortest:g} s"
            raise OutputError(said, tail=ended[0].printed.tail)
        return {
            "goodput_bps": got.total.bps,
            "sent_bps": sent.total.bps if sent and sent.total else None,
            "retransmits": _sum(sent, "retries") if sent else None,
            "loss_percent": lost_percent(_sum(got, "datagrams"), _sum(got, "lost")),
            "jitter_us": max(
                (one.jitter_us for one in got.flows if one.jitter_us is not None), default=None
            ),
        }


def _sum(moved: Moved, name: str) -> int | None:
    """Return the sum over all connections; None where one is unknown."""
    told = [getattr(one, name) for one in moved.flows]
    return None if None in told else sum(told)
