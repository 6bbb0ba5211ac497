"""Metrics on axes: which one is shown, in which unit, under which words."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from osmef.errors import InputError
from osmef.report.cells import nothing
from osmef.units import rate_unit

PREFERRED = (
    "aggregate_btc_bps",
    "goodput_bps",
    "rtt_p50_us",
    "time_p50_us",
    "throughput_max_bps",
)
"""What is shown where nobody says what, the first of them that there is."""

_UNITS = {"_us": "µs", "_s": "s", "_percent": "%", "_bytes": "B", "_us_per_kb": "µs per 1000 B",
          "_bytes_per_s": "B/s", "_per_s": "per second"}  # fmt: skip
_SHORT = {"btc": "BTC", "cpu": "CPU", "rtt": "RTT"}


@dataclass(frozen=True)
class Unit:
    """How a metric is written: what its values are divided by, and the name of its axis."""

    divisor: float
    label: str


def metrics_of(trials: pd.DataFrame) -> list[str]:
    """Return the metrics that the trials of ``osmef.load`` have, which are its last columns."""
    columns = [str(name) for name in trials.columns]
    after = columns.index("status") + 1 if "status" in columns else 0
    numbers = trials[columns[after:]].select_dtypes("number")
    course = ("wall_s", "start_spread_s")
    return [str(name) for name in numbers if name not in course and numbers[name].notna().any()]


def chosen(trials: pd.DataFrame, metric: str | None) -> str:
    """Return the metric that is wanted, or the first of those preferred, else the first at all.

    Raises InputError where no trial has it.
    """
    known = metrics_of(trials)
    if metric is not None and metric not in known:
        raise InputError(
            f"no trial has a metric {metric!r}; there are: {', '.join(known) or 'none'}",
            where="--metric",
            cure="give one of these",
        )
    found = [metric] if metric else [name for name in PREFERRED if name in known] or known
    if not found:
        raise nothing("metric", "give runs with trials that went well")
    return found[0]


def unit(metric: str, top: float) -> Unit:
    """Return how to write a metric whose values reach to ``top``."""
    if metric.endswith("_bps"):
        divisor, name = rate_unit(top)
        return Unit(divisor, f"{words(metric)} in {name}")
    name = next((_UNITS[end] for end in sorted(_UNITS, key=len, reverse=True)
                 if metric.endswith(end)), "")  # fmt: skip
    return Unit(1.0, f"{words(metric)} in {name}" if name else words(metric))


def words(metric: str) -> str:
    """Return a metric's name in words, without its unit."""
    ends = sorted((*_UNITS, "_bps"), key=len, reverse=True)
    bare = next((metric.removesuffix(end) for end in ends if metric.endswith(end)), metric)
    return " ".join(_SHORT.get(word, word) for word in bare.split("_"))
