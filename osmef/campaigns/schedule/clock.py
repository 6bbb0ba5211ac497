"""The clock of a campaign, and a monitor of its jumps: it was set, or the machine slept."""

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
    """Tells the time, and waits until a time comes or somebody wakes the waiter."""

    def now(self) -> datetime:
        """Return the time in UTC."""

    def steady(self) -> float:
        """Return seconds since some moment, which nobody sets; a sleeping machine counts them."""

    def wait(self, until: datetime | None, wake: threading.Event) -> None:
        """Return at a time, or as soon as ``wake`` is set; None: only then. May return early."""


class RealClock:
    """The machine's own clock: when it is set, what is due is due by the new time."""

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC)

    def steady(self) -> float:
        """Return the seconds since the machine booted."""
        boottime = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # only Linux has it
        return time.clock_gettime(boottime)

    def wait(self, until: datetime | None, wake: threading.Event) -> None:
        """Wait a moment at most, since the clock may jump."""
        left = _LOOK_S if until is None else (until - self.now()).total_seconds()
        if left > 0:
            wake.wait(min(left, _LOOK_S))


def late_before(missed: Missed, now: datetime) -> datetime | None:
    """Return before when what was due is missed for who comes now; None where it is run."""
    return now - LATE if missed is Missed.SKIP else None


@dataclass(frozen=True)
class ClockReading:
    """What a look at the clock tells: by how much it was set, and since when nobody looked."""

    was_absent: bool = False
    set_by: timedelta = timedelta(0)
    slept_since: datetime | None = None


@dataclass(frozen=True)
class Outage:
    """Since when the database fails, and what it says."""

    since: datetime
    text: str


class ClockMonitor:
    """Detects that the clock was set, that the machine slept, and that the database fails.

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
        """Begin to look, after nobody has since a time."""
        self._doubted = self._clock.now() - since > _LONG_AWAY

    def rest(self, until: datetime) -> None:
        """Tell that nobody looks now, until a time at the latest."""
        now = self._clock.now()
        self._resting = (now, max(now, until))

    def look(self, now: datetime) -> ClockReading:
        """Look at the clock."""
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
        """Tell that sessions were missed by the time of this look: maybe it is wrong."""
        if self._doubted:
            self._settled_at = self._clock.steady() + _SETTLES_S

    @property
    def settles_in(self) -> timedelta | None:
        """How long to wait for the right time before the campaign may end; None: not at all."""
        left = self._settled_at - self._clock.steady()
        return timedelta(seconds=left) if left > 0 else None

    def fails(self, text: str) -> bool:
        """Tell that the database fails; return whether that is news."""
        news = self.failing is None or self.failing.text != text
        since = self._clock.now() if self.failing is None else self.failing.since
        self.failing = Outage(since, text)
        return news

    def has_noted(self) -> None:
        """Tell that all is noted that the trouble has cost so far."""
        if self.failing is not None:
            self.failing = Outage(self._clock.now(), self.failing.text)

    def works(self) -> None:
        """Tell that the database works again."""
        self.failing = None
