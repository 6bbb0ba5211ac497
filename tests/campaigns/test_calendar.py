from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.campaigns.schedule.calendar import TimeSlot, platforms, sessions, slots
from osmef.campaigns.schedule.model import Campaign
from osmef.errors import InputError

BERLIN = ZoneInfo("Europe/Berlin")


def campaign(**keys: Any) -> Campaign:
    return Campaign.model_validate(
        {"name": "test", "scenarios": ["a.yaml"], "start": "2026-03-23", "weeks": 1, **keys}
    )


def only(opens: str, closes: str, days: str = "all") -> dict[str, Any]:
    return {"night": {"days": days, "opens": opens, "closes": closes}}


def test_the_usual_windows_of_a_week() -> None:
    found = slots(campaign())
    assert Counter(one.window for one in found) == {
        "weekday-peak": 5,
        "weekday-offpeak": 5,
        "weekend-peak": 2,
        "weekend-offpeak": 2,
    }
    assert found[0].opens == datetime(2026, 3, 23, 9, tzinfo=UTC)
    assert found[0].name == "2026-03-23 weekday-peak"
    offpeak = next(one for one in found if one.window == "weekday-offpeak")
    assert offpeak.closes == datetime(2026, 3, 24, 5, tzinfo=UTC)


def test_a_holiday_is_a_day_of_the_weekend() -> None:
    found = slots(campaign(holidays=["2026-03-25"]))
    on_it = {one.window for one in found if one.day == date(2026, 3, 25)}
    assert on_it == {"weekend-peak", "weekend-offpeak"}


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ("all", [14, 15, 16, 17, 18]),
        ("weekdays", [14, 16, 17, 18]),
        ("weekend", [15]),
    ],
)
def test_the_days_key_of_a_cron_window_applies_to_holidays(days: str, expected: list[int]) -> None:
    nightly = {"cron": "30 2 * * mon-fri", "length": "1h", "days": days}
    found = campaign(
        start="2026-12-14", weeks=1, windows={"nightly": nightly}, holidays=["2026-12-15"]
    )
    assert [slot.day.day for slot in slots(found)] == expected


def test_a_window_keeps_its_local_hours_when_the_clock_is_set() -> None:
    found = slots(campaign(time_zone="Europe/Berlin", windows=only("09:00", "17:00")))
    assert {one.opens.astimezone(BERLIN).hour for one in found} == {9}
    assert [one.opens.hour for one in found] == [8] * 6 + [7]  # summer time begins on the 29th


def test_a_night_in_which_the_clock_is_set_is_shorter_and_longer() -> None:
    night = only("21:00", "05:00")
    spring = slots(campaign(time_zone="Europe/Berlin", windows=night))
    lengths = [one.closes - one.opens for one in spring]
    assert lengths == [timedelta(hours=8)] * 5 + [timedelta(hours=7), timedelta(hours=8)]
    autumn = slots(campaign(start="2026-10-24", time_zone="Europe/Berlin", windows=night))
    assert autumn[0].closes - autumn[0].opens == timedelta(hours=9)


def test_a_window_that_the_clock_leaves_out_keeps_its_length() -> None:
    found = slots(campaign(time_zone="Europe/Berlin", windows=only("02:00", "03:00")))
    assert {one.closes - one.opens for one in found} == {timedelta(hours=1)}
    assert found[-1].opens == datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_an_opening_in_a_skipped_hour_begins_after_the_clock_change() -> None:
    found = slots(campaign(time_zone="Europe/Berlin", windows=only("02:30", "06:00")))
    assert found[-1].opens == datetime(2026, 3, 29, 1, tzinfo=UTC)  # 3:00 in Berlin


@pytest.mark.parametrize("deadline", ["2026-03-25 12:00", "2026-03-25T11:00Z"])
def test_nothing_begins_after_the_deadline(deadline: str) -> None:
    keys: dict[str, Any] = {"time_zone": "Europe/Berlin", "jitter": "23h", "deadline": deadline}
    end = datetime(2026, 3, 25, 11, tzinfo=UTC)
    found = sessions(campaign(windows=only("09:00", "17:00"), **keys))
    assert [one.slot.day.day for one in found] == [23, 24, 25]
    assert found[-1].slot.closes == end
    assert all(one.due < one.slot.closes <= end for one in found[-1:])


def test_too_many_sessions_are_rejected() -> None:
    scenarios = [f"{number}.yaml" for number in range(1000)]
    with pytest.raises(InputError, match="has 260000 sessions or more"):
        slots(campaign(scenarios=scenarios, weeks=52))


def test_an_hour_that_comes_twice_is_used_once() -> None:
    windows = {"nightly": {"cron": "30 2 * * *", "length": "30min"}}
    keys: dict[str, Any] = {"start": "2026-10-24", "time_zone": "Europe/Berlin"}
    found = slots(campaign(windows=windows, **keys))
    assert len({one.name for one in found}) == 7
    assert [one.day.day for one in found] == [24, 25, 26, 27, 28, 29, 30]
    assert found[0].name == "2026-10-24 02:30 nightly"
    assert {one.closes - one.opens for one in found} == {timedelta(minutes=30)}


def test_all_platforms_stand_in_each_slot_in_an_order_of_its_own() -> None:
    one = campaign(
        scenarios=["a.yaml", "b.yaml"], providers={"x": "local", "y": "local"}, classes=["c", "d"]
    )
    assert len(platforms(one)) == 8
    by_slot: dict[TimeSlot, list[str]] = {}
    for session in sessions(one):
        by_slot.setdefault(session.slot, []).append(session.platform.name)
    assert {frozenset(names) for names in by_slot.values()} == {
        frozenset(p.name for p in platforms(one))
    }
    assert len({tuple(names) for names in by_slot.values()}) > 10
    in_order = campaign(order="sequential", scenarios=["a.yaml", "b.yaml"])
    assert [s.platform.name for s in sessions(in_order)][:4] == ["a.yaml", "b.yaml"] * 2


@given(seed=st.integers(0, 2**63 - 1), jitter=st.floats(0, 86400), weeks=st.integers(1, 3))
def test_the_calendar_follows_from_file_and_seed(seed: int, jitter: float, weeks: int) -> None:
    keys: dict[str, Any] = {
        "seed": seed,
        "jitter": f"{jitter:.3f}s",
        "time_zone": "America/New_York",
    }
    once, again = (sessions(campaign(weeks=weeks, **keys)) for _ in range(2))
    assert once == again
    longer = sessions(campaign(weeks=weeks + 1, **keys))
    assert set(once) <= set(longer)
    assert all(one.slot.opens <= one.due <= one.slot.closes for one in once)
    assert [one.due for one in once] == sorted(one.due for one in once)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/Sao_Paulo", "Pacific/Apia"])
def test_no_window_is_empty(zone: str) -> None:
    found = slots(campaign(start="2026-01-01", weeks=52, time_zone=zone))
    assert all(one.closes > one.opens for one in found)
    assert len(found) == 52 * 14
    assert found == sorted(found, key=lambda one: one.opens)
