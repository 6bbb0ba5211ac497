"""A clock that is set while a run works."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, tzinfo
from typing import Self

import pytest

from osmef.engine import journal, measure


def set_clock(monkeypatch: pytest.MonkeyPatch, by: timedelta) -> None:
    """Set the clock that a run reads; until the end of the test."""

    class Set(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + by

    before = time.time
    monkeypatch.setattr(time, "time", lambda: before() + by.total_seconds())
    for module in (journal, measure):
        monkeypatch.setattr(module, "datetime", Set)
