"""Which cells the records of an import are of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from osmef.importers.record import RECEIVER, SENDER, Record, Text


@dataclass(frozen=True)
class Origin:
    """A record, and the file that it is from."""

    record: Record
    text: Text


def cell_key(record: Record) -> str:
    """Return the key of a record's cell, as that of a sweep."""
    return ",".join(f"{name}={value}" for name, value in record.values.items()) or "all"


def in_cells(origins: Sequence[Origin], *, pool_ends: bool) -> list[Origin]:
    """Return the records with the values that tell their cells apart.

    Where records of the same values have different ends, the ends are values, too: ``sender`` and
    ``receiver``. Else, or with ``pool_ends``, they are not, so that other machines can be compared
    by cells. A failed record may tell little: it is of the cell of the good ones that has all it
    tells, if of one.
    """
    found = [origin.record for origin in origins]
    if not pool_ends and most_ends(found) > 1:
        found = [_with_ends(record) for record in found]
    cells = {cell_key(record): record for record in found if record.failure is None}
    return [
        Origin(_as_its_like(record, cells) if record.failure else record, origin.text)
        for record, origin in zip(found, origins, strict=True)
    ]


def most_ends(records: Iterable[Record]) -> int:
    """Return between how many pairs of ends the good records of the same values are at most."""
    ends: dict[str, set[tuple[tuple[str, ...], tuple[str, ...]]]] = defaultdict(set)
    for record in records:
        if record.failure is None:  # which may tell no ends
            ends[cell_key(record)].add((record.senders, record.receivers))
    return max(map(len, ends.values()), default=0)


def _with_ends(record: Record) -> Record:
    ends = {"sender": ",".join(record.senders), "receiver": ",".join(record.receivers)}
    if record.failure:
        ends = {side: name for side, name in ends.items() if name not in {SENDER, RECEIVER}}
    return replace(record, values={**record.values, **ends})


def _as_its_like(record: Record, cells: Mapping[str, Record]) -> Record:
    told = {(name, value) for name, value in record.values.items() if value is not None}
    like = [one for one in cells.values() if told <= one.values.items()]
    if cell_key(record) in cells or len(like) != 1:
        return record
    (one,) = like
    return replace(record, values=one.values, workload=one.workload, connections=one.connections)
