"""Time as a campaign sees it."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Protocol

# A clock that is set, or a machine that slept, is noticed after so long.
_LOOK_S = 1.0


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
