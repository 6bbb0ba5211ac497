"""Calendar of a campaign: its clock, the openings of its windows, and the sessions, in order.

But for the clock, and the detection of its jumps by an adjustment or a sleep of the machine, it is
pure functions: the same campaign gives the same sessions. Days and times of day are those of the
campaign's time zone, so a window keeps its local hours through daylight saving time; an hour that
the clock leaves out begins when it goes on, and of one that comes twice the first is meant.
"""

from __future__ import annotations

import datetime
import random
import threading
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, timedelta, timezone
from functools import lru_cache
from itertools import islice, product
from pathlib import Path
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim

from osmef.campaigns.schedule.model import (
    Campaign,
    Days,
    Missed,
    PlatformOrder,
    Window,
    parse_clock,
)
from osmef.clock import since_boot
from osmef.errors import InputError

# A clock that is set, or a machine that slept, is noticed after so long.
_LOOK_S = 1.0
# Who comes so late was not there: this program did not run, or the machine slept.
LATE = timedelta(minutes=5)
_SET_BY = timedelta(minutes=1)
# Who comes back after so long may have a clock that is wrong, as it is before it asks the network.
_LONG_AWAY = timedelta(days=30)
_SETTLES_S = 300.0


class Clock(Protocol):
    """Time source that can wait, and be woken."""

    def now(self) -> datetime.datetime:
        """Return the time in UTC."""

    def steady(self) -> float:
        """Return a monotonic time in seconds, which includes the sleep of the machine."""

    def wait(self, until: datetime.datetime | None, wake: threading.Event) -> None:
        """Wait until a time or until ``wake`` is set; None: only that. May return early."""


class RealClock:
    """The machine's own clock; after an adjustment, sessions are due by the new time."""

    def now(self) -> datetime.datetime:
        """Return the time in UTC."""
        return datetime.datetime.now(UTC)

    def steady(self) -> float:
        """Return the seconds since boot."""
        return since_boot()

    def wait(self, until: datetime.datetime | None, wake: threading.Event) -> None:
        """Wait for a short time at most, since the clock may jump."""
        left = _LOOK_S if until is None else (until - self.now()).total_seconds()
        if left > 0:
            wake.wait(min(left, _LOOK_S))


def late_before(missed: Missed, now: datetime.datetime) -> datetime.datetime | None:
    """Return the time before which due sessions count as missed; None where they are run late."""
    return now - LATE if missed is Missed.SKIP else None


@dataclass(frozen=True)
class ClockReading:
    """A reading of the clock: the jump since the last one, and the start of an unwatched period."""

    was_absent: bool = False
    set_by: timedelta = timedelta(0)
    slept_since: datetime.datetime | None = None


@dataclass(frozen=True)
class Outage:
    """An outage of the database: its start, and the error message."""

    since: datetime.datetime
    text: str


class ClockMonitor:
    """Detects clock jumps, sleep of the machine, and outages of the database.

    A clock was set when it moves against the one that only counts (CLOCK_BOOTTIME).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: tuple[datetime.datetime, float] | None = None
        self._resting: tuple[datetime.datetime, datetime.datetime] | None = None
        self._doubted = False
        self._settled_at = 0.0
        self.failing: Outage | None = None

    def begin(self, since: datetime.datetime) -> None:
        """Start monitoring; the time since the last conductor counts as unwatched."""
        self._doubted = self._clock.now() - since > _LONG_AWAY

    def announce_wait(self, until: datetime.datetime) -> None:
        """Announce a wait until a time at the latest."""
        now = self._clock.now()
        self._resting = (now, max(now, until))

    def read(self, now: datetime.datetime) -> ClockReading:
        """Read the clock."""
        before, self._last = self._last, (now, self._clock.steady())
        if before is None:
            return ClockReading(was_absent=True)
        set_by = now - before[0] - timedelta(seconds=self._last[1] - before[1])
        if abs(set_by) > _SET_BY:
            self._doubted = True
            return ClockReading(was_absent=True, set_by=set_by)
        self._doubted = False
        if self._resting and now - self._resting[1] > LATE and self.failing is None:
            return ClockReading(was_absent=True, slept_since=self._resting[0])
        return ClockReading()

    def note_missed(self) -> None:
        """Note that this reading made sessions count as missed: the clock may be wrong."""
        if self._doubted:
            self._settled_at = self._clock.steady() + _SETTLES_S

    @property
    def settles_in(self) -> timedelta | None:
        """How long the campaign must not end, as the clock may be wrong; None: it may end."""
        left = self._settled_at - self._clock.steady()
        return timedelta(seconds=left) if left > 0 else None

    def note_failure(self, text: str) -> bool:
        """Note a failure of the database; return whether it is the first of an outage."""
        news = self.failing is None or self.failing.text != text
        since = self._clock.now() if self.failing is None else self.failing.since
        self.failing = Outage(since, text)
        return news

    def note_gaps_recorded(self) -> None:
        """Note that all gaps of the outage so far are recorded."""
        if self.failing is not None:
            self.failing = Outage(self._clock.now(), self.failing.text)

    def note_recovery(self) -> None:
        """Note that the database works again."""
        self.failing = None


_WEEKEND = {5, 6}
# More is a slip of the pen: this is one every ten minutes, of four platforms, for a year.
_MOST_SESSIONS = 200_000
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, order=True)
class TimeSlot:
    """One opening of a window, both ends in UTC.

    ``name`` is what its trials carry as their session: the local day on which it opens, for a cron
    expression also the time, and the window. ``day`` is that day.
    """

    opens: datetime.datetime
    closes: datetime.datetime
    window: str
    day: datetime.date
    name: str


@dataclass(frozen=True)
class Platform:
    """Platform of a session: scenario, provider and class. None: the scenario's own."""

    scenario: str
    provider: str | None = None
    instance_class: str | None = None

    @property
    def name(self) -> str:
        """A name that is unique within the campaign."""
        return " ".join(filter(None, (self.scenario, self.provider, self.instance_class)))

    @property
    def shown(self) -> str:
        """Its name for people, without the suffix of the scenario file."""
        return platform_name(self.scenario, self.provider, self.instance_class)


