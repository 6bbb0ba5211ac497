"""Measures: the definition of a metric, declared once and stored with the results."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from pydantic import Field

from osmef.errors import InputError
from osmef.scenario.base import Model
from osmef.units import format_prefixed, format_time

BIT_RATE = "bit/s"
_WHOLE = 10  # values from here on may be rounded to whole numbers
PREFIXED = (BIT_RATE, "B/s")
"""Units that are written with a prefix, such as ``9.41 Gbit/s`` and ``21.9 GB/s``."""

_LEAST = {"us": 1.0, "%": 0.1}


class Better(StrEnum):
    """Better direction of a measure."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


class OverPairs(StrEnum):
    """Aggregation of a measure over the pairs of a trial."""

    SUM = "sum"
    MEAN = "mean"
    WORST = "worst"
    POOLED = "pooled"
    ONLY = "only"


class Component(StrEnum):
    """A component of machine types' vectors, with its unit.

    Source: Kratzke and Quint, "How to Operate Container Clusters more Efficiently?", 2015, equation
    1 (EasyCompare).
    """

    THREADS = "threads"
    CPU = "cpu_s"
    MEMORY = "memory_mb"
    MEMORY_RATE = "memory_mb_per_s"
    DISK_READ = "disk_read_mb_per_s"
    DISK_WRITE = "disk_write_mb_per_s"
    NETWORK = "network_mb_per_s"


class Measure(Model):
    """Definition of a metric: its unit, its better direction, and its display."""

    name: str = Field(description="name of the metric, as trials and cells have it")
    unit: str | None = Field(
        description="`bit/s`, `us`, `s`, `%`, `B`, `B/s`, `1/s`, `1` for a pure number, or another;"
        " null where it is not known"
    )
    better: Better = Field(description="which way is better")
    help: str = Field(default="", description="what it is, in one line")
    source: str = Field(default="", description="the source of the definition")
    label: str | None = Field(
        default=None, description="what axes and heads call it, without its unit; null: the name"
    )
    head: str | None = Field(
        default=None, description="head of its column in a table; null: it has no column"
    )
    digits: str | None = Field(
        default=None,
        pattern=r"^\.[0-9][efg]$",
        description="format of the number in a table, such as `.0f`; null: a rate in bit/s or"
        " B/s with a prefix, all else with six digits",
    )
    over_pairs: OverPairs = Field(
        default=OverPairs.ONLY,
        description="how the number of several pairs of endpoints is made: the `sum`, `mean` or"
        " `worst` of theirs; `pooled`, of what all pairs saw taken together; or there is `only`"
        " that of a single pair",
    )
    leading: bool = Field(
        default=False,
        description="whether it is what tables, figures and progress show where none is named",
    )
    spare: bool = Field(
        default=False, description="whether a table that is too narrow leaves it out first"
    )
    component: Component | None = Field(
        default=None,
        strict=False,
        description="the component of a machine type's vector that it measures; null: none",
    )
    least: float | None = Field(
        default=None,
        ge=0,
        description="how large a difference never matters, in the unit; null: 1 us of a time in us,"
        " 0.1 of a percentage, nothing of all else",
    )

    @property
    def is_rate(self) -> bool:
        """Whether it is per second."""
        return self.unit is not None and self.unit.endswith("/s")

    @property
    def negligible(self) -> float:
        """The largest difference that never matters, in its unit."""
        return _LEAST.get(self.unit or "", 0.0) if self.least is None else self.least

    @property
    def words(self) -> str:
        """Its label in axes and headers, without unit."""
        return self.label or self.name.replace("_", " ")

    @property
    def has_prefix(self) -> bool:
        """Whether its values get an SI prefix."""
        return self.unit in PREFIXED and self.digits is None

    def written(self, value: float) -> str:
        """Format a value for a table: with its unit if that gets a prefix.

        A small one has two digits where rounding to a whole number would hide a half.
        """
        if self.has_prefix:
            return format_prefixed(value, self.unit or "")
        is_small = self.digits == ".0f" and abs(value) < _WHOLE
        return format(value, ".2g" if is_small else self.digits or ".6g")

    def with_unit(self, value: float) -> str:
        """Format a value with its unit, microseconds as a time for people."""
        if self.unit == "us":
            return format_time(value / 1e6)
        text = self.written(value)
        return text if self.has_prefix else f"{text} {shown_unit(self.unit)}".rstrip()

    def between(self, low: float, high: float) -> str:
        """Format an interval: ``4.19 to 6.41 Gbit/s``, with a common unit once, at the end."""
        written = self.with_unit if self.unit == "us" else self.written
        first, last = written(low), written(high)
        number, _, unit = first.rpartition(" ")
        return f"{number if number and last.endswith(f' {unit}') else first} to {last}"


def shown_unit(unit: str | None) -> str:
    """Return the display of a unit; empty for a pure number or an unknown unit."""
    if unit in {None, "1"}:
        return ""
    return f"µ{unit[1:]}" if unit == "us" or str(unit).startswith("us/") else str(unit)


def of_background(measure: Measure) -> Measure:
    """Return the measure for the background of a trial."""
    head = f"background\n{measure.head}" if measure.leading and measure.head else None
    return part(measure, "background", "of the background: ", head=head)


def part(measure: Measure, prefix: str, reported: str, **changes: object) -> Measure:
    """Return the measure for a part of the trial, named by ``prefix``.

    ``reported`` goes before its help. It has no column, does not lead and is no component of a
    machine type, unless ``changes`` say so.
    """
    update = {
        "name": f"{prefix}_{measure.name}",
        "label": f"{prefix} {measure.words}",
        "help": f"{reported}{measure.help}",
        "head": None,
        "leading": False,
        "spare": False,
        "component": None,
    }
    return measure.model_copy(update=update | changes)


def merge_measures(lists: Iterable[tuple[str, Iterable[Measure]]]) -> dict[str, Measure]:
    """Merge lists of measures by name, in order of first occurrence.

    Each list has the name of whose it is. What one does not know, or does not show, another may.
    Raises InputError where a name has two units, or two ways that are better.
    """
    found: dict[str, Measure] = {}
    whose: dict[str, str] = {}
    last: object = None
    for owner, measures in lists:
        reported = tuple(measures)
        if reported == last:
            continue  # as most runs of a campaign
        last = reported
        for one in reported:
            known = found.get(one.name)
            if known is None:
                found[one.name], whose[one.name] = one, owner
            elif known != one:
                _check_meaning(known, one, whose[one.name], owner)
                found[one.name] = _of_both(known, one)
    return found


def _of_both(known: Measure, other: Measure) -> Measure:
    return known.model_copy(
        update={
            "unit": known.unit if known.unit is not None else other.unit,
            "better": other.better if known.better is Better.NEITHER else known.better,
            "label": known.label or other.label,
            "head": known.head or other.head,
            "digits": known.digits or other.digits,
            "leading": known.leading or other.leading,
        }
    )


def _check_meaning(known: Measure, other: Measure, whose: str, owner: str) -> None:
    ways = {known.better, other.better} - {Better.NEITHER}
    if None in {known.unit, other.unit} or known.unit == other.unit:
        if len(ways) < 2:
            return
        reported = f"is better {known.better} in {whose}, and {other.better} in {owner}"
    else:
        reported = f"is in {known.unit} in {whose}, and in {other.unit} in {owner}"
    raise InputError(
        f"these don't mean the same: {known.name} {reported}",
        cure="look at each run by itself, or rename one of the two",
    )
