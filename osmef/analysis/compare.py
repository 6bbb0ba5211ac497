"""Two sets of trials, cell by cell: better, worse, the same, or nobody can tell.

Where trials are of sessions, the medians of these are compared (``osmef.analysis.replicates``).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from osmef.analysis.effects import hodges_lehmann
from osmef.analysis.pairs import holm, mann_whitney
from osmef.analysis.quantiles import Interval
from osmef.analysis.replicates import (
    PLACE,
    PLATFORM,
    cell_names,
    has_sessions,
    independent,
    platform_columns,
    settled,
)
from osmef.errors import InputError
from osmef.results.frame import measures_of
from osmef.results.measure import Better, Measure, together

SAME_MEANING = (
    "workload",
    "background",
    "connections",
    "distance",
    "achieved_placement",
    "achieved_tenancy",
)
"""What two cells of one key must have in common, of the columns of ``osmef.load``."""

_OF_PLACE = ("distance", *PLACE)  # which trials that failed early do not know

SHOWN = ("provider", "sender_flavors", "receiver_flavors", "window", "price_per_hour")
"""What two cells may differ in, as they do where two clouds are compared; it is told."""

_NO_SHARE = "A's median is 0, so any difference counts"

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


def verdict(interval: Interval, margin: float, better: Better) -> Verdict:
    """Return what the interval of a difference, in a metric's unit, means.

    ``margin`` >= 0, in the same unit, is how large a difference does not matter. The same: the
    whole interval is within -margin to margin. Better or worse, or different where a metric has no
    better way: the whole interval is beyond. Inconclusive: anything else, or no interval.

    Assumed is what the interval assumes: see ``hodges_lehmann``.

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
    if better is Better.NEITHER:
        return Verdict.DIFFERENT
    return Verdict.BETTER if (low > margin) == (better is Better.HIGHER) else Verdict.WORSE


def compare(  # noqa: PLR0913, PLR0917 - four have defaults
    a: pd.DataFrame,
    b: pd.DataFrame,
    metrics: Sequence[str | Measure] | None = None,
    margin: float = 0.05,
    confidence: float = 0.95,
    better: Better | None = None,
) -> pd.DataFrame:
    """Return how the trials ``b`` differ from the trials ``a``, one row a common cell and metric.

    Both are frames of ``osmef.load``. Cells of several scenarios, platforms (``platform_columns``)
    or achieved places on a side are compared each with its own. ``metrics`` are names of what the
    frames have measured, or measures; without, all that have a better way; ``better`` says which
    way that is, where they do not. ``margin`` >= 0 is how large a difference does not matter, as a
    share of the median of ``a``; it is at least what is ``negligible`` of the measure: 1 of a
    count, such as retransmits, and of a time in microseconds, 0.1 of a percentage. Where that is 0,
    and so is the median, it is 0, and ``reason`` says so.
    Columns: cell, metric; n_a, n_b, trials that have it, or sessions where either side has any;
    median_a, median_b; difference, of ``b`` over ``a``, with low and high (``hodges_lehmann``) and
    margin, all in the metric's unit; p of ``mann_whitney``, and p_holm over the whole table;
    verdict, a ``Verdict``; reason, why there is no interval, or no margin, else None. ``attrs`` has
    only_a and only_b, the cells of just one; lost, those of only_a that ``b`` has at no other place
    either; unit, what n counts; without_sessions, which of "A" and "B" has none while the other
    has, so that each of its runs counts as one; failures, of ``failed_more``, and, with p None, the
    cells of ``b`` alone of which all trials failed, for they may be of a common one that they could
    not tell; and differs, what else two cells differ in (``SHOWN``).

    Assumed are independent trials, or sessions, and, for the interval, that a cell's distribution
    only shifts. For 95 % at least 4 against 4 are needed. An interval is of its cell alone: of 100
    cells that do not differ by more than the margin, up to 5 may get a wrong verdict.

    Raises InputError, with all that was found, where cells of one key differ in what was measured
    (``SAME_MEANING``), a metric has another unit on the other side, no cell is common, or nothing
    says what a metric is.

    Source: ``verdict``, ``hodges_lehmann``, ``mann_whitney``, ``holm`` and ``failed_more``; Hoefler
    and Belli, SC 2015, rules 5 and 7.
    """
    if not margin >= 0:
        raise ValueError(f"a margin is not below 0, and {margin!r} is")
    a, b = settled(a), settled(b)
    columns = platform_columns(a, b, columns=(*PLATFORM, *PLACE))
    first, second = (_by_cell(side, columns) for side in (a, b))
    common = _comparable(first, second)
    wanted = _wanted(a, b, metrics)
    if better is not None:
        wanted = [measure.model_copy(update={"better": better}) for measure in wanted]
    sessions = has_sessions(a, b)
    rows = [
        {"cell": cell, "metric": measure.name}
        | _difference(
            independent(first[cell], measure.name, by_session=sessions),
            independent(second[cell], measure.name, by_session=sessions),
            Allowed(measure, margin),
            confidence,
        )
        for cell in common
        for measure in wanted
    ]
    rows = [row for row in rows if row["n_a"] or row["n_b"]]
    for row, p in zip(rows, holm([_number(row["p"]) for row in rows]), strict=True):
        row["p_holm"] = p
    table = pd.DataFrame(rows, columns=pd.Index(_COLUMNS))
    table = table.astype(dict.fromkeys(_COLUMNS[4:12], "float64"))
    table.attrs["only_a"] = [cell for cell in first if cell not in common]
    table.attrs["only_b"] = [cell for cell in second if cell not in common]
    anywhere = [name for name in columns if name not in PLACE]
    there = set(cell_names(b, anywhere))
    table.attrs["lost"] = [cell for cell in table.attrs["only_a"]
                           if there.isdisjoint(cell_names(first[cell], anywhere))]  # fmt: skip
    table.attrs["unit"] = "sessions" if sessions else "trials"
    table.attrs["without_sessions"] = [
        name for name, side in (("A", a), ("B", b)) if sessions and not has_sessions(side)
    ]
    table.attrs["failures"] = _failures(first, second, common, 1 - confidence)
    table.attrs["differs"] = _differs(first, second, common)
    return table


