"""Figure of a token bucket: payload until it was empty, and refills after rests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from osmef.report.cells import ShownCell, cells_of, nothing, source_of
from osmef.report.intervals import DirectionRates, lines_of
from osmef.report.look import PLAIN, Look
from osmef.report.style import GREY, Words, limit, name_panel, page, stroke, styled
from osmef.results.observations import BucketFound, Emptied, Filling, Ranged
from osmef.units import rate_unit

_MOST = 6
_MEGA = 1e6
_CAPTION = (
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
    ``osmef.report.intervals.intervals`` wants, and began_s; ``found`` the buckets, each with the
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
    caption = _CAPTION + (_REFILLS if refills else "")
    size = (6.6 if count == 1 else 4.4 * count, 5.6 if refills else 3.6)
    header = Words("Token bucket", caption, source_of(trials))
    number = count * (2 if refills else 1)
    figure, panels = page(header, {}, look, number, size, same_y=False, same_x=False, columns=count)
    for place, one in enumerate(shown):
        above = panels[place]
        name_panel(above, one.label if count > 1 else "", count)
        _draw_rate(above, one, divisor)
        above.set_ylim(0, _HEADROOM * top / divisor)
        above.set_xlabel("time since the start in s")
        if refills:
            _draw_refills(panels[count + place], one)
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
