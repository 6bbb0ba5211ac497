"""The figure of where the endpoints of a run stood, and how much went between them."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from osmef.report.cells import nothing
from osmef.report.look import PLAIN, Look
from osmef.report.style import EDGE, GREY, Words, page, stroke, styled
from osmef.units import format_rate

_MOST_LABELS = 16
_COLUMN, _ROW = 3.4, 1.0  # between hosts, and between endpoints of one
_BEND = 0.22
_AT = 0.3  # of an edge, where its rate stands: near the sender, where few edges cross
_AT_UPRIGHT = 0.55
_HOST = "#f2f2f2"

Place = tuple[float, float]


@dataclass(frozen=True)
class _Node:
    name: str
    host: str
    tenant: str


@styled
def topology(endpoints: pd.DataFrame, pairs: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the endpoints in the hosts on which they stood, with the rate of each pair on its edge.

    ``endpoints`` are those of ``osmef.report.data.endpoints_of``, ``pairs`` of ``pairs_of``: the
    rate of an edge is the highest median of the cells in which the pair was measured. Of more than
    16 edges only the width tells. Raises InputError where no pair has a rate, and for several runs.
    """
    medians = pairs.groupby(["sender", "receiver", "cell"], sort=False)["bps"].median()
    rates = {
        (str(ends[0]), str(ends[1])): float(bps)
        for ends, bps in medians.groupby(level=["sender", "receiver"], sort=False).max().items()
        if isinstance(ends, tuple) and math.isfinite(bps)
    }
    if not rates:
        raise nothing("rates between pairs", "give a run of `workload: btc` or `udp` that ended")
    used = {name for ends in rates for name in ends}
    nodes = [
        _Node(str(row.endpoint), _told(row.host, row.endpoint), _told(row.tenant, ""))
        for row in endpoints.itertuples()
        if row.endpoint in used
    ]
    columns = _columns(nodes)
    places = {
        node.name: (_COLUMN * column, -_ROW * row)
        for column, host in enumerate(columns)
        for row, node in enumerate(columns[host])
    }
    tenants = list(dict.fromkeys(node.tenant for node in nodes))
    caption = "Rate: the highest median of the cells in which the pair was measured."
    if len(rates) > _MOST_LABELS:
        caption += " The wider an arrow, the higher its rate; the highest: "
        caption += f"{format_rate(max(rates.values()))}."
    header = Words("Where the endpoints stood, and their rates", caption, str(pairs["run"].iloc[0]))
    high = _ROW * max(map(len, columns.values()))
    size = (max(5.0, 2.1 * len(columns) + 1.2), 0.75 * high + 1.2)
    figure, (axes,) = page(header, _legend(tenants, look), look, size=size)
    for column, host in enumerate(columns):
        _draw_host(axes, _COLUMN * column, len(columns[host]), look.named(host))
    top = max(rates.values())
    for ends, bps in rates.items():
        label = look.named(format_rate(bps)) if len(rates) <= _MOST_LABELS else ""
        width = 0.8 + 2.2 * bps / (top or 1)
        _draw_edge(axes, (places[ends[0]], places[ends[1]]), label, width)
    for node in nodes:
        _draw_node(axes, places[node.name], look.named(node.name), tenants.index(node.tenant))
    axes.set_xlim(-1.6, _COLUMN * (len(columns) - 1) + 1.6)
    axes.set_ylim(-high - 0.1, 1.0)
    axes.set_aspect("equal")
    axes.axis("off")
    return figure


def _told(value: object, otherwise: object) -> str:
    known = isinstance(value, str) and bool(value)
    return str(value) if known else f"host of {otherwise} unclear" if otherwise else "unclear"


def _columns(nodes: list[_Node]) -> dict[str, list[_Node]]:
    found: dict[str, list[_Node]] = defaultdict(list)
    for node in nodes:
        found[node.host].append(node)
    return dict(found)


def _legend(tenants: list[str], look: Look) -> dict[str, Artist]:
    if tenants == ["unclear"]:
        return {}
    return {
        look.named(f"tenant {tenant}"): Line2D(
            [], [], ls="none", marker=stroke(number).marker, color=stroke(number).colour,
            markersize=8,
        )
        for number, tenant in enumerate(tenants)
    }  # fmt: skip


def _draw_host(axes: Axes, x: float, count: int, name: str) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (x - 1.15, -_ROW * (count - 1) - 0.6), 2.3, _ROW * (count - 1) + 1.2,
            boxstyle="round,pad=0.05", facecolor=_HOST, edgecolor=EDGE, linewidth=0.8,
            zorder=0.5,
        )
    )  # fmt: skip
    axes.text(x, 0.72, name, ha="center", va="bottom", fontsize=8, weight="bold")


def _draw_node(axes: Axes, place: Place, name: str, tenant: int) -> None:
    x, y = place
    look = stroke(tenant)
    axes.plot([x], [y], ls="none", marker=look.marker, color=look.colour, markersize=13, zorder=3)
    box = {"boxstyle": "square,pad=0.1", "facecolor": _HOST, "edgecolor": "none"}
    axes.text(x, y - 0.26, name, ha="center", va="top", fontsize=7, zorder=4, bbox=box)


def _draw_edge(axes: Axes, ends: tuple[Place, Place], label: str, width: float) -> None:
    sender, receiver = ends
    (x, y), (to_x, to_y) = ends
    if sender == receiver:  # loopback
        axes.text(x, y + 0.26, f"to itself: {label}", ha="center", fontsize=7, zorder=5)
        return
    upright = x == to_x
    bend, along = (_BEND * 2, _AT_UPRIGHT) if upright else (_BEND, _AT)
    axes.add_patch(
        FancyArrowPatch(
            sender, receiver, connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>",
            mutation_scale=9, shrinkA=9, shrinkB=9, linewidth=width, color=GREY, zorder=2,
        )
    )  # fmt: skip
    # The curve is that of Bezier through the control point that arc3 uses.
    middle = ((x + to_x) / 2 + bend * (to_y - y), (y + to_y) / 2 - bend * (to_x - x))
    at = tuple(
        (1 - along) ** 2 * a + 2 * (1 - along) * along * c + along**2 * b
        for a, b, c in zip(sender, receiver, middle, strict=True)
    )
    if label:
        box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
        axes.text(at[0], at[1], label, ha="center", va="center", fontsize=7, bbox=box, zorder=5)
