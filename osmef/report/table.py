"""Tables for the terminal: results of a run, what its layers cost, and verdicts of a comparison."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text

from osmef.report.fit import LONG, TextColumn, column, table
from osmef.report.summary import other_than_asked, short_cells, short_names, shown_values, written
from osmef.results.measure import Measure, shown_unit
from osmef.results.summary import CPU_PER_GB, CellInfo, LayerCost, MetricSummary, Summary
from osmef.results.trial import Bottleneck
from osmef.scenario.fields import Placement, Tenancy
from osmef.scenario.study import Scalar
from osmef.scenario.workload import FEWEST_KNOWN
from osmef.units import counted, rate_unit

_NOTHING = "-"
_SHORT: dict[object, str] = {
    Placement.SAME_HOST: "same",
    Placement.DIFFERENT_HOST: "other",
    Tenancy.SAME_TENANT: "same",
    Tenancy.DIFFERENT_TENANT: "other",
}
_LIMITS = {
    Bottleneck.SENDER_CPU: "send CPU",
    Bottleneck.RECEIVER_CPU: "recv CPU",
    Bottleneck.RECEIVE_WINDOW: "window",
    Bottleneck.SEND_BUFFER: "buffer",
    Bottleneck.NETWORK: "net",
    Bottleneck.SENDER_IDLE: "idle",
    Bottleneck.INCONCLUSIVE: "?",
}


_FEWEST = 6  # trials that have an exact interval of 95 %
_SPARE, _DISTANCE = 2000, 1000  # ranks: before all measures that are not spare
_HEADS = {"placement": "host", "tenancy": "tenant", "connections": "conn"}


def summary_table(summary: Summary, width: int | None = None) -> Group:
    """Return the cells of a run, one row each, fitted to the terminal.

    The columns are the measures that have a head. Numbers are medians over the trials, with the
    exact 95 % interval of the leading one of each cell where there is any. Without a ``width`` it
    is as wide as it needs.
    """
    same = _same(summary)
    reported = dict.fromkeys(key for cell in summary.cells for key in shown_values(cell))
    swept = [key for key in reported if key not in same]
    keys = [
        TextColumn(_HEADS.get(key, name), [_value(cell, key) for cell in summary.cells])
        for key, name in short_names(swept).items()
    ]
    title = f"{summary.run.scenario}  {summary.run.description}".strip()
    columns = [*keys, *_numbers(summary)]
    notes = (_caption(summary), *_common_lines(same))
    return table(columns, width, *notes, title=title, labels=len(keys))


def _same(summary: Summary) -> dict[str, Scalar]:
    """Return the values that all cells of an imported run have in common."""
    if summary.run.scenario_digest is not None or len(summary.cells) < 2:
        return {}
    first, *others = (cell.values for cell in summary.cells)
    return {
        key: value
        for key, value in first.items()
        if all(key in other and other[key] == value for other in others)
    }


def _common_lines(same: Mapping[str, Scalar]) -> list[str]:
    values = ", ".join(f"{key} {_short(value)}" for key, value in same.items())
    return [f"All cells: {values}."] if same else []


def _numbers(summary: Summary) -> list[TextColumn]:
    """Return the columns of numbers: header, and a text for each cell."""
    cells, measures = summary.cells, shown_measures(summary)
    leading = [_leading(cell, measures) for cell in cells]
    intervals = [_interval(*one) for one in zip(cells, leading, strict=True)]
    first = next((measure for measure in measures if measure in leading), None)
    found = [
        column("dist", list(map(_distance, cells)), rank=_DISTANCE, right=True),
        column("ok", list(map(_trials, cells)), right=True),
    ]
    for index, measure in enumerate(measures):
        shown = [_shown(cell, measure) for cell in cells]
        rank = _SPARE if measure.spare else 0 if measure in leading else 1 + index
        found.append(column(head_of(measure), shown, rank=rank, right=True))
        if measure is first and any(intervals):
            ends = [one or _NOTHING for one in intervals]
            found.append(column("95 %\ninterval", ends, right=True))
        if measure is first:
            found += _pairs(cells, leading)
    if any(cell.limited_by for cell in cells):
        found.append(column("limit", list(map(_limit, cells)), rank=1, right=True))
    return found


def _pairs(cells: Sequence[CellInfo], leading: Sequence[Measure | None]) -> list[TextColumn]:
    """Return how the leading number varies between pairs and within one; nothing without pairs."""
    known = [_metric(*one) for one in zip(cells, leading, strict=True)]
    if not any(one and one.between_percent is not None for one in known):
        return []
    parts = ("between", [one and one.between_percent for one in known]), (
        "within", [one and one.within_percent for one in known])  # fmt: skip
    return [
        column(f"{part}\npairs %", [_NOTHING if x is None else f"{x:.2g}" for x in of], right=True)
        for part, of in parts
    ]


def _metric(cell: CellInfo, measure: Measure | None) -> MetricSummary | None:
    return cell.metrics.get(measure.name) if measure else None


def shown_measures(summary: Summary) -> list[Measure]:
    """Return the measures of the run's table, in order.

    They are those with a head, and the leading one beside them; all of a cell that has none.
    """
    heads = {measure.name for measure in summary.measures if measure.head is not None}
    if heads:
        heads |= {measure.name for measure in summary.measures if measure.leading}
    bare = [cell for cell in summary.cells if heads.isdisjoint(cell.metrics)]
    shown = {name for cell in summary.cells for name in cell.metrics if name in heads}
    shown |= {name for cell in bare for name in cell.metrics}
    return [measure for measure in summary.measures if measure.name in shown]


def head_of(measure: Measure) -> str:
    """Return the header of a measure, on several lines."""
    return measure.head or measure.name.replace("_", "\n")


def _leading(cell: CellInfo, columns: Sequence[Measure]) -> Measure | None:
    """Return the leading ones of the cell's columns; without any, the first."""
    there = [measure for measure in columns if measure.name in cell.metrics]
    return next((one for one in there if one.leading), there[0] if there else None)


