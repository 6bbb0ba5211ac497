"""What a run cost, in words."""

from __future__ import annotations

from osmef.results.summary import Cost, Summary
from osmef.scenario.money import Money


def cost_text(summary: Summary) -> str | None:
    """Say what a run cost by list price; None where no VM of it has a price."""
    hours = summary.run.vm_hours
    if hours is None or not any(end.price for end in summary.endpoints):
        return None
    told = "unknown" if summary.run.cost is None else money(summary.run.cost)
    return f"{told} for {hours:.3g} VM hours, without traffic, disks and addresses"


def money(cost: Cost) -> str:
    """Return a sum for people: ``12.35 USD``."""
    return str(Money(cost.amount, cost.currency))
