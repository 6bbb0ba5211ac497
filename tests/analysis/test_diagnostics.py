"""What makes a cell doubtful, and warm-ups that nobody has left out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from osmef.analysis.diagnostics import (
    _p,
    data_quality,
    find_warm_up,
    pairwise_comparisons,
    warm_ups,
)
from tests.simulate.shapes import SHAPES, correlated


def slow_start(trials: int = 6, seconds: int = 2) -> list[list[float]]:
    chance = np.random.default_rng(1)
    rows = 100 * (1 + 0.02 * chance.standard_normal((trials, 10)))
    rows[:, :seconds] *= 0.6
    return [[float(rate) for rate in row] for row in rows]


def test_a_slow_start_is_found_with_its_length_and_loss() -> None:
    found = find_warm_up(slow_start())
    assert found is not None
    assert found.intervals == 2
    assert found.loss == pytest.approx(0.08, abs=0.01)
    assert found.p < 1e-3


def test_the_p_is_that_of_all_ways() -> None:
    for first in range(1, 5):
        for second in range(1, 4):
            ways = [a + b <= first + second for a in range(1, 5) for b in range(1, 4)]
            assert _p([first, second], [4, 3]) == pytest.approx(np.mean(ways))


@pytest.mark.parametrize("name", SHAPES)
def test_noise_has_no_warm_up(name: str) -> None:
    chance = np.random.default_rng(7)
    found = [find_warm_up(SHAPES[name](chance, (6, 10)).tolist()) for _ in range(300)]
    alarms = sum(one is not None and one.p <= 0.05 for one in found)
    assert stats.binomtest(alarms, 300, 0.05, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("series", [[], [[1.0] * 7], [[0.0] * 10], [[]]])
def test_too_few_intervals_show_no_warm_up(series: list[list[float]]) -> None:
    assert find_warm_up(series) is None


def test_a_burst_at_the_start_is_no_warm_up() -> None:
    found = find_warm_up([[300.0, 200.0, *([100.0] * 8)]] * 6)
    assert found is not None
    assert (found.p, found.intervals, found.loss) == (1.0, 0, 0.0)


rates = st.lists(st.floats(0, 1e12), max_size=30)


@given(series=st.lists(rates, max_size=6))
def test_warm_up_detection_accepts_any_rates(series: list[list[float]]) -> None:
    found = find_warm_up(series)
    assert found is None or 0 < found.p <= 1 + 1e-9


ENDS = (("receiver", "measured"), ("receiver", "background"), ("sender", "measured"))


def intervals(series: dict[str, list[list[float]]], warmup: int = 0) -> pd.DataFrame:
    rows = [
        {"run": "r", "cell": cell, "trial": trial, "purpose": purpose, "endpoint": "vm-2",
         "peer": "vm-1", "role": role, "flow": flow, "start_s": 0.5 * second, "length_s": 0.5,
         "warmup": second < warmup, "bytes": int(1e6 * rate * (1 if purpose == "measured" else 9))}
        for cell, trials in series.items()
        for trial, rates in enumerate(trials)
        for second, rate in enumerate(rates)
        for role, purpose in ENDS
        for flow in (0, 1)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_cells_with_a_slow_start_are_reported() -> None:
    flat = [[100.0] * 10] * 6
    table = warm_ups(intervals({"a=1": slow_start(), "a=2": flat}))
    (row,) = table.to_dict("records")
    assert row["cell"] == "a=1"
    assert row["trials"] == 6
    assert row["warmup_s"] == pytest.approx(1.0)
    assert row["loss_percent"] == pytest.approx(8, abs=1)


def test_intervals_of_the_configured_warm_up_are_excluded() -> None:
    assert warm_ups(intervals({"a=1": slow_start()}, warmup=2)).empty


def test_no_intervals() -> None:
    assert warm_ups(intervals({"": []}).reindex(columns=intervals({"a": [[1.0]]}).columns)).empty


X = "goodput_bps"


def trials(values: list[float], **columns: object) -> pd.DataFrame:
    began = pd.date_range("2026-11-21", periods=len(values), freq="min", tz="UTC")
    fixed = {"run": "r", "scenario": "s", "cell": "all", "session": None, "status": "ok"}
    every = {**fixed, **columns, "trial": range(len(values)), "started_at": began, X: values}
    return pd.DataFrame(every)


def noise(count: int, seed: int = 1) -> np.ndarray:
    return 100 + np.random.default_rng(seed).uniform(-1, 1, count)


def told(frame: pd.DataFrame) -> dict[object, object]:
    (row,) = data_quality(frame, [X]).to_dict("records")
    return dict(row)


def test_plain_noise_raises_no_doubts() -> None:
    row = told(trials(noise(30).tolist()))
    assert (row["n"], row["doubts"], row["steps"]) == (30, "", [])
    assert row["repetitions"] == 6


@pytest.mark.real("simulations")
def test_autocorrelation_drift_steps_and_outliers_are_reported() -> None:
    memory = np.cumsum(noise(200) - 100)
    assert "consecutive values" in str(told(trials(memory.tolist()))["doubts"])
    turns = [100 + (-1) ** at + float(value) / 1000 for at, value in enumerate(noise(30))]
    assert "is too wide" in str(told(trials(turns))["doubts"])
    drifting = told(trials((noise(40) + np.arange(40)).tolist()))
    assert "drift" in str(drifting["doubts"])
    assert drifting["drift_percent"] == pytest.approx(33, abs=3)
    assert "so the interval is too narrow" in str(drifting["doubts"])
    on_pairs = trials((noise(40) + np.arange(40)).tolist(), pair=[0, 1] * 20)
    doubts = str(told(on_pairs)["doubts"])  # two pairs have no interval
    assert "there is a drift" in doubts
    assert "there is a drift, so" not in doubts
    assert told(trials([*noise(20), *(noise(20) + 50)]))["steps"] == ["20"]
    far = told(trials([*noise(20), 500.0]))
    assert "20" in far["outliers"]  # type: ignore[operator]


def test_a_change_of_spread_is_reported_and_a_drift_is_not_taken_for_one() -> None:
    noise = np.random.default_rng(1).standard_normal(80)
    noise[40:] *= 10
    row = told(trials((100 + noise).tolist()))
    assert isinstance(row["spreads"], list)
    assert [abs(int(place) - 40) <= 3 for place in row["spreads"]] == [True]
    assert f"the spread changes at {row['spreads'][0]}, so" in str(row["doubts"])
    drifting = told(trials((100 + 0.02 * noise + np.arange(80)).tolist()))
    assert drifting["spreads"] == []
    assert "drift" in str(drifting["doubts"])


@pytest.mark.real("simulations")
def test_many_values_are_taken_in_blocks() -> None:
    row = told(trials([*noise(30_000), *(noise(30_000) + 50)]))
    assert row["n"] == 60_000
    assert row["steps"] == ["30000"]
    assert "drift" in str(row["doubts"])


def test_the_order_is_that_of_time_not_of_the_file() -> None:
    frame = trials((noise(40) + np.arange(40)).tolist()).sample(frac=1, random_state=2)
    assert told(frame)["drift_percent"] == pytest.approx(33, abs=3)


def test_few_values_have_no_order() -> None:
    row = told(trials([1.0, 2.0, 3.0]))
    assert np.isnan(row["drift_p"])  # type: ignore[call-overload]
    assert row["n"] == 3


def test_sessions_are_the_values_of_a_campaign() -> None:
    frame = pd.concat(
        [trials([float(n)] * 3, run=f"r{n}", session=f"day {n}") for n in range(1, 7)]
    )
    row = told(frame)
    assert (row["cell"], row["n"]) == ("all", 6)


def test_runs_without_sessions_are_apart() -> None:
    found = data_quality(pd.concat([trials([1.0, 2.0]), trials([3.0, 4.0], run="q")]), [X])
    assert found["cell"].tolist() == ["r: all", "q: all"]


def test_pairs_of_cells_are_tested() -> None:
    both = pd.concat(
        [trials(noise(8).tolist(), cell="a"), trials((noise(8) + 9).tolist(), cell="b")]
    )
    (row,) = pairwise_comparisons(both, [X]).to_dict("records")
    assert (row["metric"], row["a"], row["b"]) == (X, "a", "b")
    assert row["mann_whitney_p_holm"] < 0.01
    assert pairwise_comparisons(trials([1.0]), [X]).empty


def test_cells_of_a_run_are_compared_block_by_block() -> None:
    fall = 100 * np.linspace(1, 0.7, 8)
    near = np.random.default_rng(4).uniform(0.995, 1.005, 8)
    frames = [
        trials((level * fall * near).tolist(), cell=cell, group=range(1, 9))
        for cell, level in (("a", 1.0), ("b", 0.95))
    ]
    found = pairwise_comparisons(pd.concat(frames), [X])
    (row,) = found.to_dict("records")
    assert (row["method"], row["blocks"]) == ("paired", 8)
    assert row["ratio"] == pytest.approx(1 / 0.95)
    assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
    assert row["paired_p_holm"] == pytest.approx(2 / 2**8)
    assert row["mann_whitney_p"] > 0.2
    assert found.attrs["friedman_p"][X] < 0.02
    zero = pairwise_comparisons(pd.concat([frames[0], frames[1].assign(**{X: 0.0})]), [X]).iloc[0]
    assert (zero["method"], zero["paired_p"]) == ("paired", pytest.approx(2 / 2**8))
    assert np.isnan(zero["ratio"])
    apart = pd.concat([frames[0], frames[1].assign(run="q")])
    assert pairwise_comparisons(apart, [X])["method"].tolist() == ["unpaired"]


def test_trials_at_two_placements_are_two_cells() -> None:
    frames = [
        trials([rate], run=f"r{n}", session=f"day {n}", achieved_placement=place)
        for n, (rate, place) in enumerate([(10.0, "same-host"), (1.0, "different-host")] * 6)
    ]
    found = data_quality(pd.concat(frames), [X])
    assert found["cell"].tolist() == ["same-host: all", "different-host: all"]
    assert found["n"].tolist() == [6, 6]
    one = pd.concat([frame.assign(run="r", session=None) for frame in frames])
    one["trial"] = range(len(one))
    assert data_quality(one, [X])["n"].tolist() == [6, 6]


@pytest.mark.real("simulations")
@pytest.mark.parametrize("shape", list(SHAPES))
def test_tables_of_mere_noise_seldom_have_a_doubt(shape: str) -> None:
    chance, doubted = np.random.default_rng(3), 0
    memory = shape.startswith("autocorrelation")
    for _ in range(20):
        values = SHAPES[shape](chance, (12, 15))
        table = data_quality(
            pd.concat([trials(row.tolist(), cell=f"c{n}") for n, row in enumerate(values)]), [X]
        )
        doubted += (
            any("level" in one for one in table["doubts"]) if memory else any(table["doubts"])
        )
    assert doubted <= 4


def test_autocorrelation_too_weak_in_each_cell_is_found_over_all_cells() -> None:
    """The 95 % interval of 10 values with autocorrelation 0.5 has the median in 2 of 3 cases."""
    chance, seen = np.random.default_rng(3), 0
    for _ in range(8):
        rows = correlated(0.5)(chance, (24, 10))
        cells = [trials(row.tolist(), cell=f"c{n}") for n, row in enumerate(rows)]
        table = data_quality(pd.concat(cells), [X])
        seen += int(table["doubts"].str.contains("consecutive values").all())
        assert table["common_memory"].nunique() == 1
    assert seen >= 7


def test_values_far_from_the_others_are_named_and_are_no_doubt() -> None:
    far = told(trials([*noise(20), 500.0]))
    assert far["outliers"] == ["20"]
    assert far["doubts"] == ""


def on_pairs(chance: np.random.Generator, cells: int = 2, count: int = 6) -> pd.DataFrame:
    """Equal cells of five trials on each pair; pairs vary by 14 %, and trials of one by 5 %."""
    levels = 1 + 0.14 * chance.standard_normal((cells, count))
    rows = [
        {"run": "r", "cell": f"cell {cell}", "pair": pair + 1, "group": 1 + 5 * pair + turn,
         "status": "ok", X: levels[cell, pair] * (1 + 0.05 * chance.standard_normal())}
        for turn in range(5) for pair in range(count) for cell in range(cells)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_equal_cells_on_several_pairs_seldom_differ() -> None:
    chance, times = np.random.default_rng(3), 40
    alarms = {"mann_whitney_p": 0, "paired_p": 0}
    for _ in range(times):
        row = pairwise_comparisons(on_pairs(chance), [X]).iloc[0]
        assert (row["n_a"], row["n_b"], row["method"], row["blocks"]) == (6, 6, "paired", 6)
        for name in alarms:
            alarms[name] += row[name] <= 0.05
    assert max(alarms.values()) <= 6  # more have less than a chance in 100 at 5 %


def test_a_cell_on_one_pair_is_one_value_beside_cells_on_several() -> None:
    several = on_pairs(np.random.default_rng(4), cells=1)
    one = several.assign(cell="one", pair=None, group=several["group"] + 100)
    row = pairwise_comparisons(pd.concat([several, one]), [X]).iloc[0]
    assert (row["n_a"], row["n_b"], row["method"]) == (6, 1, "unpaired")


def test_with_several_pairs_the_needed_repetitions_are_counted_in_pairs() -> None:
    row = data_quality(on_pairs(np.random.default_rng(5), cells=1), [X]).iloc[0]
    assert (row["n"], row["pairs"]) == (30, 6)
    assert row["repetitions"] > 30  # trials on one pair more often don't help
    assert np.isnan(data_quality(trials([1.0, 2.0, 3.0]), [X])["pairs"].iloc[0])
