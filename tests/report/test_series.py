from collections.abc import Callable

import pytest

from osmef.analysis.describe import describe
from osmef.report.summary import (
    ShownPlacement,
    pair_placement,
    point,
    short_names,
    shown_values,
    variant,
)
from osmef.results.summary import CellInfo, Summary
from osmef.scenario.fields import EndpointKind, Placement

MakeCell = Callable[..., CellInfo]
MakeSummary = Callable[..., Summary]


def test_the_achieved_place_counts_and_not_the_requested_one(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    cell = make_cell("same-host", achieved_placement=Placement.DIFFERENT_HOST, distance=2)
    assert pair_placement(cell, make_summary(cell)) == ShownPlacement(
        2, "different hosts", "same tenant"
    )


def test_what_was_asked_for_is_told_where_it_was_not_achieved(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    achieved = {"achieved_placement": Placement.DIFFERENT_HOST, "distance": 2}
    wrong = make_cell("same-host", **achieved, mismatch=["placement", "distance"])
    right = make_cell("different-host")
    places = [pair_placement(cell, make_summary(wrong, right)) for cell in (wrong, right)]
    assert places[0].lines == (*places[1].lines, "asked for: same host")
    assert shown_values(wrong)["placement"] == "different-host (asked for: same-host)"
    assert shown_values(right) == right.values


@pytest.mark.parametrize("key", ["placement", "tenancy"])
def test_what_nobody_can_tell_is_no_label(
    make_cell: MakeCell, make_summary: MakeSummary, key: str
) -> None:
    cell = make_cell(mismatch=[key], **{f"achieved_{key}": None})
    words = {"placement": "hosts unclear", "tenancy": "tenants unclear"}
    assert words[key] in pair_placement(cell, make_summary(cell)).lines
    assert shown_values(cell)[key] == f"unclear (asked for: {cell.values[key]})"


def test_where_the_cloud_decided_is_told_as_such(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    achieved = {"achieved_placement": Placement.SAME_HOST, "distance": 0}
    cell = make_cell("any", **achieved, requested_distance=None)
    assert pair_placement(cell, make_summary(cell)) == ShownPlacement(
        0, "same host", "same tenant", "any hosts"
    )
    assert shown_values(cell)["placement"] == "same-host (asked for: any)"


def test_a_mismatch_of_what_was_not_swept_is_shown(make_cell: MakeCell) -> None:
    cell = make_cell(mismatch=["tenancy"]).model_copy(update={"values": {"connections": 1}})
    assert list(shown_values(cell)) == ["connections", "tenancy"]


def test_hosts_belong_to_no_tenant(make_cell: MakeCell, make_summary: MakeSummary) -> None:
    cell = make_cell(achieved_tenancy=None)
    summary = make_summary(cell, kind=EndpointKind.HOST)
    assert pair_placement(cell, summary) == ShownPlacement(2, "different hosts", None)
    assert pair_placement(cell, summary).lines == ("distance 2", "different hosts")


def test_places_are_ordered_by_distance_and_the_unknown_comes_last() -> None:
    near = ShownPlacement(0, "same host", "same tenant")
    far = ShownPlacement(4, "different hosts", "different tenants")
    folded = ShownPlacement(4, "same host", "different tenants")
    unknown = ShownPlacement(None, "same host", "same tenant")
    ordered = sorted([unknown, far, folded, near], key=lambda one: one.order)
    assert ordered == [near, folded, far, unknown]


def test_what_has_no_axis_is_a_variant(make_cell: MakeCell) -> None:
    values = {"endpoints.sender.flavor": "large", "workload.connections": 3}
    assert variant(make_cell(values=values)) == (("endpoints.sender.flavor", "large"),)


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        (["connections"], ["connections"]),
        (["endpoints.sender.flavor"], ["flavor"]),
        (["background.connections"], ["background.connections"]),
        (
            ["endpoints.sender.flavor", "endpoints.receiver.flavor"],
            ["sender.flavor", "receiver.flavor"],
        ),
        (["a.b.c", "b.c"], ["a.b.c", "b.c"]),
        (["workload.run.1.argv.6", "workload.run.0.argv"], ["argv.6", "argv"]),
        ([], []),
    ],
)
def test_keys_are_as_short_as_they_can_be(keys: list[str], names: list[str]) -> None:
    assert list(short_names(keys).values()) == names


def test_bars_are_the_interval_where_it_exists() -> None:
    few, many = point(1, describe([1.0, 2.0, 4.0])), point(1, describe(range(1, 10)))
    assert (few.median, few.low, few.high, few.exact) == (2.0, 1.0, 4.0, False)
    assert (many.median, many.low, many.high, many.exact) == (5.0, 2.0, 8.0, True)
