"""JSON documents of a run directory, upgraded from older versions, and measures of older results.

Up to version 2 of the results a number had its name alone. ``older.json`` has the measures of the
workloads and importers of then, by their kinds, as they were declared when version 3 began; it
never changes. For any other name, as of results that were imported, there is the convention that
names had. Who reads such results turns names into measures by this module, once; nothing else does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from osmef.errors import InputError
from osmef.results.files import CURE
from osmef.results.measure import Better, Measure, merge_measures, of_background, part
from osmef.results.summary import Summary
from osmef.results.trial import SCHEMA_VERSION, Trial
from osmef.scenario.base import Model

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
    declared = merge_measures(lists)
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
    return merge_measures(_known().items())


M = TypeVar("M", bound=Model)


def read_document(model: type[M], text: bytes | None, where: str) -> M:
    """Load a document as a model; raises InputError with a cure.

    None is one that was too long to be read. Every version up to the present one can be read.
    """
    if text is None:
        raise InputError("this is damaged: it is too long", where=where, cure=CURE)
    document = read_json(text, where)
    _check_version(document, where)
    try:
        return model.model_validate(upgrade(model, document))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(step) for step in first["loc"])
        what = f"{key}: {first['msg']}" if key else first["msg"]
        raise InputError(f"this is damaged: {what}", where=where, cure=CURE) from error


def read_json(text: bytes, where: str, cure: str = CURE) -> Any:
    """Parse a JSON text; raises InputError."""
    try:
        found = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise InputError(f"this is not JSON: {error}", where=where, cure=cure) from error
    try:
        json.dumps(found, allow_nan=False)  # 1e400 is infinite, too
    except ValueError as error:
        what = "this is damaged: one of its numbers is too large"
        raise InputError(what, where=where, cure=cure) from error
    return found


def refuse_newer(text: bytes, where: str) -> None:
    """Raise InputError for a document of a newer version; one that is damaged is none."""
    try:
        version = _version(from_json(text))
    except ValueError:
        return
    _refuse_newer(version, where)


def _check_version(document: object, where: str) -> None:
    version = _version(document)
    if version is None:
        raise InputError("this has no schema_version of OSMeF", where=where, cure=CURE)
    _refuse_newer(version, where)


def _version(document: object) -> int | None:
    version = document.get("schema_version") if isinstance(document, dict) else None
    known = isinstance(version, int) and not isinstance(version, bool) and version >= 1
    return version if known else None


def _refuse_newer(version: int | None, where: str) -> None:
    if version is not None and version > SCHEMA_VERSION:
        raise InputError(
            f"a newer OSMeF wrote this: its schema_version is {version},"
            f" and this OSMeF reads up to {SCHEMA_VERSION}",
            where=where,
            cure="install a newer OSMeF (pip install --upgrade osmef)",
        )


Json = dict[str, Any]


def upgrade(model: type, document: Json) -> Json:
    """Upgrade a document to the present version."""
    for step in _STEPS.get(model, ())[document["schema_version"] - 1 :]:
        document = step(document)
    return {**document, "schema_version": SCHEMA_VERSION}


def _trial_of_1(old: Json) -> Json:
    """Turn one pair and one transfer into lists."""
    new = _ends_in_lists(old)
    transfer = new.pop("transfer", None)
    new["transfers"] = [transfer] if transfer is not None else []
    return new


def _summary_of_1(old: Json) -> Json:
    """Turn one pair of a cell into lists; the only workload was ``btc``."""
    cells = old.get("cells")
    if not isinstance(cells, list):
        return old
    return {**old, "cells": [_cell_of_1(cell) for cell in cells]}


def _cell_of_1(old: Any) -> Any:
    return {"workload": "btc", **_ends_in_lists(old)} if isinstance(old, dict) else old


def _ends_in_lists(old: Json) -> Json:
    new = dict(old)
    for end in ("sender", "receiver"):
        if end in new:
            new[f"{end}s"] = [new.pop(end)]
    return new


def _trial_of_2(old: Json) -> Json:
    """Leave trials unchanged."""
    return old


def _summary_of_2(old: Json) -> Json:
    """Add the measures of metrics, of which there were only names."""
    listed = old.get("cells")
    cells = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    kinds = [(one.get("workload"), one.get("background")) for one in cells]
    metrics = [one.get("metrics") for one in cells]
    names = [name for of in metrics if isinstance(of, dict) for name in of]
    measures = measures_of([(str(one), str(beside)) for one, beside in kinds], names)
    return {**old, "measures": [one.model_dump(mode="json") for one in measures]}


_STEPS: dict[type, tuple[Callable[[Json], Json], ...]] = {
    Trial: (_trial_of_1, _trial_of_2),
    Summary: (_summary_of_1, _summary_of_2),
}
