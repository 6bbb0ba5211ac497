from __future__ import annotations

import pandas as pd
import pytest

from osmef.analysis.price import price_performance
from osmef.errors import InputError
from osmef.results.measure import Measure
from tests.declared import measure

RESULTS = pd.DataFrame(
    {"provider": ["a", "a", "b", "b"], "flavor": ["s", "l", "s", "l"], "rate_bps": [4.0, 9, 5, 7]}
)

RATE = Measure(name="rate_bps", unit="bit/s", better="higher")


def prices(*rows: tuple[str, str, float | None], currency: str = "EUR") -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["provider", "flavor", "price_per_hour"])
    return table.assign(currency=currency, region="here", date="2026-11-01", source="a list")


def test_the_best_first_and_the_unknown_apart() -> None:
    table = prices(("a", "s", 2.0), ("a", "l", 3.0), ("b", "s", None))
    found = price_performance(RESULTS, table, RATE)
    assert found.ranking[["flavor", "per_price", "rank"]].values.tolist() == [
        ["l", 3.0, 1],
        ["s", 2.0, 2],
    ]
    assert found.ranking["date"].tolist() == ["2026-11-01"] * 2
    assert found.unpriced["provider"].tolist() == ["b", "b"]
    assert "per_price" not in found.unpriced


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (prices(("a", "s", 0.0)), "a s: a price of 0"),
        (prices(("a", "s", 1.0), ("a", "s", 2.0)), "a s: several prices"),
        (prices(("a", "s", 1.0)).assign(currency=None), "a s: a price without a currency"),
        (prices(("a", "s", 1.0)).assign(currency=""), "a s: a price without a currency"),
        (prices(("a", "s", 1.0)).assign(currency=" "), "a s: a price without a currency"),
        (
            pd.concat([prices(("a", "s", 1.0)), prices(("b", "s", 1.0), currency="USD")]),
            "several currencies: EUR, USD",
        ),
        (prices(("a", "s", 1.0)).drop(columns="source"), "no column source"),
    ],
)
def test_prices_that_mislead_are_refused(table: pd.DataFrame, said: str) -> None:
    with pytest.raises(InputError, match=said):
        price_performance(RESULTS, table, RATE)


def test_a_metric_without_a_better_way_has_no_price_performance() -> None:
    load = Measure(name="load_percent", unit="%", better="neither")
    with pytest.raises(InputError, match="load_percent is better neither way"):
        price_performance(RESULTS.assign(load_percent=1.0), prices(("a", "s", 1.0)), load)


def test_a_metric_that_is_better_lower_has_no_price_performance() -> None:
    with pytest.raises(InputError, match="better lower"):
        price_performance(
            RESULTS.assign(rtt_p50_us=1.0), prices(("a", "s", 1.0)), measure("rtt_p50_us")
        )
