"""Reader of the text output of iperf3's client, from version 3.0, with three digits.

Amounts there have prefixes of 1024 (``MBytes``), rates those of 1000 (``Mbits/sec``).
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from osmef.errors import OutputError
from osmef.formats import Odd, Outputs
from osmef.formats.iperf3 import BOTH, FORWARD, REVERSE, Interval, Iperf3, Stream, Way
from osmef.formats.reading import amount, positive, whole

_PREFIX = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_BEGIN = re.compile(r"Connecting to host (?P<server>[^,\s]{1,255}), port \d+")
_ENDS_RUN = re.compile(r"iperf3?: (?:error|interrupt) - (?P<why>.{1,500})")
_HERE = re.compile(r"\[ *\d+\] local (?P<client>\S{1,255}) port \d+ connected to")
_SECONDS = r"(?P<start>\d+\.\d\d) *- *(?P<end>\d+\.\d\d) +sec"
# Versions up to 3.1 have no name for terabytes.
_SIZE = r"(?P<size>[\d.]+) (?:(?P<size_prefix>[KMGT]?)Bytes|\(null\)s)"
_RATE = r"(?P<rate>[\d.]+) (?P<rate_prefix>[KMGT]?)bits/sec"
_LINE = re.compile(
    rf"\[ *(?P<id>\d+|SUM)\](?:\[(?P<role>[TR]X-C)\])? +{_SECONDS} +{_SIZE} +{_RATE}(?P<rest>.*)"
)
_UDP = re.compile(r"(?P<jitter>[\d.]+) ms +(?P<lost>\d+)/(?P<packets>\d+) \(")
_RETRANSMITS = re.compile(r" *(?P<retransmits>\d+)(?= |$)")
_HEAD = re.compile(r"\[ ID\]")


def read_text(text: str) -> Outputs[Iperf3]:
    """Read the outputs in a text, one after the other.

    A run without the lines at its end, as of a client that was killed, has an error, and keeps its
    intervals. What is no line of iperf3 is passed over, since whoever began it may have printed
    beside it. Raises OutputError where there is none that can be read.
    """
    runs: list[Iperf3] = []
    odd: list[Odd] = []
    lines = list(enumerate(text.splitlines(), 1))
    starts = [at for at, (_, line) in enumerate(lines) if _BEGIN.match(line)]
    for start, end in itertools.pairwise([*starts, len(lines)]):
        try:
            runs.append(_run(lines[start:end]))
        except OutputError as error:
            odd.append(Odd(error.line or lines[start][0], error.message))
    if not runs:
        first = odd[0] if odd else Odd(1, "there is no output of a client of iperf3")
        raise OutputError(first.what, line=first.line)
    return Outputs(tuple(runs), tuple(odd))


def is_text(text: str) -> bool:
    """Return whether a text is iperf3's text output, and not JSON."""
    return _HEAD.search(text) is not None and "{" not in text


@dataclass(frozen=True)
class _Row:
    """A line of numbers; ``whose`` is sender or receiver in totals, else empty."""

    flow: str
    role: str
    start_s: float
    length_s: float
    size: float
    rate_bps: float
    whose: str
    omitted: bool
    rest: str