@lru_cache(maxsize=16384)  # a conductor asks at each look for the names of all that run
def platform_name(scenario: str, provider: str | None, instance_class: str | None) -> str:
    """Return the display name of a platform."""
    return " ".join(filter(None, (Path(scenario).stem, provider, instance_class)))


@dataclass(frozen=True)
class PlannedSession:
    """One platform in one slot. ``place`` is its position in the slot, from 0; due in UTC."""

    slot: TimeSlot
    platform: Platform
    place: int
    due: datetime.datetime


def slots(campaign: Campaign) -> list[TimeSlot]:
    """Return all openings of all windows in order of time, up to the deadline.

    Raises InputError where there are too many.
    """
    zone = ZoneInfo(campaign.time_zone)
    end = _deadline(campaign, zone)
    found: list[TimeSlot] = []
    each = _count_of_platforms(campaign)
    for name, window in campaign.windows.items():
        openings = (_by_cron if window.cron else _by_day)(campaign, window, zone)
        found += [
            TimeSlot(
                opens.astimezone(UTC),
                min(closes.astimezone(UTC), end),
                name,
                opens.date(),
                _named(opens, name, window),
            )
            for opens, closes in islice(openings, _MOST_SESSIONS + 1)
            if opens < end
        ]
        if len(found) * each > _MOST_SESSIONS:
            raise InputError(
                f"the campaign has {len(found) * each} sessions or more, and the most is"
                f" {_MOST_SESSIONS}",
                where=campaign.name,
                cure="open windows less often, or make several campaigns of it",
            )
    return sorted(found)


def _count_of_platforms(campaign: Campaign) -> int:
    return len(campaign.scenarios) * max(1, len(campaign.providers)) * max(1, len(campaign.classes))


def _deadline(campaign: Campaign, zone: ZoneInfo) -> datetime.datetime:
    end = campaign.deadline
    if end is None:
        return datetime.datetime.max.replace(tzinfo=UTC)
    return (end if end.tzinfo else end.replace(tzinfo=zone)).astimezone(UTC)


def platforms(campaign: Campaign) -> list[Platform]:
    """Return the platforms that are measured in each slot."""
    providers: Sequence[str | None] = list(campaign.providers) or [None]
    classes: Sequence[str | None] = list(campaign.classes) or [None]
    return [Platform(*parts) for parts in product(campaign.scenarios, providers, classes)]


def sessions(campaign: Campaign) -> list[PlannedSession]:
    """Return all sessions in the order of their due times.

    Each slot draws its delay and its order from the seed and its own time, so that a campaign
    that is made longer keeps the sessions that it had.
    """
    found = []
    for slot in slots(campaign):
        draw = random.Random(f"{campaign.seed} {slot.opens.isoformat()} {slot.window}")  # noqa: S311
        # A second before it closes it is open.
        most_s = max(0.0, (slot.closes - slot.opens).total_seconds() - 1)
        due = slot.opens + timedelta(seconds=round(draw.uniform(0, min(campaign.jitter, most_s))))
        order = platforms(campaign)
        if campaign.order is PlatformOrder.RANDOM:
            draw.shuffle(order)
        found += [PlannedSession(slot, one, place, due) for place, one in enumerate(order)]
    return sorted(found, key=lambda one: (one.due, one.slot, one.place))


