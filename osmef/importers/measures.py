"""Measures of imported metrics: other programs' names in our units, and request rows."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence

from osmef.importers.record import RECEIVER, SENDER
from osmef.results.measure import Better, Measure
from osmef.results.observations import Request

_UNITS: dict[str, tuple[float, str]] = {
    "bit/s": (1.0, "bit/s"), "bits/s": (1.0, "bit/s"), "bits/second": (1.0, "bit/s"),
    "kbits/sec": (1e3, "bit/s"), "kbit/s": (1e3, "bit/s"),
    "mbits/sec": (1e6, "bit/s"), "mbits/s": (1e6, "bit/s"), "mbit/s": (1e6, "bit/s"),
    "gbits/sec": (1e9, "bit/s"), "gbits/s": (1e9, "bit/s"), "gbit/s": (1e9, "bit/s"),
    "ns": (1e-3, "us"), "us": (1.0, "us"), "usec": (1.0, "us"), "microseconds": (1.0, "us"),
    "ms": (1e3, "us"), "milliseconds": (1e3, "us"),
    "s": (1.0, "s"), "sec": (1.0, "s"), "seconds": (1.0, "s"),
    "kb/s": (1e3, "B/s"), "mb/s": (1e6, "B/s"), "mb/sec": (1e6, "B/s"), "gb/s": (1e9, "B/s"),
    "transactions_per_second": (1.0, "1/s"), "ops/sec": (1.0, "1/s"), "ops/s": (1.0, "1/s"),
    "requests/sec": (1.0, "1/s"), "req/s": (1.0, "1/s"), "pps": (1.0, "1/s"),
    "%": (1.0, "%"), "percent": (1.0, "%"),
}  # fmt: skip
"""By units in small letters: the factor to the unit of OSMeF, and that unit."""

_ENDINGS = {
    "bit/s": "bps", "us": "us", "s": "s", "B/s": "bytes_per_s", "1/s": "per_s", "%": "percent",
}  # fmt: skip


def slug(text: str) -> str:
    """Return words as a part of a metric's name."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def in_own_unit(value: float, unit: str) -> tuple[float, str]:
    """Convert a number to OSMeF's unit of that quantity; return it with that unit."""
    factor, own = _UNITS.get(unit.strip().lower(), (1.0, unit.strip()))
    return value * factor, own


def measure_named(program: str, told: str, unit: str) -> Measure:
    """Return the measure of a metric by its foreign name and unit.

    Its name ends with the unit. Which way is better nobody says.
    """
    ending = _ENDINGS.get(unit, slug(unit))
    name = slug(told)
    return Measure(
        name=name if not ending or name.endswith(f"_{ending}") else f"{name}_{ending}",
        unit=unit or None,
        better=Better.NEITHER,
        label=told,
        help=f"what {program} calls {told}",
        source=program,
    )


def is_plain(value: str | float) -> bool:
    """Return whether a setting is a text or a finite number."""
    return isinstance(value, str) or math.isfinite(value)


def message(  # noqa: PLR0913 - what a row has
    size: int, *, time_s: float | None, length: int | None, relayed: bool = False,
    code: int | None = 200, retries: int | None = None, error: str | None = None,
) -> Request:  # fmt: skip
    """Return a row of the requests; a program's row may be the mean of several."""
    return Request(
        trial=0,
        purpose="measured",
        sender=SENDER,
        receiver=RECEIVER,
        size=size,
        intended_start_s=None,
        duration_s=None if relayed else time_s,
        relay_s=time_s if relayed else None,
        code=code,
        length=length,
        retries=retries,
        error=error,
    )


def message_metrics(rows: Sequence[Request]) -> dict[str, float | None]:
    """Return time and rate over the successful rows, each counted as one request.

    ``transfer_rate_bytes_per_s`` = sum(length) / sum(time) (Kratzke and Quint, CLOSER 2016). None
    where no row went well.
    """
    good = [
        (row.relay_s or row.duration_s, row.length)
        for row in rows
        if row.error is None and row.length is not None
    ]
    times = [time for time, _length in good if time]
    total = sum(times)
    moved = sum(length or 0 for _time, length in good)
    return {
        "transfer_rate_bytes_per_s": moved / total if total else None,
        "time_mean_us": 1e6 * statistics.fmean(times) if times else None,
        "time_p50_us": 1e6 * statistics.median(times) if times else None,
        "time_max_us": 1e6 * max(times) if times else None,
    }
