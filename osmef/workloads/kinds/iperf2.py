"""iperf 2: bulk transfers, or datagrams at a rate, each connection with a thread of its own.

Source: iperf(1) and the source of 2.1.8. Bytes have prefixes of 1024, and bits those of 1000. A
client reports what it sent, and for UDP also its server's report; a server what it received; with
-R the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.formats import GIBI, KIBI, MEBI, TEBI, amount, of_one_run, positive, shows_tail, whole
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

_BYTES = {"": 1, "K": KIBI, "M": MEBI, "G": GIBI, "T": TEBI}
_BITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_HEAD = re.compile(r"^(Client connecting to|Server listening on) .*(TCP|UDP) port", re.MULTILINE)
_CONNECTED = re.compile(r"^\[ *\*?([0-9]+)\] local .* connected with ", re.MULTILINE)
_FAILED = re.compile(r"^((?:tcp )?connect failed: .*|bind failed: .*)", re.MULTILINE)
_BOTH_WAYS = re.compile(r"\(full-duplex\)|^\[FD", re.MULTILINE)
_REVERSE = "(reverse)"
_ROW = re.compile(
    r"\[ *\*?(?P<flow>[0-9]{1,9}|SUM)[^\]]*\] +(?P<start>\S{1,40}?) *- *(?P<end>\S{1,40}) sec"
    r" +(?P<moved>\S{1,40}) (?P<moved_in>[KMGT]?)Bytes"
    r" +(?P<rate>\S{1,40}) (?P<rate_in>[KMGT]?)(?P<rate_of>bits|Bytes)/sec(?P<rest>.*)",
    re.ASCII,
)
_UDP = re.compile(r" +(?P<jitter>\S+) ms +(?P<lost>[^\s/]+)/ *(?P<packets>\S+) ")
_RETRIES = re.compile(r" +[0-9]+/[0-9]+ +(?P<retries>[0-9]+)\b(?! pps)", re.ASCII)
_TOLERANCE = 0.02  # of sums, as numbers have three digits


@dataclass(frozen=True)
class IntervalRow:
    """Bytes of one connection from ``start_s`` to ``end_s``; of all of them without a flow.

    Retries are of TCP's senders (-e); jitter and datagrams of UDP's receivers.
    """

    flow: int | None
    start_s: float
    end_s: float
    bytes: float
    bps: float
    retries: int | None = None
    jitter_us: float | None = None
    datagrams: int | None = None
    lost: int | None = None


@dataclass(frozen=True)
class Moved:
    """Totals of every connection, and of all together.

    The total of one stream is that stream. It is None for several that a UDP server reported back,
    as iperf prints none.
    """

    flows: tuple[IntervalRow, ...]
    total: IntervalRow | None


@dataclass(frozen=True)
class Iperf2Output:
    """Output of one program run at one end. ``intervals`` are the rows of -i."""

    side: str
    protocol: str
    reverse: bool
    sent: Moved | None
    received: Moved | None
    intervals: tuple[IntervalRow, ...]


@shows_tail
def read(text: str) -> Iperf2Output:
    """Read the output of one run at one end. Raises OutputError.

    That is so where it could not connect, where a connection is not reported, and where both ways
    were used at once. The end of an output that has -i must be there: else its first interval is
    taken for all.
    """
    refused = _FAILED.search(text)
    if refused:
        raise OutputError(f"iperf failed: {refused[1]}")
    if _BOTH_WAYS.search(text):
        raise OutputError("both directions at once can't be distinguished")
    head = of_one_run(_HEAD, text, "iperf 2")
    side = "client" if head[1].startswith("Client") else "server"
    sends = (side == "client") is not (_REVERSE in text)
    jittery, others = _rows(text)
    own, reported = (others, jittery) if sends or not jittery else (jittery, others)
    if jittery and all(row.flow is None for row in others):  # their sum has another head
        own, reported = [*jittery, *others], []
    flows = set(_CONNECTED.findall(text))
    here = _moved(own, len(flows))
    all_the_time = {*here.flows, here.total}
    if here.total is None:
        raise OutputError("iperf does not report the sum of the connections")
    there = _moved(reported, len(flows)) if reported else None
    return Iperf2Output(
        side=side,
        protocol=head[2].lower(),
        reverse=_REVERSE in text,
        sent=here if sends else there,
        received=there if sends else here,
        intervals=tuple(row for row in own if row not in all_the_time),
    )


def _rows(text: str) -> tuple[list[IntervalRow], list[IntervalRow]]:
    """Return the rows with jitter, which are of UDP's receivers, and the others.

    The header before it does not identify it: a server's report may come before other connections
    have ended.
    """
    rows: list[IntervalRow] = []
    for number, line in enumerate(text.splitlines(), start=1):
        found = _ROW.fullmatch(line.rstrip())
        if found is None and not (line.startswith("[") and " sec " in line and "Bytes" in line):
            continue
        try:
            rows.append(_row(found))
        except OutputError as error:
            raise OutputError(error.message, line=number) from None
    jittery = [row for row in rows if row.jitter_us is not None]
    return jittery, [row for row in rows if row.jitter_us is None]


def _row(found: re.Match[str] | None) -> IntervalRow:
    if found is None:
        raise OutputError("this is no row of iperf 2")
    udp, retries = _UDP.match(found["rest"]), _RETRIES.match(found["rest"])
    unit = 8 * _BYTES[found["rate_in"]] if found["rate_of"] == "Bytes" else _BITS[found["rate_in"]]
    return IntervalRow(
        flow=None if found["flow"] == "SUM" else int(found["flow"]),
        start_s=amount(found["start"], "the start"),
        end_s=positive(found["end"], "the end"),
        bytes=_BYTES[found["moved_in"]] * amount(found["moved"], "what was moved"),
        bps=unit * amount(found["rate"], "the rate"),
        retries=whole(retries["retries"], "the retries") if retries else None,
        jitter_us=1e3 * amount(udp["jitter"], "the jitter") if udp else None,
        datagrams=whole(udp["packets"], "the datagrams") if udp else None,
        lost=whole(udp["lost"], "the lost datagrams") if udp else None,
    )


def _moved(rows: Sequence[IntervalRow], connections: int) -> Moved:
    """Return the rows of totals: the last of each connection that begins at 0."""
    last = {row.flow: row for row in rows if row.start_s == 0}
    total = last.pop(None, None)
    flows = tuple(last.values())
    if not flows or len(flows) != connections:
        raise OutputError(f"iperf reports {len(flows)} of {connections} connections")
    if total is None and len(flows) == 1:
        total = flows[0]
    moved = sum(flow.bytes for flow in flows)
    if total is not None and abs(total.bytes - moved) > _TOLERANCE * moved:
        raise OutputError("what iperf reports as the sum is not that of the connections")
    return Moved(flows, total)


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
    output_measures = (
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
    reported = [getattr(one, name) for one in moved.flows]
    return None if None in reported else sum(reported)
