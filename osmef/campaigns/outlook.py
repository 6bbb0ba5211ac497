"""What a campaign will be: its calendar, its length and its cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from osmef.campaigns.agenda import ClockChange, Opening, clock_changes, openings
from osmef.campaigns.calendar import PlannedSession, Platform, sessions
from osmef.campaigns.model import Campaign
from osmef.campaigns.rows import platform_name
from osmef.campaigns.score import Score
from osmef.scenario.money import Money


@dataclass(frozen=True)
class Week:
    """Seven days from the first on: slots by window, sessions, and seconds of measuring."""

    first: date
    slots: dict[str, int]
    sessions: int
    s: float


@dataclass(frozen=True)
class Paid:
    """From when to when the VMs of a platform are paid for, and how long that is in all."""

    platform: Platform
    since: datetime
    until: datetime
    seconds: float

    @property
    def name(self) -> str:
        """The platform, for people."""
        one = self.platform
        return platform_name(one.scenario, one.provider, one.instance_class)


@dataclass(frozen=True)
class Outlook:
    """All of it. ``amounts`` is the known cost by currency, ``unknown`` what has no price.

    ``kept`` is how long VMs stand that are kept, between sessions, too.
    """

    campaign: Campaign
    openings: tuple[Opening, ...]
    clock_changes: tuple[ClockChange, ...]
    weeks: tuple[Week, ...]
    platforms: int
    sessions: int
    first: datetime
    last: datetime
    seconds: float
    amounts: dict[str, float]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]
    kept: tuple[Paid, ...] = ()

    @property
    def cost(self) -> str:
        """What it costs, in words."""
        known = " and ".join(f"{Money(amount, unit)}" for unit, amount in self.amounts.items())
        if self.unknown:
            missing = f"there is no price of {', '.join(self.unknown)}"
            return f"unknown, for {missing}" + (f"; the rest about {known}" if known else "")
        return f"about {known}" if known else "nothing by price list"

    def record(self) -> dict[str, Any]:
        """Return it for machines."""
        return {
            "platforms": self.platforms,
            "sessions": self.sessions,
            "first": self.first.isoformat(),
            "last": self.last.isoformat(),
            "duration_s": self.seconds,
            "cost": self.amounts,
            "unpriced": list(self.unknown),
            "notes": list(self.notes),
            "time_zone": self.campaign.time_zone,
            "clock_changes": [one.record() for one in self.clock_changes],
            "order": self.campaign.order.value,
            "seed": self.campaign.seed,
            "kept_vms": [
                {"platform": one.name, "since": one.since.isoformat()}
                | {"until": one.until.isoformat(), "duration_s": one.seconds}
                for one in self.kept
            ],
            "weeks": [
                {"first": w.first.isoformat(), "slots": w.slots, "sessions": w.sessions}
                | {"duration_s": w.s}
                for w in self.weeks
            ],
            "calendar": [session for one in self.openings for session in one.record()],
        }


def outlook(score: Score) -> Outlook:
    """Look ahead."""
    planned = sessions(score.campaign)
    amounts: dict[str, float] = defaultdict(float)
    unknown: dict[str, None] = {}
    paid = _paid(score, planned)
    for one in paid:
        cost = score.parts[one.platform].cost
        unknown |= dict.fromkeys(cost.unknown)
        if cost.per_hour:
            amounts[cost.per_hour.currency] += cost.per_hour.amount * one.seconds / 3600
    return Outlook(
        campaign=score.campaign,
        openings=tuple(openings(score.campaign)),
        clock_changes=tuple(clock_changes(score.campaign)),
        weeks=tuple(_weeks(score, planned)),
        platforms=len(score.parts),
        sessions=len(planned),
        first=planned[0].due,
        last=max(one.slot.closes for one in planned),
        seconds=sum(score.parts[one.platform].seconds for one in planned),
        amounts=dict(amounts),
        unknown=tuple(unknown),
        notes=tuple(_too_full(score, planned)),
        kept=tuple(one for one in paid if score.parts[one.platform].kept),
    )


def past_notes(found: Outlook, now: datetime) -> list[str]:
    """Say which part of a campaign can't be measured any more."""
    gone, every = sum(one.closes <= now for one in found.openings), len(found.openings)
    if not gone:
        return []
    what = f"all {every}" if gone == every else f"{gone} of {every}"
    cure = "to measure then, set start, and a date in cron, to what comes next"
    return [f"{what} openings of its windows are over already; {cure}"]


def _paid(score: Score, planned: list[PlannedSession]) -> list[Paid]:
    """Tell how long the VMs of each platform stand: in its sessions, or also between them."""
    by_platform: dict[Platform, list[PlannedSession]] = defaultdict(list)
    for one in planned:
        by_platform[one.platform].append(one)
    found = []
    for platform, mine in by_platform.items():
        length = timedelta(seconds=score.parts[platform].seconds)
        since, until = mine[0].due, mine[-1].due + length
        stands = until - since if score.parts[platform].kept else len(mine) * length
        found.append(Paid(platform, since, until, stands.total_seconds()))
    return found


def _weeks(score: Score, planned: list[PlannedSession]) -> list[Week]:
    by_week: dict[int, list[PlannedSession]] = defaultdict(list)
    for one in planned:
        by_week[(one.slot.day - score.campaign.start).days // 7].append(one)
    weeks = []
    for number, mine in sorted(by_week.items()):
        slots = Counter(slot.window for slot in {one.slot for one in mine})
        seconds = sum(score.parts[one.platform].seconds for one in mine)
        first = score.campaign.start + timedelta(weeks=number)
        weeks.append(Week(first, dict(slots), len(mine), seconds))
    return weeks


def _too_full(score: Score, planned: list[PlannedSession]) -> list[str]:
    """Say which windows are too short for all their sessions, one cloud measured by one at once."""
    needed: dict[tuple[str, datetime, str], float] = defaultdict(float)
    room: dict[str, float] = {}
    places = {platform: part.places for platform, part in score.parts.items()}
    for one in planned:
        part = score.parts[one.platform]
        for place in places[one.platform]:
            needed[one.slot.window, one.slot.opens, place] += part.seconds
        length = (one.slot.closes - one.due).total_seconds()
        room[one.slot.window] = min(length, room.get(one.slot.window, length))
    if not score.campaign.exclusive:
        return []
    full = {window for (window, _, _), seconds in needed.items() if seconds > room[window]}
    why = "its sessions take longer than it is open, and the last of them will be missed"
    return [f"window {window}: {why}" for window in sorted(full)]
