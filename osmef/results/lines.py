"""Read files of lines that anybody may have written, or that a kill or a disk has damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from osmef.errors import InputError
from osmef.named_file import open_file
from osmef.results.files import storage

CURE = "give a run directory, or its summary.json or trials.jsonl as OSMeF wrote them"
LONGEST = 256 * 1024**2
"""Of a line or a document, in bytes."""
_CHUNK = 1024**2


class Line(NamedTuple):
    """A line without its end; numbers count from 1.

    ``text`` is None where it is too long. ``is_whole`` is false for what a killed writer has left
    at the end.
    """

    number: int
    text: bytes | None
    is_whole: bool


def read_whole(path: Path) -> bytes:
    """Return what a file holds. Raises StorageError, InputError where it is far too long."""
    with storage("read", path), open_file(path) as file:
        text = file.read(LONGEST + 1)
    if len(text) > LONGEST:
        raise InputError("this is damaged: it is too long", where=str(path), cure=CURE)
    return text


def read_lines(path: Path, longest: int = LONGEST) -> Iterator[Line]:
    """Give the lines of a file, one after the other; none where there is no file.

    Raises StorageError.
    """
    with storage("read", path):
        try:
            file = open_file(path)
        except FileNotFoundError:
            return
        with file:
            yield from _lines(file, longest)


def _lines(file: BinaryIO, longest: int) -> Iterator[Line]:
    number = 0
    while text := file.readline(longest + 1):
        number += 1
        is_whole = text.endswith(b"\n")
        if not is_whole and len(text) > longest:
            while (rest := file.readline(_CHUNK)) and not rest.endswith(b"\n"):
                pass
            yield Line(number, None, rest.endswith(b"\n"))
        else:
            yield Line(number, text.removesuffix(b"\n"), is_whole)
