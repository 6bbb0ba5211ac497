import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from osmef.facts.collect import change


def snapshot(uptime_s: float | None, **changes: Any) -> dict[str, JsonValue]:
    return {
        "uptime_s": uptime_s,
        "counters": {"eth0": {"rx_bytes": 1000, "rx_packets": 10, "tx_drops": None}},
        "cpu_time": {"user_s": 1.0, "idle_s": 5.0, "steal_s": 0.5, "guest_s": 0.5},
        **changes,
    }


def later(uptime_s: float | None) -> dict[str, JsonValue]:
    return snapshot(
        uptime_s,
        counters={"eth0": {"rx_bytes": 126_000, "rx_packets": 110, "tx_drops": 3}, "eth1": {}},
        cpu_time={"user_s": 3.0, "idle_s": 11.0, "steal_s": 2.5, "guest_s": 2.0},
    )


def test_rates_and_cpu_between_two_snapshots() -> None:
    assert change(snapshot(100.0), later(110.0)) == {
        "elapsed_s": 10.0,
        "interfaces": {
            "eth0": {"rx_bps": 100_000.0, "rx_packets_per_s": 10.0, "tx_drops_per_s": None}
        },
        "cpu_percent": {"guest": 15.0, "idle": 60.0, "steal": 20.0, "user": 20.0},
    }


@pytest.mark.parametrize("uptime_s", [100.0, 99.0, 0.0, None])
def test_without_elapsed_time_there_are_no_rates(uptime_s: float | None) -> None:
    """The same moment twice, a restart of the endpoint, or no uptime at all."""
    result: Any = change(snapshot(100.0), later(uptime_s))
    assert result["elapsed_s"] is None
    assert set(result["interfaces"]["eth0"].values()) == {None}
    assert set(result["cpu_percent"].values()) == {None}


def test_a_counter_that_went_backwards_has_no_rate() -> None:
    result: Any = change(later(100.0), snapshot(110.0))
    assert result["interfaces"]["eth0"]["rx_bps"] is None


def test_no_facts_are_no_rates() -> None:
    nothing: dict[str, JsonValue] = {"elapsed_s": None, "interfaces": {}, "cpu_percent": {}}
    assert change({}, {}) == nothing
    assert change({"error": "gone"}, snapshot(1.0)) == nothing


@given(st.floats(0.01, 1e6), st.integers(0, 2**64))
def test_a_rate_times_its_time_is_what_was_counted(elapsed_s: float, count: int) -> None:
    before: dict[str, JsonValue] = {"uptime_s": 0.0, "counters": {"eth0": {"tx_bytes": 5}}}
    after: dict[str, JsonValue] = {
        "uptime_s": elapsed_s,
        "counters": {"eth0": {"tx_bytes": 5 + count}},
    }
    result: Any = change(before, after)
    assert result["interfaces"]["eth0"]["tx_bps"] * elapsed_s == pytest.approx(8 * count)


NUMBERS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=3)
GROUPS = st.dictionaries(
    st.sampled_from(["eth0", "eth1"]), st.dictionaries(st.text(max_size=3), NUMBERS)
)
SNAPSHOTS = st.fixed_dictionaries(
    {},
    optional={
        "uptime_s": st.floats(0, 1e12).map(lambda s: round(s, 2)) | NUMBERS,
        "counters": GROUPS | NUMBERS,
        "cpu_time": st.dictionaries(st.text(max_size=3), NUMBERS) | NUMBERS,
    },
)


@given(SNAPSHOTS, SNAPSHOTS)
def test_no_facts_make_it_fail_or_give_what_json_cannot_hold(before: Any, after: Any) -> None:
    json.dumps(change(before, after), allow_nan=False)
