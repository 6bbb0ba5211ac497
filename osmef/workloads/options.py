"""What the settings of several programs have in common, and how it becomes their options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Literal


class Protocol(StrEnum):
    """What carries the data."""

    TCP = "tcp"
    UDP = "udp"


Direction = Literal["forward", "reverse"]
"""From sender to receiver, or back."""


def options(given: Mapping[str, object | None]) -> list[str]:
    """Return options with their values: those without a value are left out, and so is None.

    True stands for an option alone, and False for none.
    """
    found: list[str] = []
    for option, value in given.items():
        if value is True:
            found.append(option)
        elif value is not None and value is not False:
            found += [option, str(value)]
    return found


def whole_seconds(duration_s: float) -> int:
    """Return a duration as programs take it that know no fractions of a second."""
    return math.ceil(duration_s)