def _by_cell(side: pd.DataFrame, columns: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return the trials of each cell, by names that tell platforms and places apart, too."""
    groups = side.groupby(np.array(cell_names(side, columns), dtype="object"), sort=False)
    return {str(cell): trials for cell, trials in groups}


@dataclass(frozen=True)
class Allowed:
    """How large a difference of a metric does not matter: a share of A's median, or a little."""

    measure: Measure
    share: float

    def margin(self, median: float | None) -> float:
        """Return it in the metric's unit; a share of few would make every retransmission count."""
        least = self.measure.negligible
        return max(self.share * abs(median or 0.0), least) if self.share else 0.0


def failed_more(a: pd.DataFrame, b: pd.DataFrame, level: float = 0.05) -> dict[str, object]:
    """Return how many trials of a cell failed on both sides, and whether the share differs.

    Keys: trials_a, failed_a, trials_b, failed_b, p of Fisher's exact test (two-tailed), and
    verdict: worse or better where p <= ``level``, the same where the shares are, else inconclusive.
    Empty where none failed. Assumed is that trials fail independently of each other.

    Source: Fisher, "Statistical Methods for Research Workers", 1934, section 21.02.
    """
    counts = [(len(one), int((one["status"] != "ok").sum())) if "status" in one else (len(one), 0)
              for one in (a, b)]  # fmt: skip
    (n_a, bad_a), (n_b, bad_b) = counts
    if not bad_a and not bad_b:
        return {}
    from scipy.stats import fisher_exact  # noqa: PLC0415 - slow to load

    table = np.array([[bad_a, n_a - bad_a], [bad_b, n_b - bad_b]])
    p = float(fisher_exact(table).pvalue)
    found = Verdict.INCONCLUSIVE
    if bad_a * n_b == bad_b * n_a:
        found = Verdict.SAME
    elif p <= level:
        found = Verdict.WORSE if bad_b * n_a > bad_a * n_b else Verdict.BETTER
    return {"trials_a": n_a, "failed_a": bad_a, "trials_b": n_b, "failed_b": bad_b, "p": p,
            "verdict": found}  # fmt: skip


def _failures(
    a: Mapping[str, pd.DataFrame],
    b: Mapping[str, pd.DataFrame],
    common: Sequence[str],
    level: float,
) -> list[dict[str, object]]:
    """Return ``failed_more`` of the common cells, and as worse what only B has and all failed."""
    found = [{"cell": cell} | failed_more(a[cell], b[cell], level) for cell in common]
    alone = [{"cell": cell} | failed_more(trials.iloc[:0], trials, level)
             for cell, trials in b.items() if cell not in common]  # fmt: skip
    lost = [one | {"p": None, "verdict": Verdict.WORSE} for one in alone
            if "p" in one and one["failed_b"] == one["trials_b"]]  # fmt: skip
    return [one for one in found if "p" in one] + lost


def _differs(
    a: Mapping[str, pd.DataFrame], b: Mapping[str, pd.DataFrame], common: Sequence[str]
) -> list[dict[str, str]]:
    pairs = ((cell, name, _meaning(a[cell], name), _meaning(b[cell], name))
             for cell in common for name in SHOWN)  # fmt: skip
    return [{"cell": cell, "column": name, "a": one, "b": other}
            for cell, name, one, other in pairs if one != other]  # fmt: skip


def _difference(
    a: list[float], b: list[float], allowed: Allowed, confidence: float
) -> dict[str, object]:
    shift = hodges_lehmann(b, a, confidence)
    median = statistics.median(a) if a else None
    margin = allowed.margin(median)
    found = verdict(shift.interval, margin, allowed.measure.better)
    unscaled = median == 0 and allowed.share > margin and found is not Verdict.SAME
    return {
        "n_a": len(a),
        "n_b": len(b),
        "median_a": median,
        "median_b": statistics.median(b) if b else None,
        "difference": shift.value,
        "low": shift.interval.low,
        "high": shift.interval.high,
        "margin": None if median is None else margin,
        "p": mann_whitney(b, a).p,
        "verdict": found,
        "reason": shift.interval.reason or (_NO_SHARE if unscaled else None),
    }


def _comparable(a: Mapping[str, pd.DataFrame], b: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return the cells of both, in the order of ``a``. Raises InputError."""
    common = [cell for cell in a if cell in b]
    problems = [] if common else ["they have no cell in common"]
    for cell in common:
        unplaced = not (_any_good(a[cell]) and _any_good(b[cell]))
        for column in SAME_MEANING:
            if unplaced and column in _OF_PLACE:
                continue
            one, other = (_meaning(side[cell], column) for side in (a, b))
            if one != other:
                problems.append(f"cell {cell}: {column} is {one} and {other}")
    if problems:
        raise InputError(
            "these can't be compared:\n" + "\n".join(f"  {problem}" for problem in problems),
            cure="compare runs of one scenario, measured at the same distances",
        )
    return common


def _any_good(trials: pd.DataFrame) -> bool:
    return "status" not in trials or bool((trials["status"] == "ok").any())


def _meaning(trials: pd.DataFrame, column: str) -> str:
    if column not in trials:
        return "unknown"
    known = sorted(str(value) for value in trials[column].dropna().unique())
    return ", ".join(known) or "none"


def _wanted(
    a: pd.DataFrame, b: pd.DataFrame, metrics: Sequence[str | Measure] | None
) -> list[Measure]:
    """Return the measures to compare. Raises InputError where nothing, or two things, say what."""
    given = {one.name: one for one in metrics or () if isinstance(one, Measure)}
    if metrics is not None and len(given) == len(metrics):
        return list(given.values())
    known = together((name, measures_of(side).values()) for name, side in (("A", a), ("B", b)))
    if metrics is None:
        return [one for one in known.values() if one.better is not Better.NEITHER]
    names = [one.name if isinstance(one, Measure) else one for one in metrics]
    unknown = [name for name in names if name not in known and name not in given]
    if unknown:
        raise InputError(
            f"nothing says what {', '.join(unknown)} is", cure="name metrics that the runs have"
        )
    return [given.get(name) or known[name] for name in names]


def _number(value: object) -> float | None:
    return value if isinstance(value, float) else None
