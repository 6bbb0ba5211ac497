"""nuttcp: bulk transfers over TCP, or UDP at a rate, as its receiver counts them.

nuttcp prints what the receiver counted. MB is 2^20 bytes there, KB 2^10, and Mbps 10^6 bits/s
(nuttcp(8); Fink and Scott).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import Field

from osmef.errors import OutputError
from osmef.formats import (
    MEBI,
    Odd,
    Outputs,
    Setting,
    amount,
    failed,
    only,
    positive,
    shows_tail,
    whole,
)
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

_LINE = re.compile(
    r"(?:\S+:)?\s*(?P<megabytes>[0-9.]+) MB\s*/\s*(?P<real_seconds>[0-9.]+) sec\s*="
    r"\s*(?P<rate_Mbps>[0-9.]+) Mbps(?P<rest>.*)",
    re.ASCII,
)
_REST = {
    "tx_cpu": r"([0-9.]+) %TX",
    "rx_cpu": r"([0-9.]+) %RX",
    "retrans": r"([0-9]+) retrans",
    "rtt_ms": r"([0-9.]+) msRTT",
    "drop": r"([0-9]+) / +[0-9]+ ~?drop/pkt",
    "pkt": r"[0-9]+ / +([0-9]+) ~?drop/pkt",
    "data_loss": r"([0-9.]+) ~?%loss",
}
_PAIR = re.compile(r"([A-Za-z_]+)=(\S+)", re.ASCII)
_PARSED = re.compile(r"(?:\S+: )?megabytes=", re.ASCII)
_VERBOSE = re.compile(r"nuttcp-([tr])(?:-\S+)?: (.*)", re.ASCII)
_ERROR = re.compile(r"(?:nuttcp-[tr]\S*: v\S+: )?Error: (.*)", re.ASCII)
_ERRNO = re.compile(r"errno=[0-9]+", re.ASCII)
_INTERRUPTED = "*** transfer interrupted ***"
_VERBOSE_TEXT = {
    "nstream": r"nstream=([0-9]+)",
    "megabytes": r"([0-9.]+) MB in [0-9.]+ real seconds",
    "real_seconds": r"[0-9.]+ MB in ([0-9.]+) real seconds",
    "rate_Mbps": r"= ([0-9.]+) Mbps",
    "retrans": r"retrans = ([0-9]+)",
    "rtt_ms": r"RTT=([0-9.]+) ms",
    "cpu": r"[0-9]real ([0-9]+)% ",
    "mode": r"port=[0-9]+ (tcp|udp)\b",
    "host": r"(?:tcp|udp) -> (\S+)",
    "drop": _REST["drop"],
    "pkt": _REST["pkt"],
    "connect": r"connect to (\S+)",
    "accept": r"accept from (\S+)",
    "mss": r" with mss=([0-9]+)",
    "buflen": r"buflen=([0-9]+)",
    "time_limit": r"time limit = ([0-9.]+) second",
    "rate_limit": r"rate limit = ([0-9.]+) Mbps",
    "tos": r"tos = (0x[0-9A-F]+)",
    "nbuf": r" nbuf=([0-9]+)",
    "nodelay": r"^(nodelay)$",
    "send_window_size": r"send window size = ([0-9]+)",
    "receive_window_size": r"receive window size = ([0-9]+)",
}

Fields = dict[str, str]
"""Fields of lines by nuttcp's names."""


@dataclass(frozen=True)
class Interval:
    """One interval at the receiver, over all streams."""

    start_s: float
    length_s: float
    bytes: int
    packets: int | None
    lost: int | None


@dataclass(frozen=True)
class NuttcpOutput:
    """A transfer as its receiver counted it; ``sent_*`` are the sender's counts.

    Only ``verbose`` output (-v) has the sender's side, both ends, and the ``settings`` with the
    effective windows. ``packets`` and ``lost`` are of UDP; ``connect_rtt_us`` is the RTT that
    nuttcp saw when it connected. CPU is in whole percent, as printed. ``error`` is set if it was
    interrupted.
    """

    line: int
    protocol: str
    elapsed_s: float
    received_bps: float
    verbose: bool = False
    received_bytes: float | None = None
    sent_bps: float | None = None
    sent_bytes: float | None = None
    offered_bps: float | None = None
    retransmits: float | None = None
    connect_rtt_us: float | None = None
    packets: int | None = None
    lost: int | None = None
    cpu_sender_percent: float | None = None
    cpu_receiver_percent: float | None = None
    sender: str | None = None
    receiver: str | None = None
    streams: int | None = None
    error: str | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict)
    intervals: tuple[Interval, ...] = ()


