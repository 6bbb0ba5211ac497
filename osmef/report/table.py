"""Result table of a run for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group
from rich.text import Text

from osmef.report.fit import TextColumn, column, table
from osmef.report.series import other_than_asked, short_names, shown_values, written
from osmef.results.measure import Measure
from osmef.results.summary import CellInfo, Metric, Summary
from osmef.results.trial import Limit
from osmef.scenario.fields import Placement, Tenancy
from osmef.scenario.study import Scalar
from osmef.units import rate_unit

_NOTHING = "-"
_SHORT: dict[object, str] = {
    Placement.SAME_HOST: "same",
    Placement.DIFFERENT_HOST: "other",
    Tenancy.SAME_TENANT: "same",
    Tenancy.DIFFERENT_TENANT: "other",
}
_LIMITS = {
    Limit.SENDER_CPU: "send CPU",
    Limit.RECEIVER_CPU: "recv CPU",
    Limit.RECEIVE_WINDOW: "window",
    Limit.SEND_BUFFER: "buffer",
    Limit.NETWORK: "net",
    Limit.SENDER_IDLE: "idle",
    Limit.INCONCLUSIVE: "?",
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
    told = dict.fromkeys(key for cell in summary.cells for key in shown_values(cell))
    swept = [key for key in told if key not in same]
    keys = [
        TextColumn(_HEADS.get(key, name), [_value(cell, key) for cell in summary.cells])
        for key, name in short_names(swept).items()
    ]
    title = f"{summary.run.scenario}  {summary.run.description}".strip()
    columns = [*keys, *_numbers(summary)]
    notes = (_caption(summary), *_told(same))
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


def _told(same: Mapping[str, Scalar]) -> list[str]:
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
    for place, measure in enumerate(measures):
        shown = [_shown(cell, measure) for cell in cells]
        rank = _SPARE if measure.spare else 0 if measure in leading else 1 + place
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


def _metric(cell: CellInfo, measure: Measure | None) -> Metric | None:
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


def _median(cell: CellInfo, name: str) -> float | None:
    metric = cell.metrics.get(name)
    return metric.median if metric else None


def _shown(cell: CellInfo, measure: Measure) -> str:
    median = _median(cell, measure.name)
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


OF_ONE_PAIR = "Intervals are of the one pair of endpoints: another pair may differ by more."


def is_of_one_pair(cell: CellInfo) -> bool:
    """Return whether a cell has enough trials for an interval, all of one pair."""
    alone = len(cell.senders) == len(cell.receivers) == 1
    known = cell.metrics.values()
    return alone and cell.n_ok >= _FEWEST and all(one.pairs is None for one in known)


def _caption(summary: Summary) -> str:
    columns = shown_measures(summary)
    leading = [_leading(cell, columns) for cell in summary.cells]
    known = [_metric(*one) for one in zip(summary.cells, leading, strict=True)]
    pairs = [one.pairs for one in known if one and one.pairs is not None]
    what = "medians of pairs" if pairs else "trials"
    told = f"Medians of the {what}."
    if any(_interval(*one) for one in zip(summary.cells, leading, strict=True)):
        whose = " and ".join(measure.words for measure in columns if measure in leading)
        told = f"Medians of the {what}, with the 95 % interval of that of {whose}."
    elif all(cell.n_ok < _FEWEST for cell in summary.cells):
        told = "Medians of the trials; too few (n < 6) for an interval of 95 %."
    if "interval of that" in told and any(map(is_of_one_pair, summary.cells)):
        told += f"\n{OF_ONE_PAIR}"
    if pairs:
        few = f"; {min(pairs)} pairs are too few for an interval of 95 %, which needs {_FEWEST}"
        told = told.rstrip(".") + (few if min(pairs) < _FEWEST else "")
        told += ".\nWhat one more pair or trial would bring, at what cost: `osmef statistics RUN`."
    sites = ", ".join(f"{name} ({kind})" for name, kind in summary.run.sites.items())
    return f"{told}\nSites: {sites}." if sites else told
