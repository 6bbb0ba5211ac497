import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.rfc6349 import (
    buffer_delay_percent,
    tcp_efficiency_percent,
    transfer_time_ratio,
)


def test_the_examples_of_the_rfc() -> None:
    # Sections 4.2 and 4.3: 102 000 bytes sent, 2000 of them again; 25 ms of base, 32 ms on average.
    assert tcp_efficiency_percent(102_000, 2_000) == pytest.approx(98.04, abs=0.01)
    assert buffer_delay_percent(32_000, 25_000) == pytest.approx(28)


def test_a_transfer_at_the_ideal_rate_has_ratio_1() -> None:
    assert transfer_time_ratio(10.0, 125_000_000, 1e8) == pytest.approx(1.0)
    assert transfer_time_ratio(15.0, 125_000_000, 1e8) == pytest.approx(1.5)


@given(sent=st.integers(1, 10**15), share=st.floats(0, 1))
def test_efficiency_is_a_percentage(sent: int, share: float) -> None:
    efficiency = tcp_efficiency_percent(sent, int(sent * share))
    assert efficiency is not None
    assert 0 <= efficiency <= 100


def test_without_data_there_is_no_metric() -> None:
    assert tcp_efficiency_percent(0, 0) is None
    assert buffer_delay_percent(100, 0) is None
    assert transfer_time_ratio(1, 0, 1e9) is None
    assert transfer_time_ratio(1, 1000, 0) is None
