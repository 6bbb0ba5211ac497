"""The figures of a size sweep: throughput and message time against message size (NetPIPE)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from osmef.analysis.replicates import has_sessions
from osmef.report.cells import cells_of, nothing, source_of
from osmef.report.curves import Axis, Curve, CurveChart, format_microseconds, render
from osmef.report.data import SWEEPS
from osmef.report.look import PLAIN, Look
from osmef.report.style import Words, limit, stroke
from osmef.units import format_rate


def sweep_throughput(sizes: pd.DataFrame, trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the throughput of all connections together against the size of a message.

    ``sizes`` are those of ``osmef.report.data.sizes_of``, ``trials`` those of ``osmef.load``, which
    name the cells: a line each, the median of the trials, of a platform with sessions that of their
    medians. Raises InputError where nothing was swept, and for more cells than can be told apart.
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
    measured = {(str(run), str(cell)) for run, cell, _size in medians.index}
    swept = trials[trials["workload"].isin(SWEEPS)]
    found = {
        cell.label: pd.concat([medians[key] for key in keys]).groupby(level="size").median()
        for cell in cells_of(swept, look)
        if (keys := [key for key in cell.keys if key in measured])
    }
    if not found:
        raise nothing("size sweep", "give runs of `workload: size-sweep`, or of netpipe")
    limit(len(found), "series")
    curves = [
        Curve(label, stroke(number), list(points.items()))
        for number, (label, points) in enumerate(found.items())
    ]
    title, y = words
    x = Axis("size of a message", _binary, base=2.0)
    over = "sessions, each the median of its trials" if has_sessions(swept) else "trials"
    header = Words(title, f"Medians of the {over}; both axes are logarithmic.", source_of(swept))
    return render(CurveChart(header, [("", curves)], x, y), look)


def _binary(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:g} {unit}"
        size /= 1024
    return f"{size:g} GiB"
