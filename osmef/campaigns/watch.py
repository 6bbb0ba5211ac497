"""Watching time for a conductor: a clock that is set, a machine that slept, a database that fails.

A clock is set when it moves against the one that only counts (CLOCK_BOOTTIME of clock_gettime(2)).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from osmef.campaigns.clock import Clock
from osmef.campaigns.model import Missed

# Who comes so late was not there: this program did not run, or the machine slept.
LATE = timedelta(minutes=5)
_SET_BY = timedelta(minutes=1)
# Who comes back after so long may have a clock that is wrong, as it is before it asks the network.
_LONG_AWAY = timedelta(days=30)
_SETTLES_S = 300.0


def late_before(missed: Missed, now: datetime) -> datetime | None:
    """Return before when what was due is missed for who comes now; None where it is run."""
    return now - LATE if missed is Missed.SKIP else None


@dataclass(frozen=True)
class Seen:
    """What a look at the clock tells: by how much it was set, and since when nobody looked."""

    was_absent: bool = False
    set_by: timedelta = timedelta(0)
    slept_since: datetime | None = None


@dataclass(frozen=True)
class Trouble:
    """Since when the database fails, and what it says."""

    since: datetime
    text: str


class Watch:
    """Knows what time has done since the last look."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: tuple[datetime, float] | None = None
        self._resting: tuple[datetime, datetime] | None = None
        self._doubted = False
        self._settled_at = 0.0
        self.failing: Trouble | None = None

    def begin(self, since: datetime) -> None:
        """Begin to look, after nobody has since a time."""
        self._doubted = self._clock.now() - since > _LONG_AWAY

    def rest(self, until: datetime) -> None:
        """Tell that nobody looks now, until a time at the latest."""
        now = self._clock.now()
        self._resting = (now, max(now, until))

    def look(self, now: datetime) -> Seen:
        """Look at the clock."""
        before, self._last = self._last, (now, self._clock.steady())
        if before is None:
            return Seen(was_absent=True)
        set_by = now - before[0] - timedelta(seconds=self._last[1] - before[1])
        if abs(set_by) > _SET_BY:
            self._doubted = True
            return Seen(was_absent=True, set_by=set_by)
        self._doubted = False
        if self._resting and now - self._resting[1] > LATE and self.failing is None:
            return Seen(was_absent=True, slept_since=self._resting[0])
        return Seen()

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
        self.failing = Trouble(since, text)
        return news

    def has_noted(self) -> None:
        """Tell that all is noted that the trouble has cost so far."""
        if self.failing is not None:
            self.failing = Trouble(self._clock.now(), self.failing.text)

    def works(self) -> None:
        """Tell that the database works again."""
        self.failing = None
