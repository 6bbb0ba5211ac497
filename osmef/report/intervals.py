"""Figure of rates over time, from the intervals of the connections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from osmef.report.cells import ShownCell, cells_of, nothing, source_of
from osmef.report.look import PLAIN, Look
from osmef.report.style import GREY, Stroke, Words, label_y, limit, name_panel, page, stroke, styled
from osmef.results.observations import Purpose
from osmef.units import rate_unit

_MOST_CELLS = 12
_MOST_FLOWS = 50
_REST_S = 0.5
"""Longer times between two intervals of a connection are rests."""
_THIN: dict[str, Any] = {"linewidth": 0.7, "alpha": 0.45}  # a trial among several
_LEAST_PART = 0.01  # of an interval: a shorter part of it can not be seen
_ALIKE = 4.0  # how many times as high one panel's rates may be for all to have one axis
_FLOW = ["run", "cell", "trial", "source", "target", "flow"]
_SEEN = {
    ("receiver",): "as the receivers got them",
    ("sender",): "as the senders sent them (receivers did not report)",
    (
        "receiver",
        "sender",
    ): "as the receivers got them, or as sent where no receiver reported",
}

Rates = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
"""The edges of the intervals in seconds, and the rate in each, bits per second."""


@styled
def intervals(rows: pd.DataFrame, trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the receivers' rates over time, a panel each cell, a line each trial and direction.

    ``rows`` are those of ``osmef.load_intervals`` with the columns run, cell, trial, purpose,
    endpoint, peer, role, flow, start_s, length_s, warmup and bytes; ``trials`` those of
    ``osmef.load``, which name the cells and their ends. A line is the sum over the connections of a
    trial that went one way. Trials of a cell are exchangeable: they are thin lines of one colour,
    with their median at each time. A connection of which only the sender reported, as in an
    imported run, is drawn as it was sent. Where a cell has one line, its connections are thin
    lines. A cell of which only the background has intervals, such as latency beside bulk transfers,
    shows those. Raises InputError without an interval, and for more cells than can be told apart.
    """
    if "began_s" in rows:  # what runs once more after a rest stands where it ran
        rows = rows.assign(start_s=rows["start_s"] + rows["began_s"].fillna(0))
    beside = rows["purpose"] == Purpose.BACKGROUND.value
    groups = _by_cell(_one_end(rows[~beside]))
    of_background = _by_cell(_one_end(rows[beside])) if beside.any() else {}
    only = of_background.keys() - groups.keys()
    groups |= {key: of_background[key] for key in only}
    every = cells_of(trials, look, by_run=True)
    cells = [cell for cell in every if (cell.run, cell.key) in groups]
    if not cells:
        raise nothing("intervals", "give runs of `workload: btc` or `udp` that ended")
    limit(len(cells), "cells", _MOST_CELLS)
    found = {(one.run, one.key): list(_lines(groups[one.run, one.key], one)) for one in cells}
    tops = {key: max(float(line.rates.max()) for line in each) for key, each in found.items()}
    top = max(tops.values())
    divisor, name = rate_unit(top)
    alike = top <= _ALIKE * min(tops.values())
    ways = sorted({line.back for each in found.values() for line in each})
    strokes = {back: _plain(place) for place, back in enumerate(ways)}
    several = any(len(_trials_of(each)) > 1 for each in found.values())
    legend = _legend(strokes, several=several)
    roles = tuple(sorted({role for key in found for role in groups[key]["role"].unique()}))
    warm = any(group["warmup"].eq(True).any() for group in groups.values())
    caption = f"All connections of a trial together, {_SEEN[roles]}."
    caption += " Where what is measured has no rate it is that of the background." if only else ""
    caption += " Thin: single connections." if _has_single(found) else ""
    caption += " Dotted upright line: end of the warm-up." if warm else ""
    caption += "" if alike else " Every panel has its own axis of y."
    header = Words("Rate over time", caption, source_of(trials))
    figure, panels = page(header, legend, look, len(cells), same_y=alike)
    for axes, cell in zip(panels, cells, strict=True):
        name_panel(axes, cell.label if len(cells) > 1 else "", len(cells))
        _draw(axes, found[cell.run, cell.key], strokes, divisor)
        _draw_warmup(axes, groups[cell.run, cell.key])
        highest = top if alike else tops[cell.run, cell.key]
        axes.set_ylim(0, 1.06 * highest / divisor if highest > 0 else 1.0)
        axes.set_xlabel("time since the start in s")
        axes.tick_params(axis="x", labelbottom=True)
        look.apply(axes)
    label_y(
        figure, panels, look.y_label or f"{'rate' if 'sender' in roles else 'goodput'} in {name}"
    )
    return figure


