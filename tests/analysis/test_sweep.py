from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.throughput import half_performance_length, shortest_times, total_rates
from osmef.results.observations import Purpose, SizePoint, SweepMode


def point(
    size: int, bps: float, time_us: float = 1.0, flow: int = 0, sender: str = "a"
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
    )


def test_all_is_moved_when_the_slowest_connection_is_done() -> None:
    points = [point(2, 5.0), point(2, 7.0, flow=1), point(1, 1.0), point(1, 2.0, flow=1)]
    assert total_rates([*points, point(4, 9.0)]) == {1: 2.0, 2: 10.0}


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
def test_of_a_path_with_latency_and_bandwidth_it_is_their_product(
    latency_s: float, bytes_per_s: float
) -> None:
    """Hockney's model: a message of n bytes takes latency + n / bandwidth, so n_1/2 = l * b."""
    exact = latency_s * bytes_per_s
    sizes = [max(1, round(exact * 1.1**n)) for n in range(-60, 130)]
    found = half_performance_length({n: n / (latency_s + n / bytes_per_s) for n in sizes})
    if exact > 20:
        assert found == pytest.approx(exact, rel=0.05)
