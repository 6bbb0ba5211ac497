"""Comparison of two sets of trials, cell by cell: better, worse, the same, or inconclusive.

Where trials are of sessions, the medians of these are compared, and where a side has several runs
of a cell, those of runs (``osmef.analysis.replication``).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from osmef.analysis.describe import describe, describe_trials
from osmef.analysis.effects import hodges_lehmann
from osmef.analysis.hypothesis_tests import (
    allowed_autocorrelation,
    holm,
    hommel,
    lower_p,
    mann_whitney,
    proved_autocorrelation,
)
from osmef.analysis.quantiles import ConfidenceInterval
from osmef.analysis.replication import (
    PLACE,
    PLATFORM,
    cell_names,
    fill_platforms,
    has_pairs,
    has_sessions,
    independent,
    platform_columns,
)
from osmef.errors import InputError
from osmef.results.frame import measures_of
from osmef.results.measure import Better, Measure, merge_measures

Interval = tuple[float, float] | None


class DifferenceVerdict(StrEnum):
    """Verdict on a difference."""

    BETTER = "better"
    WORSE = "worse"
    DIFFERENT = "different"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


def verdict(
    interval: ConfidenceInterval, margin: float, better: Better, p: float = 0.0, level: float = 0.05
) -> DifferenceVerdict:
    """Return the verdict on a difference by its interval, in the metric's unit.

    ``margin`` >= 0, in the same unit, is how large a difference does not matter. The same: the
    whole interval is within -margin to margin. Better or worse, or different where a metric has no
    better way: the whole interval is beyond, and ``p``, of a difference beyond the margin and
    corrected for all verdicts that are given together, is at most ``level``. Inconclusive: anything
    else, or no interval.

    Assumed is what the interval assumes: see ``hodges_lehmann``.

    Source: Hoefler and Belli, "Scientific Benchmarking of Parallel Computing Systems", SC 2015,
    rule 7, on comparing by intervals; the margin: Schuirmann, J. Pharmacokin. Biopharm. 15, 1987.
    """
    low, high = interval.low, interval.high
    if low is None or high is None:
        return DifferenceVerdict.INCONCLUSIVE
    if -margin <= low and high <= margin:
        return DifferenceVerdict.SAME
    if (low <= margin and high >= -margin) or p > level:
        return DifferenceVerdict.INCONCLUSIVE
    if better is Better.NEITHER:
        return DifferenceVerdict.DIFFERENT
    return (
        DifferenceVerdict.BETTER
        if (low > margin) == (better is Better.HIGHER)
        else DifferenceVerdict.WORSE
    )


def compare_failure_rates(
    a: pd.DataFrame, b: pd.DataFrame, level: float = 0.05
) -> dict[str, object]:
    """Compare the failure rates of a cell on both sides.

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
    p = fisher_exact(bad_a, n_a, bad_b, n_b)
    found = DifferenceVerdict.INCONCLUSIVE
    if bad_a * n_b == bad_b * n_a:
        found = DifferenceVerdict.SAME
    elif p <= level:
        found = DifferenceVerdict.WORSE if bad_b * n_a > bad_a * n_b else DifferenceVerdict.BETTER
    return {"trials_a": n_a, "failed_a": bad_a, "trials_b": n_b, "failed_b": bad_b, "p": p,
            "verdict": found}  # fmt: skip


