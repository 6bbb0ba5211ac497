"""A run whose VMs have a price, and what its summary tells of that."""

from __future__ import annotations

from typing import Any

import pytest

AMOUNT = 0.25


def priced(provider: str, region: str, flavor: str) -> dict[str, Any]:
    """Return the keys of a scenario that give a flavor a price, and the run a budget."""
    price = {
        "provider": provider,
        "region": region,
        "flavor": flavor,
        "per_hour": f"{AMOUNT} USD",
        "date": "2026-01-01",
        "source": "a test",
    }
    return {"prices": [price], "budget": "5 USD"}


def check_price(summary: Any) -> None:
    """See that a run tells what its VMs cost, and what they give for it."""
    assert {end["price"]["amount"] for end in summary["endpoints"]} == {AMOUNT}
    cost = summary["run"]["cost"]
    assert cost["amount"] == pytest.approx(AMOUNT * summary["run"]["vm_hours"])
    assert (cost["currency"], 0 < cost["amount"] < 5) == ("USD", True)
    for cell in summary["cells"]:
        btc = cell["metrics"]["aggregate_btc_bps"]
        assert btc["per_price"] == pytest.approx(btc["median"] / AMOUNT)
