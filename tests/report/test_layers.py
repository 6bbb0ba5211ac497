from __future__ import annotations

import numpy as np
import pytest

from osmef.errors import NothingToDrawError
from osmef.report.layers import layers
from tests.analysis.test_layers import BTC, COSTS, run


def test_each_layer_stands_at_its_ratio() -> None:
    trials = run(np.random.default_rng(1)).assign(workload="btc", session=None)
    (axes,) = layers(trials, metric=BTC).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [f"connections={n}, {layer}" for n in (1, 4) for layer in list(COSTS)[1:]]
    points = [line for line in axes.lines if line.get_linestyle() == "None"]
    ratios = [float(line.get_xdata()[0]) for line in points]  # type: ignore[index,arg-type]
    assert ratios == pytest.approx([0.9, 0.6, 0.9, 0.6], rel=0.02)


def test_without_layers_there_is_nothing_to_draw() -> None:
    trials = run(np.random.default_rng(1))
    for without in (trials.drop(columns="layer"), trials[trials["layer"] != "bare"]):
        with pytest.raises(NothingToDrawError, match="layers beside bare"):
            layers(without)
