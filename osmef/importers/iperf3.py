"""Importer of iperf3's client: its JSON, and its text output, from version 3.0, with three digits.

Amounts there have prefixes of 1024 (``MBytes``), as have rates in bytes (-f K, M, G, T); those in
bits have prefixes of 1000 (``Mbits/sec``). Where -f leaves a rate less than three digits it is
computed from amount and time. Into a file the errors come first, as they are not buffered.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from osmef.analysis.bulk_transfer import jain_fairness
from osmef.errors import OutputError
from osmef.formats import Odd, Outputs, amount, positive, whole
from osmef.importers.record import RECEIVER, SENDER, Parsed, Record, Text, placed, refused
from osmef.results.measure import part
from osmef.results.trial import Failure, Interval
from osmef.scenario.study import Scalar
from osmef.workloads import metrics
from osmef.workloads.kinds import btc, udp
from osmef.workloads.kinds.iperf3 import (
    BOTH,
    FORWARD,
    REVERSE,
    DirectionTotals,
    Iperf3Output,
    StreamReport,
    read_all,
)
from osmef.workloads.kinds.iperf3 import Interval as IntervalOutput

Lines = list[tuple[int, str]]
"""Lines with their numbers in the file."""

_PREFIX = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_BEGIN = re.compile(r"Connecting to host (?P<server>[^,\s]{1,255}), port \d+")
_ENDS_RUN = re.compile(r"iperf3?: (?:error|interrupt) - (?P<why>.{1,500})")
_HERE = re.compile(r"\[ *\d+\] local (?P<client>\S{1,255}) port \d+ connected to")
_SECONDS = r"(?P<start>\d+\.\d\d) *- *(?P<end>\d+\.\d\d) +sec"
# Versions up to 3.1 have no name for terabytes.
_SIZE = r"(?P<size>[\d.]+) (?:(?P<size_prefix>[KMGT]?)Bytes|\(null\)s)"
_RATE = r"(?P<rate>[\d.]+) (?P<rate_prefix>[KMGT]?)(?P<rate_unit>bits|Bytes)/sec"
_LINE = re.compile(
    rf"\[ *(?P<id>\d+|SUM)\](?:\[(?P<role>[TR]X-C)\])? +{_SECONDS} +{_SIZE} +{_RATE}(?P<rest>.*)"
)
_UDP = re.compile(r"(?P<jitter>[\d.]+) ms +(?P<lost>\d+)/(?P<packets>\d+) \(")
_RETRANSMITS = re.compile(r" *(?P<retransmits>\d+)(?= |$)")
_OLD_UDP = re.compile(r"\[ *(?P<id>\d+)\] Sent \d+ datagrams")
_HEAD = re.compile(r"\[ ID\]")
_UNCONNECTED = re.compile("unable to connect|the server is busy")
_JSON = re.compile(r"^\s*\{", re.MULTILINE)
_OF_SERVER, _DONE = "Server output:", "iperf Done."
_CPU = re.compile(r"CPU Utilization: local/(?P<role>sender|receiver) (?P<local>[\d.]+)%.*"
                  r" remote/(sender|receiver) (?P<remote>[\d.]+)%")  # fmt: skip
_KILLED, _INTERRUPTED = "there is no end: iperf3 was killed", "iperf3 was interrupted"
_CUT = "the lines at its end are not all there"
_NEAR = 20


def read_text(text: str) -> Outputs[Iperf3Output]:
    """Read the outputs in a text, one after the other.

    A run without the lines at its end, as of a client that was killed, has an error, and keeps its
    intervals. Lines of other programs, such as the calling script, are ignored. Raises OutputError
    without any readable line.
    """
    runs: list[Iperf3Output] = []
    odd: list[Odd] = []
    for lines in _split(list(enumerate(text.splitlines(), 1))):
        try:
            runs.append(_run(lines))
        except OutputError as error:
            odd.append(Odd(error.line or lines[0][0], error.message))
    if not runs:
        first = odd[0] if odd else Odd(1, "there is no output of a client of iperf3")
        raise OutputError(first.what, line=first.line)
    return Outputs(tuple(runs), tuple(odd))


def is_text(text: str) -> bool:
    """Return whether a text is iperf3's text output, and not JSON."""
    says = _HEAD.search(text) or any(_ENDS_RUN.match(line) for line in text.splitlines())
    return bool(says) and _JSON.search(text) is None


