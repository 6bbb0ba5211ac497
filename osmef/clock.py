"""A clock that can't be set."""

from __future__ import annotations

import time


def since_boot() -> float:
    """Return the seconds since boot, with those in which the machine slept."""
    # Only Linux has CLOCK_BOOTTIME.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