def compare_all_failure_rates(
    a: Mapping[str, pd.DataFrame],
    b: Mapping[str, pd.DataFrame],
    common: Sequence[str],
    level: float,
) -> list[dict[str, object]]:
    """Compare the failure rates of all cells; a cell of B alone that always failed is worse.

    ``common`` are cells of both sides, ``level`` the rate of false alarms of all of them together:
    their p, and that of all trials together, are corrected (``hommel``).

    Assumed is what these assume.

    Source: those of ``compare_failure_rates`` and ``hommel``.
    """
    found = [{"cell": cell} | compare_failure_rates(a[cell], b[cell], level) for cell in common]
    found = [one for one in found if "p" in one]
    if len(found) > 1:
        every = [pd.concat([of[cell] for cell in common]) for of in (a, b)]
        found.append(
            {"cell": "all cells together"} | compare_failure_rates(every[0], every[1], level)
        )
    corrected = hommel([float(str(one["p"])) for one in found])
    found = [_judged(one, p, level) for one, p in zip(found, corrected, strict=True)]
    alone = [{"cell": cell} | compare_failure_rates(trials.iloc[:0], trials, level)
             for cell, trials in b.items() if cell not in common]  # fmt: skip
    lost = [one | {"p": None, "verdict": DifferenceVerdict.WORSE} for one in alone
            if "p" in one and one["failed_b"] == one["trials_b"]]  # fmt: skip
    return found + lost


def _judged(one: dict[str, object], p: float | None, level: float) -> dict[str, object]:
    is_sure = one["verdict"] is DifferenceVerdict.SAME or (p is not None and p <= level)
    return one | ({"p": p} if is_sure else {"p": p, "verdict": DifferenceVerdict.INCONCLUSIVE})


