"""Figure of the connections' bottlenecks: one stacked bar a cell."""

from __future__ import annotations

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from osmef.report.cells import cells_of, nothing, source_of
from osmef.report.look import PLAIN, Look
from osmef.report.series import LIMITS
from osmef.report.style import EDGE, LINE_INCHES, MOST_BARS, Words, broken, limit, page, styled
from osmef.results.trial import Limit

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


@styled
def limits(counts: pd.DataFrame, trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the shares of each cell's connections by bottleneck, a bar a cell.

    ``counts`` are those of ``osmef.report.data.limits_of``: one row a cell, with the columns run
    and cell, and one for each ``Limit``. ``trials`` are those of ``osmef.load``, which name the
    cells; those without verdicts are left out, and sessions of a platform are together. Raises
    InputError where there are none at all, and for too many.
    """
    known = counts.set_index(["run", "cell"])
    known = known[known.sum(axis=1) > 0]
    bars = [
        (cell.label, known.loc[keys].sum())
        for cell in cells_of(trials, look)
        if (keys := [key for key in cell.keys if key in known.index])
    ]
    if not bars:
        raise nothing("verdict of what limited them", "give runs of `workload: btc` that ended")
    limit(len(bars), "cells", MOST_BARS)
    table = pd.DataFrame([counted for _, counted in bars])
    percent = 100 * table.div(table.sum(axis=1), axis=0)
    found = [one for one in _LOOKS if (percent.get(one.value, pd.Series([0.0])) > 0).any()]
    words = Words(
        "What limited the connections",
        "Shares of the connections of all good trials of a cell.",
        source_of(trials),
    )
    legend: dict[str, Artist] = {
        look.named(LIMITS[one]): Patch(
            facecolor=_LOOKS[one][0], hatch=_LOOKS[one][1], edgecolor=EDGE, linewidth=0.5
        )
        for one in found
    }
    names, lines = broken([label for label, _ in bars], look)
    bar = max(_BAR_INCHES, LINE_INCHES * lines + 0.04)
    size = (6.6, bar * len(bars) + _BAR_INCHES + 0.5)
    figure, (axes,) = page(words, legend, look, size=size, whole=True)
    starts = [0.0] * len(bars)
    for one in found:
        widths = percent[one.value].tolist()
        colour, hatch = _LOOKS[one]
        axes.barh(
            range(len(bars)),
            widths,
            left=starts,
            height=0.72,
            color=colour,
            hatch=hatch,
            edgecolor=EDGE,
            linewidth=0.5,
            label=LIMITS[one],
        )
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    axes.set_yticks(range(len(bars)), names, fontsize=7.5)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    axes.set_xlabel(look.x_label or "connections in %")
    axes.grid(visible=False, axis="y")
    return figure
