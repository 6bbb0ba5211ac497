"""Strip plot in a table's row: a dot each trial, the median, and its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

_WIDE, _HIGH, _MARGIN = 150, 18, 4
_FAR = 20  # times the least value: from there on the axis is logarithmic
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
        if low > 0 and high > _FAR * low:
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
