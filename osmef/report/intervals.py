"""The figure of rates over time, from the intervals of the connections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from osmef.errors import NothingToDrawError
from osmef.report.cells import cells_of, nothing, source_of
from osmef.report.look import PLAIN, Look
from osmef.report.style import GREY, Stroke, Words, label_y, page, stroke, styled
from osmef.results.exchange import Purpose
from osmef.units import rate_unit

_MOST_CELLS = 12
_MOST_FLOWS = 50
_ALIKE = 4.0  # how many times as high one panel's rates may be for all to have one axis

Rates = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
"""The edges of the intervals in seconds, and the rate in each, bits per second."""


@styled
def intervals(rows: pd.DataFrame, trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw what the receivers got over time, a panel each cell and a line each trial.

    ``rows`` are those of ``osmef.load_intervals`` with the columns run, cell, trial, purpose,
    endpoint, peer, role, flow, start_s, length_s, warmup and bytes; ``trials`` those of
    ``osmef.load``, which name the cells. A line is the sum over the connections of a trial. Where
    a cell has one trial, its connections are thin lines. Raises InputError without an interval, and
    for more cells than can be told apart.
    """
    own = rows[(rows["role"] == "receiver") & (rows["purpose"] != Purpose.BACKGROUND.value)]
    groups = dict(list(own.groupby(["run", "cell"], observed=True, sort=False)))
    cells = [cell for cell in cells_of(trials, look) if (cell.run, cell.key) in groups]
    if not cells:
        raise nothing("intervals", "give runs of `workload: btc` or `udp` that ended")
    if len(cells) > _MOST_CELLS:
        raise NothingToDrawError(
            f"{len(cells)} cells are too many for one figure, which holds {_MOST_CELLS}",
            cure="choose some, such as with --where connections=1,10",
        )
    found = {(cell.run, cell.key): list(_trials(groups[cell.run, cell.key])) for cell in cells}
    tops = {key: max(float(rates.max()) for _, (_, rates), _ in each)
            for key, each in found.items()}  # fmt: skip
    top = max(tops.values())
    divisor, name = rate_unit(top)
    alike = top <= _ALIKE * min(tops.values())
    most = max(len(each) for each in found.values())
    legend = {f"trial {number + 1}": _plain(number).line() for number in range(most)}
    warm = any(group["warmup"].eq(True).any() for group in groups.values())
    caption = "All connections of a trial together, as the receivers got them."
    caption += " Thin: single connections." if _has_single(found) else ""
    caption += " Dotted upright line: end of the warm-up." if warm else ""
    caption += "" if alike else " Every panel has its own axis of y."
    header = Words("Rate over time", caption, source_of(trials))
    shown = legend if 1 < most <= 28 else {}
    figure, panels = page(header, shown, look, len(cells), same_y=alike)
    for axes, cell in zip(panels, cells, strict=True):
        axes.set_title(cell.label if len(cells) > 1 else "", loc="left")
        _draw(axes, found[cell.run, cell.key], divisor)
        _draw_warmup(axes, groups[cell.run, cell.key])
        highest = top if alike else tops[cell.run, cell.key]
        axes.set_ylim(0, 1.06 * highest / divisor if highest > 0 else 1.0)
        axes.set_xlabel("time since the start in s")
        axes.tick_params(axis="x", labelbottom=True)
        look.apply(axes)
    label_y(figure, panels, look.y_label or f"goodput in {name}")
    return figure


Trial = tuple[int, Rates, list[Rates]]
"""Its number, the rate of all its connections, and of each."""


def _trials(rows: pd.DataFrame) -> Iterator[Trial]:
    """Give the trials of a cell in order."""
    for number, group in rows.groupby("trial"):
        each = [_rates(of) for _, of in group.groupby(["endpoint", "peer", "flow"], observed=True,
                                                      dropna=False)]  # fmt: skip
        yield int(str(number)), together(each), each


def _rates(rows: pd.DataFrame) -> Rates:
    """Return the rate of one connection."""
    ordered = rows.sort_values("start_s")
    start, length = (ordered[name].to_numpy("float64") for name in ("start_s", "length_s"))
    known = length > 0
    ends = start[known] + length[known]
    rate = 8 * ordered["bytes"].to_numpy("float64")[known] / length[known]
    return np.append(start[known][:1], ends), rate


def together(flows: list[Rates]) -> Rates:
    """Return the sum of the rates of connections whose intervals need not coincide.

    What each moved is taken as even within an interval of its own, so that no byte is lost; the
    edges are those of the connection with the most intervals, from the first start to the last end.
    """
    known = [(edges, rate) for edges, rate in flows if len(rate)]
    edges = max((edges for edges, _ in known), key=len).copy()
    edges[0] = min(one[0] for one, _ in known)
    edges[-1] = max(one[-1] for one, _ in known)
    moved = np.zeros(len(edges))
    for own, rate in known:
        moved += np.interp(edges, own, np.append(0, np.cumsum(rate * np.diff(own))))
    return edges, np.diff(moved) / np.diff(edges)


def _has_single(found: dict[tuple[str, str], list[Trial]]) -> bool:
    return any(_drawn_alone(each) for each in found.values())


def _drawn_alone(each: list[Trial]) -> bool:
    return len(each) == 1 and 1 < len(each[0][2]) <= _MOST_FLOWS


def _draw(axes: Axes, each: list[Trial], divisor: float) -> None:
    if _drawn_alone(each):
        for edges, rate in each[0][2]:
            axes.stairs(rate / divisor, edges, baseline=None, color=GREY, linewidth=0.5)
    for place, (_, (edges, rate), _) in enumerate(each):
        look = _plain(place)
        axes.stairs(
            rate / divisor, edges, baseline=None, color=look.colour, ls=look.dashes, linewidth=1.3
        )


def _plain(number: int) -> Stroke:
    return replace(stroke(number), marker="")


def _draw_warmup(axes: Axes, rows: pd.DataFrame) -> None:
    warm = rows[rows["warmup"].eq(True)]
    if len(warm):
        end = float((warm["start_s"] + warm["length_s"]).max())
        axes.axvline(end, color=GREY, linestyle=":", linewidth=1)