def _trials(cell: CellInfo) -> Text:
    return Text(f"{cell.n_ok}/{cell.n_ok + cell.n_failed}", style="red" if cell.n_failed else "")


def _distance(cell: CellInfo) -> Text:
    achieved = "?" if cell.distance is None else str(cell.distance)
    if cell.requested_distance in (None, cell.distance):
        return Text(achieved)
    return Text(f"{achieved} not {cell.requested_distance}", style="yellow")


def _limit(cell: CellInfo) -> str:
    """Return the bottleneck of more than half of the cell's connections, abbreviated."""
    if not cell.limited_by:
        return _NOTHING
    limit = max(cell.limited_by, key=lambda one: cell.limited_by[one])
    most = 2 * cell.limited_by[limit] > sum(cell.limited_by.values())
    return _LIMITS.get(limit, limit.value) if most else "mixed"


def _value(cell: CellInfo, key: str) -> Text:
    """Format a swept value; placement and tenancy abbreviated, as achieved."""
    other = other_than_asked(cell)
    if key not in other:
        return Text(_short(cell.values.get(key)))
    achieved, asked = other[key]
    shown = "?" if achieved is None else _short(achieved)
    if asked is Placement.ANY:
        return Text(f"any: {shown}")
    return Text(f"{shown} not {_short(asked)}", style="yellow")


def _short(value: Scalar) -> str:
    return _NOTHING if value is None else _SHORT.get(value, written(value))


def _shown(cell: CellInfo, measure: Measure) -> str:
    median = cell.median_of(measure.name)
    return _NOTHING if median is None else measure.written(median)


