"""Reader of the output of 7-Zip's benchmark: 7z b, 7zz b, 7zr b.

Source: Bench.cpp of 7-Zip, 16.02 to 26.02, and its manual, "b (Benchmark) command". A rating is
the speed of LZMA in MIPS, so that one of 1000 is what an Intel Core 2 has at 1 GHz. KiB are 2^10
bytes of what is not compressed. Usage is the CPU's, of one CPU, and a rating per usage is what the
rating would be if a whole CPU had been there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from osmef.errors import OutputError
from osmef.formats import failed, shows_tail
from osmef.formats.reading import KIBI, amount, first, of_one_run, positive, whole

_BANNER = re.compile(r"^7-Zip .*?([0-9]+\.[0-9]+)(?: \(.*?\))? : ", re.MULTILINE | re.ASCII)
_THREADS = re.compile(r"# Benchmark threads: +(\S+)$", re.MULTILINE)
_FAILED = re.compile(r"^(?:System ERROR:|Command Line Error:|ERROR:)\s*(.*)", re.MULTILINE)
_HEAD = re.compile(r"^ +Compressing +\| +Decompressing$", re.MULTILINE)
_ROW = re.compile(r"^([0-9]+): +(\S.*?) +\| +(\S.*)$", re.MULTILINE | re.ASCII)
_MEAN = re.compile(r"^Avr: +(\S.*?) +\| +(\S.*)$", re.MULTILINE)
_TOTAL = re.compile(r"^Tot: +(\S+) +(\S+) +(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Rating:
    """Rating of one direction, or the mean of both; newer versions have ``bytes_per_s``."""

    mips: float
    mips_per_cpu: float
    usage_percent: float
    bytes_per_s: float | None = None


@dataclass(frozen=True)
class Sevenzip:
    """A run: ratings over all dictionary sizes, and their mean."""

    version: str
    threads: int
    dictionary_bytes: tuple[int, ...]
    compressing: Rating
    decompressing: Rating
    total: Rating


@shows_tail
def read(text: str) -> Sevenzip:
    """Read the output of one LZMA benchmark. Raises OutputError, also for a failure."""
    refused = _FAILED.search(text)
    if refused:
        raise failed("7-Zip", refused[1])
    total = of_one_run(_TOTAL, text, "7-Zip's benchmark of LZMA")
    head, mean = (
        first(_HEAD, text, "head of the ratings"),
        first(_MEAN, text, "mean of the ratings"),
    )
    rows = list(_ROW.finditer(text, head.end(), mean.start()))
    if not rows:
        raise OutputError("there are no ratings before their mean")
    for row in rows:
        _side(row[2]), _side(row[3])
    return Sevenzip(
        version=first(_BANNER, text, "version of 7-Zip")[1],
        threads=whole(first(_THREADS, text, "number of threads")[1], "the threads"),
        dictionary_bytes=tuple(_dictionary(row[1]) for row in rows),
        compressing=_side(mean[1]),
        decompressing=_side(mean[2]),
        total=_rating(total[1], total[2], total[3]),
    )


def _dictionary(power: str) -> int:
    bits = whole(power, "a dictionary")
    if not 1 <= bits <= 40:  # 7-Zip has up to 2^32
        raise OutputError(f"the dictionary has 2^{bits} bytes")
    return 1 << bits


def _side(text: str) -> Rating:
    """Read the numbers of one direction; the mean of older versions has no speed."""
    match text.split():
        case [speed, usage, each, rating]:
            return _rating(usage, each, rating, KIBI * positive(speed, "the KiB/s"))
        case [usage, each, rating]:
            return _rating(usage, each, rating)
    raise OutputError(f"this is no rating: {text[:80]}")


def _rating(usage: str, each: str, rating: str, speed: float | None = None) -> Rating:
    return Rating(
        mips=positive(rating, "the rating"),
        mips_per_cpu=positive(each, "the rating per usage"),
        usage_percent=amount(usage, "the usage"),
        bytes_per_s=speed,
    )
