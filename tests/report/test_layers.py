from __future__ import annotations

import numpy as np
import pytest

from osmef.errors import NothingToDrawError
from osmef.report.line_charts import layers
from osmef.results.frame import describe_columns
from tests.analysis.test_layers import BTC, COSTS, run
from tests.declared import measure


def test_each_layer_stands_at_its_ratio() -> None:
    trials = run(np.random.default_rng(1)).assign(workload="btc", session=None)
    (axes,) = layers(trials, metric=BTC).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [f"connections={n}, {layer}" for n in (1, 4) for layer in list(COSTS)[1:]]
    points = [line for line in axes.lines if line.get_linestyle() == "None"]
    ratios = [float(line.get_xdata()[0]) for line in points]  # type: ignore[index,arg-type]
    assert ratios == pytest.approx([0.9, 0.6, 0.9, 0.6], rel=0.02)


def test_each_number_has_its_panel() -> None:
    trials = run(np.random.default_rng(1)).assign(workload="btc", session=None)
    slower = trials["layer"].ne("bare") * 0.5 + 1
    busy = {f"endpoint_cpu_{end}_percent": 20 * slower for end in ("sender", "receiver")}
    told = [measure(name) for name in (BTC, "rtt_mean_us", *busy)]
    trials = describe_columns(
        trials.assign(**busy, rtt_mean_us=200 * slower), told, ["connections", "layer"]
    )
    btc, rtt, cpu = layers(trials).axes
    assert [axes.get_title(loc="left") for axes in (btc, rtt, cpu)] == [
        "aggregate BTC",
        "RTT mean",
        "CPU per GB",
    ]
    ratios = {
        axes.get_title(loc="left"): [
            float(line.get_xdata()[0])  # type: ignore[index,arg-type]
            for line in axes.lines
            if line.get_linestyle() == "None"
        ]
        for axes in (rtt, cpu)
    }
    assert ratios["RTT mean"] == pytest.approx([1.5] * 4)
    assert ratios["CPU per GB"] == pytest.approx([1.5 / 0.9, 1.5 / 0.6] * 2, rel=0.02)


def test_without_layers_there_is_nothing_to_draw() -> None:
    trials = run(np.random.default_rng(1))
    for without in (trials.drop(columns="layer"), trials[trials["layer"] != "bare"]):
        with pytest.raises(NothingToDrawError, match="layers beside bare"):
            layers(without)