def _interval(cell: CellInfo, leading: Measure | None) -> str | None:
    """Return the interval of the leading metric in the unit of its displayed median."""
    metric = _metric(cell, leading)
    if leading is None or metric is None or metric.median is None:
        return None
    if metric.ci95_low is None or metric.ci95_high is None:
        return None
    ends = (metric.ci95_low, metric.ci95_high)
    if not leading.has_prefix:
        return "..".join(map(leading.written, ends))
    divisor, _unit = rate_unit(metric.median)
    return "..".join(f"{end:.0f}" if end >= 100 else f"{end:.3g}" for end in
                     (end / divisor for end in ends))  # fmt: skip


OF_THESE_ENDPOINTS = (
    "Intervals are of the endpoints that were measured: another pair may differ by more."
)


def is_of_one_pair(cell: CellInfo) -> bool:
    """Return whether a cell has enough trials for an interval, all of one pair."""
    alone = len(cell.senders) == len(cell.receivers) == 1
    known = cell.metrics.values()
    of_trials = all(one.pairs is None and one.sessions is None for one in known)
    return alone and cell.n_ok >= fewest_trials(cell) and of_trials


def fewest_trials(cell: CellInfo) -> int:
    """Return of how many trials the median of a cell has an interval of 95 %."""
    return _FEWEST if cell.repeat_until is None else FEWEST_KNOWN


def replicates(summary: Summary) -> str:
    """Return what the medians of a run's table are of: trials, medians of pairs, or sessions."""
    known = [one for cell in summary.cells for one in cell.metrics.values()]
    if any(one.pairs is not None for one in known):
        return "medians of pairs"
    return "sessions" if any(one.sessions is not None for one in known) else "trials"


def _caption(summary: Summary) -> str:
    columns = shown_measures(summary)
    leading = [_leading(cell, columns) for cell in summary.cells]
    known = [_metric(*one) for one in zip(summary.cells, leading, strict=True)]
    pairs = [one.pairs for one in known if one and one.pairs is not None]
    what = replicates(summary)
    reported = f"Medians of the {what}."
    if any(_interval(*one) for one in zip(summary.cells, leading, strict=True)):
        whose = " and ".join(measure.words for measure in columns if measure in leading)
        reported = f"Medians of the {what}, with the 95 % interval of that of {whose}."
    elif what == "sessions":
        reported = "Medians of the sessions; too few (n < 6) for an interval of 95 %."
    elif all(cell.n_ok < fewest_trials(cell) for cell in summary.cells):
        needed = " or ".join(map(str, sorted({*map(fewest_trials, summary.cells)})))
        reported = f"Medians of the trials; too few (n < {needed}) for an interval of 95 %."
    if "interval of that" in reported and any(map(is_of_one_pair, summary.cells)):
        reported += f"\n{OF_THESE_ENDPOINTS}"
    if pairs:
        few = f"; {min(pairs)} pairs are too few for an interval of 95 %, which needs {_FEWEST}"
        reported = reported.rstrip(".") + (few if min(pairs) < _FEWEST else "")
        reported += (
            ".\nWhat one more pair or trial would bring, at what cost: `osmef statistics RUN`."
        )
    sites = ", ".join(f"{name} ({kind})" for name, kind in summary.run.sites.items())
    return f"{reported}\nSites: {sites}." if sites else reported


_LayerRow = tuple[tuple[tuple[str, Scalar], ...], str]
"""The values of a row, and its layer."""

_LAYER = "layer"
_HOW = {
    "blocks": "in the same block of the random order",
    "pairs": "by the medians of each pair of endpoints",
    "trials": "over all trials, unpaired, for the run has less than two blocks",
}


