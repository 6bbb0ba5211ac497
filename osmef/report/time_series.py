"""Figures over time: rates of connections, rate and round-trip time, and a token bucket.

Rate and round-trip time are drawn as those of flent's RRUL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from osmef.report.options import PLAIN, Look
from osmef.report.style import GREY, Stroke, Words, label_y, limit, name_panel, page, stroke, styled
from osmef.results.observations import BucketFound, Emptied, Filling, Purpose, Ranged
from osmef.units import rate_unit

_MOST_CELLS = 12
_MOST_FLOWS = 50
_REST_S = 0.5
"""Longer times between two intervals of a connection are rests."""
_THIN: dict[str, Any] = {"linewidth": 0.7, "alpha": 0.45}  # a trial among several
_LEAST_PART = 0.01  # of an interval: a shorter part of it can not be seen
_ONE_TICK = 0.1  # of an interval: edges of trials that are nearer are of one tick
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
    shows those. Raises InputError without an interval, and for more cells than can be
    distinguished.
    """
    if "began_s" in rows:  # what runs once more after a pause is drawn where it ran
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
    strokes = {back: _plain(index) for index, back in enumerate(ways)}
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
    for axes in panels:  # once all is drawn, since they share their ends
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
    """Return the legend: directions, and with ``several`` trials of a cell the thin lines."""
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
    edges = _merged(np.unique(np.concatenate([line.edges for line in lines])), lines)
    middles = (edges[:-1] + edges[1:]) / 2
    at = np.full((len(lines), len(middles)), np.nan)
    for row, line in zip(at, lines, strict=True):
        index = np.searchsorted(line.edges, middles) - 1
        inside = (index >= 0) & (index < len(line.rates))
        row[inside] = line.rates[index[inside]]
    enough = np.flatnonzero((~np.isnan(at)).sum(axis=0) * 2 >= len(lines))
    first, last = enough[0], enough[-1] + 1
    return edges[first : last + 1], np.nanmedian(at[:, first:last], axis=0)


def _merged(edges: npt.NDArray[np.float64], lines: list[DirectionRates]) -> npt.NDArray[np.float64]:
    """Merge edges that differ only by when the trials' clocks ticked."""
    length = float(np.median(np.concatenate([np.diff(line.edges) for line in lines])))
    breaks = np.flatnonzero(np.diff(edges) > _ONE_TICK * length) + 1
    return np.array([part.mean() for part in np.split(edges, breaks)])


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
    reported = set(flows.loc[flows["role"] != "sender", _FLOW].itertuples(index=False, name=None))
    # A sender without a peer is of an old run, which has the receiver's rows, too.
    sent = flows[(flows["role"] == "sender") & flows["target"].notna()]
    alone = [
        flow for flow in sent[_FLOW].itertuples(index=False, name=None) if flow not in reported
    ]
    if not alone:
        return rows[~sends]
    kept = pd.MultiIndex.from_tuples(alone)
    return rows[~sends | (sends & pd.MultiIndex.from_frame(rows[_FLOW]).isin(kept))]


def _back_to_itself(trial: pd.DataFrame) -> pd.Series[bool]:
    """Return which rows of a loopback are of the reverse direction."""
    sent = trial["role"] == "sender"
    if sent.any():  # one end alone reported, so what it received came back
        return ~sent
    again = trial.groupby("flow")["start_s"].diff().lt(0)  # the rows of one way come first
    return again.groupby(trial["flow"]).cumsum() > 0


def _lines(rows: pd.DataFrame, cell: ShownCell) -> Iterator[DirectionRates]:
    """Yield the trials of a cell in order, by direction."""
    senders = str(cell.trials["senders"].iloc[0]).split(",")
    for index, (_, trial) in enumerate(rows.groupby("trial")):
        back = ~(trial["source"].isin(senders) | trial["source"].isna())
        if trial["source"].eq(trial["target"]).all():
            back = _back_to_itself(trial)
        for is_back, way in trial.groupby(back if not back.all() else ~back):
            each = [_rates(flow) for _, flow in way.groupby(_FLOW[3:], dropna=False)]
            yield DirectionRates(index, bool(is_back), *sum_rates(each), each)


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


def sum_rates(flows: list[Rates]) -> Rates:
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


_MOST_COURSES = 3
_COURSE_CAPTION = (
    "Above what the receivers got, all connections that go one way together; below the median of"
    " the round trips in each interval, and thin the 99th percentile."
)
_LOST = " A cross is an interval in which requests were lost."
_WAYS = {False: "from senders to receivers", True: "back"}
_TIMES = "round trips"

Values = npt.NDArray[np.float64]


