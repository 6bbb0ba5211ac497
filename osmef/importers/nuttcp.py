"""Output of nuttcp: its line, the same for programs (-fparse), with intervals (-i), and -v.

nuttcp prints what the receiver counted. MB is 2^20 bytes there, KB 2^10, and Mbps 10^6 bits/s
(nuttcp(8); Fink and Scott).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from osmef.errors import InputError
from osmef.importers.record import (
    RECEIVER,
    SENDER,
    Oddity,
    Parsed,
    Record,
    Text,
    amount,
    positive,
    refuse,
    whole,
)
from osmef.results.trial import Failure, Interval
from osmef.scenario.study import Scalar

MEBI = 1 << 20
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
    "user": r"([0-9.]+)user ",
    "system": r"user ([0-9.]+)sys ",
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


@dataclass
class _Found:
    """One measurement while its lines are read."""

    line: int = 0
    intervals: list[dict[str, str]] = field(default_factory=list)
    ends: dict[str, dict[str, str]] = field(default_factory=dict)
    interrupted: bool = False


def parse(text: Text) -> Parsed:  # noqa: C901 - one branch for each kind of line
    """Read one measurement or several, one after the other.

    TCP gives aggregate_btc_bps, cpu_sender_percent and cpu_receiver_percent, retransmits, and
    connect_rtt_mean_us, the RTT that nuttcp saw when it connected; UDP goodput_bps and
    loss_percent, with -v also sent_bps and offered_bps. Only -v tells the settings: they are
    values. An interval is of all streams together. What was interrupted or could not connect is a
    failed trial. Raises InputError.
    """
    records: list[Record] = []
    oddities: list[Oddity] = []
    found = _Found()

    def end(told: dict[str, str] | None, line: int) -> None:
        nonlocal found
        where = text.line(found.line or line)
        try:
            record = _brief(told, found, where) if told else _verbose(found, where)
            failure = Failure(kind="nuttcp", message="the transfer was interrupted")
            records.append(replace(record, failure=failure) if found.interrupted else record)
        except InputError as error:
            oddities.append(Oddity(error.where or where, error.message, False))
        found = _Found()

    for number, line in enumerate(text.text.splitlines(), start=1):
        verbose, told = _VERBOSE.fullmatch(line), _told(line)
        if error := _ERROR.fullmatch(line):
            records.append(_failed(error[1], text.line(number)))
            found = _Found()
        elif line == _INTERRUPTED:
            found.interrupted = True
        elif verbose:
            if verbose[2].endswith(": socket") and verbose[1] in found.ends:
                end(None, number)
            found.line = found.line or number
            found.ends.setdefault(verbose[1], {}).update(_pairs(verbose[2]))
        elif told and "tx_cpu" in told:
            end(told, number)
        elif told:
            found.line = found.line or number
            found.intervals.append(told)
        elif line.strip() and not _ERRNO.fullmatch(line):
            oddities.append(
                Oddity(text.line(number), f"not of a result: {line.strip()[:60]}", False)
            )
    if found.ends:
        end(None, found.line)
    elif found.intervals:
        oddities.append(Oddity(text.line(found.line), "intervals without a result", False))
    if not records and not oddities:
        raise refuse(text.line(1), "there is no result of nuttcp in it")
    return Parsed(records, oddities)


def _told(line: str) -> dict[str, str] | None:
    """Return what a line of numbers tells; None if it is another line."""
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


def _pairs(line: str) -> dict[str, str]:
    told = dict(_PAIR.findall(line)) if "," not in line else {}
    for name, pattern in _VERBOSE_TEXT.items():
        match = re.search(pattern, line, re.ASCII)
        if match:
            told.setdefault(name, match[1])
    return told


def _maybe(told: dict[str, str], name: str, where: str, factor: float = 1.0) -> float | None:
    return factor * amount(told[name], name, where) if name in told else None


def _failed(message: str, where: str) -> Record:
    failure = Failure(kind="nuttcp", message=message)
    place = f"line {where.rpartition(':')[2]}"
    return Record(workload="btc", metrics={}, place=place, failure=failure)


def _brief(told: dict[str, str], found: _Found, where: str) -> Record:
    rate = 1e6 * amount(told["rate_Mbps"], "rate_Mbps", where)
    length = positive(told["real_seconds"], "real_seconds", where)
    cpu = {
        "cpu_sender_percent": _maybe(told, "tx_cpu", where),
        "cpu_receiver_percent": _maybe(told, "rx_cpu", where),
    }
    udp = "pkt" in told
    if udp:
        metrics = {"goodput_bps": rate, "loss_percent": _loss(told, where), **cpu}
    else:
        metrics = {
            "aggregate_btc_bps": rate,
            **cpu,
            "retransmits": _maybe(told, "retrans", where),
            "connect_rtt_mean_us": _maybe(told, "rtt_ms", where, 1000.0),
        }
    return Record(
        workload="udp" if udp else "btc",
        metrics=metrics,
        place=f"line {where.rpartition(':')[2]}",
        values={"protocol": "udp" if udp else "tcp"},
        wall_s=length,
        intervals=_intervals(found.intervals, where),
    )


def _loss(told: dict[str, str], where: str) -> float | None:
    packets, lost = (
        whole(told[name], name, where) if name in told else None for name in ("pkt", "drop")
    )
    return None if lost is None or not packets else 100 * lost / packets


def _intervals(
    told: list[dict[str, str]], where: str, sender: str = SENDER, receiver: str = RECEIVER
) -> list[Interval]:
    rows, start = [], 0.0
    for one in told:
        length = positive(one["real_seconds"], "the seconds of an interval", where)
        moved = amount(one["megabytes"], "the MB of an interval", where)
        lost = whole(one["drop"], "drop", where) if "drop" in one else None
        sent = whole(one["pkt"], "pkt", where) if "pkt" in one else None
        rows.append(
            Interval(
                trial=0, endpoint=receiver, peer=sender, role="receiver", flow=0, start_s=start,
                length_s=length, bytes=round(MEBI * moved), retransmits=None, rtt_us=None,
                cwnd=None, lost=lost,
                datagrams=None if sent is None or lost is None else max(0, sent - lost),
            )
        )  # fmt: skip
        start += length
    return rows


def _verbose(found: _Found, where: str) -> Record:
    if found.ends.keys() != {"t", "r"}:
        raise refuse(where, "only one end tells its numbers")
    tx, rx = found.ends["t"], found.ends["r"]
    for end in (tx, rx):
        if not {"rate_Mbps", "real_seconds", "user", "system"} <= end.keys():
            raise refuse(where, "the numbers are not all there")
    length = positive(rx["real_seconds"], "real_seconds", where)
    sender = rx.get("accept") or rx.get("connect") or SENDER
    receiver = tx.get("connect") or tx.get("host") or tx.get("accept") or RECEIVER
    values = _settings(tx, rx, where)
    udp = rx.get("mode") == "udp"
    return Record(
        workload="udp" if udp else "btc",
        metrics={
            **(_datagrams(tx, rx, where) if udp else _bulk(tx, rx, where)),
            "cpu_sender_percent": _cpu(tx, where),
            "cpu_receiver_percent": _cpu(rx, where),
        },
        place=f"line {where.rpartition(':')[2]}",
        values={"protocol": "udp" if udp else "tcp", **values},
        senders=(sender,),
        receivers=(receiver,),
        connections=whole(rx["nstream"], "nstream", where) if "nstream" in rx else None,
        wall_s=length,
        intervals=_intervals(found.intervals, where, sender, receiver),
    )


def _bulk(tx: dict[str, str], rx: dict[str, str], where: str) -> dict[str, float | None]:
    return {
        "aggregate_btc_bps": _maybe(rx, "rate_Mbps", where, 1e6),
        "retransmits": _maybe(tx, "retrans", where),
        "connect_rtt_mean_us": _maybe(tx, "rtt_ms", where, 1000.0),
    }


def _datagrams(tx: dict[str, str], rx: dict[str, str], where: str) -> dict[str, float | None]:
    return {
        "offered_bps": _maybe(tx, "rate_limit", where, 1e6),
        "goodput_bps": _maybe(rx, "rate_Mbps", where, 1e6),
        "sent_bps": _maybe(tx, "rate_Mbps", where, 1e6),
        "loss_percent": _loss(rx, where),
    }


def _settings(tx: dict[str, str], rx: dict[str, str], where: str) -> dict[str, Scalar]:
    """Return what -v tells of how it was measured; the windows are those that were in force."""
    values: dict[str, Scalar] = {
        key: whole(end[name], name, where) for key, (end, name) in {
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
            values[key] = factor * amount(tx[name], name, where)
    for name in ("tos", "nodelay"):
        if name in tx:
            values[name] = tx[name]
    return values


def _cpu(end: dict[str, str], where: str) -> float:
    busy = sum(amount(end[name], name, where) for name in ("user", "system"))
    return 100 * busy / positive(end["real_seconds"], "real_seconds", where)
