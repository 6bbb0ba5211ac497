"""Telling somebody what happens without depending on it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

_LOG = logging.getLogger(__name__)

Told = ParamSpec("Told")


def contained(tell: Callable[Told, None]) -> Callable[Told, None]:
    """Return what tells the same and raises no Exception: a failure is logged."""

    @wraps(tell)
    def told(*args: Told.args, **kwargs: Told.kwargs) -> None:
        try:
            tell(*args, **kwargs)
        except Exception:  # whatever it is, the work goes on
            _LOG.warning("what happens could not be told", exc_info=True)

    return told
