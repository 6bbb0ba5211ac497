"""Sessions over weeks: platforms and times compared, also only within strata."""

from __future__ import annotations

import itertools
import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.effects import hodges_lehmann
from osmef.analysis.hypothesis_tests import mann_whitney
from osmef.analysis.seasons import (
    change_table,
    contrast_table,
    course_table,
    pair_table,
    platform_table,
    price_table,
    seasonally_adjusted,
    session_table,
    session_trials,
    sides_of,
    spread_table,
    stratified_shift,
)
from osmef.errors import InputError

START = datetime(2027, 1, 4, 9, tzinfo=UTC)
WINDOWS = ("weekday-peak", "weekday-offpeak", "weekend-peak", "weekend-offpeak")
USUAL = {"weekday-peak": 80.0, "weekday-offpeak": 100.0, "weekend-peak": 98.0}


def sessions(days: int = 28, step: float = 0.0, **platforms: float) -> pd.DataFrame:
    """Sessions of every day, peak and off-peak, with noise of 1 and a step at half time."""
    draw = random.Random(7)  # noqa: S311 - noise
    rows: list[dict[str, Any]] = []
    for day in range(days):
        for hour, part in enumerate(("peak", "offpeak")):
            began = START + timedelta(days=day, hours=12 * hour)
            window = f"{'weekend' if began.weekday() >= 5 else 'weekday'}-{part}"
            for platform, factor in (platforms or {"a": 1.0}).items():
                value = factor * USUAL.get(window, 100.0) + draw.gauss(0, 1)
                value += step if day >= days / 2 else 0.0
                rows.append(
                    {
                        "platform": platform, "cell": "all", "metric": "goodput_bps",
                        "session": f"{began:%m-%d} {window}", "window": window, "began": began,
                        "trials": 3, "value": value,
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)


Row = dict[str, Any]


def rows(table: pd.DataFrame, *key: str) -> dict[tuple[Any, ...], Row]:
    """Return the rows of a table by the values of some columns."""
    found = [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
    return {tuple(row[name] for name in key): row for row in found}


def first(table: pd.DataFrame) -> Row:
    return next(iter(rows(table, *map(str, table.columns)).values()))


def trial(session: str | None, value: float | None, **changes: Any) -> dict[str, Any]:
    told = {
        "session": session, "window": None, "platform": "a", "scenario": "pair",
        "provider": "local", "cell": "all", "started_at": START, "goodput_bps": value,
    }  # fmt: skip
    return {**told, **changes}


def test_a_session_counts_once_with_the_median_of_its_trials() -> None:
    later = START + timedelta(hours=1)
    frame = pd.DataFrame(
        [
            trial("two", 7.0, started_at=later, window="peak"),
            trial("one", 1.0),
            trial("one", 2.0, started_at=later),
            trial("one", 90.0),
            trial("one", None),
            trial(None, 5.0),
        ]
    )
    table = session_table(session_trials(frame), ["goodput_bps"])
    rows = table[["session", "window", "began", "trials", "value"]].to_dict("records")
    assert [row["session"] for row in rows] == ["one", "two"]
    assert rows[0]["began"] == START
    assert [(row["trials"], row["value"]) for row in rows] == [(3, 2.0), (1, 7.0)]
    assert rows[1]["window"] == "peak"


def test_the_median_of_a_session_has_an_interval_from_six_trials_on() -> None:
    frame = pd.DataFrame([
        *(trial("one", float(n)) for n in range(1, 7)),
        *(trial("two", float(n)) for n in range(1, 6)),
    ])  # fmt: skip
    first, second = session_table(session_trials(frame), ["goodput_bps"]).to_dict("records")
    assert (first["ci95_low"], first["value"], first["ci95_high"]) == (1.0, 3.5, 6.0)
    assert math.isnan(second["ci95_low"])
    assert math.isnan(second["ci95_high"])


def test_a_trial_without_a_platform_is_assigned_to_its_scenario_and_provider() -> None:
    told = session_trials(pd.DataFrame([trial("one", 1.0, platform=None), trial("one", 1.0)]))
    assert told["platform"].tolist() == ["pair local", "a"]
    with pytest.raises(InputError, match="no trial is of a session"):
        session_trials(pd.DataFrame([trial(None, 1.0)]))


def test_places_of_a_cell_are_never_one_result() -> None:
    places = {"same-host": 10.0, "different-host": 1.0}
    frame = pd.DataFrame(
        [
            trial(f"{place} {number}", rate, achieved_placement=place, status="ok", run=str(number))
            for number in range(6)
            for place, rate in places.items()
        ]
    )
    table = platform_table(session_table(session_trials(frame), ["goodput_bps"]))
    found = {cell: (row["sessions"], row["max"]) for (cell,), row in rows(table, "cell").items()}
    assert found == {"same-host: all": (6, 10), "different-host: all": (6, 1)}
    alone = session_trials(frame[frame["achieved_placement"] == "same-host"])
    assert alone["cell"].unique().tolist() == ["all"]


@pytest.mark.parametrize(
    ("window", "sides"),
    [
        ("weekday-peak", {"weekday", "peak"}),
        ("weekend-offpeak", {"weekend", "offpeak"}),
        ("peaks", set()),
        ("nightly", set()),
        (None, set()),
    ],
)
def test_the_name_of_a_window_determines_its_day_and_hour_classes(
    window: str | None, sides: set[str]
) -> None:
    assert sides_of(window) == sides


def test_peak_against_off_peak_and_weekday_against_weekend() -> None:
    found = rows(contrast_table(sessions(a=1.0, b=2.0)), "platform", "a")
    peak = found["a", "peak"]
    assert (peak["b"], peak["n_a"], peak["n_b"]) == ("offpeak", 28, 28)
    assert peak["low"] < peak["difference"] < peak["high"] < 0
    assert peak["p"] < peak["p_holm"] < 1e-3
    weekday = found["a", "weekday"]
    assert (weekday["b"], weekday["n_a"], weekday["n_b"]) == ("weekend", 40, 16)
    assert weekday["difference_percent"] == pytest.approx(-4, abs=8)
    assert found["b", "peak"]["median_a"] == pytest.approx(160, rel=0.05)


def test_the_hours_do_not_hide_what_the_days_differ_by() -> None:
    chance, found = np.random.default_rng(2), 0
    for _ in range(30):
        table = sessions(days=14)
        level = table["window"].map(lambda name: 100.0 if "off" in name else 70.0)
        rest = table["window"].map(lambda name: 1.05 if "weekend" in name else 1.0)
        table["value"] = level * rest * (1 + 0.02 * chance.standard_normal(len(table)))
        found += rows(contrast_table(table), "a")["weekday",]["p_holm"] <= 0.05
    assert found >= 29


def test_days_that_have_no_hour_in_common_are_not_compared() -> None:
    table = sessions(days=14)
    keep = table["window"].isin(["weekday-peak", "weekend-offpeak"])
    row = rows(contrast_table(table[keep].reset_index(drop=True)), "a")["weekday",]
    assert (row["n_a"], row["n_b"]) == (0, 0)
    assert math.isnan(row["p"])


def test_a_holiday_is_counted_by_its_day_class_in_the_calendar() -> None:
    table = sessions(days=7).assign(day="weekday")
    table.loc[table.index < 4, "day"] = "weekend"
    row = rows(contrast_table(table), "a")["weekday",]
    assert (row["n_a"], row["n_b"]) == (10, 4)


def test_windows_of_other_names_are_compared_two_by_two() -> None:
    names = dict(zip(WINDOWS, ("lunch", "night", "lunch", "sunday"), strict=True))
    table = sessions(days=14).replace({"window": names})
    found = contrast_table(table)
    pairs = found[["a", "b"]].to_dict("split")["data"]
    assert pairs == [["lunch", "night"], ["lunch", "sunday"], ["night", "sunday"]]


def test_few_sessions_give_no_interval_and_the_least_possible_p() -> None:
    row = first(contrast_table(sessions(days=2)))
    assert (row["n_a"], row["n_b"]) == (2, 2)
    assert math.isnan(row["low"])
    assert row["least_p"] == pytest.approx(2 / 6)
    assert row["p"] >= row["least_p"]
    course = first(course_table(sessions(days=2)))
    assert pd.isna(course["changes"])


def test_no_sides_no_contrasts() -> None:
    found = contrast_table(sessions(days=3).assign(window=None))
    assert found.empty
    assert "p_holm" in found


def test_platforms_are_tested_two_by_two_within_a_cell_and_metric() -> None:
    found = pair_table(sessions(days=14, a=1.0, b=1.0, c=1.5))
    assert found[["a", "b"]].to_dict("split")["data"] == [["a", "b"], ["a", "c"], ["b", "c"]]
    same, other = (row for row in rows(found, "a", "b").values() if row["a"] == "a")
    assert same["mann_whitney_p_holm"] > 0.05
    assert other["welch_p_holm"] < 1e-6
    assert other["median_b"] > other["median_a"]
    assert other["n_a"] == 28


def test_the_usual_level_of_each_window_is_subtracted() -> None:
    table = sessions()
    usual = table["value"].groupby(table["window"]).median()
    assert usual.max() - usual.min() > 15
    flat = seasonally_adjusted(table).groupby(table["window"]).median()
    assert flat.max() - flat.min() < 1.5
    assert flat.iloc[0] == pytest.approx(table["value"].mean(), abs=1.5)
    few = sessions(days=3)
    assert seasonally_adjusted(few).tolist() == few["value"].tolist()


def test_a_step_over_the_weeks_is_found_where_it_is() -> None:
    table = sessions(step=-10.0)
    (row,) = change_table(table).to_dict("records")
    assert (row["last"], row["first"]) == ("01-17 weekend-offpeak", "01-18 weekday-peak")
    assert row["after"] - row["before"] == pytest.approx(-10, abs=1.5)
    assert course_table(table)["changes"].tolist() == [1]


def test_differences_in_percent_have_the_sign_of_those_in_the_unit() -> None:
    table = sessions(step=-10.0)
    table["value"] -= 1000.0
    (change,) = change_table(table).to_dict("records")
    assert change["after"] < change["before"] < 0
    assert change["difference_percent"] < 0
    for row in contrast_table(table).to_dict("records"):
        assert row["median_b"] < 0
        assert row["difference_percent"] * row["difference"] > 0


@pytest.mark.parametrize(("days", "lost"), [(14, 0), (14, 3), (28, 0), (28, 9)])
def test_a_step_is_found_also_beside_a_gap(days: int, lost: int) -> None:
    table = sessions(days, step=-10.0)
    begin = days - lost
    table = table.drop(index=range(begin, begin + lost)).reset_index(drop=True)
    (row,) = change_table(table).to_dict("records")
    assert row["last_began"] < START + timedelta(days=days / 2) <= row["first_began"]


def test_a_series_without_a_step_has_no_changes() -> None:
    table = sessions()
    assert change_table(table).empty
    row = first(course_table(table))
    assert row["changes"] == 0
    assert row["drift_low"] < 0 < row["drift_high"]
    assert abs(row["memory"]) < 0.5


def test_a_spread_over_the_weeks_is_found_where_it_is() -> None:
    table = sessions(days=28)
    assert spread_table(table).empty
    noise = np.random.default_rng(3).standard_normal(len(table))
    half = len(table) // 2
    noise[half:] *= 8
    (row,) = spread_table(table.assign(value=100 + noise)).to_dict("records")
    begins = {name: at for at, name in enumerate(table["session"])}
    assert begins[row["first"]] == begins[row["last"]] + 1
    assert abs(begins[row["first"]] - half) <= 4
    assert row["before"] == pytest.approx(0.67, abs=0.3)
    assert row["after"] == pytest.approx(5.4, abs=2)


def test_a_drift_is_from_the_first_session_to_the_last() -> None:
    table = sessions()
    table["value"] += [12.0 * number / len(table) for number in range(len(table))]
    row = first(course_table(table))
    assert row["drift_low"] < 12.0 < row["drift_high"]
    assert row["drift_p"] < row["drift_p_holm"] < 1e-6


def test_sessions_without_a_time_have_no_drift() -> None:
    table = sessions(days=6)
    table["began"] = pd.NaT
    row = first(course_table(table))
    assert math.isnan(row["drift"])
    assert row["changes"] == 0


def test_an_unknown_price_is_unknown_and_has_no_rank() -> None:
    platforms = platform_table(sessions(a=1.0, b=2.0, c=3.0))
    prices = pd.DataFrame(
        {
            "platform": ["a", "b"], "cell": ["all", "all"],
            "price_per_hour": [0.1, 1.0], "currency": ["USD", "USD"],
        }
    )  # fmt: skip
    found = price_table(platforms, prices).set_index("platform")
    assert found["rank"].fillna(0).to_dict() == {"a": 1, "b": 2, "c": 0}
    assert math.isnan(found["per_price"]["c"])
    assert found["per_price"]["a"] == pytest.approx(platforms["median"][0] / 0.1)


def test_a_median_by_window_has_an_interval_from_six_sessions_on() -> None:
    found = platform_table(sessions(days=7), ["window"]).set_index("window")
    assert found["sessions"].to_dict() == {
        "weekday-peak": 5,
        "weekday-offpeak": 5,
        "weekend-peak": 2,
        "weekend-offpeak": 2,
    }
    assert found["ci95_low"].isna().all()


samples = st.lists(st.integers(1, 20).map(float), min_size=1, max_size=12)


@given(samples, samples)
def test_one_stratum_is_the_plain_test(a: list[float], b: list[float]) -> None:
    found, shift = stratified_shift([(a, b)]), hodges_lehmann(a, b)
    assert found.value == shift.value
    assert (found.interval.low, found.interval.high) == (shift.interval.low, shift.interval.high)
    assert found.p == pytest.approx(mann_whitney(a, b).p)
    assert (found.n_a, found.n_b) == (len(a), len(b))


@pytest.mark.parametrize("seed", range(4))
def test_p_is_the_share_of_all_ways_to_divide_each_stratum(seed: int) -> None:
    chance = np.random.default_rng(seed)
    strata = [(chance.integers(0, 9, 3).tolist(), chance.integers(0, 9, 2).tolist())
              for _ in range(2)]  # fmt: skip

    def above(a: list[float], b: list[float]) -> float:
        return sum((x > y) + (x == y) / 2 for x in a for y in b)

    observed = sum(above(a, b) for a, b in strata)
    ways = []
    for a, b in strata:
        values = [*a, *b]
        ways.append(
            [
                above([values[i] for i in one], [values[i] for i in range(5) if i not in one])
                for one in itertools.combinations(range(5), 3)
            ]
        )
    sums = [first + second for first, second in itertools.product(*ways)]
    tails = [sum(x <= observed for x in sums), sum(x >= observed for x in sums)]
    assert stratified_shift(strata).p == pytest.approx(min(1.0, 2 * min(tails) / len(sums)))


def test_differences_between_strata_do_not_hide_a_difference_within_them() -> None:
    chance = np.random.default_rng(1)
    strata, pooled = [], ([], [])  # type: ignore[var-annotated]
    for base in (100.0, 160.0):
        a, b = (chance.normal(mean * base, 2, 8).tolist() for mean in (1.05, 1.0))
        strata.append((a, b))
        pooled[0].extend(a)
        pooled[1].extend(b)
    apart, mixed = stratified_shift(strata), mann_whitney(*pooled)
    assert apart.p is not None
    assert mixed.p is not None
    assert apart.p < 1e-4
    assert mixed.p > 0.01
    assert apart.interval.low is not None
    assert apart.interval.low > 0


def test_a_stratum_with_values_of_one_side_is_ignored() -> None:
    found = stratified_shift([([1.0, 2.0], []), ([], [9.0])])
    assert (found.value, found.p, found.interval.reason) == (
        None,
        None,
        "no stratum has values of both",
    )
    both = stratified_shift([([3.0, 4.0], [1.0]), ([100.0], [])])
    assert (both.n_a, both.n_b, both.value) == (2, 1, 2.5)


def test_intervals_hold_the_truth_and_noise_is_not_found() -> None:
    chance, held, alarms = np.random.default_rng(3), 0, 0
    for _ in range(400):
        strata = [
            (chance.normal(level + 1, 1, 5).tolist(), chance.normal(level, 1, 3).tolist())
            for level in (0, 50)
        ]
        found = stratified_shift(strata)
        assert found.interval.low is not None
        assert found.interval.high is not None
        held += found.interval.low <= 1 <= found.interval.high
        none = stratified_shift([([x - 1 for x in a], b) for a, b in strata])
        alarms += none.p is not None and none.p <= 0.05
    assert held >= 370
    assert alarms <= 30


def test_many_values_are_approximated() -> None:
    chance = np.random.default_rng(5)
    strata = [(chance.normal(0, 1, 60).tolist(), chance.normal(0.2, 1, 60).tolist())] * 2
    found = stratified_shift(strata)
    assert found.interval.coverage == 0.95
    assert found.p is not None
    assert 0 < found.p < 0.05
    assert stratified_shift([([1.0] * 60, [1.0] * 60)]).p == 1
