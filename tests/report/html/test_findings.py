"""The sentences with which a page begins."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from osmef.report.html.run import findings
from osmef.report.summary import LIMITS
from osmef.results.summary import CellInfo, Summary
from osmef.results.trial import Bottleneck
from osmef.scenario.fields import Placement

MakeCell = Callable[..., CellInfo]
MakeSummary = Callable[..., Summary]
NEAR = {"achieved_placement": Placement.SAME_HOST, "distance": 0, "requested_distance": 0}
FAST, SLOW = [20e9 + n for n in range(6)], [1e9 + n for n in range(6)]


def test_the_range_the_limits_and_what_distance_costs(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    near = make_cell("same-host", aggregate_bps=FAST, limited_by={Bottleneck.SENDER_CPU: 6}, **NEAR)
    far = make_cell(aggregate_bps=SLOW, limited_by={Bottleneck.NETWORK: 6})
    told = findings(make_summary(near, far))
    assert told[0].startswith("Aggregate BTC: medians from 1 Gbit/s [1 to 1 Gbit/s] (different")
    assert any(one.startswith("The limit was the network in different-host") for one in told)
    assert any(one.startswith("The limit was the sender CPU in same-host") for one in told)
    assert "At distance 2 aggregate BTC is 5 % of that at distance 0." in told


def test_cells_that_share_a_value_are_named_by_it(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    near = [make_cell("same-host", connections=n, aggregate_bps=FAST, **NEAR) for n in (1, 8)]
    far = [
        make_cell(connections=n, aggregate_bps=SLOW, limited_by={Bottleneck.NETWORK: 6})
        for n in (1, 8)
    ]
    told = findings(make_summary(*near, *far))
    assert "The limit was the network in both different-host cells." in told
    told = findings(make_summary(*far))
    assert "The limit was the network in both cells." in told
    assert "The limit was the network." in findings(make_summary(far[0]))


def test_cells_whose_intervals_overlap_are_not_called_different(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    near = make_cell("same-host", aggregate_bps=[1e9 * n for n in range(1, 7)], **NEAR)
    far = make_cell(aggregate_bps=[1.1e9 * n for n in range(1, 7)])
    told = findings(make_summary(near, far))
    assert any("not clearly different from that at distance 0" in one for one in told)


def test_a_median_of_zero_is_called_different(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    near = make_cell("same-host", aggregate_bps=[0.0] * 6, **NEAR)
    far = make_cell(aggregate_bps=SLOW)
    told = findings(make_summary(near, far))
    assert "At distance 2 aggregate BTC differs from that at distance 0, which is 0." in told
    none = make_cell(aggregate_bps=[0.0] * 6)
    fast = make_cell("same-host", aggregate_bps=FAST, **NEAR)
    told = findings(make_summary(fast, none))
    assert "At distance 2 aggregate BTC is 0 % of that at distance 0." in told


def test_too_few_trials_show_no_difference(make_cell: MakeCell, make_summary: MakeSummary) -> None:
    near = make_cell("same-host", aggregate_bps=FAST[:5], **NEAR)
    far = make_cell(aggregate_bps=SLOW[:5])
    told = findings(make_summary(near, far))
    assert not any(" % of that at " in one or "clearly different" in one for one in told)
    assert (
        "At distance 2 aggregate BTC can't be compared with that at distance 0: too few trials"
        " or pairs (n < 6)." in told
    )
    until = [one.model_copy(update={"repeat_until": 0.05}) for one in (near, far)]
    assert any("too few trials or pairs (n < 8)." in one for one in findings(make_summary(*until)))


def test_settings_with_too_few_trials_are_counted_beside_those_with_enough(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    cells = [
        make_cell(connections=n, aggregate_bps=rates[:count], **place)
        for n, count in ((1, 6), (8, 5), (9, 5))
        for rates, place in ((FAST, {"placement": "same-host", **NEAR}), (SLOW, {}))
    ]
    (told,) = (one for one in findings(make_summary(*cells)) if one.startswith("At distance"))
    assert told == (
        "At distance 2 aggregate BTC is 5 % of that at distance 0; in 2 other settings there are"
        " too few trials or pairs to tell."
    )


def test_failed_trials_are_a_finding(make_cell: MakeCell, make_summary: MakeSummary) -> None:
    told = findings(make_summary(make_cell(aggregate_bps=[None, None])))
    assert told == ["2 trials failed, in different-host, same-tenant, connections=1."]


def test_equal_cells_are_called_different_in_few_cases(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    draw = random.Random(23)  # noqa: S311 - a simulation
    wrong = 0
    for _ in range(400):
        near, far = ([draw.lognormvariate(21, 0.3) for _ in range(6)] for _ in range(2))
        cells = make_cell("same-host", aggregate_bps=near, **NEAR), make_cell(aggregate_bps=far)
        wrong += any(" % of that at " in one for one in findings(make_summary(*cells)))
    assert wrong <= 5  # 0.2 % is what order statistics say


@pytest.mark.parametrize("limit", [one for one in Bottleneck if one is not Bottleneck.INCONCLUSIVE])
def test_every_limit_is_a_finding_by_the_name_it_has_in_figures(
    limit: Bottleneck, make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    told = findings(make_summary(make_cell(aggregate_bps=SLOW, limited_by={limit: 6})))
    assert f"The limit was the {LIMITS[limit]}." in told
