"""Figures of MPI programs: scaling over the number of endpoints."""

from __future__ import annotations

import math
from collections import defaultdict

import pandas as pd
from matplotlib.figure import Figure

from osmef.analysis.replication import has_sessions
from osmef.report.cells import ShownCell, cells_of, nothing, source_of
from osmef.report.chart import Chart, ChartLine, render
from osmef.report.look import PLAIN, Look
from osmef.report.series import Point, Variant, short_names, written
from osmef.report.style import stroke

_COUNTED = ("count", "endpoints")
"""The last words of swept keys that say how many endpoints there are."""
_NOTE = "Both axes are logarithmic: twice as fast on twice the endpoints is a straight line."

Series = tuple[str, str, Variant]


def scale_rate(trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the rate of NPB against the number of endpoints, of the trials of ``osmef.load``.

    Each benchmark, class and number of processes is a line. Raises InputError where NPB was not run
    on several numbers of endpoints.
    """
    return _draw(trials, look, "mops", ("Rate", "rate of all processes", "Mop/s"))


def scale_time(trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the time of NPB against the number of endpoints, as ``scale_rate`` does the rate."""
    return _draw(trials, look, "time_s", ("Time", "time", "s"))


def _draw(trials: pd.DataFrame, look: Look, metric: str, words: tuple[str, str, str]) -> Figure:
    title, label, unit = words
    points: dict[Series, list[Point]] = defaultdict(list)
    cells = cells_of(trials[trials["workload"] == "npb"], look)
    for cell in sorted(cells, key=_endpoints):
        found = cell.point(_endpoints(cell), metric)
        if math.isfinite(found.median):
            points[_series(cell)].append(found)
    counts = sorted({point.x for some in points.values() for point in some})
    if len(counts) < 2:
        cure = "give runs of `workload: npb` with a sweep of endpoints.node.count"
        raise nothing("program on several numbers of endpoints", cure)
    lines = [
        ChartLine(_name(key, points, look), stroke(number), {(): some})
        for number, (key, some) in enumerate(points.items())
    ]
    chart = Chart(
        title=f"{title} against the number of endpoints",
        source=source_of(trials),
        by_session=has_sessions(trials),
        variants=[()],
        lines=lines,
        x_label="endpoints",
        ticks={count: f"{count:.0f}" for count in counts},
        log_x=True,
        y_label=label,
        log_y=True,
        unit=unit,
        note=_NOTE,
    )
    return render(chart, look)


def _endpoints(cell: ShownCell) -> int:
    """Return the number of a cell's endpoints."""
    row = cell.trials.iloc[0]
    return len({name for ends in ("senders", "receivers") for name in str(row[ends]).split(",")})


def _series(cell: ShownCell) -> Series:
    """Return the label of a cell: by requested placement, as a single end has none."""
    told = tuple((key, value) for key, value in cell.variant if not _is_count(key))
    return cell.source, str(cell.trials.iloc[0]["placement"]), told


def _is_count(key: str) -> bool:
    return key.rpartition(".")[2] in _COUNTED


def _name(series: Series, every: dict[Series, list[Point]], look: Look) -> str:
    source, placement, told = series
    names = short_names(key for _, _, values in every for key, _ in values)
    parts = [f"{names[key]} {look.named(written(value))}" for key, value in told]
    if len({place for _, place, _ in every}) > 1 or not parts:
        parts.append(look.named(placement.replace("-", " ")))
    return look.named(", ".join([*filter(None, [source]), *parts]))