Key = tuple[str, str]
"""A run and a cell of it."""


def _by_cell(rows: pd.DataFrame) -> dict[Key, pd.DataFrame]:
    groups = rows.groupby(["run", "cell"], observed=True, sort=False)
    return {(str(run), str(cell)): some for (run, cell), some in groups}


@dataclass(frozen=True)
class DirectionRates:
    """Rates of one direction in a trial: all connections together, and each of them.

    ``trial`` is its place in the cell; ``back`` says whether the data went to the sender.
    """

    trial: int
    back: bool
    edges: npt.NDArray[np.float64]
    rates: npt.NDArray[np.float64]
    each: list[Rates]


def _legend(strokes: Mapping[bool, Stroke], *, several: bool) -> dict[str, Artist]:
    """Return the legend: the directions, and where cells have ``several`` trials, what is thin."""
    what = "median of the trials" if several else "there"
    names = {False: what, True: f"{what}, back" if several else "back"}
    legend: dict[str, Artist] = {names[back]: look.line() for back, look in strokes.items()}
    if several:
        first = next(iter(strokes.values()))
        return {**legend, "single trials": Line2D([], [], color=first.colour, **_THIN)}
    return legend if len(strokes) > 1 else {}


def _trials_of(lines: list[DirectionRates]) -> set[int]:
    return {line.trial for line in lines}


def _median(lines: list[DirectionRates]) -> Rates:
    """Return the median over the trials at each time that half of them at least reach."""
    edges = np.unique(np.concatenate([line.edges for line in lines]))
    middles = (edges[:-1] + edges[1:]) / 2
    at = np.full((len(lines), len(middles)), np.nan)
    for row, line in zip(at, lines, strict=True):
        place = np.searchsorted(line.edges, middles) - 1
        inside = (place >= 0) & (place < len(line.rates))
        row[inside] = line.rates[place[inside]]
    enough = np.flatnonzero((~np.isnan(at)).sum(axis=0) * 2 >= len(lines))
    first, last = enough[0], enough[-1] + 1
    return edges[first : last + 1], np.nanmedian(at[:, first:last], axis=0)


