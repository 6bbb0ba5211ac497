"""The calendar as people read it."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.campaigns.schedule.calendar import clock_changes, openings, sessions
from tests.campaigns.test_calendar import campaign, only


@pytest.mark.parametrize(
    ("zone", "start", "expected"),
    [
        ("Europe/Berlin", "2026-03-23", ["2026-03-29 02:00+0100 2026-03-29 03:00+0200"]),
        ("Europe/Berlin", "2026-10-24", ["2026-10-25 03:00+0200 2026-10-25 02:00+0100"]),
        ("America/New_York", "2026-03-08", ["2026-03-08 02:00-0500 2026-03-08 03:00-0400"]),
        ("America/New_York", "2026-11-01", ["2026-11-01 02:00-0400 2026-11-01 01:00-0500"]),
        ("America/Santiago", "2026-09-01", ["2026-09-06 00:00-0400 2026-09-06 01:00-0300"]),
        ("UTC", "2026-03-23", []),
    ],
)
def test_daylight_saving_changes_are_found(zone: str, start: str, expected: list[str]) -> None:
    found = clock_changes(campaign(start=start, time_zone=zone))
    assert [f"{c.before:%Y-%m-%d %H:%M%z} {c.after:%Y-%m-%d %H:%M%z}" for c in found] == expected


def test_openings_are_in_local_time() -> None:
    keys: dict[str, Any] = {"time_zone": "Europe/Berlin", "holidays": ["2026-03-27"]}
    found = openings(campaign(windows=only("21:00", "05:00"), **keys))
    assert [one.day.day for one in found if one.holiday] == [27]
    assert {f"{one.opens:%H:%M} {one.closes:%H:%M}" for one in found} == {"21:00 05:00"}
    assert [f"{one.closes:%d %z}" for one in found][4:6] == ["28 +0100", "29 +0200"]


@given(seed=st.integers(0, 2**63 - 1), jitter=st.integers(0, 86400))
def test_every_planned_session_is_listed_once_in_the_openings(seed: int, jitter: int) -> None:
    of = campaign(
        scenarios=["a.yaml", "b.yaml", "c.yaml"],
        time_zone="Asia/Kathmandu",
        seed=seed,
        jitter=f"{jitter}s",
    )
    told = [
        (one.name, one.due.astimezone(UTC), place, platform)
        for one in openings(of)
        for place, platform in enumerate(one.platforms)
    ]
    planned = [
        (one.slot.name, one.due, one.place, one.platform.scenario.removesuffix(".yaml"))
        for one in sessions(of)
    ]
    assert told == planned
