from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from osmef.analysis.layers import comparable, layer_overheads
from osmef.errors import InputError
from osmef.results.frame import describe_columns
from tests.declared import measure

BTC = "aggregate_btc_bps"
COSTS = {"bare": 1.0, "vxlan": 0.9, "container+vxlan": 0.6}


def run(
    chance: np.random.Generator, name: str = "r", count: int = 8, *, sequential: bool = False
) -> pd.DataFrame:
    """Make a run whose rate falls by a third, with 1 and 4 connections and three layers."""
    rows = []
    for block in range(1, count + 1):
        level = 1e9 * (1 - block / count / 3)
        for cell, (connections, layer) in enumerate(
            [(connections, layer) for connections in (1, 4) for layer in COSTS]
        ):
            rows.append(
                {
                    "run": name, "group": cell if sequential else block, "status": "ok",
                    "cell": f"connections={connections},layer={layer}", "layer": layer,
                    "connections": connections, "scenario": "s", "provider": "local",
                    BTC: connections * COSTS[layer] * level * (1 + 0.01 * chance.normal()),
                }
            )  # fmt: skip
    return describe_columns(pd.DataFrame(rows), [measure(BTC)], ["connections", "layer"])


def test_each_layer_is_compared_with_the_reference_of_its_block() -> None:
    table = layer_overheads(run(np.random.default_rng(1)), [BTC])
    assert table[["connections", "layer"]].to_dict("split")["data"] == [
        [1, "vxlan"], [1, "container+vxlan"], [4, "vxlan"], [4, "container+vxlan"],
    ]  # fmt: skip
    assert set(table["method"]) == {"paired"}
    assert set(zip(table["n"], table["unit"], strict=True)) == {(8, "blocks")}
    for row in table.to_dict("records"):
        truth = COSTS[row["layer"]]
        assert row["ratio_low"] <= truth <= row["ratio_high"]
        assert row["ratio_high"] - row["ratio_low"] < 0.03
        assert row["p"] == pytest.approx(2 / 2**8)
        assert row["p_holm"] <= 0.05


def test_the_cpu_s_time_for_each_gb_is_that_of_both_ends_and_of_the_kernel() -> None:
    trials = run(np.random.default_rng(1))
    rate = trials[BTC]
    # 20 % and 30 % of a CPU at 1 Gbit/s are 4 s for 8 Gbit; twice that in a layer.
    twice = trials["layer"].ne("bare") + 1
    busy = {f"endpoint_cpu_{end}_percent": share * twice * rate / 1e9
            for end, share in (("sender", 20), ("receiver", 30))}  # fmt: skip
    told = [measure(BTC), *(measure(name) for name in busy), measure("retransmits")]
    trials = describe_columns(trials.assign(**busy, retransmits=5), told, ["connections", "layer"])
    known, found = comparable(trials)
    assert [one.name for one in found] == [BTC, "cpu_s_per_gb"], "counts are no costs"
    table = layer_overheads(known, ["cpu_s_per_gb"])
    assert table["ratio"].tolist() == pytest.approx([2.0] * 4)
    assert table["reference_median"].tolist() == pytest.approx([4.0] * 4)
    trials.loc[trials["layer"] == "vxlan", "endpoint_cpu_sender_percent"] = np.nan
    known, _ = comparable(trials)
    assert set(layer_overheads(known, ["cpu_s_per_gb"])["layer"]) == {"container+vxlan"}, "unknown"


