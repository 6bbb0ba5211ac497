"""Model of a table of the page, with its sort keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from markupsafe import Markup

from osmef.results.measure import PREFIXED, Measure, shown_unit
from osmef.results.summary import Metric
from osmef.units import rate_unit

NOTHING = "-"
_FAR = 10  # times below 1 in the unit of the largest number, a number is hard to read in it
_NARROW_SPACE = "\u202f"


class Emphasis(StrEnum):
    """Emphasis of a field, beside its text."""

    PLAIN = ""
    WARN = "warn"
    BAD = "bad"
    GOOD = "good"


@dataclass(frozen=True)
class Field:
    """A field: its text, small lines below it, and its sort key if it differs.

    An empty ``key`` is an unknown value, which comes last. A ``drawing`` shows what the text says.
    """

    text: str
    lines: tuple[str, ...] = ()
    key: str | None = None
    emphasis: Emphasis = Emphasis.PLAIN
    drawing: Markup | None = None


@dataclass(frozen=True)
class Column:
    """A column: its header and unit."""

    head: str
    unit: str = ""
    number: bool = False


@dataclass(frozen=True)
class Table:
    """Columns and rows; the first field of a row is its header. ``note`` is below the table."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Field]] = field(repr=False)
    note: str = ""

    def first(self, most: int) -> Table:
        """Return the table with so many rows at most, and a note on the others."""
        if len(self.rows) <= most:
            return self
        told = f"The first {most} of {len(self.rows)} rows."
        return replace(self, rows=self.rows[:most], note=f"{told} {self.note}".strip())


@dataclass(frozen=True)
class Scale:
    """Display of a metric's numbers: divided by ``divisor``, in ``unit``.

    Where one prefix does not fit all of them (``by_row``) each row has its own, behind its numbers.
    ``base`` is the unit that gets a prefix; without one there is none.
    """

    words: str
    unit: str
    divisor: float = 1.0
    by_row: bool = False
    base: str = ""

    def at(self, value: float | None) -> Scale:
        """Return the display for the row with this median."""
        if not self.by_row or value is None or not self.base:
            return self
        divisor, unit = rate_unit(abs(value), self.base)
        return Scale(self.words, unit, divisor)

    def show(self, value: float | None) -> str:
        """Format a number with three digits; a dash if it is unknown."""
        return show_number(None if value is None else value / self.divisor)


def scale_of(measure: Measure, metrics: Sequence[Metric]) -> Scale:
    """Return the display of a measure in all its cells, by its medians."""
    if measure.unit not in PREFIXED:
        return Scale(measure.words, shown_unit(measure.unit))
    medians = [abs(one.median) for one in metrics if one.median]
    divisor, unit = rate_unit(max(medians, default=0.0), measure.unit)
    if min(medians, default=divisor) < divisor / _FAR:
        return Scale(measure.words, "", divisor, by_row=True, base=measure.unit)
    return Scale(measure.words, unit, divisor, base=measure.unit)


def show_number(value: float | None) -> str:
    """Format a number with three digits and thousands separators; a dash if unknown."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", _NARROW_SPACE)
    return f"{value:.3g}"


def number(value: float | None, *lines: str) -> Field:
    """Return a number as a field with itself as sort key."""
    return Field(show_number(value), lines, "" if value is None else repr(value))


def text(value: object) -> Field:
    """Return a text as a field; None is unknown."""
    return Field(NOTHING, key="") if value is None else Field(str(value))


def names(these: Sequence[str], most: int = 4) -> str:
    """Join names with commas, the first ones of many."""
    told = ", ".join(these[:most])
    return told if len(these) <= most else f"{told} … ({len(these)})"