@dataclass(frozen=True)
class Failed:
    """A transfer that failed before any number was printed."""

    line: int
    error: str


@dataclass
class _Lines:
    """State of the parser: the lines of one transfer."""

    line: int = 0
    intervals: list[Fields] = field(default_factory=list)
    ends: dict[str, Fields] = field(default_factory=dict)
    interrupted: bool = False


@shows_tail
def read(text: str) -> NuttcpOutput:
    """Read the output of one transfer. Raises OutputError, also for a failed one."""
    transfer = only(read_all(text), "nuttcp")
    if isinstance(transfer, Failed) or transfer.error is not None:
        raise failed("nuttcp", str(transfer.error))
    return transfer


def read_all(text: str) -> Outputs[NuttcpOutput | Failed]:  # noqa: C901 - one branch for each kind of line
    """Read the transfers in a text, one after the other, failed ones among them.

    Other lines are odd. Raises OutputError where there is nothing at all.
    """
    found: list[NuttcpOutput | Failed] = []
    odd: list[Odd] = []
    lines = _Lines()

    def end(reported: Fields | None, line: int) -> None:
        nonlocal lines
        begun = lines.line or line
        try:
            transfer = _brief(reported, lines, begun) if reported else _verbose(lines, begun)
            error = "the transfer was interrupted" if lines.interrupted else None
            found.append(replace(transfer, error=error))
        except OutputError as refused:
            odd.append(Odd(begun, refused.message))
        lines = _Lines()

    for number, line in enumerate(text.splitlines(), start=1):
        verbose, reported = _VERBOSE.fullmatch(line), _result_line(line)
        if error := _ERROR.fullmatch(line):
            found.append(Failed(number, error[1]))
            lines = _Lines()
        elif line == _INTERRUPTED:
            lines.interrupted = True
        elif verbose:
            if verbose[2].endswith(": socket") and verbose[1] in lines.ends:
                end(None, number)
            lines.line = lines.line or number
            lines.ends.setdefault(verbose[1], {}).update(_pairs(verbose[2]))
        elif reported and "tx_cpu" in reported:
            end(reported, number)
        elif reported:
            lines.line = lines.line or number
            lines.intervals.append(reported)
        elif line.strip() and not _ERRNO.fullmatch(line):
            odd.append(Odd(number, f"not of a result: {line.strip()[:60]}"))
    if lines.ends:
        end(None, lines.line)
    elif lines.intervals:
        odd.append(Odd(lines.line, "intervals without a result"))
    if not found and not odd:
        raise OutputError("there is no result of nuttcp in it", line=1)
    return Outputs(tuple(found), tuple(odd))


def _result_line(line: str) -> Fields | None:
    """Parse a line of results; None for another line."""
    found = _LINE.fullmatch(line)
    if found:
        rest = {
            name: re.search(pattern, found["rest"], re.ASCII) for name, pattern in _REST.items()
        }
        return {
            **{name: found[name] for name in ("megabytes", "real_seconds", "rate_Mbps")},
            **{name: match[1] for name, match in rest.items() if match},
        }
    pairs = dict(_PAIR.findall(line)) if _PARSED.match(line) else {}
    if "real_sec" in pairs:
        pairs["real_seconds"] = pairs.pop("real_sec")
    return pairs if {"real_seconds", "rate_Mbps"} <= pairs.keys() else None


def _pairs(line: str) -> Fields:
    reported = dict(_PAIR.findall(line)) if "," not in line else {}
    for name, pattern in _VERBOSE_TEXT.items():
        match = re.search(pattern, line, re.ASCII)
        if match:
            reported.setdefault(name, match[1])
    return reported


def _maybe(reported: Fields, name: str, factor: float = 1.0) -> float | None:
    return factor * amount(reported[name], name) if name in reported else None


def _count(reported: Fields, name: str) -> int | None:
    return whole(reported[name], name) if name in reported else None


def _brief(reported: Fields, lines: _Lines, line: int) -> NuttcpOutput:
    rate = 1e6 * amount(reported["rate_Mbps"], "rate_Mbps")
    udp = not {"pkt", "data_loss"}.isdisjoint(reported)  # -f-drops or -f-percentloss leaves one out
    return NuttcpOutput(
        line=line,
        protocol="udp" if udp else "tcp",
        elapsed_s=positive(reported["real_seconds"], "real_seconds"),
        received_bps=rate,
        received_bytes=_maybe(reported, "megabytes", MEBI),
        cpu_sender_percent=_maybe(reported, "tx_cpu"),
        cpu_receiver_percent=_maybe(reported, "rx_cpu"),
        packets=_count(reported, "pkt"),
        lost=_count(reported, "drop"),
        retransmits=None if udp else _maybe(reported, "retrans"),
        connect_rtt_us=None if udp else _maybe(reported, "rtt_ms", 1000.0),
        intervals=_intervals(lines.intervals),
    )