def layer_table(summary: Summary, width: int | None = None) -> Group | None:
    """Return how many times as large numbers are with each layer as without, a row a layer.

    Each with its 95 % interval. None where the run has not compared layers.
    """
    found = summary.layers
    if not found:
        return None
    every = dict.fromkeys((tuple(one.values.items()), one.layer) for one in found)
    names = short_names(dict.fromkeys(key for one in found for key in one.values))
    costs = {((tuple(one.values.items()), one.layer), one.metric): one for one in found}
    heads = {one.name: one.words for one in [*summary.measures, CPU_PER_GB]}
    by, rows = _sorted(list(every), list(names))
    reported = [column(names.get(key, key), [_label(row, key) for row in rows]) for key in by]
    metrics = dict.fromkeys(one.metric for one in found)
    # The leading ones and the CPU's time stay where a terminal is narrow.
    leading = {one.name for one in summary.measures if one.leading} | {CPU_PER_GB.name}
    reported += [
        column(
            heads[metric].replace(" ", "\n"),
            [_ratio(costs.get((row, metric))) for row in rows],
            rank=1 if metric in leading else 2 + index,
            right=True,
        )
        for index, metric in enumerate(metrics)
    ]
    shown = table(
        reported, width, _layer_caption(found), title=f"Times that of {found[0].reference}"
    )
    return Group("", shown, "")


def _sorted(rows: list[_LayerRow], names: list[str]) -> tuple[list[str], list[_LayerRow]]:
    """Return the keys of rows, the widest first if it is long, and the rows in that order.

    Only the first can be printed above its rows, which leaves the others some room.
    """
    by = [_LAYER, *names]
    widest = max(by, key=lambda key: max(len(_label(row, key)) for row in rows))
    if max(len(_label(row, widest)) for row in rows) <= LONG:
        return by, rows
    index = {text: n for n, text in enumerate(dict.fromkeys(_label(row, widest) for row in rows))}
    by.sort(key=lambda key: key != widest)
    return by, sorted(rows, key=lambda row: index[_label(row, widest)])


def _label(row: _LayerRow, key: str) -> str:
    values, layer = row
    return layer if key == _LAYER else _layer_value(dict(values).get(key))


def _layer_value(value: Scalar) -> str:
    return _NOTHING if value is None else written(value)


def _ratio(cost: LayerCost | None) -> str:
    if cost is None or cost.ratio is None:
        return _NOTHING
    if cost.ci95_low is None or cost.ci95_high is None:
        return f"{cost.ratio:.3g}"
    return f"{cost.ratio:.3g} [{cost.ci95_low:.3g}..{cost.ci95_high:.3g}]"


def _layer_caption(found: Sequence[LayerCost]) -> str:
    how = "; ".join(dict.fromkeys(_HOW[one.compared] for one in found))
    few = " Too few for an interval." if all(one.ci95_low is None for one in found) else ""
    return f"Ratio to {found[0].reference} {how}, and its 95 % interval: below 1 is less.{few}"


_COLOURS = {"better": "green", "worse": "red", "same": "dim", "inconclusive": "yellow"}
_ORDER = ("worse", "better", "different", "inconclusive", "same")
AMONG_ALL = "significant on its own, but not after correction for all of these comparisons."
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
    marks = _marks(shown)
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
        column("verdict", [_verdict(row, marks) for row in shown]),
        column("p", [_p(row["p"]) for row in shown], rank=2, right=True),
        column("n", [f"{row['n_a']}, {row['n_b']}" for row in shown], rank=3, right=True),
    ]
    reported = [f"All cells: {shared}."] if shared else []
    reported += [f"{mark} {reason}" for reason, mark in marks.items()]
    more = (*reported, totals(rows, len(rows) - len(shown)), _CHANGE)
    return table(columns, width, *more, long=0)  # a cell has a line for each metric


def totals(rows: Iterable[Row], hidden: int) -> str:
    """Return the number of verdicts of each kind, and of hidden lines."""
    count = Counter(str(row["verdict"]) for row in rows)
    kinds = [kind for kind in (*_ORDER, *sorted(count)) if count[kind]]
    reported = ", ".join(f"{count[kind]} {kind}" for kind in dict.fromkeys(kinds))
    more = (
        f" Not shown are {hidden} of other metrics, none better or worse (--all)." if hidden else ""
    )
    return f"{counted(count.total(), 'comparison')}: {reported}.{more}"


