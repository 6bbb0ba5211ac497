"""Two sets of trials, cell by cell: better, worse, the same, or nobody can tell."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from enum import StrEnum

import pandas as pd

from osmef.analysis.direction import Direction, direction, quantity
from osmef.analysis.effects import hodges_lehmann
from osmef.analysis.pairs import holm, mann_whitney
from osmef.analysis.quantiles import Interval
from osmef.errors import InputError

SAME_MEANING = (
    "workload",
    "background",
    "connections",
    "distance",
    "achieved_placement",
    "achieved_tenancy",
)
"""What two cells of one key must have in common, of the columns of ``osmef.load``."""

_COLUMNS = (
    "cell",
    "metric",
    "n_a",
    "n_b",
    "median_a",
    "median_b",
    "difference",
    "low",
    "high",
    "margin",
    "p",
    "p_holm",
    "verdict",
    "reason",
)


class Verdict(StrEnum):
    """What a difference means."""

    BETTER = "better"
    WORSE = "worse"
    DIFFERENT = "different"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


def verdict(interval: Interval, margin: float, better: Direction) -> Verdict:
    """Return what the interval of a difference, in a metric's unit, means.

    ``margin`` >= 0, in the same unit, is how large a difference does not matter. The same: the
    whole interval is within -margin to margin. Better or worse, or different where a metric has no
    better way: the whole interval is beyond. Inconclusive: anything else, or no interval.

    Source: Hoefler and Belli, "Scientific Benchmarking of Parallel Computing Systems", SC 2015,
    rule 7, on comparing by intervals; the margin: Schuirmann, J. Pharmacokin. Biopharm. 15, 1987.
    """
    low, high = interval.low, interval.high
    if low is None or high is None:
        return Verdict.INCONCLUSIVE
    if -margin <= low and high <= margin:
        return Verdict.SAME
    if low <= margin and high >= -margin:
        return Verdict.INCONCLUSIVE
    if better is Direction.NEITHER:
        return Verdict.DIFFERENT
    return Verdict.BETTER if (low > margin) == (better is Direction.HIGHER) else Verdict.WORSE


def compare(  # noqa: PLR0913, PLR0917 - four have defaults
    a: pd.DataFrame,
    b: pd.DataFrame,
    metrics: Sequence[str] | None = None,
    margin: float = 0.05,
    confidence: float = 0.95,
    better: Direction | None = None,
) -> pd.DataFrame:
    """Return how the trials ``b`` differ from the trials ``a``, one row a common cell and metric.

    Both are frames of ``osmef.load``. ``metrics`` are columns of them; without, all that have a
    better way; ``better`` says which way that is, where it is not their names. ``margin`` >= 0 is
    how large a difference does not matter, as a share of the median of ``a``. Columns: cell,
    metric; n_a, n_b, trials that have it; median_a, median_b; difference, of ``b`` over ``a``, with
    low and high (``hodges_lehmann``) and margin, all in the metric's unit; p of ``mann_whitney``,
    and p_holm over the whole table; verdict, a ``Verdict``; reason, why there is no interval, else
    None. ``attrs`` has only_a and only_b, the cells of just one.

    Assumed are independent trials and, for the interval, that a cell's distribution only shifts.
    For 95 % at least 4 trials against 4 are needed. An interval is of its cell alone: of 100 cells
    that do not differ by more than the margin, up to 5 may get a wrong verdict.

    Raises InputError, with all that was found, where cells of one key differ in what was measured
    (``SAME_MEANING``), a metric has another unit on the other side, or no cell is common.
    """
    if not margin >= 0:
        raise ValueError(f"a margin is not below 0, and {margin!r} is")
    common = _comparable(a, b)
    names = _metrics(a, b) if metrics is None else list(metrics)
    rows = [
        {"cell": cell, "metric": name}
        | _difference(
            _known(a, cell, name),
            _known(b, cell, name),
            margin,
            confidence,
            better or direction(name),
        )
        for cell in common
        for name in names
    ]
    rows = [row for row in rows if row["n_a"] or row["n_b"]]
    for row, p in zip(rows, holm([_number(row["p"]) for row in rows]), strict=True):
        row["p_holm"] = p
    table = pd.DataFrame(rows, columns=pd.Index(_COLUMNS))
    table = table.astype(dict.fromkeys(_COLUMNS[4:12], "float64"))
    table.attrs["only_a"] = [cell for cell in a["cell"].unique() if cell not in common]
    table.attrs["only_b"] = [cell for cell in b["cell"].unique() if cell not in common]
    return table


def _difference(
    a: list[float], b: list[float], margin: float, confidence: float, better: Direction
) -> dict[str, object]:
    shift = hodges_lehmann(b, a, confidence)
    median = statistics.median(a) if a else None
    allowed = None if median is None else margin * abs(median)
    return {
        "n_a": len(a),
        "n_b": len(b),
        "median_a": median,
        "median_b": statistics.median(b) if b else None,
        "difference": shift.value,
        "low": shift.interval.low,
        "high": shift.interval.high,
        "margin": allowed,
        "p": mann_whitney(b, a).p,
        "verdict": verdict(shift.interval, allowed or 0.0, better),
        "reason": shift.interval.reason,
    }


def _comparable(a: pd.DataFrame, b: pd.DataFrame) -> list[str]:
    """Return the cells of both, in the order of ``a``. Raises InputError."""
    there = set(b["cell"])
    common = [cell for cell in a["cell"].unique() if cell in there]
    problems = [] if common else ["they have no cell in common"]
    for cell in common:
        for column in SAME_MEANING:
            one, other = (_meaning(frame, cell, column) for frame in (a, b))
            if one != other:
                problems.append(f"cell {cell}: {column} is {one} and {other}")
    for name in a.columns.difference(b.columns):
        others = [other for other in b.columns.difference(a.columns) if quantity(other)]
        same = [other for other in others if quantity(other) == quantity(name)]
        problems += [f"{name} of the one is {other} of the other" for other in same]
    if problems:
        raise InputError(
            "these can't be compared:\n" + "\n".join(f"  {problem}" for problem in problems),
            cure="compare runs of one scenario, measured at the same distances",
        )
    return common


def _meaning(frame: pd.DataFrame, cell: str, column: str) -> str:
    if column not in frame:
        return "unknown"
    values = frame.loc[frame["cell"] == cell, column]
    known = sorted(str(value) for value in values.dropna().unique())
    return ", ".join(known) or "none"


def _metrics(a: pd.DataFrame, b: pd.DataFrame) -> list[str]:
    names = dict.fromkeys([*a.columns, *b.columns])
    return [name for name in names if direction(str(name)) is not Direction.NEITHER]


def _known(frame: pd.DataFrame, cell: str, metric: str) -> list[float]:
    if metric not in frame:
        return []
    values = frame.loc[frame["cell"] == cell, metric].dropna()
    return [float(value) for value in values]


def _number(value: object) -> float | None:
    return value if isinstance(value, float) else None
