"""The figures of a size sweep: throughput and message time against message size (NetPIPE)."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from osmef.analysis.sweep import shortest_times, total_rates
from osmef.report.curves import (
    Axis,
    Curve,
    CurveChart,
    cell_names,
    format_microseconds,
    render,
)
from osmef.report.style import PLACE_COLOURS, ordered_colours, save
from osmef.results.exchange import Purpose, SizePoint
from osmef.results.summary import Summary
from osmef.results.trial import Trial
from osmef.units import format_rate

_CAPTION = "Medians of the trials; both axes are logarithmic."


def draw_sweeps(summary: Summary, trials: Sequence[Trial], directory: Path) -> list[Path]:
    """Draw both figures into ``directory``, as PNG and SVG; return the paths of the files.

    - sweep-throughput: throughput of all connections together against the size of a message.
    - sweep-time: the shortest time of a message on any connection against its size.

    A line for each cell. Without a sweep nothing is drawn. Raises StorageError.
    """
    rates = _lines(summary, trials, total_rates)
    if not rates:
        return []
    x = Axis("size of a message", _binary, base=2.0)
    of_rate = Axis("throughput", format_rate)
    of_time = Axis("time of a message", format_microseconds, steps=(1.0, 2.0, 5.0))
    times = _lines(summary, trials, shortest_times)
    charts = {
        "sweep-throughput": ("Throughput against message size", of_rate, rates),
        "sweep-time": ("Time of a message against its size", of_time, times),
    }
    paths: list[Path] = []
    for name, (title, y, curves) in charts.items():
        chart = CurveChart(title, summary.run.id, _CAPTION, [("", curves)], x, y)
        paths += save(partial(render, chart), directory, name)
    return paths


def _binary(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:g} {unit}"
        size /= 1024
    return f"{size:g} GiB"


def _lines(
    summary: Summary,
    trials: Sequence[Trial],
    value: Callable[[Iterable[SizePoint]], Mapping[int, float]],
) -> list[Curve]:
    """Return a curve for each cell: the median over its trials at each size."""
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for trial in trials:
        measured = [point for point in trial.sizes if point.purpose is Purpose.MEASURED]
        for size, number in value(measured).items():
            found[trial.cell][size].append(number)
    names = cell_names(summary)
    cells = [cell.key for cell in summary.cells if cell.key in found]
    many = len(cells) > len(PLACE_COLOURS)
    colours = ordered_colours(len(cells)) if many else PLACE_COLOURS
    return [
        Curve(
            names[cell],
            colour,
            [(size, statistics.median(of)) for size, of in sorted(found[cell].items())],
        )
        for cell, colour in zip(cells, colours, strict=False)
    ]
