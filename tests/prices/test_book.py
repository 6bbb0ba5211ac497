"""Which of several prices counts."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from osmef.prices.book import PriceBook, add_prices, read_book
from osmef.scenario.money import Price
from osmef.scenario.part_file import user_directory


def price(per_hour: str, region: str | None = None) -> Price:
    return Price(
        provider="aws",
        region=region,
        flavor="m5.large",
        per_hour=per_hour,
        date=datetime.date(2026, 1, 1),
        source="a test",
    )


NORTH, EVERYWHERE = price("1 USD", "north"), price("2 USD")


@pytest.mark.parametrize(
    ("lists", "in_north", "in_south"),
    [
        ([[NORTH]], NORTH, None),
        ([[EVERYWHERE]], EVERYWHERE, EVERYWHERE),
        ([[NORTH, EVERYWHERE]], NORTH, EVERYWHERE),
        ([[NORTH], [EVERYWHERE]], EVERYWHERE, EVERYWHERE),
        ([[EVERYWHERE], [NORTH]], NORTH, EVERYWHERE),
        ([[NORTH], [EVERYWHERE], []], EVERYWHERE, EVERYWHERE),
    ],
)
def test_the_uppermost_list_counts_and_in_it_the_region(
    lists: list[list[Price]], in_north: Price, in_south: Price | None
) -> None:
    book = PriceBook(*lists)
    assert book.find("aws", "north", "m5.large") == in_north
    assert book.find("aws", "south", "m5.large") == in_south
    assert book.prices == [
        price for price in (NORTH, EVERYWHERE) if any(price in one for one in lists)
    ]


def test_a_price_of_ones_own_for_all_regions_goes_before_ours_of_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    ours = read_book().find("aws", "us-east-1", "m5.large")
    assert ours is not None
    assert ours.region == "us-east-1"
    add_prices(user_directory() / "prices.yaml", [EVERYWHERE])
    assert read_book().find("aws", "us-east-1", "m5.large") == EVERYWHERE
    assert read_book([NORTH]).find("aws", "north", "m5.large") == NORTH
    mine = price("3 USD")
    assert read_book([mine]).find("aws", "us-east-1", "m5.large") == mine
