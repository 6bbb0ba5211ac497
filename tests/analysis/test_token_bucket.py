"""Token buckets, of simulated transfers, and results that follow what endpoints had carried."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from osmef.analysis.token_bucket import (
    Bucket,
    Estimate,
    Refill,
    find_bucket,
    find_knee,
    find_refill,
    has_settled,
    is_proved,
    refill_rate,
)
from osmef.analysis.trends import carried_trend


def bucket(
    burst_bytes: float, fast_bps: float, slow_bps: float, count: int, length_s: float
) -> list[int]:
    """Return the bytes of each interval behind a token bucket that is full at the start."""
    empty_s = 8 * burst_bytes / (fast_bps - slow_bps)
    passed = [
        (fast_bps * min(t, empty_s) + slow_bps * max(0.0, t - empty_s)) / 8
        for t in (i * length_s for i in range(count + 1))
    ]
    return [round(after - before) for before, after in itertools.pairwise(passed)]


@given(
    slow_bps=st.floats(1e6, 1e10),
    ratio=st.floats(2, 50),
    empty_at=st.floats(2.0, 12.0),
    length_s=st.floats(0.1, 10),
    noise=st.floats(0, 0.03),
    chance=st.randoms(),
)
def test_it_finds_time_burst_and_both_rates(
    *,
    slow_bps: float,
    ratio: float,
    empty_at: float,
    length_s: float,
    noise: float,
    chance: Random,
) -> None:
    fast_bps, empty_s = slow_bps * ratio, empty_at * length_s
    burst = (fast_bps - slow_bps) * empty_s / 8
    sizes = [
        round(size * chance.uniform(1 - noise, 1 + noise))
        for size in bucket(burst, fast_bps, slow_bps, 30, length_s)
    ]
    knee = find_knee([length_s] * 30, sizes)
    assert knee is not None
    # An unclean edge costs at most what the noise may add to each interval of the burst.
    assert knee.at_s == pytest.approx(empty_s, rel=0.1)
    assert knee.burst_bytes == pytest.approx(burst, rel=0.15)
    assert knee.burst_bps == pytest.approx(fast_bps, rel=0.05)
    assert knee.plateau_bps == pytest.approx(slow_bps, rel=0.05)


def test_a_burst_within_the_first_interval() -> None:
    knee = find_knee([1.0] * 10, bucket(2e7, 1e9, 1e8, 10, 1.0))
    assert knee is not None
    assert knee.burst_bytes == pytest.approx(2e7, rel=0.01)
    assert knee.at_s <= 1.0


def test_a_slow_start_before_the_burst_does_not_hide_it() -> None:
    sizes = [10_000, 400_000, *[1_000_000] * 8, *[200_000] * 20]
    knee = find_knee([0.1] * 30, sizes)
    assert knee is not None
    assert knee.plateau_bps == pytest.approx(16e6)


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([], id="empty"),
        pytest.param([1000] * 30, id="constant"),
        pytest.param([0] * 30, id="nothing"),
        pytest.param([100] * 10 + [1000] * 20, id="faster later"),
        pytest.param([1000 - 30 * i for i in range(30)], id="slower and slower"),
        pytest.param([1000] * 25 + [100] * 5, id="a short plateau"),
        pytest.param([1000] * 10 + [100, 900] * 10, id="no plateau"),
    ],
)
def test_a_series_without_a_knee_has_none(sizes: list[int]) -> None:
    assert find_knee([1.0] * len(sizes), sizes) is None


NOISES: list[Callable[[np.random.Generator, float], float]] = [
    lambda chance, spread: max(0.0, chance.normal(1, spread)),
    lambda chance, spread: chance.lognormal(0, spread),
]


def test_flat_noise_of_any_spread_has_a_knee_in_less_than_1_of_100_cases() -> None:
    chance, found, cases = np.random.default_rng(1), 0, 0
    for noise in NOISES:
        for spread in (0.01, 0.05, 0.1, 0.2, 0.3):
            for count in (8, 10, 20, 60):
                for _ in range(100):
                    sizes = [round(1e6 * noise(chance, spread)) for _ in range(count)]
                    found += find_knee([1.0] * count, sizes) is not None
                    cases += 1
    assert found / cases < 0.01


def noisy(sizes: Sequence[int], share: float, chance: Random) -> list[int]:
    return [round(size * chance.uniform(1 - share, 1 + share)) for size in sizes]


def holds(estimate: Estimate, truth: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low <= estimate.value <= estimate.high
    return estimate.low <= truth <= estimate.high


def found(sizes: list[int], length_s: float = 1.0) -> Bucket:
    one = find_bucket([length_s] * len(sizes), sizes)
    assert one is not None
    return one


@given(
    slow_bps=st.floats(1e7, 1e9),
    ratio=st.floats(2, 20),
    empty_at=st.floats(8, 40),
    noise=st.floats(0, 0.03),
    chance=st.randoms(use_true_random=True),  # else all noise may be on one side
)
@settings(max_examples=50)
def test_all_four_numbers_are_near(
    *, slow_bps: float, ratio: float, empty_at: float, noise: float, chance: Random
) -> None:
    fast_bps = slow_bps * ratio
    size = (fast_bps - slow_bps) * empty_at / 8
    sizes = noisy(bucket(size, fast_bps, slow_bps, 80, 1.0), noise, chance)
    one = found(sizes)
    assert one.burst_bps.value == pytest.approx(fast_bps, rel=0.04)
    assert one.sustained_bps.value == pytest.approx(slow_bps, rel=0.02)
    assert one.size_bytes.value == pytest.approx(size, rel=0.05)
    assert one.fell_s.value == pytest.approx(empty_at, rel=0.05, abs=0.5)


def test_intervals_hold_the_truth() -> None:
    chance, missed = np.random.default_rng(7), {"burst": 0, "sustained": 0, "size": 0, "fell": 0}
    draws = 300
    for _ in range(draws):
        times = chance.normal(1, 0.03, 60)
        # The noise of the burst is what really passed: it moves the fall, not the size.
        rates = np.where(np.arange(60) < 20, 1e9 * times, 1e8 * times)
        sizes = [round(rate / 8) for rate in rates]
        held = sum(sizes[:20]) - 20 * 1e8 / 8
        one = found(sizes)
        missed["burst"] += not holds(one.burst_bps, 1e9)
        missed["sustained"] += not holds(one.sustained_bps, 1e8)
        missed["size"] += not holds(one.size_bytes, held)
        missed["fell"] += not holds(one.fell_s, 20)
    assert max(missed.values()) <= 0.09 * draws, missed


def test_a_burst_of_few_intervals_has_no_interval() -> None:
    one = found(bucket(2.8e8, 1e9, 1e8, 20, 1.0))
    assert one.burst_bps.low is None
    assert one.fell_s.low is None
    assert one.fell_s.value == pytest.approx(2.8e8 * 8 / 9e8, rel=0.01)
    assert holds(one.size_bytes, 2.8e8)


def test_proof_takes_eight_intervals_and_five_seconds() -> None:
    sizes = bucket(2.5e8, 1e9, 1e8, 100, 1.0)
    lengths = [1.0] * 100
    ends = [n for n in range(1, 40) if is_proved(lengths[:n], sizes[:n])]
    assert ends[0] == 3 + 8
    quick = bucket(2.5e8, 1e9, 1e8, 100, 0.1)
    ends = [n for n in range(1, 100) if is_proved([0.1] * n, quick[:n])]
    assert ends[0] == pytest.approx(23 + 50, abs=2)


def test_a_lower_rate_that_is_not_known_yet_is_no_proof() -> None:
    chance = Random(3)  # noqa: S311 - numbers
    sizes = noisy(bucket(2.5e8, 1e9, 1e8, 40, 1.0), 0.08, chance)
    proved = [n for n in range(1, 40) if is_proved([1.0] * n, sizes[:n])]
    assert not proved or proved[0] > 11


@pytest.mark.parametrize("spread", [0.0, 0.02, 0.1, 0.3])
def test_a_steady_transfer_is_not_taken_for_a_token_bucket(spread: float) -> None:
    chance, wrong = np.random.default_rng(1), 0
    for _ in range(30):
        sizes = [max(1, round(1e8 * one)) for one in chance.normal(1, spread, 60)]
        wrong += any(is_proved([1.0] * n, sizes[:n]) for n in range(11, 61))
    assert wrong <= 1


def test_the_fill_rate_of_a_token_bucket_is_estimated_after_a_rest() -> None:
    sustained = Estimate(1e8, 0.99e8, 1.01e8)
    sizes = bucket(5e7, 1e9, 1e8, 30, 0.1)
    assert has_settled([0.1] * 30, sizes, 1e8)
    one = find_refill([0.1] * 30, sizes, sustained)
    assert one is not None
    assert one.value == pytest.approx(5e7, rel=0.01)
    assert holds(one, 5e7)


def test_a_path_without_a_burst_after_a_rest_has_a_fill_rate_of_zero() -> None:
    one = find_refill([1.0] * 8, [12_500_000] * 8, Estimate(1e8, 0.99e8, 1.01e8))
    assert one is not None
    assert one.value == pytest.approx(0, abs=1)


def test_a_rate_that_does_not_settle_gives_no_fill_rate() -> None:
    assert not has_settled([1.0] * 20, [10**8] * 20, 1e8)
    assert find_refill([1.0] * 20, [10**8] * 20, Estimate(1e8, None, None)) is None


def given_after(*rests: float, rate_bps: float, size: float) -> list[Refill]:
    filled = (min(rest * rate_bps / 8, size) for rest in rests)
    return [
        Refill(rest, Estimate(value, value, value))
        for rest, value in zip(rests, filled, strict=True)
    ]


def test_the_rate_at_which_it_fills() -> None:
    one = refill_rate(given_after(4, 8, 16, rate_bps=1e8, size=3e8), 3e8)
    assert one is not None
    assert one.value == pytest.approx(1e8)
    assert holds(one, 1e8)


def test_a_full_bucket_does_not_count() -> None:
    one = refill_rate(given_after(4, 8, 900, rate_bps=1e8, size=3e8), 3e8)
    assert one is not None
    assert one.value == pytest.approx(1e8)
    assert one.low is None
    assert refill_rate(given_after(900, rate_bps=1e8, size=3e8), 3e8) is None


values = st.lists(st.integers(10**6, 2 * 10**6), min_size=5, max_size=9, unique=True)


@given(rows=values)
def test_the_trend_of_one_cell_is_kendalls_exact_test(rows: list[int]) -> None:
    found = carried_trend([(rows, range(len(rows)))])
    assert found is not None
    expected = kendalltau(range(len(rows)), rows, method="exact").pvalue
    assert found.p == pytest.approx(expected, rel=1e-9)


def test_two_cells_have_the_exact_distribution_of_their_sum() -> None:
    def s(order: tuple[int, ...]) -> int:
        pairs = itertools.combinations(order, 2)
        return sum(1 if later > earlier else -1 for earlier, later in pairs)

    orders = list(itertools.permutations(range(5)))
    sums = [s(one) + s(other) for one in orders for other in orders]
    one, other = (0, 1, 3, 2, 4), (1, 0, 2, 3, 4)
    found = carried_trend([([10 + v for v in of], range(5)) for of in (one, other)])
    assert found is not None
    expected = np.mean([abs(of) >= s(one) + s(other) for of in sums])
    assert found.p == pytest.approx(float(expected))


def test_an_emptying_token_bucket_is_reported() -> None:
    rates = [10.0, 9.9, 10.1, 6.0, 2.0, 2.1, 1.9, 1.8]
    found = carried_trend([(rates, [10.0 * number for number in range(8)])])
    assert found is not None
    assert found.is_reportable
    assert found.change < -0.5


def test_many_cells_together_show_a_trend_that_one_cell_cannot() -> None:
    chance = np.random.default_rng(3)
    cells = []
    for _ in range(24):
        before = np.sort(chance.uniform(0, 1e9, 6))
        rates = chance.normal(100, 2, 6) * (1 - 0.05 * before / 1e9)
        cells.append((rates.tolist(), before.tolist()))
    single = [carried_trend([cell]) for cell in cells]
    assert sum(one is not None and one.is_reportable for one in single) < 12
    together = carried_trend(cells)
    assert together is not None
    assert together.is_reportable
    assert together.change == pytest.approx(-0.05, abs=0.02)


def test_a_small_change_is_none() -> None:
    rows = [100 - 0.01 * number for number in range(20)]
    found = carried_trend([(rows, range(20))])
    assert found is not None
    assert found.p < 1e-6
    assert not found.is_reportable


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(([1.0, 2.0, 3.0, 4.0], range(4)), id="few"),
        pytest.param(([5.0] * 8, range(8)), id="no-spread"),
        pytest.param(([1.0, 2.0, 3.0, 4.0, 5.0], [7.0] * 5), id="nothing-carried"),
        pytest.param(([], []), id="none"),
    ],
)
def test_cells_without_enough_data_give_no_trend(cell: tuple[list[float], list[float]]) -> None:
    assert carried_trend([cell]) is None


def test_long_cells_and_ties_take_little_time() -> None:
    chance = np.random.default_rng(1)
    rows = chance.integers(90, 110, 50_000).tolist()
    found = carried_trend([(rows, range(50_000))])
    assert found is not None
    assert not found.is_reportable
