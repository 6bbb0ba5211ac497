"""Figures of UDP by offered rate: loss, and jitter."""

from __future__ import annotations

import math
from collections import defaultdict

import pandas as pd
from matplotlib.figure import Figure

from osmef.analysis.replication import has_sessions
from osmef.report.cells import ShownCell, cells_of, nothing, source_of
from osmef.report.chart import Chart, ChartLine, render
from osmef.report.look import PLAIN, Look
from osmef.report.series import Point, ShownPlacement, Variant
from osmef.report.style import stroke
from osmef.units import format_rate

_RATES = ("rate", "rate_bps", "workload.rate")

Series = tuple[str, ShownPlacement, int]


def udp_loss(trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the loss of UDP against the offered rate, of the trials of ``osmef.load``.

    The offered rate is the payload rate that was asked for, summed over all flows of all pairs.
    Each place and number of connections is a line; other swept values get a panel each. Raises
    InputError where no trial was of UDP at a rate.
    """
    return _draw(trials, look, "loss_percent", ("Loss", "loss", "%"))


def udp_jitter(trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the jitter of UDP against the offered rate, as ``udp_loss`` does the loss."""
    return _draw(trials, look, "jitter_us", ("Jitter", "jitter", "µs"))


def _draw(trials: pd.DataFrame, look: Look, metric: str, words: tuple[str, str, str]) -> Figure:
    title, label, unit = words
    cells = [
        (cell, offered.median)
        for cell in cells_of(trials[trials["workload"] == "udp"], look)
        if math.isfinite((offered := cell.point(0, "offered_bps")).median)
    ]
    points: dict[Series, dict[Variant, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for cell, offered_bps in sorted(cells, key=lambda one: one[1]):
        found = cell.point(offered_bps, metric)
        if math.isfinite(found.median):
            points[_series(cell)][_panel(cell)].append(found)
    if not points:
        raise nothing("UDP at a rate", "give runs of `workload: udp` with a rate")
    keys = sorted(points, key=lambda key: (key[1].order, key[0], key[2]))
    several = len({connections for _source, _place, connections in keys}) > 1
    lines = [
        ChartLine(_name(key, look, several=several), stroke(number), points[key])
        for number, key in enumerate(keys)
    ]
    chart = Chart(
        title=f"{title} of UDP against the offered rate",
        source=source_of(trials),
        by_session=has_sessions(trials),
        variants=list(dict.fromkeys(_panel(cell) for cell, _offered in cells)),
        lines=lines,
        x_label="offered rate of payload, all flows together (logarithmic)",
        ticks={offered: format_rate(offered) for _cell, offered in cells},
        log_x=True,
        y_label=label,
        log_y=False,
        unit=unit,
    )
    return render(chart, look)


def _series(cell: ShownCell) -> Series:
    return cell.source, cell.place, cell.connections or 1


def _name(series: Series, look: Look, *, several: bool) -> str:
    source, place, connections = series
    count = [f"{connections} connections"] if several else []
    return look.named(", ".join([*filter(None, [source]), *map(look.named, place.lines), *count]))


def _panel(cell: ShownCell) -> Variant:
    """Return the swept values that are not on an axis."""
    return tuple((key, value) for key, value in cell.variant if key not in _RATES)
