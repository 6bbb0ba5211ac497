"""Figure of layers: ratio of each to the reference without layer."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from osmef.analysis.layers import LAYER, REFERENCE, comparable, layer_costs
from osmef.report.cells import chosen, nothing, source_of
from osmef.report.options import PLAIN, Look
from osmef.report.style import LINE_INCHES, Words, broken, limit, page, stroke, styled
from osmef.results.measure import Measure
from osmef.results.summary import CPU_PER_GB

_ROW_INCHES = 0.3
_TIMES = {"us", "ms", "s"}
_TOLD = {
    "blocks": "the trials of each block are compared",
    "pairs": "the medians of each pair of endpoints are compared",
    "runs": "each run counts as one",
    "trials": "unpaired, for the run has less than two blocks",
}


@styled
def layers(trials: pd.DataFrame, look: Look = PLAIN, *, metric: str | None = None) -> Figure:
    """Draw the ratio of each number with each layer to that without, with its 95 % interval.

    ``trials`` are those of ``osmef.load`` with a column ``layer``; what else was swept stands
    before the layer. A panel is of ``metric``, or of each number that leads a table, of a round
    trip or another time, and of the CPU time per GB. See ``osmef.analysis.layers.layer_costs``.
    Raises InputError where no trial tells a layer, or none is of the reference, "bare".
    """
    if LAYER not in trials or not trials[LAYER].eq(REFERENCE).any():
        raise nothing("layers beside bare", "give runs that sweep `layer`, one of them bare")
    panels = _panels(trials, metric)
    units = dict.fromkeys(unit for _, found in panels for unit in found["unit"])
    how = "; ".join(_TOLD[unit] for unit in units)
    caption = f"Ratio to {REFERENCE}, lines: 95 % interval; {how}. Dashed: no cost, no gain."
    words = panels[0][0].words if len(panels) == 1 else "what is left of the bare network"
    header = Words(f"{words[0].upper()}{words[1:]}, by layer", caption, source_of(trials))
    named = [broken([_name(row, found, look) for row in found.to_dict("records")], look)
             for _, found in panels]  # fmt: skip
    row = max(_ROW_INCHES, LINE_INCHES * max(lines for _, lines in named) + 0.06)
    most = max(len(found) for _, found in panels)
    figure, every = page(header, {}, look, len(panels), (6.6, (0.8 + row * most) * len(panels)),
                         same_y=False, same_x=False, columns=1)  # fmt: skip
    for axes, (measure, found), (names, _) in zip(every, panels, named, strict=True):
        _draw(axes, found, names)
        if len(panels) > 1:
            axes.set_title(measure.words, loc="left", fontsize=9)
        look.apply(axes)
    times = panels[0][0].words + ", times" if len(panels) == 1 else "times"
    every[-1].set_xlabel(f"{times} that of {REFERENCE}")
    return figure


def _panels(trials: pd.DataFrame, metric: str | None) -> list[tuple[Measure, pd.DataFrame]]:
    """Return the costs by measure: of the named one, or of those that lead and the CPU's time."""
    with_cpu, known = comparable(trials)
    if metric is None:
        times = [one for one in known if one.unit in _TIMES and one != CPU_PER_GB]
        leading = [one for one in known if one.leading]
        first_time = [] if set(times) & set(leading) else times[:1]
        measures = [*leading, *first_time, *(one for one in known if one == CPU_PER_GB)]
    else:
        measures = [one for one in known if one.name == metric] or [chosen(trials, metric)]
    costs = layer_costs(with_cpu, [one.name for one in measures])
    costs = costs[costs["ratio"].notna()]
    of = [(one, costs[costs["metric"] == one.name].reset_index(drop=True)) for one in measures]
    panels = [(one, found) for one, found in of if not found.empty]
    if not panels:
        names = " or ".join(one.name for one in measures) or "a number"
        raise nothing(f"{names} with and without a layer", "give runs that measured both")
    limit(max(len(found) for _, found in panels), "series")
    return panels


def _draw(axes: Axes, found: pd.DataFrame, names: Sequence[str]) -> None:
    axes.axvline(1, color="black", ls="--", linewidth=0.8)
    of = stroke(0)
    for place, (ratio, low, high) in enumerate(
        zip(found["ratio"], found["ratio_low"], found["ratio_high"], strict=True)
    ):
        axes.plot((low, high), (place, place), color=of.colour, linewidth=1.6, marker="|")
        axes.plot(ratio, place, color=of.colour, marker=of.marker, ls="none")
    axes.set_yticks(range(len(found)), names, fontsize=7.5)
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def _name(row: dict[object, object], found: pd.DataFrame, look: Look) -> str:
    """Return the label of a row: the layer, and other swept values where they differ."""
    others = list(found.columns[: list(found.columns).index("metric")])
    told = [f"{name}={row[name]}" for name in others if found[name].nunique(dropna=False) > 1]
    return look.named(", ".join([*map(str, told), str(row[LAYER])]))
