"""Whether two endpoints stand on one host, as far as their locations tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.scenario.location import Location, distance, has_moved, same_host

ids = st.none() | st.sampled_from(["a", "b"])
locations = st.builds(
    Location, host=ids, host_scope=ids, rack=ids, zone=ids, region=ids, tenant=st.just("t")
)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"host": "1"}, {"host": "1"}, True),
        ({"host": "1"}, {"host": "2"}, False),
        ({"host": "1"}, {}, None),
        ({}, {}, None),
        # The ids that a cloud gives one tenant say nothing about those it gives another.
        ({"host": "1", "host_scope": "red"}, {"host": "2", "host_scope": "blue"}, None),
        ({"rack": "1", "host_scope": "red"}, {"rack": "2", "host_scope": "blue"}, None),
        # A host stands in one rack, zone and region, and in none of another.
        ({"rack": "1"}, {"rack": "2"}, False),
        ({"rack": "1"}, {"rack": "1"}, None),
        ({"zone": "1"}, {"zone": "2"}, False),
        ({"zone": "1"}, {"zone": "1"}, None),
        ({"zone": "1", "host_scope": "red"}, {"zone": "2", "host_scope": "blue"}, False),
        ({"zone": "1", "region": "x"}, {"zone": "1", "region": "y"}, False),
        ({"host": "1", "region": "x"}, {"host": "1", "region": "y"}, False),
        ({"host": "1", "rack": "1"}, {"host": "1", "rack": "1"}, True),
        # Two sites are apart, unless both tell the same region: then the rest tells.
        ({"host": "1", "site": "a"}, {"host": "1", "site": "b"}, False),
        ({"site": "a", "region": "x"}, {"site": "b"}, False),
        ({"site": "a", "region": "x"}, {"site": "b", "region": "x"}, None),
        (
            {"site": "a", "region": "x", "zone": "1"},
            {"site": "b", "region": "x", "zone": "2"},
            False,
        ),
        ({"host": "1", "site": "a"}, {"host": "1", "site": "a"}, True),
    ],
)
def test_same_host_is_known_only_from_parts_that_both_locations_have(
    one: dict[str, str], other: dict[str, str], expected: bool | None
) -> None:
    assert same_host(Location(**one), Location(**other)) is expected
    assert same_host(Location(**other), Location(**one)) is expected


@given(locations, locations)
def test_more_location_values_never_reverse_the_same_host_answer(
    one: Location, other: Location
) -> None:
    known = same_host(one, other)
    for part in ("host", "rack", "zone", "region"):
        less = same_host(one.model_copy(update={part: None}), other)
        assert less is None or less is known or (less is True and known is False)


@given(locations, locations)
def test_the_distance_is_0_on_one_host_and_2_on_two(one: Location, other: Location) -> None:
    assert distance(one, other) == {True: 0, False: 2, None: None}[same_host(one, other)]


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ({"host": "a"}, {"host": "b"}, True),
        ({"host": "a", "zone": "z"}, {"host": "a", "zone": "z"}, False),
        ({"rack": "a"}, {"rack": "b"}, True),
        ({"zone": "a"}, {"zone": "b"}, True),
        ({"host": "a", "rack": "r"}, {"rack": "r"}, False),
        ({"zone": "z"}, {"host": "a", "zone": "z"}, False),
        ({"host": "a", "site": "s"}, {"site": "s"}, True),
        ({"tenant": "t"}, {}, True),
        ({}, {"host": "a"}, True),
        ({"site": "s"}, {"site": "s"}, False),
        ({"host": "a", "host_scope": "x"}, {"host": "b", "host_scope": "y"}, False),
    ],
)
def test_a_location_value_no_longer_reported_is_no_migration_unless_all_are_missing(
    before: dict[str, str], after: dict[str, str], *, moved: bool
) -> None:
    assert has_moved(Location(**before), Location(**after)) is moved


@given(locations, locations)
def test_the_way_between_two_sites_leads_through_routers(one: Location, other: Location) -> None:
    here, there = (
        place.model_copy(update={"site": name}) for place, name in ((one, "a"), (other, "b"))
    )
    assert distance(here, there) == 4
