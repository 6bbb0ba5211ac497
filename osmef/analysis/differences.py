"""Differences of nested records, such as the facts of two hosts or the settings of two runs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

_FILLING = ("free", "available", "buffers", "cached", "swap_free")
MOVING = (
    "change",  # rates of change within one run
    *("time", "uptime_s", "counters", "cpu_time", "load"),
    *("clock_offset_s", "clock_offset_uncertainty_s"),
    *(f"memory.{what}_bytes" for what in _FILLING),
)
"""Facts of a host that change all the time, so that a difference between runs has no meaning."""


_NULL = "null"


@dataclass(frozen=True)
class Difference:
    """A key whose value differs: the dotted key and both values, None for an absent one."""

    key: str
    a: object
    b: object


@dataclass(frozen=True)
class DifferingKey:
    """A key with several values: the dotted key, and the records of each value.

    Values are JSON, ``null`` for records without the key. Most common first.
    """

    key: str
    values: Mapping[str, list[str]]


def differences(
    a: Mapping[str, object], b: Mapping[str, object], ignore: Collection[str] = ()
) -> list[Difference]:
    """Return the keys whose values differ between two records, in order.

    Lists are compared whole. ``ignore`` names dotted keys to skip with all keys below them.
    """
    one, other = (dict(flat(record, ignore)) for record in (a, b))
    return [
        Difference(key, one.get(key), other.get(key))
        for key in sorted({*one, *other})
        if one.get(key) != other.get(key)
    ]


def with_groups(found: Iterable[Difference]) -> list[Difference]:
    """Return differences, with one for each group of facts that only one side has.

    Otherwise a program that one side lacks, such as ethtool, would cause dozens of lines.
    """
    groups: dict[tuple[str, bool, bool], list[Difference]] = defaultdict(list)
    for one in found:
        lacks = one.a is None, one.b is None
        groups[_group(one.key) if any(lacks) else one.key, *lacks].append(one)
    merged = []
    for (group, no_a, no_b), of in groups.items():
        many = f"{len(of)} values"
        whole = Difference(f"{group}.*", None if no_a else many, None if no_b else many)
        merged.append(of[0] if len(of) == 1 else whole)
    return merged


def _group(key: str) -> str:
    """Return the group of a key: what is before its last dot, or the key itself."""
    return key.rpartition(".")[0] or key


def differing_keys(
    records: Mapping[str, Mapping[str, object]], ignore: Collection[str] = ()
) -> list[DifferingKey]:
    """Return the keys whose values differ among named records, in order."""
    known = {name: dict(flat(record, ignore)) for name, record in records.items()}
    found = []
    for key in sorted({key for record in known.values() for key in record}):
        who: dict[str, list[str]] = defaultdict(list)
        for name, record in known.items():
            who[json.dumps(record.get(key), ensure_ascii=False, sort_keys=True)].append(name)
        if len(who) > 1:
            common = sorted(who, key=lambda value: (-len(who[value]), value))
            found.append(DifferingKey(key, {value: who[value] for value in common}))
    return found


def differing_keys_with_groups(found: Iterable[DifferingKey]) -> list[DifferingKey]:
    """Return differing keys, with one for each group of facts that the same records lack.

    The values of a whole group are a count, as JSON: ``"63 values"``.
    """
    groups: dict[tuple[str, str], list[DifferingKey]] = defaultdict(list)
    for one in found:
        lacking = len(one.values) == 2 and _NULL in one.values
        parent = _group(one.key) if lacking else one.key
        groups[parent, json.dumps(one.values.get(_NULL)) if lacking else ""].append(one)
    merged = []
    for (parent, _lacking), of in groups.items():
        many = json.dumps(f"{len(of)} values")
        values = {value if value == _NULL else many: who for value, who in of[0].values.items()}
        merged.append(of[0] if len(of) == 1 else DifferingKey(f"{parent}.*", values))
    return merged


def flat(
    record: Mapping[str, object], ignore: Collection[str], group: str = ""
) -> Iterator[tuple[str, object]]:
    """Yield the values of a nested record by dotted keys, without the keys to ignore."""
    for name, value in record.items():
        key = f"{group}{name}"
        if key in ignore:
            continue
        if isinstance(value, Mapping):
            yield from flat(value, ignore, f"{key}.")
        else:
            yield key, value
