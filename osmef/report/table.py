"""The table of a run for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from osmef.report.series import other_than_asked, short_names, shown_values, written
from osmef.results.limits import Limit
from osmef.results.measure import Measure
from osmef.results.summary import CellInfo, Summary
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
    Limit.SENDER_CPU: "CPU tx",
    Limit.RECEIVER_CPU: "CPU rx",
    Limit.RECEIVE_WINDOW: "window",
    Limit.SEND_BUFFER: "buffer",
    Limit.NETWORK: "net",
    Limit.SENDER_IDLE: "idle",
    Limit.INCONCLUSIVE: "?",
}


_HEADS = {"placement": "host", "tenancy": "tenant", "connections": "conn."}


def summary_table(summary: Summary) -> Table:
    """Return the cells of a run, one row each; fits 100 columns with the paper's sweep.

    The columns are the measures that have a head. Numbers are medians over the trials, with the
    exact 95 % interval of the leading one of each cell where there is any.
    """
    same = _same(summary)
    told = dict.fromkeys(key for cell in summary.cells for key in shown_values(cell))
    swept = [key for key in told if key not in same]
    table = Table(
        title=Text(f"{summary.run.scenario}  {summary.run.description}".strip(), style="bold"),
        title_justify="left",
        caption=Text("\n".join([_caption(summary), *_told(same)])),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,
    )
    for key, name in short_names(swept).items():
        table.add_column(Text(_HEADS.get(key, name)))
    numbers = _numbers(summary)
    for head, _texts in numbers:
        table.add_column(Text(head), justify="right", no_wrap=True)
    for place, cell in enumerate(summary.cells):
        values = [_value(cell, key) for key in swept]
        table.add_row(*values, *(texts[place] for _head, texts in numbers))
    return keep_whole(table)


def _same(summary: Summary) -> dict[str, Scalar]:
    """Return what an imported run tells of all of its cells alike; a sweep has no such values."""
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


def _numbers(summary: Summary) -> list[tuple[str, list[Text]]]:
    """Return the columns of numbers: the head of each, and a text for each cell."""
    cells, columns = summary.cells, shown_measures(summary)
    leading = [_leading(cell, columns) for cell in cells]
    intervals = [_interval(*one) for one in zip(cells, leading, strict=True)]
    first = next((measure for measure in columns if measure in leading), None)
    found = [("dist.", list(map(_distance, cells))), ("ok", list(map(_trials, cells)))]
    for measure in columns:
        found.append((head_of(measure), [Text(_shown(cell, measure)) for cell in cells]))
        if measure is first and any(intervals):
            found.append(("95 %\ninterval", [Text(one or _NOTHING) for one in intervals]))
    if any(cell.limited_by for cell in cells):
        found.append(("limit", [Text(_limit(cell)) for cell in cells]))
    return found


def keep_whole(table: Table) -> Table:
    """Let nothing of a table be cut off where the terminal is narrow, or is none; return it."""
    wide = Console(width=1000)
    table.width = Measurement.get(wide, wide.options, table).maximum
    return table


def shown_measures(summary: Summary) -> list[Measure]:
    """Return the measures that a table of the run shows, in their order.

    They are those with a head; all of a cell that has none of these.
    """
    heads = {measure.name for measure in summary.measures if measure.head is not None}
    bare = [cell for cell in summary.cells if heads.isdisjoint(cell.metrics)]
    shown = {name for cell in summary.cells for name in cell.metrics if name in heads}
    shown |= {name for cell in bare for name in cell.metrics}
    return [measure for measure in summary.measures if measure.name in shown]


def head_of(measure: Measure) -> str:
    """Return the head of a measure's column, on several lines."""
    return measure.head or measure.name.replace("_", "\n")


def _leading(cell: CellInfo, columns: Sequence[Measure]) -> Measure | None:
    """Return what leads of the columns that a cell has; where nothing does, the first of them."""
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
    """Return in short what limited more than half of the connections of the cell."""
    if not cell.limited_by:
        return _NOTHING
    limit = max(cell.limited_by, key=lambda one: cell.limited_by[one])
    most = 2 * cell.limited_by[limit] > sum(cell.limited_by.values())
    return _LIMITS.get(limit, limit.value) if most else "mixed"


def _value(cell: CellInfo, key: str) -> Text:
    """Return a swept value in words; placement and tenancy in short, and as they really were."""
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
    """Return the interval of the leading number in the unit that its median is shown in."""
    metric = cell.metrics.get(leading.name) if leading else None
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


def _caption(summary: Summary) -> str:
    columns = shown_measures(summary)
    leading = [_leading(cell, columns) for cell in summary.cells]
    told = "Medians of the trials; too few (n < 6) for an interval of 95 %."
    if any(_interval(*one) for one in zip(summary.cells, leading, strict=True)):
        told = f"Medians of the trials; the interval is that of {_whose(summary, columns)} median."
    sites = ", ".join(f"{name} ({kind})" for name, kind in summary.run.sites.items())
    return f"{told}\nSites: {sites}." if sites else told


def _whose(summary: Summary, columns: Sequence[Measure]) -> str:
    """Say whose median the interval is of: the first one's of a cell, or that of another."""
    there = [[one for one in columns if one.name in cell.metrics] for cell in summary.cells]
    leading = [_leading(cell, columns) for cell in summary.cells]
    if all(one is (of[0] if of else None) for one, of in zip(leading, there, strict=True)):
        return "the first number's"
    return " and ".join(f"the {measure.words}'s" for measure in columns if measure in leading)
