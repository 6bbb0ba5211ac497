"""The figures of UDP at a rate: what is lost, and the jitter, against the rate that was offered."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from osmef.report.chart import Chart, Line
from osmef.report.series import Place, Point, Variant, place, point, variant
from osmef.report.style import MARKERS, PLACE_COLOURS
from osmef.results.summary import CellInfo, Summary
from osmef.units import format_rate


@dataclass(frozen=True)
class _Shown:
    cell: CellInfo
    variant: Variant
    line: tuple[Place, int]
    offered_bps: float


def udp_charts(summary: Summary) -> dict[str, Chart]:
    """Return the charts of the UDP cells by the names of their files; none without a rate.

    The offered rate is the payload rate that was asked for, summed over all flows of all pairs.
    Each place and number of connections is a line; other swept values get a panel each.
    """
    shown = [
        _Shown(cell, _panel(cell), (place(cell, summary), cell.connections or 1), offered)
        for cell in summary.cells
        if cell.workload == "udp" and (offered := _offered_bps(cell)) is not None
    ]
    charts = {
        "udp-loss": _chart(shown, summary.run.id, "loss_percent", ("Loss", "loss", "%")),
        "udp-jitter": _chart(shown, summary.run.id, "jitter_us", ("Jitter", "jitter", "µs")),
    }
    return {name: chart for name, chart in charts.items() if any(c.points for c in chart.lines)}


def _offered_bps(cell: CellInfo) -> float | None:
    metric = cell.metrics.get("offered_bps")
    return metric.median if metric else None


def _panel(cell: CellInfo) -> Variant:
    """Return what has no axis here: the rate has one."""
    return tuple((k, v) for k, v in variant(cell) if k not in ("rate", "workload.rate"))


def _chart(shown: list[_Shown], run: str, metric: str, words: tuple[str, str, str]) -> Chart:
    title, label, unit = words
    points: dict[tuple[Place, int], dict[Variant, list[Point]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one in sorted(shown, key=lambda one: one.offered_bps):
        found = point(one.offered_bps, one.cell.metrics.get(metric))
        if math.isfinite(found.median):
            points[one.line][one.variant].append(found)
    keys = sorted(points, key=lambda key: (key[0].order, key[1]))
    several = len({connections for _place, connections in keys}) > 1
    lines = [
        Line(
            ", ".join(where.lines) + (f", {connections} connections" if several else ""),
            PLACE_COLOURS[number % len(PLACE_COLOURS)],
            MARKERS[number % len(MARKERS)],
            points[where, connections],
        )
        for number, (where, connections) in enumerate(keys)
    ]
    return Chart(
        title=f"{title} of UDP against the offered rate",
        run=run,
        variants=list(dict.fromkeys(one.variant for one in shown)),
        lines=lines,
        legend_columns=2,
        x_label="offered rate of payload, all flows together (logarithmic)",
        ticks={one.offered_bps: format_rate(one.offered_bps) for one in shown},
        log_x=True,
        y_label=label,
        log_y=False,
        unit=unit,
    )
