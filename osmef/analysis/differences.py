"""Where two nested records differ, such as the facts of two hosts or the settings of two runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

MOVING = ("time", "uptime_s", "counters", "cpu_time", "load", "memory")
"""Facts of a host that differ at any two moments; they say nothing of two runs."""


@dataclass(frozen=True)
class Difference:
    """One value that differs: its dotted key and both values, None where a side has none."""

    key: str
    a: object
    b: object


def differences(
    a: Mapping[str, object], b: Mapping[str, object], ignore: Sequence[str] = ()
) -> list[Difference]:
    """Return what differs between two records, by dotted keys in order.

    Lists are compared whole. ``ignore`` names keys of the first level that do not count.
    """
    one, other = (dict(_flat(record, ignore)) for record in (a, b))
    return [
        Difference(key, one.get(key), other.get(key))
        for key in sorted({*one, *other})
        if one.get(key) != other.get(key)
    ]


def _flat(record: Mapping[str, object], ignore: Sequence[str]) -> Iterator[tuple[str, object]]:
    for key, value in record.items():
        if key in ignore:
            continue
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", leaf) for inner, leaf in _flat(value, ()))
        else:
            yield key, value
