"""Terminal output of ``osmef compare``: a line for each cell and metric, and totals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text

from osmef.report.fit import column, table
from osmef.report.series import short_cells
from osmef.results.measure import Measure, shown_unit
from osmef.units import counted, rate_unit

_COLOURS = {"better": "green", "worse": "red", "same": "dim", "inconclusive": "yellow"}
_ORDER = ("worse", "better", "different", "inconclusive", "same")
AMONG_ALL = "better or worse if looked at alone, and not proved among all of these comparisons."
_MOST_TIMES = 100
_CHANGE = (
    "Change: the shift from A to B (Hodges and Lehmann), in percent of A's median, or as it is"
    " where that would be below -100 %, or says nothing, as A's median is nearly 0. Runs share no"
    " block, so they are compared unpaired."
)

Row = Mapping[Any, Any]


def coloured(verdict: object) -> Text:
    """Return a verdict in its colour."""
    return Text(str(verdict), style=_COLOURS.get(str(verdict), "cyan"))


def comparison(
    rows: Sequence[Row], known: Mapping[str, Measure], width: int | None, *, every: bool = False
) -> Group:
    """Return the table of ``osmef.analysis.compare.compare``, fitted to the terminal.

    Of a metric that no table of a run shows there is a line only where it differs, or with
    ``every``.
    """
    shown = [one for one in rows if every or matters(one, known[one["metric"]])]
    names, shared = short_cells(str(row["cell"]) for row in rows)
    columns = [
        column("cell", [names[row["cell"]] for row in shown]),
        column("metric", [known[row["metric"]].words for row in shown]),
        column("A → B", [medians(row, known[row["metric"]]) for row in shown], right=True),
        column("change", [changed(row, known[row["metric"]])[0] for row in shown], right=True),
        column(
            "95 % interval",
            [changed(row, known[row["metric"]])[1] for row in shown],
            rank=1,
            right=True,
        ),
        column("verdict", [_verdict(row) for row in shown]),
        column("p", [_p(row["p"]) for row in shown], rank=2, right=True),
        column("n", [f"{row['n_a']}, {row['n_b']}" for row in shown], rank=3, right=True),
    ]
    told = [f"All cells: {shared}."] if shared else []
    told += _reasons(shown)
    more = (*told, totals(rows, len(rows) - len(shown)), _CHANGE)
    return table(columns, width, *more, long=0)  # a cell has a line for each metric


def totals(rows: Iterable[Row], hidden: int) -> str:
    """Return the number of verdicts of each kind, and of hidden lines."""
    count = Counter(str(row["verdict"]) for row in rows)
    kinds = [kind for kind in (*_ORDER, *sorted(count)) if count[kind]]
    told = ", ".join(f"{count[kind]} {kind}" for kind in dict.fromkeys(kinds))
    more = (
        f" Not shown are {hidden} of other metrics, none better or worse (--all)." if hidden else ""
    )
    return f"{counted(count.total(), 'comparison')}: {told}.{more}"


def is_lost(row: Row) -> bool:
    """Return whether only A has the metric of a row, which is a regression."""
    return bool(row["n_a"]) and not row["n_b"]


def fails_alone(failure: Row) -> bool:
    """Return whether half of a cell's trials fail in B and none in A, which is a regression.

    No test of few trials tells it: 3 of 5 against 0 of 5 has p = 0.17. Where each trial fails with
    5 %, on both sides, it is so of any of 24 cells of 6 trials in 4 % of cases.
    """
    return 2 * failure["failed_b"] >= max(1, failure["trials_b"]) and not failure["failed_a"]


def failed_trials(failure: Row) -> Text:
    """Return how many trials of a cell failed on each side, and the verdict on that."""
    shares = [f"{failure[f'failed_{side}']} of {failure[f'trials_{side}']}" for side in "ab"]
    p = "only B has it" if failure["p"] is None else f"p = {failure['p']:.2g}"
    told = Text(f"{failure['cell']}: failed {', '.join(shares)}: ")
    return told + coloured(failure["verdict"]) + Text(f" ({p})")


def cells_of_one_side(found: Row) -> list[str]:
    """Return the cells that one side alone has, of the ``attrs`` of ``compare``."""
    told = []
    for side in "ab":
        for cell in found[f"only_{side}"]:
            placed = side == "a" and cell not in found["lost"]
            more = ", which B has at another place" if placed else ""
            told.append(f"only {side.upper()} has the cell {cell}{more}")
    return told


def _verdict(row: Row) -> Text:
    mark = "*" if isinstance(row["reason"], str) else ""
    return coloured(row["verdict"]) + Text(mark)


def _reasons(rows: Iterable[Row]) -> list[str]:
    """Return the reasons of marked verdicts, each once."""
    given = [row["reason"] for row in rows if isinstance(row["reason"], str)]
    return [
        f"* {reason}"
        for reason in dict.fromkeys(
            AMONG_ALL if is_among_all(reason) else reason for reason in given
        )
    ]


def is_among_all(reason: object) -> bool:
    """Return whether a verdict has to allow for those of all other rows."""
    return isinstance(reason, str) and " alone, but among all " in reason


def matters(row: Row, measure: Measure) -> bool:
    """Return whether a row is shown by default."""
    is_shown = measure.head is not None or measure.leading
    return is_shown or row["verdict"] not in {"same", "inconclusive"}


def medians(row: Row, measure: Measure) -> str:
    """Return both medians in the unit of the larger one."""
    ends = (row["median_a"], row["median_b"])
    if any(map(math.isnan, ends)):
        return " → ".join("-" if math.isnan(end) else measure.with_unit(end) for end in ends)
    if not measure.has_prefix:
        told = " → ".join(map(measure.written, ends))
        return f"{told} {shown_unit(measure.unit)}".rstrip()
    divisor, unit = rate_unit(max(map(abs, ends)), str(measure.unit))
    return " → ".join(f"{end / divisor:.3g}" for end in ends) + f" {unit}"


def changed(row: Row, measure: Measure) -> tuple[str, str]:
    """Return the shift and its interval, in percent of A's median if possible."""
    of = abs(row["median_a"])
    found = [row["difference"], row["low"], row["high"]]
    if math.isnan(found[0]) or math.isnan(of):
        return "-", "-"
    if of and not row["low"] < -of and abs(found[0]) <= _MOST_TIMES * of:
        shown, unit = [f"{100 * one / of:+.1f}" for one in found], "%"
    elif measure.has_prefix:  # no rate falls by 218 %
        largest = max(abs(one) for one in found if not math.isnan(one))
        divisor, unit = rate_unit(largest, str(measure.unit))
        shown = [f"{one / divisor:+.3g}" for one in found]
    else:
        shown, unit = [f"{one:+.4g}" for one in found], shown_unit(measure.unit)
    interval = "-" if math.isnan(found[1]) else f"{shown[1]} to {shown[2]} {unit}".rstrip()
    return f"{shown[0]} {unit}".rstrip(), interval


def _p(p: float | None) -> str:
    return "-" if p is None or math.isnan(p) else f"{p:.2g}"
