"""What the layers of a run cost, as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group

from osmef.report.fit import LONG, column, table
from osmef.report.series import short_names, written
from osmef.results.summary import CPU_PER_GB, LayerCost, Summary
from osmef.scenario.study import Scalar

Row = tuple[tuple[tuple[str, Scalar], ...], str]
"""The values of a row, and its layer."""

_NOTHING = "-"
_LAYER = "layer"
_HOW = {
    "blocks": "in the same block of the random order",
    "pairs": "by the medians of each pair of endpoints",
    "trials": "over all trials, unpaired, for the run has less than two blocks",
}


def layer_table(summary: Summary, width: int | None = None) -> Group | None:
    """Return how many times as large numbers are with each layer as without, a row a layer.

    Each with its 95 % interval. None where the run has not compared layers.
    """
    found = summary.layers
    if not found:
        return None
    every = dict.fromkeys((tuple(one.values.items()), one.layer) for one in found)
    names = short_names(dict.fromkeys(key for one in found for key in one.values))
    costs = {((tuple(one.values.items()), one.layer), one.metric): one for one in found}
    heads = {one.name: one.words for one in [*summary.measures, CPU_PER_GB]}
    by, rows = _sorted(list(every), list(names))
    told = [column(names.get(key, key), [_label(row, key) for row in rows]) for key in by]
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


def _sorted(rows: list[Row], names: list[str]) -> tuple[list[str], list[Row]]:
    """Return the keys of rows, the widest first if it is long, and the rows in that order.

    Of those only the first can stand above its rows, which leaves the others some room.
    """
    by = [_LAYER, *names]
    widest = max(by, key=lambda key: max(len(_label(row, key)) for row in rows))
    if max(len(_label(row, widest)) for row in rows) <= LONG:
        return by, rows
    place = {text: n for n, text in enumerate(dict.fromkeys(_label(row, widest) for row in rows))}
    by.sort(key=lambda key: key != widest)
    return by, sorted(rows, key=lambda row: place[_label(row, widest)])


def _label(row: Row, key: str) -> str:
    values, layer = row
    return layer if key == _LAYER else _value(dict(values).get(key))


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