def _split(lines: Lines) -> Iterator[Lines]:
    """Return the lines of each run, its error second; an error of none is a run of its own."""
    starts = _starts(lines)
    waiting = _errors(lines[: starts[0]] if starts else lines)
    for start, end in itertools.pairwise([*starts, len(lines)]):
        run, behind = _to_its_end(_untitled(lines[start:end]))
        errors = _errors(run)
        if waiting and run[-1][1] != _DONE and not _UNCONNECTED.search(waiting[-1][1]):
            own = [waiting.pop()]
        else:
            had_begun = any(_HEAD.match(line) for _, line in run)
            is_of_next = had_begun and errors and _UNCONNECTED.search(errors[0][1])
            own = [] if is_of_next else errors[:1]
        yield from ([one] for one in waiting)
        yield [run[0], *own, *(one for one in run[1:] if one not in errors)]
        waiting = [*(one for one in errors if one not in own), *behind]
    yield from ([one] for one in waiting)


def _to_its_end(run: Lines) -> tuple[Lines, Lines]:
    """Return the lines of a run without its server's, and the errors behind its end."""
    end = next((at for at, (_, line) in enumerate(run, 1) if line == _DONE), len(run))
    own = list(itertools.takewhile(lambda one: one[1] != _OF_SERVER, run[:end]))
    is_whole = len(own) < end and run[end - 1][1] == _DONE
    return [*own, *([run[end - 1]] if is_whole else [])], _errors(run[end:])


def _starts(lines: Lines) -> list[int]:
    """Return where runs start. What --title or --timestamps put before the line is before others.

    So a line of the calling script does not match, such as one on connecting to a host.
    """
    return [
        at
        for at, (_, line) in enumerate(lines)
        if (found := _BEGIN.search(line))
        and (
            found.start() == 0
            or any(_HERE.match(one, found.start()) for _, one in lines[at + 1 : at + _NEAR])
        )
    ]


def _untitled(lines: Lines) -> Lines:
    """Return the lines of a run without what --title or --timestamps put before each."""
    found = _BEGIN.search(lines[0][1])
    width = found.start() if found else 0
    return [(at, line if _ENDS_RUN.match(line) else line[width:].rstrip()) for at, line in lines]


def _errors(lines: Lines) -> Lines:
    return [(at, line) for at, line in lines if _ENDS_RUN.match(line)]


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


