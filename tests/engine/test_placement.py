"""What was asked for against what was achieved."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmef.engine.placement import (
    PairPlacement,
    check,
    common_value,
    mismatches,
    overall,
    pair_placements,
    requested,
)
from osmef.engine.plan import PlannedCell, make_plan
from osmef.errors import PlacementError
from osmef.scenario.fields import Placement, Tenancy
from osmef.scenario.load import load_text
from osmef.scenario.location import Location

HERE, THERE = Location(host="a", tenant="x"), Location(host="b", tenant="x")
FOREIGN = Location(host="b", tenant="y")
HIDDEN = Location(host="a", host_scope="x", tenant="x")
STRANGE = Location(host="b", host_scope="y", tenant="y")


def cell_of(text: str) -> PlannedCell:
    (cell,) = make_plan(load_text(f"name: test\n{text}", Path("test.yaml"))).cells
    return cell


SAME, OTHER, BETWEEN = (
    "placement: same-host",
    "placement: different-host",
    "tenancy: different-tenant",
)
ANY = "placement: any"
LOOPBACK = "endpoints: {loopback: {}}"
NODES = "endpoints: {node: {count: 2}}"
HOSTS = "endpoints: {sender: {kind: host}, receiver: {kind: host}}"


@pytest.mark.parametrize(
    ("text", "here", "there", "wrong"),
    [
        (SAME, HERE, HERE, []),
        (SAME, HERE, THERE, ["placement", "distance"]),
        (SAME, HERE, Location(tenant="x"), ["placement", "distance"]),
        (SAME, HERE, Location(host="a"), ["tenancy"]),
        (OTHER, HERE, THERE, []),
        (OTHER, HERE, HERE, ["placement", "distance"]),
        (OTHER, HERE, FOREIGN, ["tenancy", "distance"]),
        (BETWEEN, HERE, FOREIGN, []),
        (BETWEEN, HERE, THERE, ["tenancy", "distance"]),
        # The distance of two tenants is 4 on one host, too: only the placement tells.
        (f"{SAME}\n{BETWEEN}", HERE, FOREIGN, ["placement"]),
        (NODES, HERE, THERE, []),
        (NODES, HERE, HERE, ["placement", "distance"]),
        (f"{NODES}\n{SAME}", HERE, THERE, ["placement", "distance"]),
        (f"{NODES}\n{ANY}", HERE, HERE, []),
        (f"{SAME}\n{BETWEEN}", HIDDEN, STRANGE, ["placement"]),
        (BETWEEN, HIDDEN, STRANGE, ["placement"]),
        (ANY, HERE, HERE, []),
        (ANY, HERE, THERE, []),
        (ANY, HERE, Location(tenant="x"), []),
        (ANY, HERE, FOREIGN, ["tenancy"]),
        (f"{ANY}\n{BETWEEN}", HIDDEN, STRANGE, []),
        (HOSTS, Location(host="a"), Location(host="b"), []),
        (HOSTS, Location(host="a"), Location(), ["placement", "distance"]),
    ],
)
def test_what_is_not_as_requested_is_named(
    text: str, here: Location, there: Location, wrong: list[str]
) -> None:
    cell = cell_of(text)
    sender, receiver = cell.endpoints
    found = pair_placements(cell, {sender.name: here, receiver.name: there})
    assert mismatches(requested(cell), found.values()) == wrong
    if not wrong:
        check(requested(cell), found)
        return
    with pytest.raises(PlacementError) as caught:
        check(requested(cell), found)
    assert caught.value.where == f"{sender.name} and {receiver.name}"
    assert all(f"the achieved {key} is" in caught.value.message for key in wrong)
    hidden = "unknown" in caught.value.message
    assert caught.value.cure is not None
    assert ("credentials" in caught.value.cure) == hidden
    assert "on_mismatch" in caught.value.cure


@pytest.mark.parametrize("location", [HERE, Location()], ids=["known", "unknown"])
@pytest.mark.parametrize("text", [LOOPBACK, "endpoints: {node: {}}\nworkload: npb"])
def test_a_single_endpoint_always_has_the_requested_placement(
    text: str, location: Location
) -> None:
    cell = cell_of(text)
    (end,) = cell.endpoints
    assert requested(cell) == PairPlacement(None, Tenancy.SAME_TENANT, 0)
    found = pair_placements(cell, {end.name: location})
    assert overall(found.values()) == PairPlacement(Placement.SAME_HOST, Tenancy.SAME_TENANT, 0)
    check(requested(cell), found)


def test_a_member_elsewhere_is_found() -> None:
    cell = cell_of("endpoints: {sender: {flavor: small, count: 3}, receiver: {count: 2}}")
    places = {end.name: Location(host=end.host, tenant=end.tenant) for end in cell.endpoints}
    check(requested(cell), pair_placements(cell, places))
    places["receiver-h2-t1-m2"] = Location(host="host-1", tenant="tenant-1")
    found = pair_placements(cell, places)
    assert found["sender-small-h1-t1", "receiver-h2-t1"].distance == 2
    assert found["sender-small-h1-t1", "receiver-h2-t1-m2"].distance == 0
    assert overall(found.values()) == PairPlacement(None, Tenancy.SAME_TENANT, None)
    with pytest.raises(PlacementError, match="not different-host") as caught:
        check(requested(cell), found)
    assert caught.value.where == "sender-small-h1-t1 and receiver-h2-t1-m2"
    del places["receiver-h2-t1"]
    assert pair_placements(cell, places)["sender-small-h1-t1", "receiver-h2-t1"].distance is None


def test_different_values_have_no_common_value() -> None:
    assert common_value([1, 1]) == 1
    assert common_value([1, 2]) is None
    assert common_value([]) is None
