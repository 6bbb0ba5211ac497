"""Waiting for a condition, however busy the machine is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_TIMEOUT_S = 300.0
_LOOK_S = 0.02


def until(there: Callable[[], bool]) -> None:
    """Poll until something is there; fail after five minutes."""
    end = time.monotonic() + _TIMEOUT_S
    waiting = threading.Event()
    while not there():
        assert time.monotonic() < end
        waiting.wait(_LOOK_S)
