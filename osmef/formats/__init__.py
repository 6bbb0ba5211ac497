"""Readers of the output of measurement programs, one module a program: text to dataclass.

Every module has ``read(text)``, which returns the one measurement of an output, or raises
OutputError, also where the program says itself that it failed. Where a file may hold several, one
after the other, or parts that can't be read, ``read_all(text)`` returns what there is.

Numbers are in base units, as their names tell: ``_bps`` bit/s, ``_bytes``, ``_bytes_per_s``, ``_s``
seconds, ``_us`` microseconds, ``_percent``. What a program does not tell is None, and never 0. A
reader takes no number that can't be: negative, not finite, or larger than anything measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Generic, TypeVar

from osmef.errors import OutputError

Setting = str | int | float | bool
"""A setting of a program, as it tells it."""

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
        raise OutputError(f"there are {len(outputs.found)} results of {program}, and not one")
    first = outputs.odd[0] if outputs.odd else Odd(1, f"there is no result of {program} in it")
    raise OutputError(first.what, line=first.line)


def failed(program: str, why: str) -> OutputError:
    """Return the error of a measurement that the program reports as failed."""
    return OutputError(f"{program} failed: {why}")
