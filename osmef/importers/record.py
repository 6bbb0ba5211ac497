"""Result of an importer: trials of another program, their measures, and oddities; and its files."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import math
import re
import statistics
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from osmef import formats
from osmef.errors import InputError, OutputError
from osmef.files import exists, is_directory, open_file, read_file
from osmef.formats import Outputs
from osmef.results.files import files_below, storage
from osmef.results.measure import Better, Measure
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


def read_json(text: Text) -> Any:
    """Return the value of a JSON text. Raises InputError, with the line of the error."""
    try:
        return json.loads(text.text)
    except json.JSONDecodeError as error:
        raise refuse(text.line(error.lineno), f"this is not JSON: {error.msg}") from error
    except (RecursionError, ValueError) as error:
        raise refuse(text.line(1), f"this is not JSON: {error}") from error


def refused(error: OutputError, text: Text) -> InputError:
    """Return the error of a reader of ``osmef.formats`` with the file's name."""
    return refuse(text.line(error.line or 1), error.message, error.cure or _CURE)


def placed(text: Text, outputs: Outputs[Any]) -> list[Oddity]:
    """Return a reader's oddities with positions in the file."""
    return [Oddity(text.line(odd.line), odd.what, odd.kept) for odd in outputs.odd]


def number(value: object, what: str, where: str) -> float:
    """Return a finite number, as number or text without a unit. Raises InputError."""
    return _placed(formats.number, value, what, where)


def amount(value: object, what: str, where: str) -> float:
    """Return a number that is not negative. Raises InputError."""
    return _placed(formats.amount, value, what, where)


def positive(value: object, what: str, where: str) -> float:
    """Return a number above 0. Raises InputError."""
    return _placed(formats.positive, value, what, where)


def whole(value: object, what: str, where: str) -> int:
    """Return a number that is whole and not negative. Raises InputError."""
    return _placed(formats.whole, value, what, where)


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


_UNITS: dict[str, tuple[float, str]] = {
    "bit/s": (1.0, "bit/s"), "bits/s": (1.0, "bit/s"), "bits/second": (1.0, "bit/s"),
    "kbits/sec": (1e3, "bit/s"), "kbit/s": (1e3, "bit/s"),
    "mbits/sec": (1e6, "bit/s"), "mbits/s": (1e6, "bit/s"), "mbit/s": (1e6, "bit/s"),
    "gbits/sec": (1e9, "bit/s"), "gbits/s": (1e9, "bit/s"), "gbit/s": (1e9, "bit/s"),
    "ns": (1e-3, "us"), "us": (1.0, "us"), "usec": (1.0, "us"), "microseconds": (1.0, "us"),
    "ms": (1e3, "us"), "milliseconds": (1e3, "us"),
    "s": (1.0, "s"), "sec": (1.0, "s"), "seconds": (1.0, "s"),
    "kb/s": (1e3, "B/s"), "mb/s": (1e6, "B/s"), "mb/sec": (1e6, "B/s"), "gb/s": (1e9, "B/s"),
    "transactions_per_second": (1.0, "1/s"), "ops/sec": (1.0, "1/s"), "ops/s": (1.0, "1/s"),
    "requests/sec": (1.0, "1/s"), "req/s": (1.0, "1/s"), "pps": (1.0, "1/s"),
    "%": (1.0, "%"), "percent": (1.0, "%"),
}  # fmt: skip
"""By units in small letters: the factor to the unit of OSMeF, and that unit."""

_ENDINGS = {
    "bit/s": "bps", "us": "us", "s": "s", "B/s": "bytes_per_s", "1/s": "per_s", "%": "percent",
}  # fmt: skip


def slug(text: str) -> str:
    """Return words as a part of a metric's name."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def in_own_unit(value: float, unit: str) -> tuple[float, str]:
    """Convert a number to OSMeF's unit of that quantity; return it with that unit."""
    factor, own = _UNITS.get(unit.strip().lower(), (1.0, unit.strip()))
    return value * factor, own


def measure_named(program: str, text: str, unit: str) -> Measure:
    """Return the measure of a metric by its foreign name and unit.

    Its name ends with the unit. Its better direction is unknown.
    """
    ending = _ENDINGS.get(unit, slug(unit))
    name = slug(text)
    return Measure(
        name=name if not ending or name.endswith(f"_{ending}") else f"{name}_{ending}",
        unit=unit or None,
        better=Better.NEITHER,
        label=text,
        help=f"what {program} calls {text}",
        source=program,
    )


