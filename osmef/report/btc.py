"""Figures of bulk transfers: BTC, fairness and CPU, by connections and distance."""

from __future__ import annotations

import math
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import pandas as pd
from matplotlib.figure import Figure

from osmef.analysis.replication import has_sessions
from osmef.report.cells import ShownCell, cells_of, nothing, source_of
from osmef.report.chart import MOST_UPRIGHT, Chart, ChartLine, render
from osmef.report.look import PLAIN, Look
from osmef.report.series import Point, ShownPlacement, Variant, short_names
from osmef.report.style import DASHES, MARKERS, Stroke, ordered_colours, stroke

AGGREGATE = "aggregate_btc_bps"
CONNECTION = "connection_btc_bps"
_CURE = "give runs of `workload: btc` with trials that went well"
_ENDS = ("sender", "receiver")
_MOST_SERIES = 14  # that a reader can tell apart in one panel

Series = tuple[str, ShownPlacement]
"""The run among several, and the place."""
K = TypeVar("K")
Points = dict[Variant, list[Point]]


def btc_connections(trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw aggregate BTC against the number of connections, a line each place.

    ``trials`` are those of ``osmef.load``, as in every function here. Swept values that have no
    axis, such as flavors, get a panel each. Points are medians of the trials of a cell, with the
    exact 95 % interval. Raises InputError where nothing could be shown.
    """
    return _against_connections(trials, look, AGGREGATE, "Aggregate BTC", "aggregate BTC")


def btc_distance(trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw BTC per connection against distance, a line each number of connections.

    The axis of BTC is logarithmic, as in figure 3 of Venzano and Michiardi, "A Measurement Study
    of Data-intensive Network Traffic Patterns in a Private Cloud". Raises InputError.
    """
    cells = _with_connections(trials, look)
    series = sorted({_series(cell) for cell in cells}, key=_order)
    points = _collected(
        cells, lambda cell: cell.connections or 0, lambda cell: series.index(_series(cell)),
        CONNECTION,
    )  # fmt: skip
    counts = sorted(points)
    colours = ordered_colours(len(counts))
    lines = [
        ChartLine(
            look.named(f"{count} connection{'s' if count > 1 else ''}"),
            Stroke(colours[number], MARKERS[number % 7], DASHES[number % 4]),
            points[count],
        )
        for number, count in enumerate(counts)
    ]
    chart = Chart(
        title="BTC per connection against distance",
        source=source_of(trials),
        by_session=has_sessions(trials),
        variants=_variants(cells),
        lines=lines,
        x_label="",
        ticks={float(x): _tick(one, len(series), look) for x, one in enumerate(series)},
        log_x=False,
        y_label="BTC per connection",
        log_y=True,
    )
    return _rendered(chart, look, "BTC per connection")


def fairness(trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw Jain's fairness index of the connections against their number, a line each place.

    J is 1 where all connections are equally fast, and 1/n where one of n has it all. Raises
    InputError.
    """
    title = "Fairness"
    return _against_connections(
        trials, look, "jain_fairness", title, "Jain's fairness index", unit="", top=1.0
    )


def cpu(trials: pd.DataFrame, look: Look = PLAIN, *, whole: bool = False) -> Figure:
    """Draw the CPU load of both ends against the number of connections, a panel each end.

    It is that of the threads that moved the data; ``whole`` is that of the whole endpoint, in
    percent of one CPU both. Raises InputError.
    """
    prefix = "endpoint_cpu" if whole else "cpu"
    cells = _with_connections(trials, look)
    variants = [(*variant, ("", end)) for end in _ENDS for variant in _variants(cells)]
    found: dict[Series, Points] = defaultdict(dict)
    for end in _ENDS:
        for one, points in _collected(cells, _series, _count, f"{prefix}_{end}_percent").items():
            found[one] |= {(*variant, ("", end)): line for variant, line in points.items()}
    what = "whole endpoints" if whole else "the threads that move the data"
    chart = Chart(
        title=f"CPU load of {what} against connections",
        source=source_of(trials),
        by_session=has_sessions(trials),
        variants=variants,
        lines=_by_place(found, look),
        x_label="parallel connections",
        ticks=_ticks(cells),
        log_x=True,
        y_label="CPU load",
        log_y=False,
        unit="% of one CPU",
    )
    return _rendered(chart, look, "CPU load")


def _against_connections(  # noqa: PLR0913, PLR0917 - what the figures differ in
    trials: pd.DataFrame,
    look: Look,
    metric: str,
    title: str,
    label: str,
    unit: str | None = None,
    top: float | None = None,
) -> Figure:
    cells = _with_connections(trials, look)
    lines = _by_place(_collected(cells, _series, _count, metric), look)
    chart = Chart(
        title=f"{title} against connections",
        source=source_of(trials),
        by_session=has_sessions(trials),
        variants=_variants(cells),
        lines=lines,
        x_label="parallel connections",
        ticks=_ticks(cells),
        log_x=True,
        y_label=label,
        log_y=unit is None and _spans_a_decade(lines),
        unit=unit,
        top=top,
    )
    return _rendered(chart, look, label)


def _by_place(points: Mapping[Series, Points], look: Look) -> list[ChartLine]:
    return [
        ChartLine(look.named(", ".join(_lines(one, look))), stroke(number), points[one])
        for number, one in enumerate(sorted(points, key=_order))
    ]


def _rendered(chart: Chart, look: Look, what: str) -> Figure:
    if not any(line.points for line in chart.lines):
        raise nothing(what, _CURE)
    return render(chart, look)


def _with_connections(trials: pd.DataFrame, look: Look) -> Sequence[ShownCell]:
    cells = [cell for cell in cells_of(trials, look) if cell.connections is not None]
    return _together(cells, look)


def _together(cells: Sequence[ShownCell], look: Look) -> Sequence[ShownCell]:
    """Name in the series, not by a panel, what only some of several runs distinguish.

    Panels of the ends of one run, for example, would keep it apart from the other runs.
    """
    known: dict[str, set[str]] = defaultdict(set)
    values: dict[str, set[object]] = defaultdict(set)
    for cell in cells:
        known[cell.run] |= {key for key, _ in cell.variant}
        for key, value in cell.variant:
            values[key].add(value)
    partial = [key for key in values if any(key not in keys for keys in known.values())]
    names = short_names(partial)

    def told(cell: ShownCell) -> ShownCell:
        parts = [
            f"{names[key]} {look.named(str(value))}"
            for key, value in cell.variant
            if key in names and len(values[key]) > 1
        ]
        kept = tuple(one for one in cell.variant if one[0] not in names)
        return replace(cell, source=", ".join(filter(None, [cell.source, *parts])), variant=kept)

    found = [told(cell) for cell in cells]
    return cells if len({_series(cell) for cell in found}) > _MOST_SERIES else found


def _collected(
    cells: Iterable[ShownCell],
    line: Callable[[ShownCell], K],
    x: Callable[[ShownCell], float],
    metric: str,
) -> dict[K, Points]:
    """Return the points of each line by panel, without empty panels."""
    found: dict[K, Points] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        found[line(cell)][cell.variant].append(cell.point(x(cell), metric))
    return {key: measured for key, points in found.items() if (measured := _measured(points))}


def _measured(points: Mapping[Variant, list[Point]]) -> Points:
    return {
        variant: sorted(line, key=lambda one: one.x)
        for variant, line in points.items()
        if any(math.isfinite(one.median) for one in line)
    }


def _series(cell: ShownCell) -> Series:
    return cell.source, cell.place


def _order(series: Series) -> tuple[object, ...]:
    source, where = series
    return (*where.order, source)


def _lines(series: Series, look: Look) -> list[str]:
    source, where = series
    return [*filter(None, [source]), *map(look.named, where.lines)]


def _tick(series: Series, count: int, look: Look) -> str:
    lines = _lines(series, look)
    if count <= MOST_UPRIGHT:
        return "\n".join(lines)
    return textwrap.fill(", ".join(lines), 32)


def _count(cell: ShownCell) -> float:
    return float(cell.connections or 0)


def _ticks(cells: Iterable[ShownCell]) -> dict[float, str]:
    return {_count(cell): str(cell.connections) for cell in sorted(cells, key=_count)}


def _variants(cells: Iterable[ShownCell]) -> list[Variant]:
    return list(dict.fromkeys(cell.variant for cell in cells))


def _spans_a_decade(lines: Sequence[ChartLine]) -> bool:
    medians = [
        one.median
        for line in lines
        for points in line.points.values()
        for one in points
        if one.median > 0
    ]
    return bool(medians) and max(medians) > 10 * min(medians)
