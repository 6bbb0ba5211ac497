"""Clock of a campaign, and detection of its jumps: adjustment, or sleep of the machine."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from osmef.campaigns.schedule.model import Missed

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

    def now(self) -> datetime:
        """Return the time in UTC."""

    def steady(self) -> float:
        """Return a monotonic time in seconds, which includes the sleep of the machine."""

    def wait(self, until: datetime | None, wake: threading.Event) -> None:
        """Wait until a time or until ``wake`` is set; None: only that. May return early."""


class RealClock:
    """The machine's own clock; after an adjustment, sessions are due by the new time."""

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC)

    def steady(self) -> float:
        """Return the seconds since boot."""
        boottime = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # only Linux has it
        return time.clock_gettime(boottime)

    def wait(self, until: datetime | None, wake: threading.Event) -> None:
        """Wait for a short time at most, since the clock may jump."""
        left = _LOOK_S if until is None else (until - self.now()).total_seconds()
        if left > 0:
            wake.wait(min(left, _LOOK_S))


def late_before(missed: Missed, now: datetime) -> datetime | None:
    """Return the time before which due sessions count as missed; None where they are run late."""
    return now - LATE if missed is Missed.SKIP else None


@dataclass(frozen=True)
class ClockReading:
    """A reading of the clock: the jump since the last one, and the start of an unwatched period."""

    was_absent: bool = False
    set_by: timedelta = timedelta(0)
    slept_since: datetime | None = None


@dataclass(frozen=True)
class Outage:
    """An outage of the database: its start, and the error message."""

    since: datetime
    text: str


class ClockMonitor:
    """Detects clock jumps, sleep of the machine, and outages of the database.

    A clock was set when it moves against the one that only counts (CLOCK_BOOTTIME).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: tuple[datetime, float] | None = None
        self._resting: tuple[datetime, datetime] | None = None
        self._doubted = False
        self._settled_at = 0.0
        self.failing: Outage | None = None

    def begin(self, since: datetime) -> None:
        """Start monitoring; the time since the last conductor counts as unwatched."""
        self._doubted = self._clock.now() - since > _LONG_AWAY

    def rest(self, until: datetime) -> None:
        """Announce a wait until a time at the latest."""
        now = self._clock.now()
        self._resting = (now, max(now, until))

    def look(self, now: datetime) -> ClockReading:
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

    def has_missed(self) -> None:
        """Note that this reading made sessions count as missed: the clock may be wrong."""
        if self._doubted:
            self._settled_at = self._clock.steady() + _SETTLES_S

    @property
    def settles_in(self) -> timedelta | None:
        """How long the campaign must not end, as the clock may be wrong; None: it may end."""
        left = self._settled_at - self._clock.steady()
        return timedelta(seconds=left) if left > 0 else None

    def fails(self, text: str) -> bool:
        """Note a failure of the database; return whether it is the first of an outage."""
        news = self.failing is None or self.failing.text != text
        since = self._clock.now() if self.failing is None else self.failing.since
        self.failing = Outage(since, text)
        return news

    def has_noted(self) -> None:
        """Note that all gaps of the outage so far are recorded."""
        if self.failing is not None:
            self.failing = Outage(self._clock.now(), self.failing.text)

    def works(self) -> None:
        """Note that the database works again."""
        self.failing = None
