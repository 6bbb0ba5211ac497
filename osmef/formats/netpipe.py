"""Reader of the output of NetPIPE (NPtcp and others): np.out, and standard output.

Source: Snell, Mikler, Gustafson, "NetPIPE: A Network Protocol Independent Performance Evaluator",
1996, and version 3.7.2. Mbps there are 2^20 bits/s; the time is that of one message, half of a
round trip, in seconds (np.out) or microseconds (printed), the shortest of its trials.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from osmef.errors import OutputError
from osmef.formats import MEBI, Odd, Outputs, failed, number, only, positive, shows_tail, whole

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
class Point:
    """One message size: time of a message, and the rate of both directions together.

    ``times`` is how often it was sent, where that was printed.
    """

    line: int
    size_bytes: int
    time_us: float
    bps: float
    times: int | None


@dataclass(frozen=True)
class Netpipe:
    """A sweep over message sizes. ``both_ways`` is bidirectional mode (-2).

    That is None of np.out, which does not tell it. ``error`` tells why the sweep did not come to
    its end.
    """

    points: tuple[Point, ...]
    both_ways: bool | None
    error: str | None


@shows_tail
def read(text: str) -> Netpipe:
    """Read one whole sweep. Raises OutputError."""
    sweep = only(read_all(text), "NetPIPE")
    if sweep.error is not None:
        raise failed("NetPIPE", sweep.error)
    return sweep


def read_all(text: str) -> Outputs[Netpipe]:
    """Read one sweep; invalid lines are odd. Raises OutputError without any valid line.

    Whether both ways were used at once shows in the highest rate that was printed; a rate below 1
    Mbps, which has two decimals, is taken from the size and the time. np.out does not tell a
    stream (-s), and has twice the size with -2.
    """
    points, odd = _points(text)
    if not points:
        raise OutputError("there is no line of NetPIPE in it: bytes, Mbps and seconds", line=1)
    printed = [point for point in points if point.times is not None]
    both = _both_ways(max(printed, key=lambda point: point.bps)) if printed else None
    exact = []
    for point in points:
        ways = 2 if point.times is not None and both else 1
        wanted = ways * 8e6 * point.size_bytes / point.time_us
        rounded = 0.0 if point.times is None else _ROUNDED
        if abs(point.bps - wanted) > _TOLERANCE * wanted + rounded:
            odd.append(Odd(point.line, "the rate is not the size over the time", kept=True))
        rough = point.times is not None and point.bps < MEBI
        exact.append(replace(point, bps=wanted) if rough else point)
    return Outputs((Netpipe(tuple(exact), both, _error(text)),), tuple(odd))


def _error(text: str) -> str | None:
    """Return the error of a sweep that ended within a message size."""
    cut = _CUT.fullmatch(text.rstrip().rpartition("\n")[2])
    return None if cut is None else cut[1] or "the sweep did not come to its end"


def _points(text: str) -> tuple[list[Point], list[Odd]]:
    found: list[Point] = []
    odd: list[Odd] = []
    for line, content in enumerate(text.splitlines(), start=1):
        try:
            point = _point(content, line)
        except OutputError as error:
            odd.append(Odd(line, error.message))
            continue
        if point is not None:
            found.append(point)
        elif not (not found or content.startswith("Completed") or _CUT.fullmatch(content.rstrip())):
            odd.append(Odd(line, "this line is no message size"))
    return found, odd


def _point(content: str, line: int) -> Point | None:
    saved, printed = _SAVED.fullmatch(content), _PRINTED.fullmatch(content)
    if saved:
        size, rate, time_us = saved[1], saved[2], 1e6 * positive(saved[3], "the time")
        times = None
    elif printed:
        size, rate, time_us = printed[1], printed[3], positive(printed[4], "the time")
        times = whole(printed[2], "the number of times")
    else:
        return None
    known = number if printed else positive  # a printed one may be rounded to 0.00
    bps = MEBI * known(rate, "the rate")
    return Point(line, int(positive(size, "the size")), time_us, bps, times)


def _both_ways(point: Point) -> bool:
    """Return whether it is bidirectional, by a line with a rate of several digits."""
    return point.bps * point.time_us > 1.5 * 8e6 * point.size_bytes
