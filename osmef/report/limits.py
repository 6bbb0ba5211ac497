"""The figure of what limited the connections of each cell: one bar a cell, in shares."""

from __future__ import annotations

import math

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch

from osmef.report.series import short_names, shown_values
from osmef.report.style import GREY, HEAD_LINE_INCHES
from osmef.results.limits import Limit
from osmef.results.summary import CellInfo, Summary

# Okabe and Ito's colours, light and dark by turns, and a hatch each for prints in grey. Both ends'
# CPU and both windows are of one hue; what can't be told has no colour.
_LOOKS = {
    Limit.SENDER_CPU: ("#D55E00", ""),
    Limit.RECEIVER_CPU: ("#E69F00", "//"),
    Limit.SEND_BUFFER: ("#0072B2", ""),
    Limit.RECEIVE_WINDOW: ("#56B4E9", "\\\\"),
    Limit.NETWORK: ("#009E73", "xx"),
    Limit.SHAPER: ("#CC79A7", ".."),
    Limit.SENDER_IDLE: ("#F0E442", "--"),
    Limit.INCONCLUSIVE: ("#FFFFFF", ""),
}
_BAR_INCHES = 0.26
_LEGEND_COLUMNS = 4
_LEGEND_ROW_INCHES = 0.21
_FOOT_INCHES = 0.5


def draw_limits(summary: Summary) -> Figure:
    """Return the figure. At least one cell must have verdicts; those without are left out."""
    cells = [cell for cell in summary.cells if cell.limited_by]
    found = [limit for limit in _LOOKS if any(limit in cell.limited_by for cell in cells)]
    rows = math.ceil(len(found) / _LEGEND_COLUMNS)
    head = HEAD_LINE_INCHES + rows * _LEGEND_ROW_INCHES + 0.1
    height = head + _BAR_INCHES * (len(cells) + 1) + _FOOT_INCHES
    room = (0, 0.25 / height, 1, 1 - (head + 0.25) / height)
    figure = Figure(figsize=(6.6, height), layout=ConstrainedLayoutEngine(rect=room))
    axes = figure.subplots()
    starts = [0.0] * len(cells)
    for limit in found:
        shares = [_share(cell, limit) for cell in cells]
        colour, hatch = _LOOKS[limit]
        axes.barh(
            range(len(cells)),
            shares,
            left=starts,
            height=0.72,
            color=colour,
            hatch=hatch,
            edgecolor="#333333",
            linewidth=0.5,
        )
        starts = [start + share for start, share in zip(starts, shares, strict=True)]
    axes.set_yticks(range(len(cells)), _labels(cells), fontsize=7.5)
    axes.set_ylim(len(cells) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    axes.set_xlabel("connections in %")
    axes.grid(visible=False, axis="y")
    _write(figure, summary, found, height)
    return figure


def _share(cell: CellInfo, limit: Limit) -> float:
    return 100 * cell.limited_by.get(limit, 0) / sum(cell.limited_by.values())


def _labels(cells: list[CellInfo]) -> list[str]:
    names = short_names(dict.fromkeys(key for cell in cells for key in shown_values(cell)))
    return [
        ", ".join(f"{names[key]} {value}" for key, value in shown_values(cell).items()) or cell.key
        for cell in cells
    ]


def _write(figure: Figure, summary: Summary, found: list[Limit], height: float) -> None:
    """Write title, legend and caption into the room that was left."""
    top = 1 - 0.08 / height
    figure.text(0.015, top, "What limited the connections", va="top", weight="bold", fontsize=10)
    patches = [
        Patch(facecolor=_LOOKS[one][0], hatch=_LOOKS[one][1], edgecolor="#333333", linewidth=0.5)
        for one in found
    ]
    figure.legend(
        patches,
        [limit.value for limit in found],
        loc="upper left",
        bbox_to_anchor=(0.005, 1 - HEAD_LINE_INCHES / height),
        ncols=_LEGEND_COLUMNS,
        borderaxespad=0.2,
        labelspacing=0.4,
        columnspacing=1.4,
    )
    caption = "Shares of the connections of all good trials of a cell."
    figure.text(0.015, 0.06 / height, caption, va="bottom", fontsize=7, color=GREY)
    figure.text(
        0.99, 0.06 / height, summary.run.id, va="bottom", ha="right", fontsize=7, color=GREY
    )