def is_plain(value: str | float) -> bool:
    """Return whether a setting is a text or a finite number."""
    return isinstance(value, str) or math.isfinite(value)


def message(  # noqa: PLR0913 - what a row has
    size: int, *, time_s: float | None, length: int | None, relayed: bool = False,
    code: int | None = 200, retries: int | None = None, error: str | None = None,
) -> Request:  # fmt: skip
    """Return a row of the requests; a program's row may be the mean of several."""
    return Request(
        trial=0,
        purpose="measured",
        sender=SENDER,
        receiver=RECEIVER,
        size=size,
        intended_start_s=None,
        duration_s=None if relayed else time_s,
        relay_s=time_s if relayed else None,
        code=code,
        length=length,
        retries=retries,
        error=error,
    )


def message_metrics(rows: Sequence[Request]) -> dict[str, float | None]:
    """Return time and rate over the successful rows, each counted as one request.

    ``transfer_rate_bytes_per_s`` = sum(length) / sum(time) (Kratzke and Quint, CLOSER 2016). None
    where no row went well.
    """
    good = [
        (row.relay_s or row.duration_s, row.length)
        for row in rows
        if row.error is None and row.length is not None
    ]
    times = [time for time, _length in good if time]
    total = sum(times)
    moved = sum(length or 0 for _time, length in good)
    return {
        "transfer_rate_bytes_per_s": moved / total if total else None,
        "time_mean_us": 1e6 * statistics.fmean(times) if times else None,
        "time_p50_us": 1e6 * statistics.median(times) if times else None,
        "time_max_us": 1e6 * max(times) if times else None,
    }


# Excel and PowerShell begin UTF-8 with such a mark, and > of Windows PowerShell 5 writes UTF-16.
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_PLAIN = (b"", "utf-8")
_GZIP = b"\x1f\x8b"
_LARGEST = 1 << 28  # bytes of one file: more than any of these programs prints


def read_texts(files: Sequence[Path]) -> Iterator[Text | InputError]:
    """Yield each file as text, once, or its error.

    A file compressed by gzip is decompressed. A directory means all files below it, a .tar,
    .tar.gz, .tgz, .tar.bz2 or .tar.xz for those in it, in the order of their names. Raises
    StorageError, and InputError for a path that leads nowhere.
    """
    seen: set[Path] = set()
    for file in files:
        if not exists(file):
            raise refuse(str(file), "there is no such file", "check the path")
        for path in files_below(file) if is_directory(file) else [file]:
            if path.resolve() in seen:
                continue
            seen.add(path.resolve())
            if path.name.endswith((".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")):
                yield from _of_archive(path)
                continue
            with storage("read", path):
                data = read_file(path, _LARGEST)
            yield _text(data, str(path), path.parent.name)


def _of_archive(archive: Path) -> Iterator[Text | InputError]:
    try:
        with open_file(archive) as file, tarfile.open(fileobj=file) as tar:
            for member in sorted((m for m in tar if m.isfile()), key=lambda m: m.name):
                part = tar.extractfile(member) if member.size <= _LARGEST else None
                where = f"{archive}/{member.name}"
                if part is None:
                    yield refuse(where, "this is too large to be a result")
                else:
                    yield _text(part.read(), where, PurePosixPath(member.name).parent.name)
    except (tarfile.TarError, OSError, EOFError) as error:
        yield refuse(str(archive), f"this archive is truncated or damaged: {error}")


def _text(data: bytes, name: str, folder: str) -> Text | InputError:
    packed = data if data.startswith(_GZIP) else None
    if packed is not None:
        try:
            data = _unpacked(packed)
        except (OSError, EOFError, zlib.error) as error:
            return refuse(name, f"this gzip file is truncated or damaged: {error}")
        if len(data) > _LARGEST:
            return refuse(name, "this is too large to be a result")
    mark, encoding = next((one for one in _MARKS.items() if data.startswith(one[0])), _PLAIN)
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, len(mark) + error.start) + 1
        return refuse(f"{name}:{line}", f"this is no text in {encoding.upper()}")
    return Text(name, text, folder or None, encoding, mark, packed)


def _unpacked(data: bytes) -> bytes:
    """Decompress a gzip file up to a limit. Raises OSError."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        return file.read(_LARGEST + 1)
