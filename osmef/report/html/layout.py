"""Layout of pages: the frame with a content security policy, tables, and strip plots in them."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import osmef
from osmef.errors import InputError
from osmef.files import exists, open_file
from osmef.results.files import storage, write_atomically
from osmef.results.measure import PREFIXED, Measure, shown_unit
from osmef.results.summary import MetricSummary
from osmef.units import rate_unit

_TEMPLATES = Path(__file__).parent / "templates"
_MARK = b'<meta name="generator" content="OSMeF '
_HEAD_BYTES = 8192  # a page says within its first two thousand who wrote it


def fill(template: str, title: str, *, live: bool, **values: object) -> str:
    """Render a template with these values and the title.

    With ``live`` it has what draws the figures that have data.
    """
    environment = Environment(
        loader=PackageLoader("osmef.report.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ["plotly-basic.min.js", "page.js"] if live else ["page.js"]
    scripts = [(_TEMPLATES / name).read_text(encoding="utf-8") for name in names]
    style = (_TEMPLATES / "page.css").read_text(encoding="utf-8")
    return environment.get_template(template).render(
        title=title,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=osmef.__version__,
        scripts=[Markup(script) for script in scripts],  # noqa: S704 - none is from elsewhere
        style=Markup(style),  # noqa: S704
        digests=[_digest(script) for script in scripts],
        **values,
    )


def check_output(output: Path) -> None:
    """Raise InputError unless the path is a new file, or a page of ours.

    Content that OSMeF did not write could not be restored. Raises StorageError, too.
    """
    if output.suffix.lower() not in {".html", ".htm"}:
        raise InputError(
            f"a page can't be written as {output.name}",
            where="--output",
            cure="let the file end with .html",
        )
    if not exists(output):
        return
    with storage("look at", output), open_file(output) as file:
        head = file.read(_HEAD_BYTES)
    if head and _MARK not in head:
        raise InputError(
            "there is a file that OSMeF did not write",
            where=str(output),
            cure="name another with -o, or remove this one first",
        )


def write_page(output: Path, page: str) -> None:
    """Write a page as ``fill`` returns it. Raises as ``check_output``, and StorageError."""
    check_output(output)
    write_atomically(output, page.encode())


def _digest(script: str) -> str:
    """Return the hash of a script for a content security policy."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


NOTHING = "-"
_FAR_BELOW = 10  # times below 1 in the unit of the largest number, a number is hard to read in it
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
        reported = f"The first {most} of {len(self.rows)} rows."
        return replace(self, rows=self.rows[:most], note=f"{reported} {self.note}".strip())


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


def scale_of(measure: Measure, metrics: Sequence[MetricSummary]) -> Scale:
    """Return the display of a measure in all its cells, by its medians."""
    if measure.unit not in PREFIXED:
        return Scale(measure.words, shown_unit(measure.unit))
    medians = [abs(one.median) for one in metrics if one.median]
    divisor, unit = rate_unit(max(medians, default=0.0), measure.unit)
    if min(medians, default=divisor) < divisor / _FAR_BELOW:
        return Scale(measure.words, "", divisor, by_row=True, base=measure.unit)
    return Scale(measure.words, unit, divisor, base=measure.unit)


def show_number(value: float | None) -> str:
    """Format a number with three digits and thousands separators; a dash if unknown."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if abs(value) >= 999.5:
        return f"{value:,.0f}".replace(",", _NARROW_SPACE)
    return f"{value:.3g}"


def number(value: float | None, *lines: str) -> Field:
    """Return a number as a field with itself as sort key."""
    return Field(show_number(value), lines, sort_key(value))


def sort_key(value: float | None) -> str:
    """Return the key by which a field of a number is sorted."""
    return "" if value is None or math.isnan(value) else repr(value)


def text(value: object) -> Field:
    """Return a text as a field; None is unknown."""
    return Field(NOTHING, key="") if value is None else Field(str(value))


def names(these: Sequence[str], most: int = 4) -> str:
    """Join names with commas, the first ones of many."""
    reported = ", ".join(these[:most])
    return reported if len(these) <= most else f"{reported} … ({len(these)})"


_WIDE, _HIGH, _MARGIN = 150, 18, 4
_FAR_ABOVE = 20  # times the least value: from there on the axis is logarithmic
_MOST_DOTS = 200


@dataclass(frozen=True)
class StripAxis:
    """A common axis of all rows: from 0, or logarithmic for a wide range."""

    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, values: Sequence[float]) -> StripAxis | None:
        """Return the axis for all values; None without a positive one."""
        known = [value for value in values if math.isfinite(value)]
        if not known or max(known) <= 0:
            return None
        low, high = min(known), max(known)
        if low > 0 and high > _FAR_ABOVE * low:
            return cls(math.log10(low), math.log10(high), log=True)
        return cls(min(0.0, low), high, log=False)

    def at(self, value: float) -> float:
        """Return the position of a value, in units of the drawing."""
        shown = math.log10(max(value, 10**self.low)) if self.log else value
        share = (shown - self.low) / ((self.high - self.low) or 1.0)
        return round(_MARGIN + share * (_WIDE - 2 * _MARGIN), 1)


def strip(
    axis: StripAxis, values: Sequence[float], median: float, ends: tuple[float, float] | None
) -> Markup:
    """Return the plot of a row as SVG; the table has its text alternative."""
    middle = _HIGH / 2
    parts = []
    if ends is not None:
        left, right = (axis.at(end) for end in ends)
        wide = max(1.0, round(right - left, 1))
        parts.append(f'<rect x="{left}" y="4" width="{wide}" height="10" class="interval"/>')
    dots = [axis.at(value) for value in values[:_MOST_DOTS]]
    parts += [f'<circle cx="{x}" cy="{middle}" r="2.2"/>' for x in dots]
    x = axis.at(median)
    parts.append(f'<path d="M{x} 2V{_HIGH - 2}"/>')
    drawing = "".join(parts)
    return Markup(  # noqa: S704 - numbers of ours
        f'<svg class="strip" viewBox="0 0 {_WIDE} {_HIGH}" width="{_WIDE}" height="{_HIGH}"'
        f' aria-hidden="true">{drawing}</svg>'
    )