def _named(opens: datetime.datetime, name: str, window: Window) -> str:
    if window.cron is None:
        return f"{opens:%Y-%m-%d} {name}"
    return f"{opens:%Y-%m-%d %H:%M} {'again ' * opens.fold}{name}"


def _by_day(campaign: Campaign, window: Window, zone: ZoneInfo) -> Iterator[_Opening]:
    opens, closes = parse_clock(window.opens or ""), parse_clock(window.closes or "")
    holidays = frozenset(campaign.holidays)
    for number in range(7 * campaign.weeks):
        day = campaign.start + timedelta(days=number)
        if not _is_open(holidays, window.days, day):
            continue
        last = day if closes > opens else day + timedelta(days=1)
        begin, end = _moment(day, opens, zone), _moment(last, closes, zone)
        # Where the clock leaves out the whole window it keeps its length instead of its end.
        nominal = datetime.datetime.combine(last, closes) - datetime.datetime.combine(day, opens)
        yield begin.astimezone(zone), (end if end > begin else begin + nominal).astimezone(zone)


def _moment(day: datetime.date, clock: datetime.time, zone: ZoneInfo) -> datetime.datetime:
    """Return a local time in UTC; one that summer time skips is when the clock resumes."""
    wall = datetime.datetime.combine(day, clock)
    moment = wall.replace(tzinfo=zone).astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None, fold=0) == wall:
        return moment
    after = moment.astimezone(zone).utcoffset()
    while (moment - _MINUTE).astimezone(zone).utcoffset() == after:
        moment -= _MINUTE
    return moment


def _is_open(holidays: Set[datetime.date], days: Days, day: datetime.date) -> bool:
    weekend = day.weekday() in _WEEKEND or day in holidays
    return days is Days.ALL or weekend == (days is Days.WEEKEND)


def _by_cron(campaign: Campaign, window: Window, zone: ZoneInfo) -> Iterator[_Opening]:
    last = datetime.timedelta(weeks=campaign.weeks)
    begin = datetime.datetime.combine(campaign.start, datetime.time(), zone)
    end = datetime.datetime.combine(campaign.start + last, datetime.time(), zone)
    length = timedelta(seconds=window.length or 0)
    holidays = frozenset(campaign.holidays)
    # It counts from the next minute on, and the first of them belongs to the campaign.
    for opens in CronSim(window.cron or "", begin - timedelta(minutes=1)):
        if opens >= end:
            return
        if not _is_open(holidays, window.days, opens.date()):
            continue
        yield opens, (opens.astimezone(UTC) + length).astimezone(zone)


_Opening = tuple[datetime.datetime, datetime.datetime]


@dataclass(frozen=True)
class Opening:
    """A window that opens once, in the campaign's time zone.

    Its sessions begin at ``due``, after the jitter, and on one cloud one after the other, in the
    order of ``platforms``. ``holiday``: its day counts as weekend for being one.
    """

    name: str
    window: str
    day: datetime.date
    holiday: bool
    opens: datetime.datetime
    closes: datetime.datetime
    due: datetime.datetime
    platforms: tuple[str, ...]

    def record(self) -> Iterator[dict[str, Any]]:
        """Yield its sessions for JSON; ``place`` counts from 0."""
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
    """A change of local time, such as to summer time: local time before and after."""

    before: datetime.datetime
    after: datetime.datetime

    def record(self) -> dict[str, str]:
        """Return it for JSON."""
        return {"before": self.before.isoformat(), "after": self.after.isoformat()}


def openings(campaign: Campaign) -> list[Opening]:
    """Return all openings of all windows in the order of their sessions' due times."""
    zone = ZoneInfo(campaign.time_zone)
    found: dict[TimeSlot, list[PlannedSession]] = {}
    for one in sessions(campaign):
        found.setdefault(one.slot, []).append(one)
    return [_opening(campaign, slot, mine, zone) for slot, mine in found.items()]


def _opening(
    campaign: Campaign, slot: TimeSlot, mine: Sequence[PlannedSession], zone: ZoneInfo
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
        tuple(platform.shown for platform in platforms),
    )


def clock_changes(campaign: Campaign) -> list[ClockChange]:
    """Return the changes of local time during a campaign, such as to summer time."""
    zone = ZoneInfo(campaign.time_zone)
    found = []
    for number in range(7 * campaign.weeks):
        day = datetime.datetime.combine(campaign.start + number * _DAY, datetime.time(), zone)
        moment, offset = day.astimezone(UTC), day.utcoffset()
        if offset is None or (day + _DAY).utcoffset() == offset:
            continue
        while (after := moment.astimezone(zone)).utcoffset() == offset:
            moment += _MINUTE
        found.append(ClockChange(moment.astimezone(timezone(offset)), after))
    return found
