"""Trials nested in pairs: the split of their spread, and the interval over pairs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.compare import compare
from osmef.analysis.describe import NextSample, describe_pairs, variance_components
from osmef.analysis.diagnostics import data_quality, variance_table
from osmef.analysis.quantiles import quantile_interval
from osmef.analysis.replication import independent
from osmef.results.frame import describe_columns
from osmef.results.measure import Measure

Rows = dict[str, list[float]]


def drawn(
    chance: np.random.Generator, pairs: int, trials: int, between: float, within: float
) -> Rows:
    levels = 100 + between * chance.standard_normal(pairs)
    rows = levels[:, None] + within * chance.standard_normal((pairs, trials))
    return {str(number): row.tolist() for number, row in enumerate(rows)}


def test_the_variance_between_and_within_pairs_is_found() -> None:
    found = variance_components(drawn(np.random.default_rng(1), 400, 3, 14, 5))
    assert found is not None
    assert found.between == pytest.approx(14, rel=0.1)
    assert found.within == pytest.approx(5, rel=0.1)
    assert found.between_share == pytest.approx(14**2 / (14**2 + 5**2), abs=0.03)


def test_the_parts_are_right_in_the_mean_also_of_few_pairs_of_unlike_numbers() -> None:
    chance, parts = np.random.default_rng(2), []
    for _ in range(2000):
        rows = drawn(chance, 5, 6, 10, 10)
        rows["0"], rows["1"] = rows["0"][:2], rows["1"][:1]
        found = variance_components(rows)
        assert found is not None
        parts.append((found.between**2, found.within**2))
    between, within = np.mean(parts, axis=0)
    assert within == pytest.approx(100, rel=0.05)
    assert between == pytest.approx(100, rel=0.1)


def test_variance_components_are_those_computed_by_hand() -> None:
    found = variance_components({"a": [1.0, 3.0], "b": [7.0, 9.0]})
    assert found is not None
    # Means 2 and 8: the square between is 2 * (9 + 9) = 36, that within is 4 / 2 = 2.
    assert found.within**2 == pytest.approx(2)
    assert found.between**2 == pytest.approx((36 - 2) / 2)
    assert (found.pairs, found.trials, found.mean, found.median) == (2, 2, 5, 5)
    assert found.standard_error() ** 2 == pytest.approx(17 / 2 + 2 / 4)


def test_the_mean_over_pairs_is_in_the_middle_of_its_interval() -> None:
    found = variance_components({"a": [1.0] * 12, **{str(pair): [2.0] for pair in range(5)}})
    assert found is not None
    low, high = found.mean_interval.low, found.mean_interval.high
    assert low is not None
    assert high is not None
    assert low < found.mean < high
    assert found.mean == pytest.approx((1 + 5 * 2) / 6) == (low + high) / 2


def test_the_interval_over_pairs_holds_where_that_of_all_trials_does_not() -> None:
    chance, held, pooled = np.random.default_rng(3), 0, 0
    for _ in range(300):
        rows = drawn(chance, 10, 6, 14, 5)
        found = variance_components(rows)
        assert found is not None
        interval = found.interval
        held += (interval.low or 0) <= 100 <= (interval.high or 0)
        every = quantile_interval([value for row in rows.values() for value in row])
        pooled += (every.low or 0) <= 100 <= (every.high or 0)
    assert held / 300 > 0.94
    assert pooled / 300 < 0.8


@pytest.mark.parametrize(
    ("between", "within", "pair_cost", "expected"),
    [
        (14, 5, 60, NextSample.PAIRS),
        (1, 20, 60, NextSample.TRIALS),
        (14, 5, 1e6, NextSample.TRIALS),
    ],
)
def test_more_pairs_or_more_trials_are_recommended_by_their_cost(
    between: float, within: float, pair_cost: float, expected: NextSample
) -> None:
    found = variance_components(drawn(np.random.default_rng(4), 40, 4, between, within))
    assert found is not None
    assert found.next_sample(pair_cost, 10) is expected


@pytest.mark.parametrize("rows", [{}, {"a": [1.0, 2.0]}, {"a": [1.0], "b": [2.0]}, {"a": []}])
def test_too_little_for_a_split(rows: Rows) -> None:
    assert variance_components(rows) is None


def test_no_spread_at_all() -> None:
    found = variance_components({"a": [5.0, 5.0], "b": [5.0]})
    assert found is not None
    assert (found.between, found.within, found.between_share) == (0, 0, None)


numbers = st.floats(-1e9, 1e9)


@given(rows=st.dictionaries(st.text(max_size=3), st.lists(numbers, max_size=5), max_size=5))
def test_nested_variance_accepts_any_values(rows: Rows) -> None:
    found = variance_components(rows)
    assert found is None or (found.within >= 0 and found.between >= 0)


def frame(rows: Rows, run: str = "r") -> pd.DataFrame:
    told = [
        {"run": run, "scenario": "s", "provider": "p", "cell": "all", "trial": at, "status": "ok",
         "workload": "btc", "pair": int(pair), "x_bps": value}
        for at, (_, pair, value) in enumerate(
            sorted(((at, pair, value) for pair, values in rows.items()
                    for at, value in enumerate(values))), 1
        )
    ]  # fmt: skip
    measure = Measure(name="x_bps", unit="bit/s", better="higher")
    return describe_columns(pd.DataFrame(told), [measure])


def test_the_medians_of_pairs_count_as_independent() -> None:
    trials = frame({"1": [1.0, 2.0, 9.0], "2": [4.0, 6.0]})
    assert independent(trials, "x_bps") == [2.0, 5.0]
    assert independent(trials.assign(pair=None), "x_bps") == [1.0, 4.0, 2.0, 6.0, 9.0]


def test_a_cell_with_pairs_is_described_over_them() -> None:
    rows = drawn(np.random.default_rng(5), 8, 6, 14, 5)
    told = describe_pairs({int(pair): values for pair, values in rows.items()})
    medians = sorted(float(np.median(values)) for values in rows.values())
    assert (told.n, told.pairs) == (48, 8)
    assert told.median == pytest.approx(float(np.median(medians)))
    assert (told.ci95_low, told.ci95_high) == (medians[0], medians[-1])
    assert told.between_percent is not None
    assert told.within_percent is not None
    assert told.between_percent > told.within_percent
    few = describe_pairs({1: [1.0] * 6, 2: [2.0] * 6})
    assert few.ci95_reason is not None
    assert few.ci95_reason.startswith("of pairs, ")


def test_runs_are_compared_by_the_medians_of_their_pairs() -> None:
    chance = np.random.default_rng(6)
    a, b = (frame(drawn(chance, 6, 10, 14, 1), run) for run in ("a", "b"))
    (row,) = compare(a, b).to_dict("records")
    assert (row["unit"], row["n_a"], row["n_b"]) == ("pairs", 6, 6)


def test_equal_runs_on_other_pairs_are_seldom_called_different() -> None:
    """Their 60 trials each would be in most cases, since pairs differ by 14 %."""
    chance, apart, pooled = np.random.default_rng(7), 0, 0
    for _ in range(60):
        a, b = (frame(drawn(chance, 6, 10, 14, 1), run) for run in ("a", "b"))
        apart += compare(a, b, margin=0)["verdict"][0] in {"better", "worse"}
        one, other = (side.assign(pair=None) for side in (a, b))
        pooled += compare(one, other, margin=0)["verdict"][0] in {"better", "worse"}
    assert apart <= 4
    assert pooled > 15


def test_differences_between_pairs_are_no_autocorrelation_and_no_drift() -> None:
    rows = drawn(np.random.default_rng(8), 6, 6, 14, 1)
    (row,) = data_quality(frame(rows), ["x_bps"]).to_dict("records")
    assert row["doubts"] == ""
    (told,) = variance_table(frame(rows), ["x_bps"]).to_dict("records")
    assert (told["pairs"], told["trials"], told["more"]) == (6, 6, "pairs")
    assert told["between_percent"] > 5 * told["within_percent"]
    assert variance_table(frame(rows).assign(pair=None), ["x_bps"]).empty


@pytest.mark.parametrize("pairs", [2, 3, 5])
def test_few_pairs_have_an_interval_of_their_mean(pairs: int) -> None:
    """Of drawn pairs it holds the mean of all in 95 %: of 2000, 3 standard errors are 1.5 %."""
    chance, held = np.random.default_rng(9), 0
    for _ in range(2000):
        found = variance_components(drawn(chance, pairs, 4, 14, 5))
        assert found is not None
        assert found.interval.low is None
        low, high = found.mean_interval.low, found.mean_interval.high
        assert low is not None
        assert high is not None
        held += low <= 100 <= high
    assert held / 2000 == pytest.approx(0.95, abs=0.015)


def test_the_gain_and_cost_of_one_more_pair_or_trial_are_computed() -> None:
    rows = {"1": [1.0, 3.0], "2": [7.0, 9.0]}
    trials = frame(rows).assign(wall_s=36.0, price_per_hour=0.4, currency="USD")
    (told,) = variance_table(trials, ["x_bps"]).to_dict("records")
    # A pair more has 2 trials of 36 s, and then 3 pairs exist for 6 trials, where 2 did for 4.
    assert told["pair_s"] == pytest.approx(72)
    assert told["pair_cost"] == pytest.approx((3 * 6 - 2 * 4) * 36 / 3600 * 0.2)
    # A trial more on each are 2, and both pairs exist for as long.
    assert told["trials_s"] == pytest.approx(72)
    assert told["trials_cost"] == pytest.approx(2 * 2 * 36 / 3600 * 0.2)
    # Student's t of 1 and 2 degrees of freedom, errors of 17/2 + 2/4, 17/3 + 2/6 and 17/2 + 2/6.
    narrow = 1 - 4.3027 / 12.7062 * (6 / 9) ** 0.5
    assert told["pair_narrows_percent"] == pytest.approx(100 * narrow, rel=1e-4)
    assert told["trials_narrow_percent"] == pytest.approx(100 * (1 - (8.8333 / 9) ** 0.5), rel=1e-3)
    (bare,) = variance_table(frame(rows), ["x_bps"]).to_dict("records")
    assert np.isnan(bare["pair_s"])
    assert np.isnan(bare["pair_cost"])
