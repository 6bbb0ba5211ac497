"""Figure of rate and round-trip time over time, as of flent's RRUL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from osmef.report.cells import ShownCell, cells_of, nothing, source_of
from osmef.report.intervals import DirectionRates, lines_of
from osmef.report.look import PLAIN, Look
from osmef.report.style import Words, limit, name_panel, page, stroke, styled
from osmef.units import rate_unit

_MOST_CELLS = 3
_CAPTION = (
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
    limit(len(found), "cells", _MOST_CELLS)
    top = max(float(line.rates.max()) for one in found for line in one.lines)
    divisor, unit = rate_unit(top)
    ways = sorted({line.back for one in found for line in one.lines})
    strokes = {_WAYS[way]: stroke(place) for place, way in enumerate(ways)}
    names = _names_of([protocol for one in found for protocol, _ in one.times])
    for place, name in enumerate(names.values()):
        strokes[name] = stroke(len(ways) + place)
    plain = {name: one.line() for name, one in strokes.items()}
    for name, sample in plain.items():
        sample.set_marker("")
        if name in names.values():
            sample.set_linestyle("-")
    count = len(found)
    loses = any(rows["lost"].gt(0).any() for one in found for _, rows in one.times)
    header = Words("Rate and round-trip time", _CAPTION + _LOST * loses, source_of(trials))
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
