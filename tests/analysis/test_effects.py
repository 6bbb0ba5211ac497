from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from osmef.analysis.effects import (
    Effect,
    a12,
    cliffs_delta,
    hedges_g,
    hodges_lehmann,
    median_ratio,
)
from osmef.analysis.hypothesis_tests import mann_whitney
from tests.simulate.shapes import SHAPES, bimodal

Measure = Callable[[list[float], list[float]], Effect]
samples = st.lists(st.integers(1, 1000).map(float), min_size=2, max_size=15)


def ends(effect: Effect) -> tuple[float, float]:
    assert effect.interval.low is not None
    assert effect.interval.high is not None
    return effect.interval.low, effect.interval.high


@pytest.mark.parametrize("measure", [hodges_lehmann, hedges_g, cliffs_delta, a12, median_ratio])
@given(a=samples, b=samples)
def test_the_order_of_the_values_does_not_matter_and_the_interval_holds_the_effect(
    measure: Measure, a: list[float], b: list[float]
) -> None:
    effect = measure(a, b)
    assert measure(sorted(a), sorted(b)).value == pytest.approx(effect.value)
    if effect.interval.low is not None:
        low, high = ends(effect)
        assert low - 1e-9 <= (effect.value or 0) <= high + 1e-9
    else:
        assert effect.interval.reason


@pytest.mark.parametrize("measure", [hodges_lehmann, hedges_g, cliffs_delta])
@given(a=samples, b=samples)
def test_swapped_samples_give_the_opposite_effect(
    measure: Measure, a: list[float], b: list[float]
) -> None:
    one, other = measure(a, b), measure(b, a)
    assume(one.value is not None and one.interval.low is not None)
    assert (one.value or 0) == pytest.approx(-(other.value or 0), abs=1e-9)
    np.testing.assert_allclose(ends(one), [-x for x in reversed(ends(other))], atol=1e-6)


@given(samples, samples, st.floats(0.1, 10), st.floats(-50, 50))
def test_effect_sizes_scale_with_the_unit_and_ignore_an_offset(
    a: list[float], b: list[float], scale: float, offset: float
) -> None:
    moved_a, moved_b = ([scale * x + offset for x in one] for one in (a, b))
    shift = hodges_lehmann(a, b).value
    assert shift is not None
    assert hodges_lehmann(moved_a, moved_b).value == pytest.approx(scale * shift, abs=1e-6)
    g = hedges_g(a, b).value
    if g is not None:
        assert hedges_g(moved_a, moved_b).value == pytest.approx(g, abs=1e-6)
    ratio = median_ratio(a, b).value
    assert median_ratio([scale * x for x in a], [scale * x for x in b]).value == pytest.approx(
        ratio
    )


