"""Placements, points, and sentences that terminal and page share."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date

import pandas as pd
import pytest

from osmef.analysis.describe import describe
from osmef.report.summary import (
    ShownPlacement,
    busy_cells,
    cost_text,
    doubts_of,
    pair_placement,
    pairs_of,
    platform_of,
    point,
    short_cells,
    short_names,
    shown_values,
    variant,
)
from osmef.results.measure import Measure
from osmef.results.summary import CellInfo, Cost, HourlyPrice, Summary
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


def test_the_requested_placement_is_shown_where_it_was_not_achieved(
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
def test_an_unknown_placement_is_labelled_unclear(
    make_cell: MakeCell, make_summary: MakeSummary, key: str
) -> None:
    cell = make_cell(mismatch=[key], **{f"achieved_{key}": None})
    words = {"placement": "hosts unclear", "tenancy": "tenants unclear"}
    assert words[key] in pair_placement(cell, make_summary(cell)).lines
    assert shown_values(cell)[key] == f"unclear (asked for: {cell.values[key]})"


def test_a_placement_chosen_by_the_cloud_is_shown_as_such(
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


def test_a_swept_value_without_an_axis_is_a_variant(make_cell: MakeCell) -> None:
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


TEXTS = [f"workload.run.0.argv.1={json.dumps(text)}" for text in ("x=5,y=2", "x=9, y=2", "漢字")]
NEED = "endpoints.sender.flavor={vcpus: 2, ram: 4GiB},connections=1"
CLOUDS = [f"aws, eu-west-1, {flavor}: connections=1,placement=any" for flavor in ("a", "m5.large")]


@pytest.mark.parametrize(
    ("cells", "labels", "shared"),
    [
        (TEXTS, ['argv.1="x=5,y=2"', 'argv.1="x=9, y=2"', 'argv.1="漢字"'], ""),
        ([NEED, "connections=1"], ["flavor={vcpus: 2, ram: 4GiB}", "all"], "connections=1"),
        (["size=1,2,mode=up", "size=3,mode=up"], ["size=1,2", "size=3"], "mode=up"),
        (['size=5",mode=a', 'size="5,mode=b'], ['size=5", mode=a', 'size="5, mode=b'], ""),
        (
            CLOUDS,
            ["a: connections=1", "m5.large: connections=1"],
            "aws, eu-west-1, placement=any",
        ),
        (
            ["a.sender.flavor=s,a.receiver.flavor=s", "a.sender.flavor=m,a.receiver.flavor=s"],
            ["sender.flavor=s", "sender.flavor=m"],
            "a.receiver.flavor=s",
        ),
        (["placement=any,kind=x", "placement=any,kind=y"], ["x", "y"], "placement=any"),
        (['x="\\u202e"', 'x="\\d"'], ['x="\\u202e"', 'x="\\d"'], ""),
    ],
)
def test_the_labels_of_cells_have_each_value_whole(
    cells: list[str], labels: list[str], shared: str
) -> None:
    assert short_cells(cells) == (dict(zip(cells, labels, strict=True)), shared)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (f"run-1: {NEED}", ("run-1", NEED)),
        ("run-1: all", ("run-1", "all")),
        (NEED, ("", NEED)),
        ('x="a: b"', ("", 'x="a: b"')),
    ],
)
def test_a_colon_within_a_value_ends_no_platform(name: str, parts: tuple[str, str]) -> None:
    assert platform_of(name) == parts


def test_bars_are_the_interval_where_it_exists() -> None:
    few, many = point(1, describe([1.0, 2.0, 4.0])), point(1, describe(range(1, 10)))
    assert (few.median, few.low, few.high, few.exact) == (2.0, 1.0, 4.0, False)
    assert (many.median, many.low, many.high, many.exact) == (5.0, 2.0, 8.0, True)


PRICE = HourlyPrice(amount=0.1, currency="USD", region=None, date=date(2026, 1, 1), source="ours")


@pytest.mark.parametrize(
    ("paid", "told"),
    [
        ((PRICE, 1.5, Cost(amount=1.234, currency="USD")), "1.23 USD for 1.5 VM hours"),
        ((PRICE, 0.25, None), "unknown for 0.25 VM hours"),
        ((PRICE, None, None), None),
        ((None, 1.5, None), None),
    ],
)
def test_the_cost_of_a_run(
    make_cell: Callable[..., CellInfo],
    make_summary: Callable[..., Summary],
    paid: tuple[HourlyPrice | None, float | None, Cost | None],
    told: str | None,
) -> None:
    price, hours, cost = paid
    summary = make_summary(make_cell())
    run = summary.run.model_copy(update={"vm_hours": hours, "cost": cost})
    ends = [end.model_copy(update={"price": price}) for end in summary.endpoints]
    found = cost_text(summary.model_copy(update={"run": run, "endpoints": ends}))
    assert found == (told and f"{told}, without traffic, disks and addresses")


ROW: dict[str, object] = {"n": 6, "repetitions": 6.0, "doubts": ""}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"repetitions": 169.0}, "too few for ±5 %: 6 of 169"),
        ({"repetitions": float("nan")}, ""),
        ({"repetitions": None}, ""),
        ({"n": 1, "repetitions": None}, "too few for ±5 %: 1 of an unknown number"),
        ({"doubts": "the level changes"}, "the level changes"),
        (
            {"repetitions": 169.0, "doubts": "the level changes"},
            "too few for ±5 %: 6 of 169; the level changes",
        ),
    ],
)
def test_too_few_trials_are_the_first_doubt(changes: dict[str, object], words: str) -> None:
    assert doubts_of(ROW | changes) == words


def test_the_wanted_error_is_named() -> None:
    assert doubts_of(ROW | {"repetitions": 40}, 2.5) == "too few for ±2.5 %: 6 of 40"


def test_a_cell_beside_which_others_worked_is_doubted() -> None:
    trials = pd.DataFrame({"cpu_others_percent": [40.0, 50.0, None], "cpu_steal_percent": None})
    busy = busy_cells({"a": trials, "b": pd.DataFrame({"cpu_others_percent": [1.0]})})
    assert list(busy) == ["a"]
    assert "other programs used 40 %" in doubts_of(ROW | {"cell": "a"}, busy=busy)
    assert doubts_of(ROW | {"cell": "b"}, busy=busy) == ""


PAIRS: dict[str, object] = {
    "pairs": 5,
    "trials": 4.0,
    "between_percent": 14.0,
    "within_percent": 5.0,
    "between_share": 0.887,
    "mean": 1e9,
    "mean_low": 9e8,
    "mean_high": 1.1e9,
    "more": "pairs",
    "pair_narrows_percent": 15.0,
    "pair_s": 72.0,
    "pair_cost": 0.25,
    "trials_narrow_percent": 0.6,
    "trials_s": 90.0,
    "trials_cost": 0.5,
    "currency": "USD",
}


def test_the_variance_between_pairs_and_the_gain_of_more_pairs_are_reported() -> None:
    measure = Measure(name="x_bps", unit="bit/s", better="higher")
    assert pairs_of(PAIRS, measure) == (
        "x_bps varies by 14 % between its 5 pairs and by 5 % within one: 89 % of the variance is"
        " between pairs; mean over pairs 1 Gbit/s [900 Mbit/s to 1.1 Gbit/s] (95 %, Student). One"
        " pair more (4 trials, 1 min 12 s, 0.250 USD) would narrow this by 15 %, one trial more on"
        " each (5 trials, 1 min 30 s, 0.500 USD) by 0.6 %: more pairs, and 6 give the interval of"
        " the median"
    )


def test_without_a_price_the_cost_of_more_pairs_is_omitted() -> None:
    measure = Measure(name="x_bps", unit="bit/s", better="higher")
    unknown = dict.fromkeys(("pair_s", "pair_cost", "trials_s", "trials_cost", "currency"))
    told = pairs_of({**PAIRS, **unknown, "pairs": 6}, measure)
    assert "(4 trials) would" in told
    assert "(6 trials) by" in told
    assert told.endswith(": more pairs")