def _intervals(lines: list[Fields]) -> tuple[Interval, ...]:
    rows, start = [], 0.0
    for reported in lines:
        length = positive(reported["real_seconds"], "the seconds of an interval")
        moved = amount(reported["megabytes"], "the MB of an interval")
        lost, packets = _count(reported, "drop"), _count(reported, "pkt")
        rows.append(Interval(start, length, round(MEBI * moved), packets, lost))
        start += length
    return tuple(rows)


def _verbose(lines: _Lines, line: int) -> NuttcpOutput:
    if lines.ends.keys() != {"t", "r"}:
        raise OutputError("only one end reports its numbers")
    tx, rx = lines.ends["t"], lines.ends["r"]
    for end in (tx, rx):
        if not {"rate_Mbps", "real_seconds", "cpu"} <= end.keys():
            raise OutputError("the numbers are not all there")
    udp = rx.get("mode") == "udp"
    return NuttcpOutput(
        line=line,
        protocol="udp" if udp else "tcp",
        verbose=True,
        elapsed_s=positive(rx["real_seconds"], "real_seconds"),
        settings=_settings(tx, rx),
        offered_bps=_maybe(tx, "rate_limit", 1e6) if udp else None,
        received_bps=1e6 * amount(rx["rate_Mbps"], "rate_Mbps"),
        received_bytes=_maybe(rx, "megabytes", MEBI),
        sent_bps=_maybe(tx, "rate_Mbps", 1e6),
        sent_bytes=_maybe(tx, "megabytes", MEBI),
        packets=_count(rx, "pkt") if udp else None,
        lost=_count(rx, "drop") if udp else None,
        retransmits=None if udp else _maybe(tx, "retrans"),
        connect_rtt_us=None if udp else _maybe(tx, "rtt_ms", 1000.0),
        cpu_sender_percent=_cpu(tx),
        cpu_receiver_percent=_cpu(rx),
        sender=rx.get("accept") or rx.get("connect"),
        receiver=tx.get("connect") or tx.get("host") or tx.get("accept"),
        streams=_count(rx, "nstream"),
        intervals=_intervals(lines.intervals),
    )


def _settings(tx: Fields, rx: Fields) -> dict[str, Setting]:
    values: dict[str, Setting] = {
        key: whole(end[name], name) for key, (end, name) in {
            "buffer_bytes": (tx, "buflen"),
            "buffers": (tx, "nbuf"),
            "mss_bytes": (tx, "mss"),
            "send_window_bytes": (tx, "send_window_size"),
            "receive_window_bytes": (rx, "receive_window_size"),
            "connections": (rx, "nstream"),
        }.items() if name in end
    }  # fmt: skip
    for key, name, factor in (("duration_s", "time_limit", 1), ("rate_bps", "rate_limit", 1e6)):
        if name in tx:
            values[key] = factor * amount(tx[name], name)
    for name in ("tos", "nodelay"):
        if name in tx:
            values[name] = tx[name]
    return values


def _cpu(end: Fields) -> float:
    return amount(end["cpu"].removesuffix("%"), "cpu")


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


class Nuttcp(Tool[NuttcpSettings]):
    """A server for one client, and its client, at a port of their own."""

    Settings = NuttcpSettings
    example = "workload: {kind: nuttcp, connections: 4, duration: 10s}"
    programs = (Program("nuttcp"),)
    output_measures = (
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
        options += ["-u", "-v"] if udp else []  # for UDP only -v has the sent rate
        options += [] if s.rate is None else [f"-R{s.rate / 1000:.0f}"]
        options += [] if s.window is None else [f"-w{s.window / 1024:.0f}"]
        options += [] if s.length is None else [f"-l{s.length}"]
        if s.direction == "reverse":
            options += ["-r"] if udp else ["-r", "-F"]
        return options

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the client's lines, which have the numbers of the receiver."""
        output = read(ended[-1].printed.text_of_stdout)
        return {
            "goodput_bps": output.received_bps,
            "sent_bps": output.sent_bps,
            "retransmits": output.retransmits,
            "loss_percent": lost_percent(output.packets, output.lost),
            "connect_rtt_us": output.connect_rtt_us,
            "cpu_sender_percent": output.cpu_sender_percent,
            "cpu_receiver_percent": output.cpu_receiver_percent,
        }
