"""Whether a number is where it was expected."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """What the interval of a median says of a bound."""

    MET = "met"
    MISSED = "missed"
    UNDECIDED = "undecided"
