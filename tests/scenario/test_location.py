from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.scenario.location import Location, distance

LOCATIONS = st.builds(
    Location,
    host=st.sampled_from([None, "h1", "h2"]),
    tenant=st.sampled_from([None, "t1", "t2"]),
)


@pytest.mark.parametrize(
    ("hosts", "tenants", "expected"),
    [
        (("h1", "h1"), ("t1", "t1"), 0),
        (("h1", "h2"), ("t1", "t1"), 2),
        (("h1", "h1"), ("t1", "t2"), 4),
        (("h1", "h2"), ("t1", "t2"), 4),
        (("h1", "h2"), (None, None), 2),
        (("h1", "h1"), ("t1", None), 0),
        ((None, "h1"), ("t1", "t1"), None),
        ((None, None), ("t1", "t2"), 4),
    ],
)
def test_placements_of_the_paper_and_what_is_unknown(
    hosts: tuple[str | None, str | None],
    tenants: tuple[str | None, str | None],
    expected: int | None,
) -> None:
    sender, receiver = (Location(host=h, tenant=t) for h, t in zip(hosts, tenants, strict=True))
    assert distance(sender, receiver) == expected


@given(LOCATIONS, LOCATIONS)
def test_distance_is_symmetric(one: Location, other: Location) -> None:
    assert distance(one, other) == distance(other, one)
    assert distance(one, other) in {0, 2, 4, None}
