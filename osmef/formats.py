"""What readers of the output of measurement programs have in common: numbers, lines, and errors.

The module of each program's workload has ``read(text)``, which returns the one measurement of an
output, or raises OutputError, also where the program says itself that it failed. Where a file may
hold several, one after the other, or parts that can't be read, ``read_all(text)`` returns what
there is.

Numbers are in base units, by the suffix of their names: ``_bps`` bit/s, ``_bytes``,
``_bytes_per_s``, ``_s`` seconds, ``_us`` microseconds, ``_percent``. What a program does not report
is None, and never 0. Readers reject impossible numbers: negative, not finite, or larger than
anything measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Generic, TypeVar

from osmef.errors import OutputError

Setting = str | int | float | bool
"""A setting of a program, as it reports it."""

TAIL = 500
"""So many characters of the end of an output are shown with an error."""

T = TypeVar("T")


@dataclass(frozen=True)
class Odd:
    """An unexpected line of an output: its number, the reason, and whether the value was kept."""

    line: int
    what: str
    kept: bool = False


@dataclass(frozen=True)
class Outputs(Generic[T]):
    """The measurements in a text, and its oddities."""

    found: tuple[T, ...]
    odd: tuple[Odd, ...] = ()


def shows_tail(read: Callable[[str], T]) -> Callable[[str], T]:
    """Add the end of the text to a reader's OutputError."""

    @wraps(read)
    def with_tail(text: str) -> T:
        try:
            return read(text)
        except OutputError as error:
            error.tail = error.tail or text.strip()[-TAIL:]
            raise

    return with_tail


def only(outputs: Outputs[T], program: str) -> T:
    """Return the one measurement of an output. Raises OutputError for none or several."""
    if len(outputs.found) == 1:
        return outputs.found[0]
    if outputs.found:
        raise OutputError(
            f"there are {len(outputs.found)} results of {program}, where one is expected"
        )
    first = outputs.odd[0] if outputs.odd else Odd(1, f"there is no result of {program} in it")
    raise OutputError(first.what, line=first.line)


def failed(program: str, why: str) -> OutputError:
    """Return the error of a measurement that the program reports as failed."""
    return OutputError(f"{program} failed: {why}")


KIBI, MEBI, GIBI, TEBI = 2**10, 2**20, 2**30, 2**40

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", re.ASCII)
_LARGEST = 1e18  # what is larger was never measured, and does not fit into the tables
_LONGEST = 15  # digits of a whole number that is a setting


def number(value: object, what: str) -> float:
    """Return a finite number, as number or text without a unit. Raises OutputError."""
    found = math.nan
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        found = float(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found = float(value) if abs(value) <= _LARGEST else math.nan
    if not abs(found) <= _LARGEST:
        raise OutputError(f"{what} is {str(value)[:40]!r}, which is not a usable number")
    return found


def amount(value: object, what: str) -> float:
    """Return a number that is not negative. Raises OutputError."""
    found = number(value, what)
    if found < 0:
        raise OutputError(f"{what} is {found:g}, and should not be negative")
    return found


def positive(value: object, what: str) -> float:
    """Return a number above 0. Raises OutputError."""
    found = number(value, what)
    if found <= 0:
        raise OutputError(f"{what} is {found:g}, and should be more than 0")
    return found


def whole(value: object, what: str) -> int:
    """Return a number that is whole and not negative. Raises OutputError."""
    found = number(value, what)
    if found < 0 or found != int(found):
        raise OutputError(f"{what} is {found:g}, and should be a whole number")
    return int(found)


def is_count(text: str) -> bool:
    """Return whether a text is a whole number, of at most 15 digits 0 to 9."""
    return text.isascii() and text.isdecimal() and len(text) <= _LONGEST


def first(pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    """Return the first match in a text. Raises OutputError."""
    found = pattern.search(text)
    if found is None:
        raise OutputError(f"there is no {what}: did it come to its end?")
    return found


def of_one_run(pattern: re.Pattern[str], text: str, program: str) -> re.Match[str]:
    """Return the one match per run. Raises OutputError for an output of none or several.

    Where a program says itself that it failed, that should be looked for before.
    """
    found = list(pattern.finditer(text))
    if len(found) > 1:
        raise OutputError(f"there are {len(found)} results of {program}, where one is expected")
    return found[0] if found else first(pattern, text, f"result of {program}")
