"""Measures of older results, which do not contain them.

Up to version 2 of the results a number had its name alone. ``older.json`` has the measures of the
workloads and importers of then, by their kinds, as they were declared when version 3 began; it
never changes. For any other name, as of results that were imported, there is the convention that
names had. Who reads such results turns names into measures by this module, once; nothing else does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from osmef.results.measure import Better, Measure, of_background, part, together

_KNOWN = Path(__file__).with_name("older.json")
_LONGEST = 200  # of what may be a name by the convention
_PART = re.compile(r"(background|reverse|idle|loaded)_(.+)")
_HIGHER = re.compile(r"[a-z0-9_]+_(per_s|score|[kmgt]?(b|bit|bits|byte|bytes)_s)")
_LOWER = re.compile(
    r"((connect_)?rtt|time|request|delay_variation)_(min|mean|max|p\d+)_us"
    r"|[a-z0-9_]*(retrans|error|drop|loss|lost|fail|timeout)[a-z0-9_]*_per_s"
)
_UNITS = (
    (re.compile(r"_bps$"), "bit/s"),
    (re.compile(r"_([kmgt])bps$"), "bit/s"),
    (re.compile(r"_([kmgt]?)(?:b|bytes?)(?:_per)?_s$"), "B/s"),
    (re.compile(r"_([kmgt]?)bits?(?:_per)?_s$"), "bit/s"),
    (re.compile(r"_us_per_kb$"), "us/kB"),
    (re.compile(r"_per_s$"), "1/s"),
    (re.compile(r"_percent$"), "%"),
    (re.compile(r"_([kmgt]?)bytes$"), "B"),
    (re.compile(r"_([kmgt])b$"), "B"),
    (re.compile(r"_([mun]?)s$"), "s"),
)
_PREFIXES = {"k": "k", "m": "M", "g": "G", "t": "T", "": ""}
_SHORT = {"btc": "BTC", "cpu": "CPU", "rtt": "RTT"}


def measures_of(kinds: Iterable[tuple[str, str]], names: Iterable[str]) -> list[Measure]:
    """Return the measures of these names, for cells of these workloads."""
    wanted = dict.fromkeys(names)
    lists = []
    for kind, background in dict.fromkeys(kinds):
        lists.append((kind, _known().get(kind, [])))
        lists.append((kind, [of_background(one) for one in _known().get(background, [])]))
    declared = together(lists)
    # Of what the kind of cell did not have the table showed all or nothing.
    others = [measure_of(name) for name in wanted if name not in declared]
    return [
        *(one for name, one in declared.items() if name in wanted),
        *(one.model_copy(update={"head": None}) for one in others),
    ]


def measure_of(name: str) -> Measure:
    """Return the measure of a name: as declared, or by naming convention."""
    if (known := _by_name().get(name)) is not None:
        return known
    if len(name) > _LONGEST:
        return Measure(name=name, unit=None, better=Better.NEITHER)
    if found := _PART.fullmatch(name):
        whole = measure_of(found[2])
        return of_background(whole) if found[1] == "background" else part(whole, found[1], "")
    return _by_convention(name)


def _by_convention(name: str) -> Measure:
    unit, bare = _unit(name)
    better = Better.HIGHER if _HIGHER.fullmatch(name) else Better.NEITHER
    if _LOWER.fullmatch(name):
        better = Better.LOWER
    label = " ".join(_SHORT.get(word, word) for word in bare.split("_"))
    return Measure(name=name, unit=unit, better=better, label=label or None)


def _unit(name: str) -> tuple[str | None, str]:
    """Return the unit suffix of a name, and the rest."""
    if name.endswith("_score"):
        return "1", name
    for ending, unit in _UNITS:
        if found := ending.search(name):
            prefix = found[1] if found.groups() else ""
            if unit == "s":
                return f"{prefix}s", name[: found.start()]
            return f"{_PREFIXES[prefix]}{unit}", name[: found.start()]
    return None, name


@cache
def _known() -> dict[str, list[Measure]]:
    return TypeAdapter(dict[str, list[Measure]]).validate_json(_KNOWN.read_bytes())


@cache
def _by_name() -> dict[str, Measure]:
    return together(_known().items())
