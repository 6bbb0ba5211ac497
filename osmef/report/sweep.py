"""The figures of a size sweep: throughput and message time against message size (NetPIPE)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from osmef.report.cells import cells_of, nothing, source_of
from osmef.report.curves import Axis, Curve, CurveChart, format_microseconds, render
from osmef.report.look import PLAIN, Look
from osmef.report.style import Words, stroke
from osmef.units import format_rate

_CAPTION = "Medians of the trials; both axes are logarithmic."


def sweep_throughput(sizes: pd.DataFrame, trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the throughput of all connections together against the size of a message.

    ``sizes`` are those of ``osmef.report.data.sizes_of``, ``trials`` those of ``osmef.load``, which
    name the cells: a line each. Raises InputError where nothing was swept.
    """
    y = Axis("throughput", format_rate)
    return _draw(sizes, trials, look, "throughput_bps", ("Throughput against message size", y))


def sweep_time(sizes: pd.DataFrame, trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the shortest time of a message on any connection against its size, likewise."""
    y = Axis("time of a message", format_microseconds, steps=(1.0, 2.0, 5.0))
    return _draw(sizes, trials, look, "time_us", ("Time of a message against its size", y))


def _draw(
    sizes: pd.DataFrame, trials: pd.DataFrame, look: Look, value: str, words: tuple[str, Axis]
) -> Figure:
    medians = sizes.groupby(["run", "cell", "size"])[value].median()
    found = {(str(run), str(cell)) for run, cell, _size in medians.index}
    swept = trials[trials["workload"] == "size-sweep"]
    every = cells_of(swept, look, by_run=True)
    cells = [cell for cell in every if (cell.run, cell.key) in found]
    if not cells:
        raise nothing("size sweep", "give runs of `workload: size-sweep`")
    curves = [
        Curve(cell.label, stroke(number), list(medians[cell.run, cell.key].items()))
        for number, cell in enumerate(cells)
    ]
    title, y = words
    x = Axis("size of a message", _binary, base=2.0)
    chart = CurveChart(Words(title, _CAPTION, source_of(swept)), [("", curves)], x, y)
    return render(chart, look)


def _binary(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:g} {unit}"
        size /= 1024
    return f"{size:g} GiB"
