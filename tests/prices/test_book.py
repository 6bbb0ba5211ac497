"""Which of several prices of one thing counts."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from osmef.prices.book import OURS, OWN, add_prices, fetched_file, read_book, read_prices
from osmef.scenario.money import Price

(GIVEN,) = (one for one in read_prices(OURS) if one.flavor == "m5.large")
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


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
def test_of_ours_and_a_fetched_price_the_later_one_counts(day: date, counts: str) -> None:
    add_prices(fetched_file("aws"), [price("9 USD", day)])
    assert counting() == counts


def test_a_user_s_own_prices_count_whatever_their_day(tmp_path: Path) -> None:
    add_prices(fetched_file("aws"), [price("9 USD", GIVEN.date + DAY)])
    add_prices(fetched_file("aws").with_name(OWN), [price("8 USD", date(2001, 1, 1))])
    assert counting() == "8 USD"
    assert counting(price("7 USD", date(2000, 1, 1))) == "7 USD"
    assert {one.name for one in (tmp_path / "osmef").iterdir()} == {"prices-aws.yaml", OWN}
