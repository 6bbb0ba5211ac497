"""Reader of the output of IOzone: the table of one stream, or throughput mode (-t).

Source: iozone.c 3.465. kB are 1024 bytes. A column of the table is 9 characters wide, the first
ones 16 and 8; it is blank where a test was not chosen, and 0 where its second pass was not (-+n).
Of several streams the rate is the sum of theirs until the first has ended, as it says that its
children see it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from osmef.errors import OutputError
from osmef.formats import failed, shows_tail
from osmef.formats.reading import KIBI, amount, first, of_one_run, whole

TESTS = ("write", "rewrite", "read", "reread", "random_read", "random_write")

_BANNER = re.compile(r"^\tIozone: Performance Test of File I/O$", re.MULTILINE)
_VERSION = re.compile(r"Version \$Revision: ([0-9.]+) \$")
_SIZE = re.compile(r"^\tFile size set to (\S+) kB$", re.MULTILINE)
_RECORD = re.compile(r"^\tRecord Size (\S+) kB$", re.MULTILINE)
_FAILED = re.compile(
    r"^(?:iozone: )?((?:Error|Can ?not|Can't) .*|interrupted|.* not supported in .* mode\..*)$",
    re.MULTILINE,
)
_OTHER_UNIT = re.compile(r"^\t(OPS|Microseconds/op) Mode\.", re.MULTILINE)
_END = re.compile(r"^iozone test complete\.$", re.MULTILINE)
_DIRECT = "\tO_DIRECT feature enabled\n"
_HEAD = re.compile(
    r"^ {14}kB  reclen    write  rewrite +read +reread +read +write.*\n", re.MULTILINE
)
_ROW = re.compile(r"[ 0-9]{24}(?P<cells>[ 0-9]{54})[ 0-9]*")
_CELL = re.compile(r" +([0-9]*)")
_STREAMS = re.compile(r"^\tThroughput test with (\S+) (?:process|thread)(?:es|s)?$", re.MULTILINE)
_CHILDREN = re.compile(
    r"^\tChildren see throughput for +(\S+) ([a-z -]+?) *\t+= *(\S+) kB/sec", re.MULTILINE
)
_NAMES = {
    "initial writers": "write",
    "rewriters": "rewrite",
    "readers": "read",
    "re-readers": "reread",
    "random readers": "random_read",
    "random writers": "random_write",
}
_WIDTH = 9


@dataclass(frozen=True)
class Iozone:
    """A run: bytes per second of each test over all streams; None for a test that was not run.

    ``file_bytes`` is of each stream.
    """

    version: str
    file_bytes: int
    record_bytes: int
    direct: bool
    streams: int
    write_bytes_per_s: float | None
    rewrite_bytes_per_s: float | None
    read_bytes_per_s: float | None
    reread_bytes_per_s: float | None
    random_read_bytes_per_s: float | None
    random_write_bytes_per_s: float | None


@shows_tail
def read(text: str) -> Iozone:
    """Read the output of one file size and one record size. Raises OutputError.

    That is so where it failed, where it tells other units (-O, -N), and where its end is missing.
    """
    of_one_run(_BANNER, text, "IOzone")
    wrong = _FAILED.search(text)
    if wrong:
        raise failed("IOzone", wrong[1])
    if _OTHER_UNIT.search(text):
        raise OutputError("IOzone reports no bytes per second", cure="run it without -O and -N")
    first(_END, text, "end of the test")
    streams = _STREAMS.search(text)
    rates = _of_children(text, streams[1]) if streams else _of_table(text)
    if all(rate is None for rate in rates.values()):
        raise OutputError("IOzone reports no rate of the tests that are known")
    return Iozone(
        version=first(_VERSION, text, "version")[1],
        file_bytes=_size(_SIZE, text, "size of the file"),
        record_bytes=_size(_RECORD, text, "size of a record"),
        direct=_DIRECT in text,
        streams=whole(streams[1], "the number of streams") if streams else 1,
        **{f"{name}_bytes_per_s": rate for name, rate in rates.items()},
    )


def _size(pattern: re.Pattern[str], text: str, what: str) -> int:
    found = KIBI * whole(first(pattern, text, what)[1], f"the {what}")
    if found == 0:
        raise OutputError(f"the {what} is 0")
    return found


def _of_table(text: str) -> dict[str, float | None]:
    head = first(_HEAD, text, "table")
    rows = text[head.end() :].partition("\n\n")[0].splitlines()
    if len(rows) != 1:
        raise OutputError(f"there are {len(rows)} rows of sizes, and not one")
    row = _ROW.fullmatch(rows[0])
    cells = row["cells"] if row else ""
    found = [_CELL.fullmatch(cells, at, at + _WIDTH) for at in range(0, len(cells), _WIDTH)]
    if len(found) != len(TESTS) or None in found:
        raise OutputError("this is no row of IOzone's table", line=_line_of(text, head.end()))
    return {name: _rate(cell[1]) for name, cell in zip(TESTS, found, strict=True) if cell}


def _line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _rate(cell: str) -> float | None:
    """Return bytes per second; None for no measurement, which IOzone also prints as 0."""
    found = KIBI * amount(cell, "a rate") if cell else 0.0
    return found or None


def _of_children(text: str, streams: str) -> dict[str, float | None]:
    found: dict[str, float | None] = dict.fromkeys(TESTS)
    for told in _CHILDREN.finditer(text):
        name = _NAMES.get(told[2])
        if name is None:
            continue
        if told[1] != streams or found[name] is not None:
            raise OutputError(f"the rates of {told[2]} are not of one run of {streams} streams")
        found[name] = _rate(told[3])
    return found
