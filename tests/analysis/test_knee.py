from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.token_bucket import find_knee


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
def test_no_knee(sizes: list[int]) -> None:
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