def _one_end(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each connection's receiver, or of its sender without one.

    Adds the columns source and target, the ends between which the data went.
    """
    ends = rows[["endpoint", "peer"]].astype("object")
    sends = rows["role"] == "sender"
    rows = rows.assign(
        source=ends["endpoint"].where(sends, ends["peer"]),
        target=ends["peer"].where(sends, ends["endpoint"]),
    )
    flows = rows[[*_FLOW, "role"]].drop_duplicates()
    told = set(flows.loc[flows["role"] != "sender", _FLOW].itertuples(index=False, name=None))
    # A sender without a peer is of an old run, which has the receiver's rows, too.
    sent = flows[(flows["role"] == "sender") & flows["target"].notna()]
    alone = [flow for flow in sent[_FLOW].itertuples(index=False, name=None) if flow not in told]
    if not alone:
        return rows[~sends]
    kept = pd.MultiIndex.from_tuples(alone)
    return rows[~sends | (sends & pd.MultiIndex.from_frame(rows[_FLOW]).isin(kept))]


def _back_to_itself(trial: pd.DataFrame) -> pd.Series[bool]:
    """Return which rows of a loopback are of the reverse direction."""
    sent = trial["role"] == "sender"
    if sent.any():  # one end alone told, so what it got came back
        return ~sent
    again = trial.groupby("flow")["start_s"].diff().lt(0)  # the rows of one way come first
    return again.groupby(trial["flow"]).cumsum() > 0


def _lines(rows: pd.DataFrame, cell: ShownCell) -> Iterator[DirectionRates]:
    """Yield the trials of a cell in order, by direction."""
    senders = str(cell.trials["senders"].iloc[0]).split(",")
    for place, (_, trial) in enumerate(rows.groupby("trial")):
        back = ~(trial["source"].isin(senders) | trial["source"].isna())
        if trial["source"].eq(trial["target"]).all():
            back = _back_to_itself(trial)
        for is_back, way in trial.groupby(back if not back.all() else ~back):
            each = [_rates(flow) for _, flow in way.groupby(_FLOW[3:], dropna=False)]
            yield DirectionRates(place, bool(is_back), *together(each), each)


def _rates(rows: pd.DataFrame) -> Rates:
    """Return the rate of one connection, 0 in rests between transfers."""
    ordered = rows.sort_values("start_s")
    start, length = (ordered[name].to_numpy("float64") for name in ("start_s", "length_s"))
    known = length > 0
    start, length = start[known], length[known]
    ends = start + length
    rate = 8 * ordered["bytes"].to_numpy("float64")[known] / length
    rests = np.flatnonzero(start[1:] - ends[:-1] > _REST_S) + 1
    rate = np.insert(rate, rests, 0.0)
    ends = np.insert(ends, rests, start[rests])
    return np.append(start[:1], ends), rate


def together(flows: list[Rates]) -> Rates:
    """Return the sum of rates of connections with differing intervals.

    What each moved is taken as even within an interval of its own, so that no byte is lost; the
    edges are those of the connection with the most intervals, from the first start to the last end.
    The last interval is parted where the first of them ends in it: from there on fewer share the
    link, and the time before would look as if the rate had fallen.
    """
    known = [(edges, rate) for edges, rate in flows if len(rate)]
    edges = max((edges for edges, _ in known), key=len).copy()
    edges[0] = min(one[0] for one, _ in known)
    edges[-1] = max(one[-1] for one, _ in known)
    last, end = edges[-2:]
    ended = min((one[-1] for one, _ in known if one[-1] > last), default=end)
    least = _LEAST_PART * (end - last)
    if last + least < ended < end - least:
        edges = np.insert(edges, -1, ended)
    moved = np.zeros(len(edges))
    for own, rate in known:
        moved += np.interp(edges, own, np.append(0, np.cumsum(rate * np.diff(own))))
    return edges, np.diff(moved) / np.diff(edges)


def lines_of(rows: pd.DataFrame, cell: ShownCell) -> Iterator[DirectionRates]:
    """Yield the directions of a cell's trials, from rows with both ends."""
    yield from _lines(_one_end(rows), cell)


def _has_single(found: dict[tuple[str, str], list[DirectionRates]]) -> bool:
    return any(_drawn_alone(each) for each in found.values())


def _drawn_alone(lines: list[DirectionRates]) -> bool:
    return len(lines) == 1 and 1 < len(lines[0].each) <= _MOST_FLOWS


def _draw(
    axes: Axes, lines: list[DirectionRates], strokes: Mapping[bool, Stroke], divisor: float
) -> None:
    if _drawn_alone(lines):
        for edges, rate in lines[0].each:
            axes.stairs(rate / divisor, edges, baseline=None, color=GREY, linewidth=0.5)
    for back, look in strokes.items():
        of_it = [line for line in lines if line.back == back]
        if len(of_it) > 1:
            for line in of_it:
                axes.stairs(
                    line.rates / divisor, line.edges, baseline=None, color=look.colour, **_THIN
                )
        if of_it:
            edges, rates = _median(of_it)
            axes.stairs(
                rates / divisor, edges, baseline=None, color=look.colour, ls=look.dashes,
                linewidth=1.6,
            )  # fmt: skip


def _plain(number: int) -> Stroke:
    return replace(stroke(number), marker="")


def _draw_warmup(axes: Axes, rows: pd.DataFrame) -> None:
    warm = rows[rows["warmup"].eq(True)]
    if len(warm):
        end = float((warm["start_s"] + warm["length_s"]).max())
        axes.axvline(end, color=GREY, linestyle=":", linewidth=1)
