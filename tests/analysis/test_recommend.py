from __future__ import annotations

import pandas as pd
import pytest

from osmef.analysis.recommend import BTC, RTT, Needs, recommend
from osmef.errors import InputError


def trials(
    flavor: str, btc: list[float], rtt: list[float], n: int = 10, price: float | None = None
) -> pd.DataFrame:
    rows: list[dict[str, object]] = [
        {"cell": f"btc {n}", "connections": n, BTC: value} for value in btc
    ]
    rows += [{"cell": "rtt", "connections": None, RTT: value} for value in rtt]
    return pd.DataFrame(rows, columns=["cell", "connections", BTC, RTT]).assign(
        provider="p",
        sender_flavors=flavor,
        receiver_flavors=flavor,
        achieved_placement="same-host",
        achieved_tenancy="same-tenant",
        price_per_hour=float("nan") if price is None else price,
        currency=None if price is None else "EUR",
    )


ALL = pd.concat(
    [
        trials("slow", [1e9] * 8, [50.0] * 8, price=0.2),
        trials("dear", [9e9] * 8, [50.0] * 8, price=10.0),
        trials("good", [8e9] * 8, [50.0] * 8, price=1.0),
        trials("hasty", [8e9] * 3, [50.0] * 3, price=0.4),
        trials("blank", [8e9] * 8, [], price=0.6),
        trials("other", [8e9] * 8, [50.0] * 8, n=1, price=0.6),
        trials("free", [8.5e9] * 8, [50.0] * 8),
    ],
    ignore_index=True,
)


def test_a_machine_with_itself_is_no_network() -> None:
    ends = {"senders": "vm-1", "receivers": "vm-2"}
    between = trials("good", [8e9] * 8, [50.0] * 8).assign(**ends)
    itself = trials("good", [90e9] * 8, [5.0] * 8, n=1).assign(senders="vm-1", receivers="vm-1")
    needs = Needs(btc_bps=20e9, rtt_us=10)
    (row,) = recommend(pd.concat([between, itself], ignore_index=True), needs).to_dict("records")
    assert (row["fit"], row["btc_median"], row["rtt_median"]) == ("no", 8e9, 50)
    with pytest.raises(InputError, match="of a machine with itself"):
        recommend(itself, needs)


def test_the_best_first_with_the_evidence_and_what_is_missing() -> None:
    needs = Needs(btc_bps=5e9, rtt_us=100, connections=10, price_per_hour=2.0)
    table = recommend(ALL, needs).set_index("sender_flavors")
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
    assert (table["price_per_hour"]["good"], table["currency"]["good"]) == (1.0, "EUR")
    good = table[["btc_n", "btc_median", "btc_low", "rtt_n", "btc_cell"]].to_dict("index")["good"]
    assert good == {"btc_n": 8, "btc_median": 8e9, "btc_low": 8e9, "rtt_n": 8, "btc_cell": "btc 10"}
    assert table["missing"]["good"] == ""
    assert table["missing"]["blank"] == "RTT"
    assert table["missing"]["other"] == "BTC with 10 connections (measured: 1)"
    assert table["missing"]["free"] == "price"
    assert "needs n >= 6" in table["missing"]["hasty"]


def test_without_a_budget_options_of_unknown_price_are_ranked_last() -> None:
    table = recommend(ALL, Needs(btc_bps=5e9, connections=10))
    assert table["sender_flavors"].tolist()[:4] == ["blank", "good", "dear", "free"]
    assert table["fit"].tolist()[:4] == ["yes"] * 4


def test_a_price_in_another_currency_is_none() -> None:
    needs = Needs(btc_bps=5e9, price_per_hour=2.0, currency="USD")
    found = recommend(ALL[ALL["sender_flavors"] == "good"], needs).iloc[0]
    assert found["fit"] == "unknown"
    assert found["missing"] == "price in the currency of the budget, not EUR"


def test_an_interval_that_reaches_below_the_need_is_only_likely() -> None:
    wide = trials("wide", [4e9, 6e9, 6e9, 6e9, 6e9, 7e9], [])
    assert recommend(wide, Needs(btc_bps=5e9))["fit"].tolist() == ["likely"]
    assert recommend(wide, Needs(btc_bps=6.5e9))["fit"].tolist() == ["no"]
    assert recommend(wide, Needs(btc_bps=4e9))["fit"].tolist() == ["yes"]


