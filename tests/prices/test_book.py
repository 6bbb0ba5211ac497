"""Which of several prices of one thing counts."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from osmef.prices.price_list import (
    OURS,
    OWN,
    PriceBook,
    add_prices,
    fetched_file,
    read_book,
    read_prices,
)
from osmef.scenario.fields import Price
from osmef.scenario.text_file import user_directory

(GIVEN,) = (one for one in read_prices(OURS) if one.flavor == "m5.large")
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def one_price(per_hour: str, region: str | None = None) -> Price:
    return Price(
        provider="aws",
        region=region,
        flavor="m5.large",
        per_hour=per_hour,
        date=date(2026, 1, 1),
        source="a test",
    )


NORTH, EVERYWHERE = one_price("1 USD", "north"), one_price("2 USD")


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
def test_the_topmost_price_list_is_used_and_in_it_the_region(
    lists: list[list[Price]], in_north: Price, in_south: Price | None
) -> None:
    book = PriceBook(*lists)
    assert book.find("aws", "north", "m5.large") == in_north
    assert book.find("aws", "south", "m5.large") == in_south
    assert book.prices == [
        price for price in (NORTH, EVERYWHERE) if any(price in one for one in lists)
    ]


def test_a_user_price_for_all_regions_overrides_a_built_in_price_of_one_region() -> None:
    ours = read_book().find("aws", "us-east-1", "m5.large")
    assert ours is not None
    assert ours.region == "us-east-1"
    add_prices(user_directory() / "prices.yaml", [EVERYWHERE])
    assert read_book().find("aws", "us-east-1", "m5.large") == EVERYWHERE
    assert read_book([NORTH]).find("aws", "north", "m5.large") == NORTH
    mine = one_price("3 USD")
    assert read_book([mine]).find("aws", "us-east-1", "m5.large") == mine


def price(per_hour: str, day: date) -> Price:
    return GIVEN.model_copy(update={"per_hour": per_hour, "date": day, "source": "a test"})


def counting(*own: Price) -> str:
    """Return the price that counts."""
    found = read_book(own).find(GIVEN.provider, GIVEN.region, GIVEN.flavor)
    assert found is not None
    return found.per_hour


@pytest.mark.parametrize(
    ("day", "counts"),
    [
        (GIVEN.date - DAY, GIVEN.per_hour),  # of before this version of OSMeF
        (GIVEN.date, "9 USD"),
        (GIVEN.date + DAY, "9 USD"),
    ],
)
def test_the_newer_of_a_built_in_and_a_fetched_price_is_used(day: date, counts: str) -> None:
    add_prices(fetched_file("aws"), [price("9 USD", day)])
    assert counting() == counts


def test_a_user_s_own_prices_count_whatever_their_day(tmp_path: Path) -> None:
    add_prices(fetched_file("aws"), [price("9 USD", GIVEN.date + DAY)])
    add_prices(fetched_file("aws").with_name(OWN), [price("8 USD", date(2001, 1, 1))])
    assert counting() == "8 USD"
    assert counting(price("7 USD", date(2000, 1, 1))) == "7 USD"
    assert {one.name for one in (tmp_path / "osmef").iterdir()} == {"prices-aws.yaml", OWN}


def test_azure_takes_its_sizes_in_any_case() -> None:
    size = one_price("1 USD").model_copy(update={"provider": "azure", "flavor": "Standard_D2s_v5"})
    book = PriceBook([size, NORTH])
    assert book.find("azure", "north", "standard_d2S_v5") == size
    assert book.find("aws", "north", "M5.LARGE") is None
