from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.differences import MOVING, Difference, differences

keys = st.sampled_from(["a", "b", "c"])
records = st.dictionaries(keys, st.integers(0, 2) | st.dictionaries(keys, st.integers(0, 2)))


def test_each_value_that_differs_is_named() -> None:
    a = {"kernel": {"release": "6.1", "version": "#1"}, "mtu": 1500, "cpu": {"online": 4}}
    b = {"kernel": {"release": "6.9", "version": "#1"}, "cpu": {"online": 4}}
    assert differences(a, b) == [
        Difference("kernel.release", "6.1", "6.9"),
        Difference("mtu", 1500, None),
    ]


def test_what_moves_does_not_count() -> None:
    assert differences({"uptime_s": 1, "load": {"one": 2}}, {"uptime_s": 9}, MOVING) == []


@given(records, records)
def test_both_ways_round_are_opposite_and_nothing_differs_from_itself(
    a: dict[str, object], b: dict[str, object]
) -> None:
    assert differences(a, a) == []
    assert differences(b, a) == [Difference(one.key, one.b, one.a) for one in differences(a, b)]
