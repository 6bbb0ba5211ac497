"""Waiting for what comes about by itself, however busy the machine is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_TIMEOUT_S = 300.0
_LOOK_S = 0.02


def until(there: Callable[[], bool]) -> None:
    """Look until something is there, as a user would with a watch in hand."""
    end = time.monotonic() + _TIMEOUT_S
    waiting = threading.Event()
    while not there():
        assert time.monotonic() < end
        waiting.wait(_LOOK_S)
