"""The figure of latency: how many exchanges took longer than a time, alone and under load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from osmef.report.curves import (
    Axis,
    Curve,
    CurveChart,
    cell_names,
    format_microseconds,
    render,
)
from osmef.report.style import PLACE_COLOURS, save
from osmef.results.exchange import Histogram, Phase, Purpose
from osmef.results.summary import Summary
from osmef.results.trial import Trial

_CAPTION = "All exchanges of all trials, from their histograms; both axes are logarithmic."


def draw_distributions(summary: Summary, trials: Sequence[Trial], directory: Path) -> list[Path]:
    """Draw ``latency`` into ``directory``, as PNG and SVG; return the paths of the files.

    A panel for each cell, a line for each phase: the share of exchanges that took longer (the
    complement of the empirical distribution function), logarithmic, so that the tail can be read.
    Without an exchange nothing is drawn. Raises StorageError.
    """
    names = cell_names(summary)
    charted = [
        (names[cell.key], curves)
        for cell in summary.cells
        if (curves := _curves([trial for trial in trials if trial.cell == cell.key]))
    ]
    if not charted:
        return []
    chart = CurveChart(
        title="Round-trip time, and how many took longer",
        run=summary.run.id,
        caption=_CAPTION,
        panels=charted,
        x=Axis("round-trip time", format_microseconds),
        y=Axis("share of exchanges that took longer", _percent),
    )
    return save(partial(render, chart), directory, "latency")


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def _curves(trials: Sequence[Trial]) -> list[Curve]:
    curves = []
    for phase, colour in zip(Phase, PLACE_COLOURS, strict=False):
        points = longer(
            one.rtt.histogram
            for trial in trials
            for one in trial.exchanges
            if one.phase is phase and one.purpose is Purpose.MEASURED
        )
        if points:
            curves.append(Curve(phase.value, colour, points, steps=True))
    return curves


def longer(histograms: Iterable[Histogram]) -> list[tuple[float, float]]:
    """Return times in microseconds, and the share of exchanges that took longer than each.

    It begins where the first bucket does and ends where the last one does, which nothing exceeds;
    in between the times are the ends of buckets.
    """
    counts: Counter[tuple[int, int]] = Counter()
    for one in histograms:
        for lower, upper, count in zip(one.lower_ns, one.upper_ns, one.count, strict=True):
            counts[lower, upper] += count
    left = total = sum(counts.values())
    if not total:
        return []
    ordered = sorted(counts)
    points = [(ordered[0][0] / 1000 or 0.001, 1.0)]
    for bucket in ordered[:-1]:
        left -= counts[bucket]
        points.append((bucket[1] / 1000, left / total))
    return [*points, (ordered[-1][1] / 1000, points[-1][1])]
