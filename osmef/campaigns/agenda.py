"""The calendar of a campaign as people read it: days, local times, and the order in each window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from osmef.campaigns.calendar import PlannedSession, Slot, sessions
from osmef.campaigns.model import Campaign
from osmef.campaigns.rows import platform_name

_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Opening:
    """A window that opens once, in the campaign's time zone.

    Its sessions begin at ``due``, after the jitter, and on one cloud one after the other, in the
    order of ``platforms``. ``holiday``: its day counts as weekend for being one.
    """

    name: str
    window: str
    day: date
    holiday: bool
    opens: datetime
    closes: datetime
    due: datetime
    platforms: tuple[str, ...]

    def record(self) -> Iterator[dict[str, Any]]:
        """Give each of its sessions for machines; ``place`` counts from 0."""
        for place, platform in enumerate(self.platforms):
            yield {
                "session": self.name,
                "window": self.window,
                "day": self.day.isoformat(),
                "holiday": self.holiday,
                "opens": self.opens.isoformat(),
                "closes": self.closes.isoformat(),
                "due": self.due.isoformat(),
                "place": place,
                "platform": platform,
            }


@dataclass(frozen=True)
class ClockChange:
    """A moment at which local clocks are set, as they show it before and after."""

    before: datetime
    after: datetime

    def record(self) -> dict[str, str]:
        """Return it for machines."""
        return {"before": self.before.isoformat(), "after": self.after.isoformat()}


def openings(campaign: Campaign) -> list[Opening]:
    """Return all openings of all windows in the order in which their sessions are due."""
    zone = ZoneInfo(campaign.time_zone)
    found: dict[Slot, list[PlannedSession]] = {}
    for one in sessions(campaign):
        found.setdefault(one.slot, []).append(one)
    return [_opening(campaign, slot, mine, zone) for slot, mine in found.items()]


def _opening(
    campaign: Campaign, slot: Slot, mine: Sequence[PlannedSession], zone: ZoneInfo
) -> Opening:
    platforms = [one.platform for one in mine]
    return Opening(
        slot.name,
        slot.window,
        slot.day,
        slot.day in campaign.holidays,
        slot.opens.astimezone(zone),
        slot.closes.astimezone(zone),
        mine[0].due.astimezone(zone),
        tuple(platform_name(p.scenario, p.provider, p.instance_class) for p in platforms),
    )


def clock_changes(campaign: Campaign) -> list[ClockChange]:
    """Return when local clocks are set in the weeks of a campaign, such as for summer time."""
    zone = ZoneInfo(campaign.time_zone)
    found = []
    for number in range(7 * campaign.weeks):
        day = datetime.combine(campaign.start + number * _DAY, time(), zone)
        moment, offset = day.astimezone(UTC), day.utcoffset()
        if offset is None or (day + _DAY).utcoffset() == offset:
            continue
        while (after := moment.astimezone(zone)).utcoffset() == offset:
            moment += _MINUTE
        found.append(ClockChange(moment.astimezone(timezone(offset)), after))
    return found