def _run(lines: Sequence[tuple[int, str]]) -> Iperf3:
    number, first = lines[0]
    texts = [line for _, line in lines]
    begin = _BEGIN.match(first)
    clients = [found["client"] for line in texts if (found := _HERE.match(line))]
    reverse = any(line.startswith("Reverse mode") for line in texts)
    errors = [found["why"] for line in texts if (found := _ENDS_RUN.match(line))]
    parts = _parts(lines)
    series, ends = parts[0], [row for part in parts[1:] for row in part if row.flow != "SUM"]
    both = any(row.role for row in (*series, *ends))
    is_udp = any("Datagrams" in line for line in texts if _HEAD.match(line))
    why = errors[0] if errors else None if ends else "there is no end: iperf3 was killed"
    protocol = "udp" if is_udp else "tcp"
    ways = None if why else _ways(ends, protocol, both=both)
    told = {row.flow for row in (*series, *ends) if row.flow != "SUM"}
    return Iperf3(
        line=number,
        protocol=protocol if told else None,
        direction=(BOTH if both else REVERSE if reverse else FORWARD) if told else None,
        client=clients[0] if clients else None,
        server=begin["server"] if begin else None,
        streams=(len(told) // (2 if both else 1)) or None,
        rate_bps=None,
        forward=ways[0] if ways else None,
        backward=ways[1] if ways else None,
        cpu_sender_percent=None,
        cpu_receiver_percent=None,
        started_at=None,
        wall_s=max((row.start_s + row.length_s for row in ends), default=None),
        error=why,
        intervals=tuple(_intervals(series, is_udp=is_udp, reverse=reverse)),
    )


def _parts(lines: Sequence[tuple[int, str]]) -> list[list[_Row]]:
    """Return the rows of intervals, and those behind each later header."""
    parts: list[list[_Row]] = [[]]
    heads = 0
    for number, line in lines:
        if _HEAD.match(line):
            heads += 1
            if heads > 1 and parts[-1]:
                parts.append([])
        elif found := _LINE.match(line):
            row = _row(found, number)
            if row.whose and len(parts) == 1:
                parts.append([])
            if row.length_s > 0:
                parts[-1].append(row)
    return parts


def _row(found: re.Match[str], line: int) -> _Row:
    rest = found["rest"].strip()
    whose = next((name for name in ("sender", "receiver") if rest.endswith(name)), "")
    start, end = amount(found["start"], "start"), amount(found["end"], "end")
    if end < start:
        raise OutputError(f"an interval from {start:g} to {end:g} s", line=line)
    rate = _scaled(found, "rate", 1000)
    whole_size = found["size_prefix"] is not None
    return _Row(
        flow=found["id"],
        role=found["role"] or "",
        start_s=start,
        length_s=end - start,
        size=_scaled(found, "size", 1024) if whole_size else rate * (end - start) / 8,
        rate_bps=rate,
        whose=whose,
        omitted=rest.endswith("(omitted)"),
        rest=rest,
    )


def _scaled(found: re.Match[str], name: str, base: int) -> float:
    factor = base ** _PREFIX[found[f"{name}_prefix"]]
    return amount(amount(found[name], name) * factor, name)


def _ways(ends: Sequence[_Row], protocol: str, *, both: bool) -> tuple[Way, Way | None]:
    way = _udp if protocol == "udp" else _tcp
    if not both:
        return way(ends), None
    by_role = {role: [row for row in ends if row.role == role] for role in ("TX-C", "RX-C")}
    return way(by_role["TX-C"]), way(by_role["RX-C"])


def _tcp(ends: Sequence[_Row]) -> Way:
    sent = [row for row in ends if row.whose == "sender"]
    got = [row for row in ends if row.whose == "receiver"]
    if not got:
        raise OutputError("there is no line of the receiver")
    again = [_count(_RETRANSMITS, row, "retransmits") for row in sent]
    return Way(
        sent_bps=_sum(row.rate_bps for row in sent) if sent else None,
        received_bps=_sum(row.rate_bps for row in got),
        sent_bytes=_sum(row.size for row in sent) if sent else None,
        received_bytes=_sum(row.size for row in got),
        retransmits=sum(again) if again and None not in again else None,  # type: ignore[arg-type]
        streams=tuple(Stream(row.rate_bps, None) for row in got),
    )


def _udp(ends: Sequence[_Row]) -> Way:
    """Return the totals; versions up to 3.6 print one line per stream: the sent ones."""
    sent = [row for row in ends if row.whose != "receiver"]
    got = [row for row in ends if row.whose == "receiver"]
    told = [found for row in got or sent if (found := _UDP.match(row.rest))]
    lost = sum(whole(one["lost"], "lost") for one in told)
    packets = sum(whole(one["packets"], "datagrams") for one in told)
    sent_bps, sent_bytes = _sum(row.rate_bps for row in sent), _sum(row.size for row in sent)
    kept = 1 - lost / packets if packets else None
    jitters = [1000 * amount(one["jitter"], "jitter") for one in told]
    return Way(
        sent_bps=sent_bps,
        received_bps=_sum(row.rate_bps for row in got) if got else kept and kept * sent_bps,
        sent_bytes=sent_bytes,
        received_bytes=_sum(row.size for row in got) if got else kept and kept * sent_bytes,
        packets=packets or None,
        lost=lost if told else None,
        jitter_us=sum(jitters) / len(jitters) if jitters else None,
    )


def _sum(values: Iterator[float]) -> float:
    return sum(values, 0.0)


def _count(pattern: re.Pattern[str], row: _Row, name: str) -> int | None:
    found = pattern.match(row.rest)
    return None if found is None else whole(found[name], name)


def _intervals(rows: Sequence[_Row], *, is_udp: bool, reverse: bool) -> Iterator[Interval]:
    numbers: dict[str, int] = defaultdict(lambda: len(numbers))
    for row in rows:
        if row.flow == "SUM":
            continue
        sends = row.role == "TX-C" if row.role else not reverse
        told = _UDP.match(row.rest) if is_udp else None
        packets = _count(_RETRANSMITS, row, "retransmits") if is_udp and told is None else None
        yield Interval(
            flow=numbers[row.flow],
            sends=sends,
            start_s=row.start_s,
            length_s=positive(row.length_s, "interval"),
            omitted=row.omitted,
            # The rate has as many digits as the amount, and what follows is computed from rates.
            bytes=whole(round(row.rate_bps * row.length_s / 8), "bytes"),
            retransmits=None if is_udp or not sends else _count(_RETRANSMITS, row, "retransmits"),
            rtt_us=None,
            packets=whole(told["packets"], "datagrams") if told else packets,
            lost=whole(told["lost"], "lost") if told else None,
            jitter_us=1000 * amount(told["jitter"], "jitter") if told else None,
        )