def test_cells_are_judged_each_for_itself_and_the_best_one_counts() -> None:
    sweep = pd.concat([trials("m", [n * 1e8] * 6, [], n=n) for n in (1, 10, 50)])
    (row,) = recommend(sweep, Needs(btc_bps=4e9)).to_dict("records")
    assert (row["fit"], row["btc_cell"], row["btc_n"], row["btc_low"]) == ("yes", "btc 50", 6, 5e9)
    busy = sweep["connections"].eq(50).map({True: "btc", False: None})
    loaded = sweep.assign(background=busy)
    assert recommend(loaded, Needs(btc_bps=4e9))["fit"].tolist() == ["no"]


def test_the_same_flavor_at_another_price_is_another_option() -> None:
    both = pd.concat([trials("m", [5e9] * 6, [], price=1.0), trials("m", [9e9] * 6, [], price=9.0)])
    (row,) = recommend(both, Needs(btc_bps=4e9, price_per_hour=2.0)).to_dict("records")
    assert (row["fit"], row["btc_median"], row["price_per_hour"]) == ("yes", 5e9, 1.0)


def test_sessions_count_not_their_trials() -> None:
    one = trials("m", [5e9] * 10, []).assign(run="a", session="monday")
    (row,) = recommend(one, Needs(btc_bps=4e9)).to_dict("records")
    assert (row["fit"], row["btc_n"]) == ("likely", 1)


def test_several_runs_count_each_as_one_not_their_trials() -> None:
    """Trials of a run share its machines, which may be better ones than another run gets."""
    runs = [trials("good", [level * 1e9] * 8, []).assign(run=f"{level} Gbit/s") for level in (4, 9)]
    both = pd.concat([*runs, runs[1].assign(run="again")])
    (row,) = recommend(both, Needs(btc_bps=4e9)).to_dict("records")
    assert (row["fit"], row["btc_n"], row["btc_median"]) == ("likely", 3, 9e9)
    assert row["missing"] == "interval of the BTC: of runs, n = 3; 95 % needs n >= 6"


def test_platforms_of_one_flavor_are_judged_apart() -> None:
    both = pd.concat(
        [trials("good", [level * 1e9] * 8, []).assign(platform=f"p{level}") for level in (4, 9)]
    )
    (row,) = recommend(both, Needs(btc_bps=5e9)).to_dict("records")
    assert (row["fit"], row["btc_median"], row["btc_cell"]) == ("yes", 9e9, "p9: btc 10")


def test_an_option_whose_trials_all_failed_is_unknown() -> None:
    failed = trials("m", [float("nan")] * 6, [], price=1.0)
    assert recommend(failed, Needs(price_per_hour=2.0))["fit"].tolist() == ["unknown"]


def test_an_option_of_which_trials_failed_is_only_likely() -> None:
    good = trials("m", [9e9] * 6, []).assign(status="ok", run="a")
    bad = trials("m", [float("nan")] * 14, []).assign(
        status="failed", run="a", achieved_placement=None, achieved_tenancy=None
    )
    frame = pd.concat([good, bad], ignore_index=True)
    (row,) = recommend(frame, Needs(btc_bps=5e9)).to_dict("records")
    assert (row["fit"], row["btc_n"], row["btc_failed"], row["btc_trials"]) == ("likely", 6, 14, 20)
    assert row["missing"] == "14 of 20 trials of the BTC failed"


@pytest.mark.parametrize(("lost", "fit"), [(75.0, "likely"), (0.5, "yes"), (float("nan"), "yes")])
def test_round_trips_of_the_requests_that_were_not_lost_are_only_likely(
    lost: float, fit: str
) -> None:
    frame = trials("m", [], [50.0] * 8).assign(lost_percent=lost)
    (row,) = recommend(frame, Needs(rtt_us=100)).to_dict("records")
    assert row["fit"] == fit
    assert row["missing"] == ("75 % of the requests were lost" if fit == "likely" else "")


@pytest.mark.parametrize("needs", [Needs(), Needs(connections=10)])
def test_a_recommendation_without_requirements_is_rejected(needs: Needs) -> None:
    with pytest.raises(InputError, match=r"no requirement is given|needs a BTC"):
        recommend(ALL, needs)


def test_without_trials_there_is_nothing_to_recommend() -> None:
    assert recommend(ALL.iloc[:0], Needs(btc_bps=1.0)).empty
