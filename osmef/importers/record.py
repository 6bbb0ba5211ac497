"""Result of an importer: trials of another program, and oddities."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from osmef.errors import InputError, OutputError
from osmef.formats import Outputs, reading
from osmef.results.measure import Measure
from osmef.results.observations import Request, SizePoint
from osmef.results.trial import Failure, Interval
from osmef.scenario.fields import EndpointKind, Placement, Tenancy
from osmef.scenario.study import Scalar

SENDER, RECEIVER = "sender", "receiver"
"""Names of endpoints that a file does not name."""

_CURE = "look at the file there; is it of this kind?"

N = TypeVar("N", int, float)


@dataclass(frozen=True)
class Text:
    """A file's text.

    ``name`` is its whole path, which no other file has; ``folder`` the name of the folder that it
    is in, None without one; ``encoding`` and ``mark``, its first bytes, make its bytes again, and
    of a compressed one ``packed`` are these.
    """

    name: str
    text: str
    folder: str | None = None
    encoding: str = "utf-8"
    mark: bytes = b""
    packed: bytes | None = None

    def encoded(self) -> bytes:
        """Return the original bytes."""
        if self.packed is not None:
            return self.packed
        return self.mark + self.text.encode(self.encoding)

    def line(self, number: int) -> str:
        """Return the position of a line, for messages."""
        return f"{self.name}:{number}"


@dataclass(frozen=True)
class Oddity:
    """Something unexpected: position, text, and whether the record was kept."""

    where: str
    what: str
    kept: bool

    def __str__(self) -> str:
        return f"{self.where}: {self.what} ({'kept' if self.kept else 'not imported'})"


@dataclass(frozen=True)
class Record:
    """A trial of another program, with None for what the file does not contain.

    Rows of ``intervals`` and ``requests`` have no number of the trial yet, but 0.
    """

    workload: str
    metrics: dict[str, float | None]
    place: str = ""
    values: dict[str, Scalar] = field(default_factory=dict)
    senders: tuple[str, ...] = (SENDER,)
    receivers: tuple[str, ...] = (RECEIVER,)
    kinds: dict[str, EndpointKind] = field(default_factory=dict)
    flavors: dict[str, str] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
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
    """The records of a file, its oddities, and its measures if it defines them."""

    records: list[Record] = field(default_factory=list)
    oddities: list[Oddity] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)


def refuse(where: str, what: str, cure: str = _CURE) -> InputError:
    """Return the error of something unreadable."""
    return InputError(what, where=where, cure=cure)


def refused(error: OutputError, text: Text) -> InputError:
    """Return the error of a reader of ``osmef.formats`` with the file's name."""
    return refuse(text.line(error.line or 1), error.message, error.cure or _CURE)


def placed(text: Text, outputs: Outputs[Any]) -> list[Oddity]:
    """Return a reader's oddities with positions in the file."""
    return [Oddity(text.line(odd.line), odd.what, odd.kept) for odd in outputs.odd]


def number(value: object, what: str, where: str) -> float:
    """Return a finite number, as number or text without a unit. Raises InputError."""
    return _placed(reading.number, value, what, where)


def amount(value: object, what: str, where: str) -> float:
    """Return a number that is not negative. Raises InputError."""
    return _placed(reading.amount, value, what, where)


def positive(value: object, what: str, where: str) -> float:
    """Return a number above 0. Raises InputError."""
    return _placed(reading.positive, value, what, where)


def whole(value: object, what: str, where: str) -> int:
    """Return a number that is whole and not negative. Raises InputError."""
    return _placed(reading.whole, value, what, where)


def _placed(read: Callable[[object, str], N], value: object, what: str, where: str) -> N:
    try:
        return read(value, what)
    except OutputError as error:
        raise refuse(where, error.message) from None


def csv_rows(
    text: Text, columns: tuple[str, ...], oddities: list[Oddity], *, delimiter: str = ","
) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield the rows of a CSV file with their line numbers.

    A row with more or fewer fields than the head is added to the ``oddities``, and passed over.
    Raises InputError when one of the columns is not there.
    """
    rows = _csv_lines(text, oddities, delimiter)
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


def _csv_lines(
    text: Text, oddities: list[Oddity], delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield the non-empty rows of CSV with their line numbers."""
    reader = csv.reader(text.text.splitlines(), delimiter=delimiter)
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
