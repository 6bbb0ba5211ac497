"""Figure of layers: ratio of each to the reference without layer."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from osmef.analysis.layers import LAYER, REFERENCE, layer_costs
from osmef.report.cells import chosen, nothing, source_of
from osmef.report.look import PLAIN, Look
from osmef.report.style import LINE_INCHES, Words, broken, limit, page, stroke, styled

_ROW_INCHES = 0.3
_TOLD = {
    "blocks": "the trials of each block are compared",
    "runs": "each run counts as one",
    "trials": "unpaired, for the run has no blocks",
}


@styled
def layers(trials: pd.DataFrame, look: Look = PLAIN, *, metric: str | None = None) -> Figure:
    """Draw the ratio of a metric with each layer to that without, with its 95 % interval.

    ``trials`` are those of ``osmef.load`` with a column ``layer``; what else was swept stands
    before the layer. See ``osmef.analysis.layers.layer_costs``. Raises InputError where no trial
    tells a layer, or none is of the reference, "bare".
    """
    if LAYER not in trials or not trials[LAYER].eq(REFERENCE).any():
        raise nothing("layers beside bare", "give runs that sweep `layer`, one of them bare")
    measure = chosen(trials, metric)
    found = layer_costs(trials, [measure.name])
    found = found[found["ratio"].notna()].reset_index(drop=True)
    if found.empty:
        raise nothing(f"{measure.name} with and without a layer", "give runs that measured both")
    limit(len(found), "series")
    how = "; ".join(_TOLD[unit] for unit in found["unit"].unique())
    caption = f"Ratio to {REFERENCE}, lines: 95 % interval; {how}. Dashed: no cost, no gain."
    header = Words(f"{measure.words[0].upper()}{measure.words[1:]}, by layer", caption,
                   source_of(trials))  # fmt: skip
    names, lines = broken([_name(row, found, look) for row in found.to_dict("records")])
    row = max(_ROW_INCHES, LINE_INCHES * lines + 0.06)
    figure, (axes,) = page(header, {}, look, size=(6.6, 0.8 + row * len(found)))
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
    axes.set_xlabel(f"{measure.words}, times that of {REFERENCE}")
    look.apply(axes)
    return figure


def _name(row: dict[object, object], found: pd.DataFrame, look: Look) -> str:
    """Return the label of a row: the layer, and other swept values where they differ."""
    others = list(found.columns[: list(found.columns).index("metric")])
    told = [f"{name}={row[name]}" for name in others if found[name].nunique(dropna=False) > 1]
    return look.named(", ".join([*map(str, told), str(row[LAYER])]))
