"""What a run cost, in words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest

from osmef.report.cost import cost_text
from osmef.results.summary import CellInfo, Cost, HourlyPrice, Summary

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
