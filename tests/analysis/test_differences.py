from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.differences import (
    MOVING,
    Difference,
    DifferingKey,
    differences,
    differing_keys,
    differing_keys_with_groups,
    with_groups,
)

keys = st.sampled_from(["a", "b", "c"])
records = st.dictionaries(keys, st.integers(0, 2) | st.dictionaries(keys, st.integers(0, 2)))


def test_each_value_that_differs_is_named() -> None:
    a = {"kernel": {"release": "6.1", "version": "#1"}, "mtu": 1500, "cpu": {"online": 4}}
    b = {"kernel": {"release": "6.9", "version": "#1"}, "cpu": {"online": 4}}
    assert differences(a, b) == [
        Difference("kernel.release", "6.1", "6.9"),
        Difference("mtu", 1500, None),
    ]


def test_volatile_facts_are_not_compared() -> None:
    a = {
        "uptime_s": 1,
        "load": {"one": 2},
        "change": {"interfaces": {"eth0": {"tx_bps": 9e8}}},
        "memory": {"total_bytes": 8, "free_bytes": 1},
    }
    b = {"uptime_s": 9, "memory": {"total_bytes": 16, "free_bytes": 2}}
    assert differences(a, b, MOVING) == [Difference("memory.total_bytes", 8, 16)]


def test_differing_values_are_listed_with_the_records_that_have_them() -> None:
    old, new = {"cpu": {"model": "old", "online": 2}}, {"cpu": {"model": "new", "online": 2}}
    assert differing_keys({"a": new, "b": old, "c": old, "d": {}}) == [
        DifferingKey("cpu.model", {'"old"': ["b", "c"], '"new"': ["a"], "null": ["d"]}),
        DifferingKey("cpu.online", {"2": ["a", "b", "c"], "null": ["d"]}),
    ]


def test_facts_unknown_on_one_side_are_one_line_per_group() -> None:
    offloads = {"gro": True, "tso": False, "gso": True}
    a = {"eth0": {"mtu": 1500, "offloads": None}, "os": "12", "swap": 1}
    b = {"eth0": {"mtu": 9000, "offloads": offloads}, "os": "13"}
    found = differences(a, b)
    assert with_groups(found) == [
        Difference("eth0.mtu", 1500, 9000),
        Difference("eth0.offloads.*", None, "3 values"),
        Difference("os", "12", "13"),
        Difference("swap", 1, None),
    ]
    assert with_groups(differences(b, a))[1] == Difference("eth0.offloads.*", "3 values", None)


def test_a_fact_in_no_group_has_its_own_line() -> None:
    found = differences({"mtu": 1500, "swap": 1}, {})
    assert with_groups(found) == found
    every = differing_keys({"a": {"mtu": 1500, "swap": 1}, "b": {}})
    assert differing_keys_with_groups(every) == every


def test_facts_missing_on_the_same_hosts_are_one_line_per_group() -> None:
    whole = {"eth0": {"mtu": 1500, "offloads": {"gro": True, "tso": False}}, "cpu": {"mhz": 2}}
    lacking = {"eth0": {"mtu": 9000, "offloads": None}}
    assert differing_keys_with_groups(differing_keys({"a": whole, "b": whole, "c": lacking})) == [
        DifferingKey("cpu.mhz", {"2": ["a", "b"], "null": ["c"]}),
        DifferingKey("eth0.mtu", {"1500": ["a", "b"], "9000": ["c"]}),
        DifferingKey("eth0.offloads.*", {'"2 values"': ["a", "b"], "null": ["c"]}),
    ]


@given(st.dictionaries(st.text(max_size=3), records, min_size=2, max_size=2))
def test_spread_and_differences_list_the_same_keys_of_two_records(
    two: dict[str, dict[str, object]],
) -> None:
    a, b = two.values()
    assert [one.key for one in differing_keys(two)] == [one.key for one in differences(a, b)]


@given(records, records)
def test_both_ways_round_are_opposite_and_nothing_differs_from_itself(
    a: dict[str, object], b: dict[str, object]
) -> None:
    assert differences(a, a) == []
    assert differences(b, a) == [Difference(one.key, one.b, one.a) for one in differences(a, b)]