@styled
def course(
    rates: pd.DataFrame, times: pd.DataFrame, trials: pd.DataFrame, look: Look = PLAIN
) -> Figure:
    """Draw rates above and round trips below, of the trials of up to three cells.

    ``rates`` and ``times`` are rows of ``osmef.load_intervals``, the former with a rate and the
    latter of exchanges, both with the columns run, cell, trial, purpose, endpoint, peer, role,
    flow, start_s, length_s, warmup, bytes, began_s, protocol, lost, rtt_us and rtt_p99_us;
    ``trials`` those of ``osmef.load``. Time counts from the first start of a trial. Raises
    InputError where no trial has both, and for more cells.
    """
    every = cells_of(trials, look, by_run=True)
    found = [one for one in (_course(cell, rates, times) for cell in every) if one]
    if not found:
        raise nothing(
            "rate beside round trips", "give runs of `workload: latency` with a background"
        )
    limit(len(found), "cells", _MOST_COURSES)
    top = max(float(line.rates.max()) for one in found for line in one.lines)
    divisor, unit = rate_unit(top)
    ways = sorted({line.back for one in found for line in one.lines})
    strokes = {_WAYS[way]: stroke(index) for index, way in enumerate(ways)}
    names = _names_of([protocol for one in found for protocol, _ in one.times])
    for index, name in enumerate(names.values()):
        strokes[name] = stroke(len(ways) + index)
    plain = {name: one.line() for name, one in strokes.items()}
    for name, sample in plain.items():
        sample.set_marker("")
        if name in names.values():
            sample.set_linestyle("-")
    count = len(found)
    loses = any(rows["lost"].gt(0).any() for one in found for _, rows in one.times)
    header = Words("Rate and round-trip time", _COURSE_CAPTION + _LOST * loses, source_of(trials))
    size = (6.6 if count == 1 else 4.8 * count, 5.2)
    figure, panels = page(header, plain, look, 2 * count, size, same_y=False, columns=count)
    for one, above, below in zip(found, panels[:count], panels[count:], strict=True):
        name_panel(above, one.cell.label if count > 1 else "", count)
        for line in one.lines:
            way = strokes[_WAYS[line.back]]
            above.stairs(
                line.rates / divisor, line.edges, baseline=None, color=way.colour, ls=way.dashes
            )
        for protocol, rows in one.times:
            _draw_times(below, rows, strokes[names[protocol]].colour)
        above.set_ylim(0, 1.06 * top / divisor if top > 0 else 1.0)
        below.set_ylim(bottom=0)
        below.set_xlabel("time since the start in s")
    panels[0].set_ylabel(f"rate in {unit}")
    panels[count].set_ylabel("round-trip time in ms")
    for axes in panels:
        look.apply(axes)
    return figure


@dataclass(frozen=True)
class _Course:
    """Data of one cell."""

    cell: ShownCell
    lines: list[DirectionRates]
    times: list[tuple[str, pd.DataFrame]]
    """Of one flow each, with the protocol of its requests."""


def _course(cell: ShownCell, rates: pd.DataFrame, times: pd.DataFrame) -> _Course | None:
    """Return a cell's rates and round trips, None without both."""
    own, asked = (
        rows[(rows["run"] == cell.run) & (rows["cell"] == cell.key)] for rows in (rates, times)
    )
    if own.empty or asked.empty:
        return None
    own = own.assign(start_s=own["start_s"] + own["began_s"].fillna(0))
    asked = asked.assign(start_s=asked["start_s"] + asked["began_s"].fillna(0))
    asked = asked.assign(protocol=asked["protocol"].astype("object").fillna("tcp"))
    flows = ["trial", "endpoint", "peer", "flow", "began_s", "protocol"]
    each = [
        (str(key[-1]), rows)
        for key, rows in asked.groupby(flows, dropna=False, observed=True, sort=False)
    ]
    return _Course(cell, list(lines_of(own, cell)), each)


def _names_of(protocols: Iterable[str]) -> dict[str, str]:
    """Return the labels of the round trips of each protocol."""
    different = list(dict.fromkeys(protocols))
    one = len(different) == 1
    return {protocol: _TIMES if one else f"{_TIMES}, {protocol}" for protocol in different}


def _draw_times(axes: Axes, rows: pd.DataFrame, colour: str) -> None:
    ordered = rows.sort_values("start_s")
    start, length, median, slow = (
        ordered[name].to_numpy("float64")
        for name in ("start_s", "length_s", "rtt_us", "rtt_p99_us")
    )
    edges: Values = np.append(start, start[-1] + length[-1])
    axes.stairs(slow / 1000, edges, baseline=None, color=colour, linewidth=0.5)
    axes.stairs(median / 1000, edges, baseline=None, color=colour, linewidth=1.3)
    lost = ordered["lost"].gt(0).to_numpy("bool")
    if lost.any():
        at = (start + length / 2)[lost]
        axes.plot(at, np.zeros(len(at)), "x", color=colour, markersize=4, clip_on=False)


_MOST = 6
_MEGA = 1e6
_BUCKET_CAPTION = (
    "Above goodput of a trial; shaded what passed beyond the sustained rate (dashed) until the"
    " bucket was empty (dotted)."
)
_REFILLS = " Below what passed beyond it after rests, each with its interval, and the line of how"
_REFILLS += " fast the bucket fills, up to its size (dashed)."
_HEADROOM = 1.06


@dataclass(frozen=True)
class _Shown:
    """A bucket of one pair of one trial, and the rate at which it was emptied."""

    label: str
    line: DirectionRates
    found: Emptied
    fillings: list[Filling]
    filling_bps: Ranged | None