def fisher_exact(bad_a: int, n_a: int, bad_b: int, n_b: int) -> float:
    """Return the p-value of equal failure rates by Fisher's exact test, two-tailed.

    It is the chance, with as many failures of both together, of a division among the two that is
    at most as likely as the one that was found. Assumed is that trials fail independently.

    Source: Fisher, "Statistical Methods for Research Workers", 1934, section 21.02.
    """
    bad = bad_a + bad_b
    fewest, most = max(0, bad - n_b), min(bad, n_a)
    ways = [math.comb(n_a, fewest) * math.comb(n_b, bad - fewest)]
    for k in range(fewest, most):  # from one to the next, as each binomial of thousands takes long
        ways.append(ways[-1] * (n_a - k) * (bad - k) // ((k + 1) * (n_b - bad + k + 1)))
    found = ways[bad_a - fewest]
    return sum(one for one in ways if one <= found) / math.comb(n_a + n_b, bad)


SAME_MEANING = (
    "workload",
    "background",
    "connections",
    "distance",
    "achieved_placement",
    "achieved_tenancy",
)
"""What two cells of one key must have in common, of the columns of ``osmef.load``."""

_OF_PLACE = ("distance", *PLACE)  # unknown for trials that failed early

SHOWN = ("provider", "sender_flavors", "receiver_flavors", "window", "price_per_hour")
"""In what two cells may differ, as when two clouds are compared; differences are reported."""

_NO_SHARE = "A's median is 0, so any difference counts"

COLUMNS = (
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
    "p_beyond",
    "unit",
    "verdict",
    "reason",
)
"""The columns of ``compare``.

cell, metric; n_a, n_b, trials that have it, or sessions where either side has any, or runs where a
side has several of the cell; median_a, median_b; difference, of ``b`` over ``a``, with low and high
(``hodges_lehmann``) and margin, all in the metric's unit; p of ``mann_whitney``, and p_holm over
the whole table; p_beyond, of a difference beyond the margin, the way it goes (``lower_p``),
corrected over the whole table (``hommel``); unit, what n counts: trials, runs or sessions; verdict,
a ``DifferenceVerdict``; reason, why there is no interval, no margin, or no verdict in spite of it,
else None.
"""


def compare(  # noqa: PLR0913, PLR0917 - four have defaults
    a: pd.DataFrame,
    b: pd.DataFrame,
    metrics: Sequence[str | Measure] | None = None,
    margin: float = 0.05,
    confidence: float = 0.95,
    better: Better | None = None,
) -> pd.DataFrame:
    """Compare the trials ``b`` with the trials ``a``, one row a common cell and metric.

    Both are frames of ``osmef.load``. Cells of several scenarios, platforms (``platform_columns``)
    or achieved places on a side are compared each with its own. ``metrics`` are names of what the
    frames have measured, or measures; without, all that have a better way; ``better`` says which
    way that is, where they do not. ``margin`` >= 0 is how large a difference does not matter, as a
    share of the median of ``a``; it is at least what is ``negligible`` of the measure: 1 of a
    count, such as retransmits, and of a time in microseconds, 0.1 of a percentage. Where that is 0,
    and so is the median, it is 0, and ``reason`` says so.
    ``COLUMNS`` says what the columns are, ``_attributes`` what ``attrs`` holds.

    Assumed are independent trials, runs or sessions, and, for the interval, that a cell's
    distribution only shifts. For 95 % at least 4 against 4 are needed. Of tables without a
    difference beyond the margin at most 5 % have any worse one, and as many any better one; see
    docs/methods.md for how that holds where spreads differ. Verdicts of "same" are by cell: of 100
    cells that differ by just the margin up to 3 are called the same.

    Raises InputError, with all that was found, where cells of one key differ in what was measured
    (``SAME_MEANING``), a metric has another unit on the other side, no cell is common, or nothing
    says what a metric is.

    Source: ``verdict``, ``hodges_lehmann``, ``mann_whitney``, ``holm`` and
    ``compare_failure_rates``; Hoefler and Belli, SC 2015, rules 5 and 7.
    """
    if not margin >= 0:
        raise ValueError(f"a margin is not below 0, and {margin!r} is")
    a, b = fill_platforms(a), fill_platforms(b)
    columns = platform_columns(a, b, columns=(*PLATFORM, *PLACE))
    first, second = (_by_cell(side, columns) for side in (a, b))
    common = _comparable(first, second)
    wanted = _wanted(a, b, metrics)
    if better is not None:
        wanted = [measure.model_copy(update={"better": better}) for measure in wanted]
    sessions = has_sessions(a, b)
    allowed = [EquivalenceMargin(measure, margin) for measure in wanted]
    found = [
        one
        for cell in common
        for one in _differences(cell, (first[cell], second[cell]), allowed, by_session=sessions)
    ]
    series = _series(found)
    memories = {name: allowed_autocorrelation(of) for name, of in series.items()}
    table = pd.DataFrame(_rows(found, memories, confidence), columns=pd.Index(COLUMNS))
    table = table.astype(dict.fromkeys(COLUMNS[4:13], "float64"))
    table.attrs |= _attributes(found, (first, second), columns, 1 - confidence)
    table.attrs["memory"] = {name: memory for name, memory in memories.items() if memory}
    table.attrs["memory_proved"] = _proved(series)
    table.attrs["without_sessions"] = [
        name for name, side in (("A", a), ("B", b)) if sessions and not has_sessions(side)
    ]
    return table


def _attributes(
    found: Sequence[MetricDifference],
    sides: tuple[Mapping[str, pd.DataFrame], Mapping[str, pd.DataFrame]],
    columns: Sequence[str],
    level: float,
) -> dict[str, object]:
    """Return the ``attrs`` of ``compare``, of the cells of both sides by their names.

    method, "unpaired": two runs share no block; values, those of a and b of each row; intervals,
    the 95 % ones of these medians, None without; unit, what n
    counts in any row; only_a and only_b, the cells of just one side; lost, those of only_a that b
    has at no other place either; failures, of ``compare_failure_rates``, and, with p None, the
    cells of b alone of which all trials failed, as their common cell may be unknown; differs, what
    else two cells differ in (``SHOWN``). ``compare`` adds memory, by metric the lag-1
    autocorrelation that p_beyond allows for (``allowed_autocorrelation``), without those of 0;
    memory_proved, the significant ones of these (``proved_autocorrelation``); and without_sessions,
    which of "A" and "B" has none while the other has some, so that each of its runs counts as one.
    """
    first, second = sides
    common = [cell for cell in first if cell in second]
    only_a = [cell for cell in first if cell not in second]
    anywhere = [name for name in columns if name not in PLACE]
    there = {name for side in second.values() for name in cell_names(side, anywhere)}
    return {
        "values": [(one.a, one.b) for one in found],
        "intervals": [one.intervals for one in found],
        "method": "unpaired",
        "unit": " or ".join(dict.fromkeys(one.unit for one in found)),
        "only_a": only_a,
        "only_b": [cell for cell in second if cell not in first],
        "lost": [cell for cell in only_a if there.isdisjoint(cell_names(first[cell], anywhere))],
        "failures": compare_all_failure_rates(first, second, common, level),
        "differs": _differs(first, second, common),
    }


def _by_cell(side: pd.DataFrame, columns: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return the trials of each cell, by names that include platform and place."""
    groups = side.groupby(np.array(cell_names(side, columns), dtype="object"), sort=False)
    return {str(cell): trials for cell, trials in groups}


@dataclass(frozen=True)
class EquivalenceMargin:
    """The margin of equivalence of a metric: a share of A's median, at least an absolute value."""

    measure: Measure
    share: float

    def margin(self, median: float | None) -> float:
        """Return the margin in the metric's unit."""
        least = self.measure.negligible
        return max(self.share * abs(median or 0.0), least) if self.share else 0.0


TRIALS, PAIRS, RUNS, SESSIONS = "trials", "pairs", "runs", "sessions"


def _unit(sides: Sequence[pd.DataFrame], *, by_session: bool) -> str:
    """Return the unit of replication: trials of one run share its hosts and its hour."""
    if by_session:
        return SESSIONS
    several = any("run" in of and of["run"].nunique() > 1 for of in sides)
    if several:
        return RUNS
    return PAIRS if has_pairs(*sides) else TRIALS


def _values(trials: pd.DataFrame, metric: str, unit: str) -> list[float]:
    """Return the values of the independent replicates; a side without several pairs is on one."""
    as_one = unit == PAIRS and not has_pairs(trials)
    return independent(trials, metric, by_session=as_one or unit in {RUNS, SESSIONS})


@dataclass(frozen=True)
class MetricDifference:
    """Replicates of one metric of a cell on both sides."""

    cell: str
    allowed: EquivalenceMargin
    unit: str
    a: list[float]
    b: list[float]
    intervals: tuple[Interval, Interval]

    @property
    def median_a(self) -> float | None:
        """The median of A in the metric's unit, None without any."""
        return statistics.median(self.a) if self.a else None

    def margin_p_values(self, rho: float) -> tuple[float | None, float | None]:
        """Return the p-values of B being below A, and above A, by more than the margin.

        ``rho`` is that of ``lower_p``. A's own values are moved by the margin, not its median,
        since that is uncertain.
        """
        margin, median = self.allowed.margin(self.median_a), self.median_a
        share = self.allowed.share
        if median and margin == share * abs(median) and min(self.a) > 0:
            return (
                lower_p([(1 - share) * x for x in self.a], self.b, rho),
                lower_p(self.b, [(1 + share) * x for x in self.a], rho),
            )
        return (
            lower_p([x - margin for x in self.a], self.b, rho),
            lower_p(self.b, [x + margin for x in self.a], rho),
        )


def _differences(
    cell: str,
    pair: tuple[pd.DataFrame, pd.DataFrame],
    allowed: Sequence[EquivalenceMargin],
    *,
    by_session: bool,
) -> list[MetricDifference]:
    """Return the replicates of each metric of a cell on both sides."""
    unit, found = _unit(pair, by_session=by_session), []
    for one in allowed:
        a, b = (_values(of, one.measure.name, unit) for of in pair)
        if a or b:
            name = one.measure.name
            intervals = (_interval(pair[0], name, a, unit), _interval(pair[1], name, b, unit))
            found.append(MetricDifference(cell, one, unit, a, b, intervals))
    return found


def _interval(trials: pd.DataFrame, name: str, values: Sequence[float], unit: str) -> Interval:
    """Return the interval of the median of a side."""
    found = describe_trials(trials, name) if unit == TRIALS and values else describe(values)
    if found.ci95_low is None or found.ci95_high is None:
        return None
    return found.ci95_low, found.ci95_high


def _series(found: Sequence[MetricDifference]) -> dict[str, list[list[float]]]:
    """Return the series of each metric, of all cells and both sides."""
    series: dict[str, list[list[float]]] = {}
    for one in found:
        series.setdefault(one.allowed.measure.name, []).extend((one.a, one.b))
    return series


def _proved(series: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, float]:
    known = {name: proved_autocorrelation(of) for name, of in series.items()}
    return {name: proved for name, proved in known.items() if proved}


def _rows(
    found: Sequence[MetricDifference], memories: Mapping[str, float], confidence: float
) -> list[dict[str, object]]:
    """Return a row for each difference, with p-values corrected over all of them."""
    tests = [mann_whitney(one.b, one.a).p for one in found]
    beyond = [one.margin_p_values(memories[one.allowed.measure.name]) for one in found]
    below, above = (hommel([sides[way] for sides in beyond]) for way in (0, 1))
    return [
        _row(one, p, (p_holm, down, up), confidence)
        for one, p, p_holm, down, up in zip(found, tests, holm(tests), below, above, strict=True)
    ]


def _differs(
    a: Mapping[str, pd.DataFrame], b: Mapping[str, pd.DataFrame], common: Sequence[str]
) -> list[dict[str, str]]:
    pairs = ((cell, name, _meaning(a[cell], name), _meaning(b[cell], name))
             for cell in common for name in SHOWN)  # fmt: skip
    return [{"cell": cell, "column": name, "a": one, "b": other}
            for cell, name, one, other in pairs if one != other]  # fmt: skip


def _row(
    one: MetricDifference,
    p: float | None,
    corrected: tuple[float | None, float | None, float | None],
    confidence: float,
) -> dict[str, object]:
    """Return a row; ``corrected`` are p_holm, and the p of being below and above the margin."""
    a, b, allowed = one.a, one.b, one.allowed
    p_holm, below, above = corrected
    shift = hodges_lehmann(b, a, confidence)
    median = one.median_a
    margin = allowed.margin(median)
    p_beyond = below if (shift.value or 0.0) < 0 else above
    known = 1.0 if p_beyond is None else p_beyond
    found = verdict(shift.interval, margin, allowed.measure.better, known, 1 - confidence)
    alone = verdict(shift.interval, margin, allowed.measure.better)
    unscaled = median == 0 and allowed.share > margin and found is not DifferenceVerdict.SAME
    reason = _NO_SHARE if unscaled else None
    if shift.interval.reason is not None:  # which has B before A
        reason = f"n = {len(a)} and {len(b)} are too few for {100 * confidence:g} %"
    if bool(a) != bool(b):
        reason = f"only {'A' if a else 'B'} has it"
    elif found is not alone:
        reason = f"{alone} alone, but among all verdicts p = {known:.2g}"
    return {
        "cell": one.cell,
        "metric": allowed.measure.name,
        "unit": one.unit,
        "n_a": len(a),
        "n_b": len(b),
        "median_a": median,
        "median_b": statistics.median(b) if b else None,
        "difference": shift.value,
        "low": shift.interval.low,
        "high": shift.interval.high,
        "margin": None if median is None else margin,
        "p": p,
        "p_holm": p_holm,
        "p_beyond": p_beyond,
        "verdict": found,
        "reason": reason,
    }


def _comparable(a: Mapping[str, pd.DataFrame], b: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return the cells of both sides, in the order of ``a``. Raises InputError."""
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
    """Return the measures to compare. Raises InputError for a missing or ambiguous definition."""
    given = {one.name: one for one in metrics or () if isinstance(one, Measure)}
    if metrics is not None and len(given) == len(metrics):
        return list(given.values())
    known = merge_measures(
        (name, measures_of(side).values()) for name, side in (("A", a), ("B", b))
    )
    if metrics is None:
        return [one for one in known.values() if one.better is not Better.NEITHER]
    names = [one.name if isinstance(one, Measure) else one for one in metrics]
    unknown = [name for name in names if name not in known and name not in given]
    if unknown:
        raise InputError(
            f"the runs do not define {', '.join(unknown)}", cure="name metrics that the runs have"
        )
    return [given.get(name) or known[name] for name in names]
