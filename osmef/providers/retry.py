"""Retry of transient errors with exponential backoff, within a limit."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

LIMIT_S = 150.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 8.0


@dataclass
class Retry:
    """Limit and cancellation check of a retry.

    ``check`` is called at least once a second while it waits, and may raise.
    """

    check: Callable[[], None] = field(default=lambda: None)
    limit_s: float = LIMIT_S

    def repeat(self, call: Callable[[], T], pause_after: Callable[[Exception], float | None]) -> T:
        """Call a function, with retry of transient errors; raise the last one.

        ``pause_after`` returns the seconds to wait at least before the call is repeated after an
        error, None if that would not help.
        """
        end = time.monotonic() + self.limit_s
        growing = _FIRST_PAUSE_S
        while True:
            try:
                return call()
            except Exception as error:
                asked = pause_after(error)
                if asked is None:
                    raise
                wait = max(asked, growing * random.uniform(0.75, 1.25))  # noqa: S311 - no secret
                if time.monotonic() + wait > end:
                    raise
            self.wait(wait)
            growing = min(2 * growing, _LONGEST_PAUSE_S)

    def wait(self, seconds: float) -> None:
        """Wait, and call ``check`` once a second meanwhile."""
        end = time.monotonic() + seconds
        while True:
            self.check()
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 1.0))