def with_cpu(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials in which each end used a fifth of a CPU."""
    busy = dict.fromkeys(("endpoint_cpu_sender_percent", "endpoint_cpu_receiver_percent"), 20.0)
    known = [measure(BTC), *map(measure, busy)]
    return describe_columns(trials.assign(**busy), known, ["connections", "layer"])


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_a_layer_that_transfers_nothing_has_a_ratio_of_0(count: int, *, sequential: bool) -> None:
    runs = [run(np.random.default_rng(n), f"r{n}", sequential=sequential) for n in range(count)]
    trials = with_cpu(pd.concat(runs, ignore_index=True))
    lost = (trials["layer"] == "vxlan") & (trials["connections"] == 4)
    trials.loc[lost, BTC] = 0.0
    table = layer_overheads(*comparable_names(trials))
    row = table[(table["metric"] == BTC) & (table["connections"] == 4)].iloc[0]
    assert (row["layer"], row["median"], row["ratio"], row["n"]) == (
        "vxlan", 0.0, 0.0, 8 if count == 1 else count,
    )  # fmt: skip
    cpu = table[(table["metric"] == "cpu_s_per_gb") & (table["connections"] == 4)]
    assert list(cpu["layer"]) == ["container+vxlan"], "of nothing there is no time for each GB"


def comparable_names(trials: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    known, found = comparable(trials)
    return known, [one.name for one in found]


def test_trials_that_transferred_nothing_count_in_the_ratio_of_a_layer() -> None:
    trials = run(np.random.default_rng(6))
    at = (trials["layer"] == "vxlan") & (trials["connections"] == 1)
    for lost in (2, 3, 6):
        trials.loc[at & (trials["group"] <= lost), BTC] = 0.0
        row = layer_overheads(trials, [BTC]).iloc[0]
        assert (row["layer"], row["n"], row["ratio_low"]) == ("vxlan", 8, 0.0)
        assert row["ratio"] == pytest.approx(0.0 if lost == 6 else 0.9, rel=0.02)


def test_to_a_reference_that_transferred_nothing_there_is_no_ratio() -> None:
    trials = run(np.random.default_rng(7))
    bare = trials["layer"] == "bare"
    trials.loc[bare & (trials["group"] <= 2), BTC] = 0.0
    row = layer_overheads(trials, [BTC]).iloc[0]
    assert (row["layer"], row["n"]) == ("vxlan", 6)
    assert row["ratio"] == pytest.approx(0.9, rel=0.02)
    trials.loc[bare, BTC] = 0.0
    row = layer_overheads(trials, [BTC]).iloc[0]
    assert (row["n"], row["reference_median"]) == (0, 0.0)
    assert np.isnan(row["ratio"])


def test_each_of_several_runs_counts_as_one_value() -> None:
    chance = np.random.default_rng(2)
    several = [run(chance, f"r{n}", 3) for n in range(6)]
    whole = pd.concat(several, ignore_index=True)
    whole.attrs = several[0].attrs
    row = layer_overheads(whole, [BTC]).iloc[0]
    assert (row["n"], row["unit"], row["method"]) == (6, "runs", "paired")
    assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]


def test_a_comparison_without_blocks_is_unpaired_and_has_wider_intervals() -> None:
    paired = layer_overheads(run(np.random.default_rng(3)), [BTC]).iloc[0]
    apart = layer_overheads(run(np.random.default_rng(3), sequential=True), [BTC]).iloc[0]
    assert (apart["unit"], apart["method"]) == ("trials", "unpaired")
    widths = [row["ratio_high"] - row["ratio_low"] for row in (paired, apart)]
    assert widths[1] > 5 * widths[0]


@pytest.mark.real("simulations")
def test_layers_without_cost_are_rarely_found_significant() -> None:
    chance, alarms = np.random.default_rng(4), 0
    for _ in range(60):
        table = run(chance)
        table[BTC] /= table["layer"].map(COSTS)
        alarms += bool((layer_overheads(table, [BTC])["p_holm"] <= 0.05).any())
    assert alarms <= 7


def test_without_the_reference_nothing_is_compared() -> None:
    trials = run(np.random.default_rng(5))
    with pytest.raises(InputError, match="no trial is of the layer 'host'"):
        layer_overheads(trials, [BTC], reference="host")
    lost = trials.assign(**{BTC: trials[BTC].where(trials["layer"] != "bare")})
    assert layer_overheads(lost, [BTC]).empty
