"""What an importer makes of a file: trials of another program, and what was odd about them."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from osmef.errors import InputError
from osmef.results.exchange import Request, SizePoint
from osmef.results.trial import Failure, Interval
from osmef.scenario.fields import EndpointKind, Placement, Tenancy
from osmef.scenario.study import Scalar

SENDER, RECEIVER = "sender", "receiver"
"""Names of endpoints that a file does not name."""

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", re.ASCII)
_LARGEST = 1e18  # what is larger was never measured, and does not fit into the tables


@dataclass(frozen=True)
class Text:
    """A file as text.

    ``name`` is its whole path, which no other file has; ``folder`` the name of the folder that it
    is in, None without one; ``encoding`` and ``mark``, its first bytes, make its bytes again.
    """

    name: str
    text: str
    folder: str | None = None
    encoding: str = "utf-8"
    mark: bytes = b""

    def encoded(self) -> bytes:
        """Return the file as it was."""
        return self.mark + self.text.encode(self.encoding)

    def line(self, number: int) -> str:
        """Return the place of a line, as messages have it."""
        return f"{self.name}:{number}"


@dataclass(frozen=True)
class Oddity:
    """Something that is not as expected: where, what, and whether the record was kept."""

    where: str
    what: str
    kept: bool

    def __str__(self) -> str:
        return f"{self.where}: {self.what} ({'kept' if self.kept else 'not imported'})"


@dataclass(frozen=True)
class Record:
    """One trial of another program; what the file does not tell is None.

    Rows of ``intervals`` and ``requests`` have no number of the trial yet, but 0.
    """

    workload: str
    metrics: dict[str, float | None]
    place: str = ""
    values: dict[str, Scalar] = field(default_factory=dict)
    senders: tuple[str, ...] = (SENDER,)
    receivers: tuple[str, ...] = (RECEIVER,)
    kinds: dict[str, EndpointKind] = field(default_factory=dict)
    connections: int | None = None
    placement: Placement | None = None
    tenancy: Tenancy | None = None
    distance: int | None = None
    started_at: datetime | None = None
    wall_s: float | None = None
    session: str | None = None
    window: str | None = None
    platform: str | None = None
    failure: Failure | None = None
    run: str | None = None
    provider: str | None = None
    intervals: list[Interval] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    sizes: list[SizePoint] = field(default_factory=list)


@dataclass(frozen=True)
class Parsed:
    """The records of a file, and what was odd."""

    records: list[Record] = field(default_factory=list)
    oddities: list[Oddity] = field(default_factory=list)


def refuse(
    where: str, what: str, cure: str = "look at the file there; is it of this kind?"
) -> InputError:
    """Return the error of something that can't be read."""
    return InputError(what, where=where, cure=cure)


def number(value: object, what: str, where: str) -> float:
    """Return a finite number, as number or text without a unit. Raises InputError."""
    found = math.nan
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        found = float(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found = float(value) if abs(value) <= _LARGEST else math.nan
    if not abs(found) <= _LARGEST:
        raise refuse(where, f"{what} is {str(value)[:40]!r}, and not a number that can be")
    return found


def amount(value: object, what: str, where: str) -> float:
    """Return a number that is not negative. Raises InputError."""
    found = number(value, what, where)
    if found < 0:
        raise refuse(where, f"{what} is {found:g}, and should not be negative")
    return found


def positive(value: object, what: str, where: str) -> float:
    """Return a number above 0. Raises InputError."""
    found = number(value, what, where)
    if found <= 0:
        raise refuse(where, f"{what} is {found:g}, and should be more than 0")
    return found


def whole(value: object, what: str, where: str) -> int:
    """Return a number that is whole and not negative. Raises InputError."""
    found = number(value, what, where)
    if found < 0 or found != int(found):
        raise refuse(where, f"{what} is {found:g}, and should be a whole number")
    return int(found)


def csv_rows(
    text: Text, columns: tuple[str, ...], oddities: list[Oddity]
) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Give the rows of a CSV file with the numbers of their lines.

    A row with more or fewer fields than the head is added to the ``oddities``, and passed over.
    Raises InputError when one of the columns is not there.
    """
    rows = _csv_lines(text, oddities)
    _line, head = next(rows, (1, []))
    missing = [name for name in columns if name not in head]
    if missing:
        raise refuse(text.line(1), f"these columns are missing: {', '.join(missing)}")
    for line, row in rows:
        if len(row) == len(head):
            yield line, dict(zip(head, row, strict=True))
        else:
            what = f"{len(row)} fields, and the head has {len(head)}"
            oddities.append(Oddity(text.line(line), what, False))


def _csv_lines(text: Text, oddities: list[Oddity]) -> Iterator[tuple[int, list[str]]]:
    """Give the rows that are CSV, without empty ones, with the numbers of their lines."""
    reader = csv.reader(text.text.splitlines())
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            what = f"this is not CSV: {error}"
            oddities.append(Oddity(text.line(reader.line_num), what, False))
            continue
        if row is None:
            return
        if row:
            yield reader.line_num, row