def _run(lines: Lines) -> Iperf3Output:
    number, first = lines[0]
    texts = [line for _, line in lines]
    begin = _BEGIN.match(first)
    clients = [found["client"] for line in texts if (found := _HERE.match(line))]
    reverse = any(line.startswith("Reverse mode") for line in texts)
    parts = _parts(lines)
    series, ends = parts[0], [row for part in parts[1:] for row in part if row.flow != "SUM"]
    both = any(row.role for row in (*series, *ends))
    is_udp = any("Datagrams" in line for line in texts if _HEAD.match(line))
    why = _why(lines, series, ends)
    protocol = "udp" if is_udp else "tcp"
    ways = None if why else _ways(ends, protocol, both=both)
    reported = {row.flow for row in (*series, *ends) if row.flow != "SUM"}
    cpu = {} if why else _cpu(texts)
    return Iperf3Output(
        line=number,
        protocol=protocol if reported else None,
        direction=(BOTH if both else REVERSE if reverse else FORWARD) if reported else None,
        client=clients[0] if clients else None,
        server=begin["server"] if begin else None,
        streams=(len(reported) // (2 if both else 1)) or None,
        rate_bps=None,
        forward=ways[0] if ways else None,
        backward=ways[1] if ways else None,
        cpu_sender_percent=cpu.get("sender"),
        cpu_receiver_percent=cpu.get("receiver"),
        started_at=None,
        wall_s=max((row.start_s + row.length_s for row in ends), default=None),
        error=why,
        intervals=tuple(_intervals(series, is_udp=is_udp, reverse=reverse)),
    )


def _why(lines: Lines, series: Sequence[_Row], ends: Sequence[_Row]) -> str | None:
    """Return why a run failed; None for one that did not.

    An interrupted run has final lines, too, but without the other end's results. If the very last
    line is missing, others may be, too.
    """
    for _, line in lines:
        if found := _ENDS_RUN.match(line):
            return found["why"]
    if not ends:
        return _KILLED
    if lines[-1][1] == _DONE:
        return None
    if any(map(_is_unreceived, ends)):
        return _INTERRUPTED
    return None if _all_there(lines, series, ends) else _CUT


def _all_there(lines: Lines, series: Sequence[_Row], ends: Sequence[_Row]) -> bool:
    """Return whether each stream has its last line: the receiver's, or the sent one of old UDP."""
    streams = {row.flow for row in (*series, *ends) if row.flow != "SUM"}
    if {row.whose for row in ends} == {""}:
        ended = [found["id"] for _, line in lines if (found := _OLD_UDP.match(line))]
    else:
        ended = [row.flow for row in ends if row.whose == "receiver"]
    return sorted(ended) == sorted(streams)


def _is_unreceived(row: _Row) -> bool:
    reported = _UDP.match(row.rest)
    return row.size == 0 and (reported is None or set(reported["packets"]) == {"0"})


def _cpu(texts: Sequence[str]) -> dict[str, float]:
    """Return the CPU usage by role, as -V prints it, in percent."""
    found = next((found for line in texts if (found := _CPU.match(line))), None)
    if found is None:
        return {}
    here, there = (amount(found[name], "CPU Utilization") for name in ("local", "remote"))
    is_sender = found["role"] == "sender"
    return {"sender": here if is_sender else there, "receiver": there if is_sender else here}


def _parts(lines: Lines) -> list[list[_Row]]:
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
    has_size = found["size_prefix"] is not None
    size = _scaled(found, "size", 1024) if has_size else 0.0
    rate = _rate(found)
    if has_size and _digits(found["rate"]) < _digits(f"{end - start:.2f}"):
        rate = amount(8 * size / (end - start), "rate")
    return _Row(
        flow=found["id"],
        role=found["role"] or "",
        start_s=start,
        length_s=end - start,
        size=size if has_size else rate * (end - start) / 8,
        rate_bps=rate,
        whose=whose,
        omitted=rest.endswith("(omitted)"),
        rest=rest,
    )


def _rate(found: re.Match[str]) -> float:
    """Return a rate in bit/s."""
    if found["rate_unit"] == "bits":
        return _scaled(found, "rate", 1000)
    return amount(8 * _scaled(found, "rate", 1024), "rate")


def _digits(text: str) -> int:
    """Return the number of significant digits, three at most."""
    return min(3, len(text.replace(".", "").lstrip("0")))


def _scaled(found: re.Match[str], name: str, base: int) -> float:
    factor = base ** _PREFIX[found[f"{name}_prefix"]]
    return amount(amount(found[name], name) * factor, name)


def _ways(
    ends: Sequence[_Row], protocol: str, *, both: bool
) -> tuple[DirectionTotals, DirectionTotals | None]:
    way = _udp_of_text if protocol == "udp" else _tcp_of_text
    if not both:
        return way(ends), None
    by_role = {role: [row for row in ends if row.role == role] for role in ("TX-C", "RX-C")}
    return way(by_role["TX-C"]), way(by_role["RX-C"])


def _tcp_of_text(ends: Sequence[_Row]) -> DirectionTotals:
    sent = [row for row in ends if row.whose == "sender"]
    got = [row for row in ends if row.whose == "receiver"]
    if not got:
        raise OutputError("there is no line of the receiver")
    again = [_count(_RETRANSMITS, row, "retransmits") for row in sent]
    return DirectionTotals(
        sent_bps=_sum(row.rate_bps for row in sent) if sent else None,
        received_bps=_sum(row.rate_bps for row in got),
        sent_bytes=_sum(row.size for row in sent) if sent else None,
        received_bytes=_sum(row.size for row in got),
        retransmits=sum(again) if again and None not in again else None,  # type: ignore[arg-type]
        streams=tuple(StreamReport(row.rate_bps, None) for row in got),
    )


def _udp_of_text(ends: Sequence[_Row]) -> DirectionTotals:
    """Return the totals; versions up to 3.6 print one line per stream: the sent ones."""
    sent = [row for row in ends if row.whose != "receiver"]
    got = [row for row in ends if row.whose == "receiver"]
    reported = [found for row in got or sent if (found := _UDP.match(row.rest))]
    lost = sum(whole(one["lost"], "lost") for one in reported)
    packets = sum(whole(one["packets"], "datagrams") for one in reported)
    sent_bps, sent_bytes = _sum(row.rate_bps for row in sent), _sum(row.size for row in sent)
    kept = 1 - lost / packets if packets else None
    jitters = [1000 * amount(one["jitter"], "jitter") for one in reported]
    return DirectionTotals(
        sent_bps=sent_bps,
        received_bps=_sum(row.rate_bps for row in got) if got else kept and kept * sent_bps,
        sent_bytes=sent_bytes,
        received_bytes=_sum(row.size for row in got) if got else kept and kept * sent_bytes,
        packets=packets or None,
        lost=lost if reported else None,
        jitter_us=sum(jitters) / len(jitters) if jitters else None,
    )


def _sum(values: Iterator[float]) -> float:
    return sum(values, 0.0)


def _count(pattern: re.Pattern[str], row: _Row, name: str) -> int | None:
    found = pattern.match(row.rest)
    return None if found is None else whole(found[name], name)


def _intervals(rows: Sequence[_Row], *, is_udp: bool, reverse: bool) -> Iterator[IntervalOutput]:
    numbers: dict[str, int] = defaultdict(lambda: len(numbers))
    for row in rows:
        if row.flow == "SUM":
            continue
        sends = row.role == "TX-C" if row.role else not reverse
        reported = _UDP.match(row.rest) if is_udp else None
        packets = _count(_RETRANSMITS, row, "retransmits") if is_udp and reported is None else None
        yield IntervalOutput(
            flow=numbers[row.flow],
            sends=sends,
            start_s=row.start_s,
            length_s=positive(row.length_s, "interval"),
            omitted=row.omitted,
            # The rate has as many digits as the amount, and what follows is computed from rates.
            bytes=whole(round(row.rate_bps * row.length_s / 8), "bytes"),
            retransmits=None if is_udp or not sends else _count(_RETRANSMITS, row, "retransmits"),
            rtt_us=None,
            packets=whole(reported["packets"], "datagrams") if reported else packets,
            lost=whole(reported["lost"], "lost") if reported else None,
            jitter_us=1000 * amount(reported["jitter"], "jitter") if reported else None,
        )


MEASURES = (
    *btc.BOTH_WAYS,
    part(metrics.RTT_MEAN, "reverse", "of the way back: "),
    *udp.BOTH_WAYS,
)


def parse(text: Text) -> Parsed:
    """Read the outputs in a file, one after the other: a trial each.

    TCP gives aggregate_btc_bps (what the receiver got), connection_btc_bps and jain_fairness of the
    streams, cpu_*_percent, retransmits, and rtt_mean_us, the mean over the streams; UDP
    goodput_bps, sent_bps, offered_bps, loss_percent, jitter_us and reordered_percent. With --bidir
    those of the way back begin with ``reverse_``. The sender is the end that sends, also with -R.
    Streams at the client are rows of the intervals. A run that iperf3 ended with an error, or a
    stream of one that was killed, is a failed trial. All settings in the file are values. iperf3's
    text output has three digits, and no CPU, RTT and settings. Raises InputError.
    """
    try:
        outputs = read_text(text.text) if is_text(text.text) else read_all(text.text)
    except OutputError as error:
        raise refused(error, text) from None
    return Parsed([_record(run) for run in outputs.found], placed(text, outputs))


def _record(run: Iperf3Output) -> Record:
    client, server = run.client or SENDER, run.server or RECEIVER
    reverse = run.direction == REVERSE
    return Record(
        workload="udp" if run.protocol == "udp" else "btc",
        metrics=_metrics(run),
        place=f"line {run.line}",
        values=_values(run),
        senders=(server,) if reverse else (client,),
        receivers=(client,) if reverse else (server,),
        connections=run.streams,
        started_at=run.started_at,
        wall_s=run.wall_s,
        failure=None if run.error is None else Failure(kind="iperf3", message=run.error),
        intervals=[_interval(one, client, server) for one in run.intervals],
    )


def _values(run: Iperf3Output) -> dict[str, Scalar]:
    rate = run.rate_bps
    return {
        "protocol": run.protocol,
        "direction": run.direction,
        **({"rate_bps": int(rate) if rate == int(rate) else rate} if rate else {}),
        **run.settings,
        "connections": run.streams,
    }


def _metrics(run: Iperf3Output) -> dict[str, float | None]:
    if run.forward is None:
        return {}
    back = {} if run.backward is None else _one_way(run, run.backward)
    return {
        **_one_way(run, run.forward),
        **{f"reverse_{name}": value for name, value in back.items()},
        "cpu_sender_percent": run.cpu_sender_percent,
        "cpu_receiver_percent": run.cpu_receiver_percent,
    }


def _one_way(run: Iperf3Output, way: DirectionTotals) -> dict[str, float | None]:
    return _udp(run, way) if run.protocol == "udp" else _tcp(way)


def _tcp(way: DirectionTotals) -> dict[str, float | None]:
    rates = [one.received_bps for one in way.streams if one.received_bps is not None]
    rtts = [one.rtt_mean_us for one in way.streams if one.rtt_mean_us is not None]
    return {
        "aggregate_btc_bps": way.received_bps,
        "connection_btc_bps": sum(rates) / len(rates) if rates else None,
        "jain_fairness": jain_fairness(rates),
        "retransmits": way.retransmits,
        "rtt_mean_us": sum(rtts) / len(rtts) if rtts else None,
    }


def _udp(run: Iperf3Output, way: DirectionTotals) -> dict[str, float | None]:
    rate, streams = run.rate_bps, run.streams
    packets, lost, late = way.packets, way.lost, way.out_of_order
    return {
        "offered_bps": None if rate is None or streams is None else rate * streams,
        "goodput_bps": way.received_bps,
        "sent_bps": way.sent_bps,
        "loss_percent": 100 * (lost / packets) if packets and lost is not None else None,
        "jitter_us": way.jitter_us,
        "reordered_percent": 100 * late / packets if packets and late is not None else None,
    }


def _interval(one: IntervalOutput, client: str, server: str) -> Interval:
    packets, lost = one.packets, one.lost
    return Interval(
        trial=0,
        endpoint=client,
        peer=server,
        role="sender" if one.sends else "receiver",
        flow=one.flow,
        start_s=one.start_s,
        length_s=one.length_s,
        warmup=one.omitted,
        bytes=one.bytes,
        retransmits=one.retransmits,
        rtt_us=one.rtt_us,
        cwnd=None,  # iperf3 reports bytes
        datagrams=packets if packets is None or lost is None else max(0, packets - lost),
        lost=lost,
        jitter_us=one.jitter_us,
    )
