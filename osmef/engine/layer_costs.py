"""What the layers of a run cost, for its summary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from osmef.results.layer_cost import LayerCost
from osmef.results.rundir import RunDirectory
from osmef.results.summary import CellInfo
from osmef.scenario.study import Scalar

_LAYER, _BARE = "layer", "bare"


def layer_costs_of(cells: Sequence[CellInfo], directory: RunDirectory) -> list[LayerCost]:
    """Return what the layers of a run cost, if it has swept them."""
    layers = list(dict.fromkeys(cell.values.get(_LAYER) for cell in cells if cell.n_ok))
    if len(layers) < 2 or _BARE not in layers:
        return []
    from osmef.analysis.layers import comparable, layer_costs  # noqa: PLC0415 - pandas is slow
    from osmef.results.frame import load  # noqa: PLC0415

    trials, measures = comparable(load(directory.path))
    units = {one.name: one.unit for one in measures}
    table = layer_costs(trials, list(units))
    others = list(table.columns[: list(table.columns).index("metric")])
    shown = [name for name in others if table[name].nunique(dropna=False) > 1]
    found = [
        LayerCost(
            values={name: _plain(row[name]) for name in shown},
            layer=row["layer"],
            reference=row["reference"],
            metric=row["metric"],
            unit=units[row["metric"]],
            n=row["n"],
            compared=row["unit"],
            reference_median=row["reference_median"],
            median=row["median"],
            ratio=_number(row["ratio"]),
            ci95_low=_number(row["ratio_low"]),
            ci95_high=_number(row["ratio_high"]),
            p=_number(row["p"]),
            p_holm=_number(row["p_holm"]),
        )
        for row in table.to_dict("records")
    ]
    return ordered(found, cells)


def ordered(costs: Sequence[LayerCost], cells: Sequence[CellInfo]) -> list[LayerCost]:
    """Return ratios in the order of the cells, by layer; trials come in random order."""
    layers = list(dict.fromkeys(cell.values.get(_LAYER) for cell in cells))
    return sorted(costs, key=lambda one: (layers.index(one.layer), _place(one, cells)))


def _place(cost: LayerCost, cells: Sequence[CellInfo]) -> int:
    """Return the number of the first cell that has the values of a ratio."""
    for number, cell in enumerate(cells):
        if all(cell.values.get(name, value) == value for name, value in cost.values.items()):
            return number
    return len(cells)


def _number(number: float | None) -> float | None:
    return None if number is None or math.isnan(number) else number


def _plain(value: Any) -> Scalar:
    """Return a value of a frame as one of a cell."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    plain: Scalar = value.item() if hasattr(value, "item") else value
    return plain
