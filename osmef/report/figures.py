"""The figures of a run: BTC, what limited it, UDP, ping-pong."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from osmef.report.chart import Chart, Line, render
from osmef.report.limits import draw_limits
from osmef.report.pingpong import pingpong_figures
from osmef.report.series import Place, Point, Variant, by_variant, place, point
from osmef.report.style import MARKERS, PLACE_COLOURS, ordered_colours, save
from osmef.report.udp import udp_charts
from osmef.results.summary import CellInfo, Summary

AGGREGATE = "aggregate_btc_bps"
CONNECTION = "connection_btc_bps"


@dataclass(frozen=True)
class _Shown:
    """A cell that a figure can show: its place and its number of connections."""

    cell: CellInfo
    variant: Variant
    place: Place
    connections: int


def draw_figures(summary: Summary, directory: Path) -> list[Path]:
    """Draw the figures into ``directory``, as PNG and SVG, and return the paths of the files.

    They are those of ``run_figures``. Raises StorageError.
    """
    figures = run_figures(summary, directory)
    return [path for name, draw in figures.items() for path in save(draw, directory, name)]


def run_figures(summary: Summary, directory: Path) -> dict[str, Callable[[], Figure]]:
    """Return what draws the figures of a run, by their names.

    - btc-connections: aggregate BTC against the number of connections, a line each place.
    - btc-distance: BTC per connection against distance, a line each number of connections, on a
      logarithmic axis of BTC as in figure 3 of Venzano and Michiardi, "A Measurement Study of
      Data-intensive Network Traffic Patterns in a Private Cloud".
    - udp-loss, udp-jitter: against the rate that was offered (``osmef.report.udp``).
    - pingpong-transfer, pingpong-latency, pingpong-requests: against the message size, of every
      request that the directory holds, and each again relative to the first cell
      (``osmef.report.pingpong``).
    - limits: what limited the connections of each cell, as shares.

    Swept values that have no axis, such as flavors, get a panel each. A figure that would show no
    point is not among them.
    """
    shown = [
        _Shown(cell, variant, place(cell, summary), cell.connections)
        for variant, cells in by_variant(summary).items()
        for cell in cells
        if cell.connections is not None
    ]
    charts = {
        "btc-connections": _against_connections(shown, summary),
        "btc-distance": _against_distance(shown, summary),
        **udp_charts(summary),
    }
    figures: dict[str, Callable[[], Figure]] = {
        name: partial(render, chart)
        for name, chart in charts.items()
        if any(line.points for line in chart.lines)
    }
    figures |= pingpong_figures(summary, directory)
    if any(cell.limited_by for cell in summary.cells):
        figures["limits"] = partial(draw_limits, summary)
    return figures


def _against_connections(shown: list[_Shown], summary: Summary) -> Chart:
    points: dict[Place, dict[Variant, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for one in shown:
        metric = one.cell.metrics.get(AGGREGATE)
        points[one.place][one.variant].append(point(one.connections, metric))
    places = sorted(points, key=lambda one: one.order)
    lines = [
        Line(
            ", ".join(one.lines),
            PLACE_COLOURS[number % len(PLACE_COLOURS)],
            MARKERS[number % len(MARKERS)],
            _measured(points[one]),
        )
        for number, one in enumerate(places)
    ]
    return Chart(
        title="Aggregate BTC against connections",
        run=summary.run.id,
        variants=list(by_variant(summary)),
        lines=lines,
        legend_columns=2,
        x_label="parallel connections",
        ticks={float(n): str(n) for n in sorted({one.connections for one in shown})},
        log_x=True,
        y_label="aggregate BTC",
        log_y=_spans_a_decade(lines),
    )


def _against_distance(shown: list[_Shown], summary: Summary) -> Chart:
    places = sorted({one.place for one in shown}, key=lambda one: one.order)
    points: dict[int, dict[Variant, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for one in shown:
        metric = one.cell.metrics.get(CONNECTION)
        points[one.connections][one.variant].append(point(places.index(one.place), metric))
    counts = sorted(points)
    lines = [
        Line(
            f"{count} connection{'s' if count > 1 else ''}",
            colour,
            MARKERS[number % len(MARKERS)],
            _measured(points[count]),
        )
        for number, (count, colour) in enumerate(
            zip(counts, ordered_colours(len(counts)), strict=True)
        )
    ]
    return Chart(
        title="BTC per connection against distance",
        run=summary.run.id,
        variants=list(by_variant(summary)),
        lines=lines,
        legend_columns=4,
        x_label="",
        ticks={float(x): "\n".join(one.lines) for x, one in enumerate(places)},
        log_x=False,
        y_label="BTC per connection",
        log_y=True,
    )


def _measured(points: dict[Variant, list[Point]]) -> dict[Variant, list[Point]]:
    """Return the points in the order of the axis, without panels in which nothing was measured."""
    return {
        variant: sorted(line, key=lambda one: one.x)
        for variant, line in points.items()
        if any(math.isfinite(one.median) for one in line)
    }


def _spans_a_decade(lines: list[Line]) -> bool:
    medians = [
        one.median
        for line in lines
        for points in line.points.values()
        for one in points
        if one.median > 0
    ]
    return bool(medians) and max(medians) > 10 * min(medians)
