"""Output of NetPIPE (NPtcp and others): np.out, and what it prints.

Source: Snell, Mikler, Gustafson, "NetPIPE: A Network Protocol Independent Performance Evaluator",
1996, and version 3.7.2. Mbps there are 2^20 bits/s; the time is that of one message, half of a
round trip, in seconds (np.out) or microseconds (printed), the shortest of its trials.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from osmef.analysis.sweep import half_performance_length, shortest_times, total_rates
from osmef.errors import InputError
from osmef.importers.record import (
    RECEIVER,
    SENDER,
    Oddity,
    Parsed,
    Record,
    Text,
    number,
    positive,
    refuse,
    whole,
)
from osmef.results.exchange import Purpose, SizePoint
from osmef.results.trial import Failure
from osmef.scenario.study import Scalar
from osmef.scenario.workload import SweepMode

MEBI = 1 << 20
_SAVED = re.compile(r"\s*([0-9]+)\s+([0-9.]+)\s+([0-9.]+)\s*", re.ASCII)
_PRINTED = re.compile(
    r"\s*[0-9]+:\s+([0-9]+) bytes\s+([0-9]+) times -->\s+([0-9.]+) Mbps in\s+([0-9.]+) usec\s*",
    re.ASCII,
)
_CUT = re.compile(
    r"(?:\s*[0-9]+:\s+[0-9]+ bytes\s+[0-9]+ times -->\s*)?(?:NetPIPE: (error .*))?", re.ASCII
)
_TOLERANCE = 0.02
_ROUNDED = 0.005 * MEBI  # of printed rates, which have two decimals


@dataclass(frozen=True)
class _Line:
    """A line of a message size, which was printed where it tells the number of times."""

    where: str
    size: int
    time_us: float
    bps: float
    times: int | None


def parse(text: Text) -> Parsed:
    """Read one sweep over message sizes on one connection; np.out takes no note of its options.

    What was printed tells by its highest rate whether both ways were used at once (-2), which is a
    value, ``mode``; a rate below 1 Mbps, which has two decimals, is taken from the size and time.
    All else counts as a ping-pong: np.out does not tell a stream (-s), and has twice the size with
    -2. What was printed of a sweep that did not come to its end is a failed trial. Metrics:
    latency_min_us, the time of the smallest message, throughput_max_bps, n_half_bytes and
    sizes_measured. Raises InputError.
    """
    lines, oddities = _lines(text)
    if not lines:
        raise refuse(text.line(1), "there is no line of NetPIPE in it: bytes, Mbps and seconds")
    printed = [line for line in lines if line.times is not None]
    mode = _mode(max(printed, key=lambda line: line.bps)) if printed else SweepMode.PINGPONG
    points = []
    for line in lines:
        ways = 2 if line.times is not None and mode is SweepMode.BOTH else 1
        wanted = ways * 8e6 * line.size / line.time_us
        rounded = 0.0 if line.times is None else _ROUNDED
        if abs(line.bps - wanted) > _TOLERANCE * wanted + rounded:
            oddities.append(Oddity(line.where, "the rate is not the size over the time", True))
        rough = line.times is not None and line.bps < MEBI
        points.append(_point(line, mode, wanted if rough else line.bps))
    rates, times = total_rates(points), shortest_times(points)
    metrics = {
        "latency_min_us": times[min(times)] if mode is SweepMode.PINGPONG else None,
        "throughput_max_bps": max(rates.values()),
        "n_half_bytes": half_performance_length(rates),
        "sizes_measured": float(len(rates)),
    }
    values: dict[str, Scalar] = {"mode": mode.value} if printed else {}
    record = Record(
        workload="size-sweep",
        metrics=metrics,
        values=values,
        connections=1,
        sizes=points,
        failure=_failure(text.text),
    )
    return Parsed([record], oddities)


def _failure(text: str) -> Failure | None:
    """Return why a sweep that was printed ended within a message size."""
    cut = _CUT.fullmatch(text.rstrip().rpartition("\n")[2])
    if cut is None:
        return None
    return Failure(kind="netpipe", message=cut[1] or "the sweep did not come to its end")


def _lines(text: Text) -> tuple[list[_Line], list[Oddity]]:
    found: list[_Line] = []
    oddities: list[Oddity] = []
    for at, content in enumerate(text.text.splitlines(), start=1):
        where = text.line(at)
        try:
            line = _line(content, where)
        except InputError as error:
            oddities.append(Oddity(where, error.message, False))
            continue
        if line is not None:
            found.append(line)
        elif not (not found or content.startswith("Completed") or _CUT.fullmatch(content.rstrip())):
            oddities.append(Oddity(where, "this line is no message size", False))
    return found, oddities


def _line(content: str, where: str) -> _Line | None:
    saved, printed = _SAVED.fullmatch(content), _PRINTED.fullmatch(content)
    if saved:
        size, rate, time_us = saved[1], saved[2], 1e6 * positive(saved[3], "the time", where)
        times = None
    elif printed:
        size, rate, time_us = printed[1], printed[3], positive(printed[4], "the time", where)
        times = whole(printed[2], "the number of times", where)
    else:
        return None
    known = number if printed else positive  # a printed one may be rounded to 0.00
    bps = MEBI * known(rate, "the rate", where)
    return _Line(where, int(positive(size, "the size", where)), time_us, bps, times)


def _mode(line: _Line) -> SweepMode:
    """Return whether both ways were used at once, by a line with a rate of several digits."""
    both = line.bps * line.time_us > 1.5 * 8e6 * line.size
    return SweepMode.BOTH if both else SweepMode.PINGPONG


def _point(line: _Line, mode: SweepMode, bps: float) -> SizePoint:
    return SizePoint(
        purpose=Purpose.MEASURED,
        sender=SENDER,
        receiver=RECEIVER,
        flow=0,
        mode=mode if line.times is not None else SweepMode.PINGPONG,
        checked=False,
        size=line.size,
        repetitions=line.times,
        trials=None,
        time_min_us=line.time_us,
        time_median_us=None,
        time_max_us=None,
        throughput_bps=bps,
    )
