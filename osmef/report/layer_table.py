"""What the layers of a run cost, as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group

from osmef.report.fit import column, table
from osmef.report.series import short_names, written
from osmef.results.layer_cost import CPU_PER_GB, LayerCost
from osmef.results.summary import Summary
from osmef.scenario.study import Scalar

_NOTHING = "-"
_HOW = {
    "blocks": "in the same block of the random order",
    "trials": "over all trials, unpaired, for the run has no blocks",
}


def layer_table(summary: Summary, width: int | None = None) -> Group | None:
    """Return how many times as large numbers are with each layer as without, a row a layer.

    Each with its 95 % interval. None where the run has not compared layers.
    """
    found = summary.layers
    if not found:
        return None
    rows = dict.fromkeys((tuple(one.values.items()), one.layer) for one in found)
    names = short_names(dict.fromkeys(key for one in found for key in one.values))
    costs = {((tuple(one.values.items()), one.layer), one.metric): one for one in found}
    heads = {one.name: one.words for one in [*summary.measures, CPU_PER_GB]}
    told = [
        column("layer", [layer for _, layer in rows]),
        *(
            column(name, [_value(dict(values).get(key)) for values, _ in rows])
            for key, name in names.items()
        ),
    ]
    metrics = dict.fromkeys(one.metric for one in found)
    # The leading ones and the CPU's time stay where a terminal is narrow.
    leading = {one.name for one in summary.measures if one.leading} | {CPU_PER_GB.name}
    told += [
        column(
            heads[metric].replace(" ", "\n"),
            [_ratio(costs.get((row, metric))) for row in rows],
            rank=1 if metric in leading else 2 + place,
            right=True,
        )
        for place, metric in enumerate(metrics)
    ]
    shown = table(told, width, _caption(found), title=f"Times that of {found[0].reference}")
    return Group("", shown, "")


def _value(value: Scalar) -> str:
    return _NOTHING if value is None else written(value)


def _ratio(cost: LayerCost | None) -> str:
    if cost is None or cost.ratio is None:
        return _NOTHING
    if cost.ci95_low is None or cost.ci95_high is None:
        return f"{cost.ratio:.3g}"
    return f"{cost.ratio:.3g} [{cost.ci95_low:.3g}..{cost.ci95_high:.3g}]"


def _caption(found: Sequence[LayerCost]) -> str:
    how = "; ".join(dict.fromkeys(_HOW[one.compared] for one in found))
    few = " Too few for an interval." if all(one.ci95_low is None for one in found) else ""
    return f"Ratio to {found[0].reference} {how}, and its 95 % interval: below 1 is less.{few}"
