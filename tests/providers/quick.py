"""Time that passes five times as fast where a provider waits for its cloud."""

from __future__ import annotations

import threading
import time

PACE = 5.0


class QuickTime:
    """What waits use of the module ``time``: who has slept is told that it was for longer.

    What does not sleep has the time that it has on any machine, so that limits hold on a busy one.
    """

    def __init__(self) -> None:
        self._slept = threading.local()

    def monotonic(self) -> float:
        """Return the seconds of the machine's clock, and those that this thread did not sleep."""
        skipped: float = getattr(self._slept, "skipped", 0.0)
        return time.monotonic() + skipped

    def sleep(self, seconds: float) -> None:
        """Sleep a part of the time."""
        time.sleep(seconds / PACE)
        skipped: float = getattr(self._slept, "skipped", 0.0)
        self._slept.skipped = skipped + seconds * (1 - 1 / PACE)