@given(st.integers(3, 9), st.integers(3, 9), st.integers(0, 2**32 - 1))
def test_the_interval_of_the_shift_is_what_the_rank_test_does_not_reject(
    n: int, m: int, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    a, b = chance.normal(3, 1, n).tolist(), chance.normal(0, 1, m).tolist()
    effect = hodges_lehmann(a, b)
    if effect.interval.low is None:
        assert 2 / math.comb(n + m, n) > 0.05
        return
    low, high = ends(effect)
    step = 1e-9 * (1 + abs(high))
    for shift, held in ((low + step, True), (low - step, False), (high + step, False)):
        p = mann_whitney([x - shift for x in a], b).p
        assert p is not None
        assert (p > 0.05) == held


CASES: list[tuple[Measure, int, Callable[[float], float]]] = [
    (hodges_lehmann, 6, lambda shift: shift),
    (hodges_lehmann, 60, lambda shift: shift),
    (hedges_g, 6, lambda shift: shift),
    (hedges_g, 30, lambda shift: shift),
    (cliffs_delta, 20, lambda shift: 2 * float(stats.norm.cdf(shift / math.sqrt(2))) - 1),
    (a12, 20, lambda shift: float(stats.norm.cdf(shift / math.sqrt(2)))),
]


@pytest.mark.parametrize(("measure", "n", "truth"), CASES)
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_intervals_cover_the_true_effect_at_their_stated_rate(
    measure: Measure, n: int, truth: Callable[[float], float], shift: float
) -> None:
    chance, held, times = np.random.default_rng(11), 0, 200
    for _ in range(times):
        effect = measure(chance.normal(shift, 1, n).tolist(), chance.normal(0, 1, n).tolist())
        low, high = ends(effect)
        held += low <= truth(shift) <= high
    assert held / times == pytest.approx(effect.interval.coverage, abs=0.05)


def test_the_ratio_of_medians_holds_the_truth_also_with_other_shapes() -> None:
    chance, held = np.random.default_rng(13), 0
    for _ in range(500):
        effect = median_ratio(
            chance.lognormal(1, 1, 15).tolist(), chance.uniform(1, 3, 10).tolist()
        )
        low, high = ends(effect)
        held += low <= math.e / 2 <= high
    assert held / 500 >= 0.94


@pytest.mark.parametrize("shape", [name for name in SHAPES if "autocorrelation" not in name])
@pytest.mark.parametrize("count", [6, 8, 20])
def test_the_ratio_of_medians_is_no_wider_than_it_need_be(shape: str, count: int) -> None:
    chance, held, widths, times = np.random.default_rng(13), 0, [], 400
    for a, b in np.abs(SHAPES[shape](chance, (times, 2, count))):
        low, high = ends(median_ratio(a.tolist(), b.tolist()))
        held += low <= 1 <= high
        widths.append(math.log(high / low))
    assert held / times >= 0.92
    if shape == "normal":  # 2 * 1.96 * sqrt(pi / 2) * 0.02 * sqrt(2 / n), more of few values
        wanted = 3.92 * math.sqrt(math.pi / count) * 0.02
        assert wanted < float(np.mean(widths)) < 1.3 * wanted


@pytest.mark.parametrize("share", [0.65, 0.8])
def test_the_ratio_of_medians_of_unlike_numbers_from_two_kinds_of_hosts(share: float) -> None:
    """Half of six values of the slow kind put the median between both, and an end near it."""
    chance, held, draw = np.random.default_rng(14), 0, bimodal(share)
    for _ in range(600):
        a, b = draw(chance, (6,)), draw(chance, (30,))
        low, high = ends(median_ratio(a.tolist(), b.tolist()))
        held += low <= 1 <= high
    assert held / 600 >= 0.94


def test_hedges_g_by_hand() -> None:
    # Means 4 and 2, both of variance 1: d = 2; J of 4 degrees of freedom is gamma(2) / (sqrt(2)
    # gamma(1.5)).
    effect = hedges_g([3.0, 4.0, 5.0], [1.0, 2.0, 3.0])
    assert effect.value == pytest.approx(2 / (math.sqrt(2) * math.gamma(1.5)))


@pytest.mark.parametrize("t_of", [0.0, 0.7, 3.0, 12.0])
def test_the_interval_of_hedges_g_is_that_of_the_noncentral_t_distribution(t_of: float) -> None:
    n = 8
    base = np.array(stats.norm.ppf((np.arange(n) + 0.5) / n))
    a, b = (base + t_of).tolist(), base.tolist()
    effect = hedges_g(a, b)
    t = stats.ttest_ind(a, b).statistic
    small = math.gamma(7) / (math.sqrt(7) * math.gamma(6.5))
    low, high = (end / small * math.sqrt(n / 2) for end in ends(effect))
    assert stats.nct.cdf(t, 2 * n - 2, low) == pytest.approx(0.975, abs=1e-4)
    assert stats.nct.cdf(t, 2 * n - 2, high) == pytest.approx(0.025, abs=1e-4)


def test_samples_hugely_apart_still_have_an_interval() -> None:
    low, high = ends(hedges_g([1e9, 1e9 + 1, 1e9 + 2], [1.0, 2.0, 3.0]))
    assert 1e8 < low < 1e9 < high < 1e10


def test_cliffs_delta_of_samples_apart_depends_on_the_smaller_one() -> None:
    z2 = stats.norm.ppf(0.975) ** 2
    low, high = ends(cliffs_delta([5.0, 6.0, 7.0], [1.0, 2.0]))
    assert low == pytest.approx((2 - z2) / (2 + z2))
    assert high == 1.0


def test_a12_is_the_share_of_wins() -> None:
    assert a12([1.0, 2.0, 3.0], [2.0, 2.0]).value == 0.5
    assert a12([4.0, 4.0], [1.0, 4.0]).value == 0.75


@given(samples, samples)
def test_median_ratio_is_the_ratio_of_the_medians(a: list[float], b: list[float]) -> None:
    effect = median_ratio(a, b)
    assert effect.value == statistics.median(a) / statistics.median(b)
    assert (effect.interval.low is None) == (min(len(a), len(b)) < 6)


@pytest.mark.parametrize(("a", "b"), [([1.0, -1.0], [1.0]), ([1.0], [1.0, 0.0])])
def test_a_ratio_to_0_or_of_a_negative_value_is_refused(a: list[float], b: list[float]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        median_ratio(a, b)


@given(samples, samples, st.integers(1, 15))
def test_the_interval_of_a_ratio_may_begin_at_0(a: list[float], b: list[float], lost: int) -> None:
    values = [*[0.0] * min(lost, len(a)), *a[lost:]]
    effect = median_ratio(values, b)
    assert effect.value == statistics.median(values) / statistics.median(b)
    if effect.interval.low is None:
        assert effect.interval.reason
    else:
        low, high = ends(effect)
        assert 0 <= low <= (effect.value or 0) <= high < math.inf


@pytest.mark.parametrize("measure", [hodges_lehmann, hedges_g, cliffs_delta, a12, median_ratio])
def test_the_effect_size_of_an_empty_sample_has_a_reason(measure: Measure) -> None:
    effect = measure([], [1.0, 2.0])
    assert effect.value is None
    assert effect.interval.low is None
    assert "each sample needs" in (effect.interval.reason or "")


def test_without_spread_g_is_not_defined() -> None:
    assert hedges_g([1.0, 1.0], [2.0, 2.0]).value is None


def test_too_few_values_give_a_reason_instead_of_an_interval() -> None:
    effect = hodges_lehmann([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    assert effect.value == -3
    assert effect.interval.reason == "n = 3 and 3 are too few for 95 %"
