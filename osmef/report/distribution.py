"""The figure of latency: how many exchanges took longer than a time, alone and under load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pandas as pd
from matplotlib.figure import Figure

from osmef.report.cells import cells_of, nothing, source_of
from osmef.report.curves import Axis, Curve, CurveChart, format_microseconds, render
from osmef.report.look import PLAIN, Look
from osmef.report.style import Words, stroke
from osmef.results.exchange import Histogram, Phase

_CAPTION = "All exchanges of all trials, from their histograms; both axes are logarithmic."


def latency(exchanges: pd.DataFrame, trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the share of exchanges that took longer than a time, a panel each cell.

    It is the complement of the empirical distribution function, logarithmic, so that the tail can
    be read; a line each phase. ``exchanges`` are those of ``osmef.report.data.exchanges_of``,
    ``trials`` those of ``osmef.load``, which name the cells; those of all sessions of a platform
    are together. Raises InputError without an exchange, and for too many cells.
    """
    groups = dict(list(exchanges.groupby(["run", "cell", "phase"])["histogram"]))
    panels = []
    for cell in cells_of(trials, look):
        found = [
            [one for key in cell.keys for one in groups.get((*key, phase.value), ())]
            for phase in Phase
        ]
        curves = [
            Curve(look.named(phase.value), stroke(number), points, steps=True)
            for number, (phase, histograms) in enumerate(zip(Phase, found, strict=True))
            if (points := longer(histograms))
        ]
        panels += [(cell.label, curves)] if curves else []
    if not panels:
        raise nothing("exchange", "give runs of `workload: latency`")
    chart = CurveChart(
        words=Words("Round-trip time, and how many took longer", _CAPTION, source_of(trials)),
        panels=panels,
        x=Axis("round-trip time", format_microseconds),
        y=Axis("share of exchanges that took longer", _percent),
    )
    return render(chart, look)


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


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
