"""Sentences that terminal and page share: what a run cost, and what to think of a number."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pandas as pd
import pytest

from osmef.report.summary import busy_cells, cost_text, doubts_of, pairs_of
from osmef.results.measure import Measure
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


ROW: dict[str, object] = {"n": 6, "repetitions": 6.0, "doubts": ""}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"repetitions": 169.0}, "too few for ±5 %: 6 of 169"),
        ({"repetitions": float("nan")}, ""),
        ({"repetitions": None}, ""),
        ({"doubts": "the level changes"}, "the level changes"),
        (
            {"repetitions": 169.0, "doubts": "the level changes"},
            "too few for ±5 %: 6 of 169; the level changes",
        ),
    ],
)
def test_too_few_trials_are_the_first_doubt(changes: dict[str, object], words: str) -> None:
    assert doubts_of(ROW | changes) == words


def test_the_wanted_error_is_named() -> None:
    assert doubts_of(ROW | {"repetitions": 40}, 2.5) == "too few for ±2.5 %: 6 of 40"


def test_a_cell_beside_which_others_worked_is_doubted() -> None:
    trials = pd.DataFrame({"cpu_others_percent": [40.0, 50.0, None], "cpu_steal_percent": None})
    busy = busy_cells({"a": trials, "b": pd.DataFrame({"cpu_others_percent": [1.0]})})
    assert list(busy) == ["a"]
    assert "other programs used 40 %" in doubts_of(ROW | {"cell": "a"}, busy=busy)
    assert doubts_of(ROW | {"cell": "b"}, busy=busy) == ""


PAIRS: dict[str, object] = {
    "pairs": 5,
    "trials": 4.0,
    "between_percent": 14.0,
    "within_percent": 5.0,
    "between_share": 0.887,
    "mean": 1e9,
    "mean_low": 9e8,
    "mean_high": 1.1e9,
    "more": "pairs",
    "pair_narrows_percent": 15.0,
    "pair_s": 72.0,
    "pair_cost": 0.25,
    "trials_narrow_percent": 0.6,
    "trials_s": 90.0,
    "trials_cost": 0.5,
    "currency": "USD",
}


def test_what_pairs_are_told_of() -> None:
    measure = Measure(name="x_bps", unit="bit/s", better="higher")
    assert pairs_of(PAIRS, measure) == (
        "x_bps varies by 14 % between its 5 pairs and by 5 % within one: 89 % of the variance is"
        " between pairs; mean over pairs 1 Gbit/s [900 Mbit/s to 1.1 Gbit/s] (95 %, Student). One"
        " pair more (4 trials, 1 min 12 s, 0.250 USD) would narrow this by 15 %, one trial more on"
        " each (5 trials, 1 min 30 s, 0.500 USD) by 0.6 %: more pairs, and 6 give the interval of"
        " the median"
    )


def test_of_enough_pairs_without_a_price_no_cost_is_told() -> None:
    measure = Measure(name="x_bps", unit="bit/s", better="higher")
    unknown = dict.fromkeys(("pair_s", "pair_cost", "trials_s", "trials_cost", "currency"))
    told = pairs_of({**PAIRS, **unknown, "pairs": 6}, measure)
    assert "(4 trials) would" in told
    assert "(6 trials) by" in told
    assert told.endswith(": more pairs")
