from __future__ import annotations

from typing import Any, cast

from osmef.engine.findings import ordered
from osmef.results.summary import CellInfo, LayerCost


def cell(count: int, layer: str) -> CellInfo:
    values = {"pairs.count": count, "layer": layer}
    return cast("CellInfo", cast("Any", CellInfo).model_construct(values=values))


def cost(layer: str, count: int) -> LayerCost:
    values = {"pairs.count": count, "distance": 2}
    made = cast("Any", LayerCost).model_construct(layer=layer, values=values)
    return cast("LayerCost", made)


def test_ratios_are_in_the_order_of_the_cells_whatever_that_of_the_trials() -> None:
    cells = [cell(count, layer) for count in (1, 3, 5) for layer in ("bare", "vxlan", "bridge")]
    costs = [cost(layer, count) for layer in ("vxlan", "bridge") for count in (1, 3, 5)]
    assert ordered([costs[one] for one in (4, 2, 0, 5, 3, 1)], cells) == costs