@styled
def bucket(
    rows: pd.DataFrame,
    found: Sequence[tuple[str, int, BucketFound]],
    trials: pd.DataFrame,
    look: Look = PLAIN,
) -> Figure:
    """Draw the rates of up to six trials that searched for a bucket, with the found ones.

    ``rows`` are those of ``osmef.load_intervals`` that have a rate, with the columns that
    ``osmef.report.time_series.intervals`` wants, and began_s; ``found`` the buckets, each with the
    run and the number of its trial; ``trials`` those of ``osmef.load``. Raises InputError where
    none was found, and for more.
    """
    shown = list(_shown(rows, found, cells_of(trials, look, by_run=True)))
    if not shown:
        raise nothing("bucket", "give runs of `workload: {kind: btc, until: knee}` that found one")
    limit(len(shown), "buckets", _MOST)
    count = len(shown)
    refills = any(one.fillings for one in shown)
    top = max(float(one.line.rates.max()) for one in shown)
    divisor, unit = rate_unit(top)
    caption = _BUCKET_CAPTION + (_REFILLS if refills else "")
    size = (6.6 if count == 1 else 4.4 * count, 5.6 if refills else 3.6)
    header = Words("Token bucket", caption, source_of(trials))
    number = count * (2 if refills else 1)
    figure, panels = page(header, {}, look, number, size, same_y=False, same_x=False, columns=count)
    for index, one in enumerate(shown):
        above = panels[index]
        name_panel(above, one.label if count > 1 else "", count)
        _draw_rate(above, one, divisor)
        above.set_ylim(0, _HEADROOM * top / divisor)
        above.set_xlabel("time since the start in s")
        if refills:
            _draw_refills(panels[count + index], one)
    panels[0].set_ylabel(f"goodput in {unit}")
    if refills:
        panels[count].set_ylabel("bucket in MB")
    for axes in panels:
        look.apply(axes)
    return figure


def _shown(
    rows: pd.DataFrame, found: Sequence[tuple[str, int, BucketFound]], cells: Sequence[ShownCell]
) -> list[_Shown]:
    own = rows.assign(start_s=rows["start_s"] + rows["began_s"].fillna(0))
    shown = []
    for run, trial, one in found:
        cell = next((cell for cell in cells if cell.run == run and _has(cell, trial)), None)
        ends = {one.sender, one.receiver}
        of = own[(own["run"] == run) & (own["trial"] == trial)]
        of = of[of["endpoint"].astype("object").isin(ends) & of["peer"].astype("object").isin(ends)]
        if cell is None or of.empty or one.emptied is None:
            continue
        lines = list(lines_of(of, cell))
        if lines:
            label = f"{cell.label}, trial {trial}" if len(cell.trials) > 1 else cell.label
            shown.append(_Shown(label, lines[0], one.emptied, one.fillings, one.filling_bps))
    return shown


def _has(cell: ShownCell, trial: int) -> bool:
    return bool((cell.trials["trial"] == trial).any())


def _draw_rate(axes: Axes, one: _Shown, divisor: float) -> None:
    found, line = one.found, one.line
    low = found.sustained_bps.value / divisor
    look = stroke(0)
    rates = line.rates / divisor
    axes.stairs(rates, line.edges, baseline=None, color=look.colour, linewidth=1.3)
    last = int(np.searchsorted(line.edges, found.fell_s.value)) or 1
    high = np.maximum(rates[:last], low)
    axes.stairs(high, line.edges[: last + 1], baseline=low, fill=True, color=look.colour, alpha=0.2)
    axes.axhline(low, color=GREY, linestyle="--", linewidth=1)
    axes.axvline(found.fell_s.value, color=GREY, linestyle=":", linewidth=1)


def _draw_refills(axes: Axes, one: _Shown) -> None:
    given = [(of.rest_s, of.bytes) for of in one.fillings if of.bytes is not None]
    size = one.found.size_bytes.value / _MEGA
    look = stroke(1)
    for rest_s, amount in given:
        middle, off = _bar(amount)
        axes.errorbar(rest_s, middle, yerr=off, fmt="o", color=look.colour, capsize=3)
    longest = max((rest_s for rest_s, _ in given), default=1.0)
    if one.filling_bps is not None:
        at = np.linspace(0, _HEADROOM * longest, 100)
        filled = np.minimum(at * one.filling_bps.value / 8 / _MEGA, size)
        axes.plot(at, filled, color=look.colour, linewidth=1)
    axes.axhline(size, color=GREY, linestyle="--", linewidth=1)
    axes.set_xlim(0, _HEADROOM * longest)
    axes.set_ylim(0, _HEADROOM * size)
    axes.set_xlabel("rest before in s")


def _bar(amount: Ranged) -> tuple[float, list[list[float]] | None]:
    """Return the middle and the ends of an error bar, in 10^6 bytes."""
    if amount.low is None or amount.high is None:
        return amount.value / _MEGA, None
    ends = [amount.value - amount.low, amount.high - amount.value]
    return amount.value / _MEGA, [[max(0.0, end) / _MEGA] for end in ends]