def is_lost(row: Row) -> bool:
    """Return whether only A has the metric of a row, which is a regression."""
    return bool(row["n_a"]) and not row["n_b"]


def fails_alone(failure: Row) -> bool:
    """Return whether half of a cell's trials fail in B and none in A, which is a regression.

    No test of few trials shows it: 3 of 5 against 0 of 5 has p = 0.17. Where each trial fails with
    5 %, on both sides, it is so of any of 24 cells of 6 trials in 4 % of cases.
    """
    return 2 * failure["failed_b"] >= max(1, failure["trials_b"]) and not failure["failed_a"]


def failed_trials(failure: Row) -> Text:
    """Return how many trials of a cell failed on each side, and the verdict on that."""
    shares = [f"{failure[f'failed_{side}']} of {failure[f'trials_{side}']}" for side in "ab"]
    p = "only B has it" if failure["p"] is None else f"p = {failure['p']:.2g}"
    reported = Text(f"{failure['cell']}: failed {', '.join(shares)}: ")
    return reported + coloured(failure["verdict"]) + Text(f" ({p})")


def cells_of_one_side(found: Row) -> list[str]:
    """Return the cells that one side alone has, of the ``attrs`` of ``compare``."""
    reported = []
    for side in "ab":
        for cell in found[f"only_{side}"]:
            placed = side == "a" and cell not in found["lost"]
            more = ", which B has at another place" if placed else ""
            reported.append(f"only {side.upper()} has the cell {cell}{more}")
    return reported


def _verdict(row: Row, marks: Mapping[str, str]) -> Text:
    return coloured(row["verdict"]) + Text(marks.get(_reason(row), ""))


def _marks(rows: Iterable[Row]) -> dict[str, str]:
    """Return the reasons of verdicts with their marks: numbered where there are several."""
    reasons = [reason for reason in dict.fromkeys(map(_reason, rows)) if reason]
    if len(reasons) == 1:
        return {reasons[0]: "*"}
    return {reason: f"*{number}" for number, reason in enumerate(reasons, start=1)}


def _reason(row: Row) -> str:
    """Return why a verdict is as it is; empty where nothing is to be said."""
    if is_among_all(row["reason"]):
        return AMONG_ALL
    return row["reason"] if isinstance(row["reason"], str) else ""


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
        reported = " → ".join(measure.written(end) for end in ends)
        return f"{reported} {shown_unit(measure.unit)}".rstrip()
    divisor, unit = rate_unit(max(map(abs, ends)), str(measure.unit))
    return " → ".join(f"{end / divisor:.3g}" for end in ends) + f" {unit}"


def changed(row: Row, measure: Measure) -> tuple[str, str]:
    """Return the shift and its interval, in percent of A's median if possible; no shift always."""
    of = abs(row["median_a"])
    found = [row["difference"], row["low"], row["high"]]
    if math.isnan(found[0]) or math.isnan(of):
        return "-", "-"
    if of and not row["low"] < -of and abs(found[0]) <= _MOST_TIMES * of:
        shown, unit = [f"{round(100 * one / of, 1) + 0.0:+.1f}" for one in found], "%"  # no -0.0
    elif measure.has_prefix:  # no rate falls by 218 %
        largest = max(abs(one) for one in found if not math.isnan(one))
        divisor, unit = rate_unit(largest, str(measure.unit))
        shown = [f"{one / divisor:+.3g}" for one in found]
    else:
        shown, unit = [f"{one:+.4g}" for one in found], shown_unit(measure.unit)
    interval = "-" if math.isnan(found[1]) else f"{shown[1]} to {shown[2]} {unit}".rstrip()
    return f"{shown[0]} {unit}".rstrip() if found[0] else "+0.0 %", interval


def _p(p: float | None) -> str:
    return "-" if p is None or math.isnan(p) else f"{p:.2g}"
