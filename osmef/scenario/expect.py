"""What a scenario expects of a metric: a bound, as in ``>= 5 Gbit/s``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from osmef.units import convert

_TEXT = re.compile(r"(>=|<=) ?([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-zµ%/0-9]{0,12})")
_CURE = "write it as '>= 5 Gbit/s', '<= 500 us' or '<= 0.1 %'"


@dataclass(frozen=True)
class Bound:
    """The least or the most that a metric may be; no ``unit`` is that of the metric."""

    at_least: bool
    value: float
    unit: str

    def within(self, unit: str | None) -> float:
        """Return the bound in the unit of a metric. Raises ValueError where that can't be."""
        return convert(self.value, self.unit, unit or "1") if self.unit else self.value


def read_bound(text: str) -> Bound:
    """Read a bound. Raises ValueError: what is wrong, and what to do about it."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text[:60]!r} is no bound; {_CURE}")
    return Bound(found[1] == ">=", float(found[2]), found[3].replace("µs", "us"))


def _check(text: str) -> str:
    read_bound(text)
    return text


Expected = Annotated[
    str,
    Field(max_length=60, examples=[">= 5 Gbit/s", "<= 500 us"]),
    AfterValidator(_check),
]
"""A bound as text."""
