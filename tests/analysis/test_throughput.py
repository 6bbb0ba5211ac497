"""The search for the highest rate at a given loss, on paths whose truth is known; size sweeps."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.throughput import (
    Bounds,
    FoundThroughput,
    NextTrial,
    SearchEnd,
    SearchTrial,
    expected_trials,
    half_performance_length,
    next_trial,
    shortest_times,
    throughput,
    total_rates,
)
from osmef.results.observations import Purpose, SizePoint, SweepMode

BOUNDS = Bounds(lowest_bps=1e6, highest_bps=1e9, loss=0.001, resolution=0.01, most=60)
Path = Callable[[NextTrial], tuple[float, float]]
"""What is sent of an offered rate, and which share of it is lost."""


def search(path: Path, bounds: Bounds = BOUNDS) -> tuple[FoundThroughput, list[SearchTrial]]:
    """Search until nothing more is wanted."""
    tried: list[SearchTrial] = []
    while (wanted := next_trial(bounds, tried)) is not None:
        sent_bps, loss = path(wanted)
        tried.append(SearchTrial(wanted.offered_bps, sent_bps, loss, wanted.is_full))
        assert len(tried) <= bounds.most
    return throughput(bounds, tried), tried


def link(rate_bps: float, loss: float = 0.0) -> Path:
    """Return a path that loses what does not fit, and a share of all else."""

    def of(wanted: NextTrial) -> tuple[float, float]:
        room = min(1.0, rate_bps / wanted.offered_bps)
        return wanted.offered_bps, 1 - room * (1 - loss)

    return of


@given(st.floats(1.1e6, 0.99e9), st.floats(0, 0.1), st.floats(0.001, 0.2))
def test_the_true_rate_is_between_the_passed_and_the_refused_rate(
    rate_bps: float, loss: float, resolution: float
) -> None:
    bounds = Bounds(1e6, 1e9, loss, resolution, 200)
    found, tried = search(link(rate_bps), bounds)
    truth = rate_bps / (1 - loss)  # what is lost then is as much as is allowed
    if truth >= 1e9:
        assert (found.ended, found.passed_bps) == (SearchEnd.HIGHEST, 1e9)
        return
    assert found.ended is SearchEnd.FOUND
    assert found.passed_bps is not None
    assert found.refused_bps is not None
    assert found.passed_bps <= truth * (1 + 1e-9)
    assert truth <= found.refused_bps * (1 + 1e-9)
    assert found.refused_bps <= found.passed_bps * (1 + resolution) * (1 + 1e-9)
    short = sum(not one.is_full for one in tried)
    # A half more where a bound itself has to be tried.
    assert expected_trials(bounds)[0] <= short + 1
    assert short <= expected_trials(bounds)[0] + 1
    assert len(tried) - short == 2


def test_the_first_step_offers_the_highest_rate_and_the_last_ones_are_full() -> None:
    _, tried = search(link(3e8))
    assert tried[0].offered_bps == 1e9
    assert [one.is_full for one in tried[-2:]] == [True, True]


def test_a_path_that_passes_the_highest_rate_is_reported_as_such() -> None:
    found, tried = search(link(2e9))
    assert found == FoundThroughput(1e9, None, SearchEnd.HIGHEST, tried[1])
    assert [one.is_full for one in tried] == [False, True]


def test_a_path_with_loss_at_every_rate_is_reported_as_such() -> None:
    found, tried = search(link(2e9, loss=0.01))
    assert found == FoundThroughput(None, 1e6, SearchEnd.LOWEST)
    assert (tried[-1].offered_bps, tried[-1].is_full) == (1e6, True)
    assert tried[-1].loss == pytest.approx(0.01)


def test_a_rate_the_sender_cannot_reach_is_not_attributed_to_the_path() -> None:
    found, _ = search(lambda wanted: (min(wanted.offered_bps, 2e8), 0.0))
    assert found.ended is SearchEnd.SENDER
    assert found.passed_bps == 2e8
    assert 2e8 / 0.95 <= (found.refused_bps or 0) <= 2.13e8


def test_a_sender_that_waits_once_for_a_cpu_changes_nothing() -> None:
    short = iter([False, False, True])

    def of(wanted: NextTrial) -> tuple[float, float]:
        sent, loss = link(3e8)(wanted)
        return (0.7 * sent, 0.0) if next(short, False) else (sent, loss)

    found, tried = search(of)
    assert found.ended is SearchEnd.FOUND
    assert found.passed_bps == pytest.approx(3e8, rel=0.01)
    assert tried[3] == SearchTrial(tried[2].offered_bps, tried[2].offered_bps, tried[3].loss, False)


def test_the_rate_actually_sent_is_reported_when_below_the_offered_rate() -> None:
    found, _ = search(lambda wanted: (0.97 * wanted.offered_bps, link(3e8)(wanted)[1]))
    assert found.ended is SearchEnd.FOUND
    assert found.passed_bps == pytest.approx(0.97 * 3e8, rel=0.01)
    assert (found.refused_bps or 0) >= 3e8


def test_a_rate_refused_by_chance_in_a_short_step_is_tried_for_longer() -> None:
    hit = iter([False, True])  # the second step, of 32 Mbit/s, has a burst of loss

    def of(wanted: NextTrial) -> tuple[float, float]:
        offered, loss = link(3e8)(wanted)
        return offered, 0.5 if next(hit, False) else loss

    found, tried = search(of)
    assert found.ended is SearchEnd.FOUND
    assert found.passed_bps == pytest.approx(3e8, rel=0.01)
    assert len(tried) < 40


def test_a_rate_that_only_short_steps_pass_is_given_up() -> None:
    def of(wanted: NextTrial) -> tuple[float, float]:  # a bucket that lasts for a short step
        return link(2e8 if wanted.is_full else 3e8)(wanted)

    found, _ = search(of)
    assert found.ended is SearchEnd.FOUND
    assert found.passed_bps == pytest.approx(2e8, rel=0.01)


def test_more_loss_in_the_middle_counts() -> None:
    def of(wanted: NextTrial) -> tuple[float, float]:
        return wanted.offered_bps, 0.5 if 3e7 < wanted.offered_bps < 4e7 else 0.0

    bounds = Bounds(1e6, 5e8, 0.0, 0.01, 60)
    assert search(of, bounds)[0].ended is SearchEnd.HIGHEST  # nobody looks below what passes


@pytest.mark.parametrize("most", [3, 4, 6, 9])
def test_too_few_steps_still_confirm_what_passed(most: int) -> None:
    found, tried = search(link(9e8), Bounds(1e6, 1e9, 0.0, 0.001, most))
    assert found.ended is SearchEnd.STEPS
    assert len(tried) == most
    assert found.passed_bps is not None
    assert found.passed_bps <= 9e8 <= (found.refused_bps or 0)
    assert found.refused_bps > found.passed_bps * 1.001  # type: ignore[operator]


def test_a_search_without_trials_finds_no_rate() -> None:
    assert throughput(BOUNDS, []) == FoundThroughput(None, None, SearchEnd.STEPS)


@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_a_search_ends_whatever_it_meets(seed: int, share: float) -> None:
    chance = np.random.default_rng(seed)

    def of(wanted: NextTrial) -> tuple[float, float]:
        sent = wanted.offered_bps * (1.0 if chance.random() < 0.9 else 0.5)
        return sent, float(chance.random() < share)

    found, tried = search(of)
    assert (found.ended is SearchEnd.STEPS) or len(tried) < BOUNDS.most
    if found.passed_bps is not None and found.refused_bps is not None:
        assert found.passed_bps < found.refused_bps
    for one in tried:
        assert BOUNDS.lowest_bps * (1 - 1e-9) <= one.offered_bps <= BOUNDS.highest_bps
        assert math.isfinite(one.offered_bps)


def point(
    size: int,
    bps: float,
    time_us: float = 1.0,
    flow: int = 0,
    sender: str = "a",
    *,
    pair_bps: float | None = None,
) -> SizePoint:
    return SizePoint(
        purpose=Purpose.MEASURED,
        sender=sender,
        receiver="b",
        flow=flow,
        mode=SweepMode.PINGPONG,
        checked=False,
        size=size,
        repetitions=3,
        trials=1,
        time_min_us=time_us,
        time_median_us=time_us,
        time_max_us=time_us,
        throughput_bps=bps,
        pair_throughput_bps=pair_bps,
    )


def test_all_is_moved_when_the_slowest_connection_is_done() -> None:
    points = [point(2, 5.0), point(2, 7.0, flow=1), point(1, 1.0), point(1, 2.0, flow=1)]
    assert total_rates([*points, point(4, 9.0)]) == {1: 2.0, 2: 10.0}


def test_total_rates_use_the_rate_of_the_pair() -> None:
    points = [point(2, 5.0, pair_bps=8.0), point(2, 7.0, flow=1, pair_bps=8.0)]
    assert total_rates([*points, point(2, 1.0, sender="c")]) == {2: 9.0}


def test_the_rates_of_pairs_add_up() -> None:
    points = [point(2, 5.0), point(2, 7.0, flow=1), point(2, 1.0, sender="c")]
    assert total_rates([*points, point(1, 9.0)]) == {2: 11.0}


def test_the_shortest_time_is_that_of_any_connection() -> None:
    points = [point(8, 1, 5.0), point(8, 1, 4.0, flow=1), point(1, 1, 2.0)]
    assert list(shortest_times(points).items()) == [(1, 2.0), (8, 4.0)]


@pytest.mark.parametrize(
    ("rates", "size"),
    [
        ({}, None),
        ({1: 10.0}, None),
        ({1: 6.0, 2: 10.0}, None),
        ({1: 0.0, 11: 10.0}, 6.0),
        ({1: 1.0, 2: 2.0, 4: 6.0, 8: 8.0}, 3.0),
        ({1: 1.0, 2: 9.0, 4: 2.0, 8: 10.0}, 1.5),
    ],
)
def test_where_half_of_the_highest_rate_is_reached(
    rates: dict[int, float], size: float | None
) -> None:
    assert half_performance_length(rates) == size


@given(
    st.floats(1e-6, 1e-2),
    st.floats(1e6, 1e10),
)
def test_n_half_of_an_ideal_path_is_latency_times_bandwidth(
    latency_s: float, bytes_per_s: float
) -> None:
    """Hockney's model: a message of n bytes takes latency + n / bandwidth, so n_1/2 = l * b."""
    exact = latency_s * bytes_per_s
    sizes = [max(1, round(exact * 1.1**n)) for n in range(-60, 130)]
    found = half_performance_length({n: n / (latency_s + n / bytes_per_s) for n in sizes})
    if exact > 20:
        assert found == pytest.approx(exact, rel=0.05)
