from __future__ import annotations

import pandas as pd

from osmef.analysis.recommend import BTC, RTT, Needs, recommend


def trials(flavor: str, btc: list[float], rtt: list[float], n: int = 10) -> pd.DataFrame:
    rows: list[dict[str, float | None]] = [{"connections": n, BTC: value} for value in btc]
    rows += [{"connections": None, RTT: value} for value in rtt]
    return pd.DataFrame(rows, columns=["connections", BTC, RTT]).assign(
        provider="p",
        sender_flavors=flavor,
        receiver_flavors=flavor,
        achieved_placement="same-host",
        achieved_tenancy="same-tenant",
    )


def prices(**of: float | None) -> pd.DataFrame:
    table = pd.DataFrame({"provider": "p", "flavor": of.keys(), "price_per_hour": of.values()})
    return table.assign(currency="EUR", region="here", date="2026-11-01", source="a list")


ALL = pd.concat(
    [
        trials("slow", [1e9] * 8, [50.0] * 8),
        trials("dear", [9e9] * 8, [50.0] * 8),
        trials("good", [8e9] * 8, [50.0] * 8),
        trials("hasty", [8e9] * 3, [50.0] * 3),
        trials("blank", [8e9] * 8, []),
        trials("other", [8e9] * 8, [50.0] * 8, n=1),
        trials("free", [8.5e9] * 8, [50.0] * 8),
    ],
    ignore_index=True,
)
PRICES = prices(slow=0.1, dear=5.0, good=0.5, hasty=0.2, blank=0.3, other=0.3, free=None)


def test_the_best_first_with_the_evidence_and_what_is_missing() -> None:
    needs = Needs(btc_bps=5e9, rtt_us=100, connections=10, price_per_hour=2.0)
    table = recommend(ALL, needs, PRICES).set_index("sender_flavors")
    assert table["fit"].to_dict() == {
        "good": "yes",
        "hasty": "likely",
        "blank": "unknown",
        "other": "unknown",
        "free": "unknown",
        "slow": "no",
        "dear": "no",
    }
    assert list(table.index[:2]) == ["good", "hasty"]
    assert table["price_per_hour"]["good"] == 1.0  # both machines
    good = table[["btc_n", "btc_median", "btc_low", "rtt_n"]].to_dict("index")["good"]
    assert good == {"btc_n": 8, "btc_median": 8e9, "btc_low": 8e9, "rtt_n": 8}
    assert table["missing"]["good"] == ""
    assert table["missing"]["blank"] == "RTT"
    assert table["missing"]["other"] == "BTC with 10 connections (measured: 1)"
    assert table["missing"]["free"] == "price"
    assert "needs n >= 6" in table["missing"]["hasty"]


def test_without_a_budget_an_unknown_price_does_no_harm_but_stands_last() -> None:
    table = recommend(ALL, Needs(btc_bps=5e9, connections=10), PRICES)
    assert table["sender_flavors"].tolist()[:4] == ["blank", "good", "dear", "free"]
    assert table["fit"].tolist()[:4] == ["yes"] * 4


def test_an_interval_that_reaches_below_the_need_is_only_likely() -> None:
    wide = trials("wide", [4e9, 6e9, 6e9, 6e9, 6e9, 7e9], [])
    assert recommend(wide, Needs(btc_bps=5e9))["fit"].tolist() == ["likely"]
    assert recommend(wide, Needs(btc_bps=6.5e9))["fit"].tolist() == ["no"]
    assert recommend(wide, Needs(btc_bps=4e9))["fit"].tolist() == ["yes"]


def test_needing_nothing_ranks_by_btc() -> None:
    assert recommend(ALL, Needs())["sender_flavors"].tolist()[0] == "dear"


def test_without_trials_there_is_nothing_to_recommend() -> None:
    assert recommend(ALL.iloc[:0], Needs(btc_bps=1.0)).empty
