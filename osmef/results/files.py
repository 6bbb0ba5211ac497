"""Atomic, durable files of a run directory.

They are read as files that anybody may have written, or that a kill or a disk has damaged.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from osmef.drafts import draft_file
from osmef.errors import InputError, StorageError
from osmef.named_file import UnfitFileError, open_file

_CURES = {
    errno.ENOSPC: "free some space on that disk, then `osmef resume` the run",
    errno.EDQUOT: "free some space within your quota, then `osmef resume` the run",
    errno.EFBIG: "raise the limit of the file size (ulimit -f), then `osmef resume` the run",
    errno.EACCES: "choose a directory that you may write to with --out",
    errno.EPERM: "choose a directory that you may write to with --out",
    errno.EROFS: "choose a directory that you may write to with --out",
    errno.ELOOP: "there is a symbolic link in its place: find out who made it, and remove it",
    errno.EINVAL: "name a file; without an option for it most commands write to standard output",
    errno.ENOENT: "is the path right, and does the run directory still exist?",
}
_DEFAULT_CURE = "look at the disk and the permissions of that directory"
CURE = "give a run directory, or its summary.json or trials.jsonl as OSMeF wrote them"
LONGEST = 256 * 1024**2
"""Of a line or a document, in bytes."""
_CHUNK = 1024**2


class Copier(Protocol):
    """Mirror of a directory, notified of each change once that is on disk.

    What it raises is raised by whoever made the change.
    """

    def appended(self, path: Path, line: bytes) -> None:
        """Mirror a line that was appended to a file."""

    def written(self, path: Path) -> None:
        """Mirror a file that was written or replaced."""


_copiers: dict[Path, Copier] = {}


@contextlib.contextmanager
def copying(root: Path, copier: Copier) -> Iterator[None]:
    """Notify ``copier`` of all changes below ``root``, for the length of the context."""
    _copiers[root] = copier
    try:
        yield
    finally:
        del _copiers[root]


def _copier(path: Path) -> Copier | None:
    return next((_copiers[root] for root in path.parents if root in _copiers), None)


@contextlib.contextmanager
def storage(action: str, path: Path) -> Iterator[None]:
    """Turn an OSError into a StorageError with operation, path and reason."""
    try:
        yield
    except OSError as error:
        cure = _CURES.get(error.errno or 0, _DEFAULT_CURE)
        if isinstance(error, UnfitFileError):
            cure = error.cure
        why = error.strerror or str(error)
        raise StorageError(f"can't {action}: {why}", where=str(path), cure=cure) from error


def write_atomically(
    path: Path, content: bytes | Callable[[BinaryIO], object], mode: int | None = None
) -> None:
    """Write a file atomically and durably: a draft, renamed to ``path`` once fsynced.

    A reader, and whoever comes after a crash, finds the old file or the new one, never a half.
    Makes its directory, but none above that: a run directory that was removed stays so.
    ``content`` may be what writes it. For ``mode`` see ``draft_file``: a secret's is 0600.
    Raises StorageError, and leaves nothing new behind then.
    """
    with storage("write", path):
        path.parent.mkdir(exist_ok=True)
        with draft_file(path, mode) as file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                content(file)
            file.flush()
            os.fsync(file.fileno())
        _sync(path.parent)
    if (copier := _copier(path)) is not None:
        copier.written(path)


def append_line(path: Path, line: bytes) -> None:
    """Append one line durably: after any failure it is complete or absent.

    The rest of a line that a killed writer left is cut off first. Raises StorageError.
    """
    with storage("append to", path):
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(path, flags, 0o644)
        try:
            end = _end_of_last_line(file)
            try:
                os.ftruncate(file, end)
                _write_at(file, line + b"\n", end)
                os.fsync(file)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.ftruncate(file, end)
                raise
        finally:
            os.close(file)
    if (copier := _copier(path)) is not None:
        copier.appended(path, line)


def _write_at(file: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(file, data, offset)
        data, offset = data[written:], offset + written


def _end_of_last_line(file: int) -> int:
    """Return the offset after the last newline; 0 without one."""
    end = os.fstat(file).st_size
    while end > 0:
        start = max(0, end - 65536)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


class FileLine(NamedTuple):
    """A line without its end; numbers count from 1.

    ``text`` is None where it is too long. ``is_whole`` is false for what a killed writer has left
    at the end.
    """

    number: int
    text: bytes | None
    is_whole: bool


def read_whole(path: Path) -> bytes:
    """Return a file's content. Raises StorageError, InputError if it is too long."""
    with storage("read", path), open_file(path) as file:
        text = file.read(LONGEST + 1)
    if len(text) > LONGEST:
        raise InputError("this is damaged: it is too long", where=str(path), cure=CURE)
    return text


def read_lines(path: Path, longest: int = LONGEST) -> Iterator[FileLine]:
    """Yield the lines of a file; none if it does not exist.

    Raises StorageError.
    """
    with storage("read", path):
        try:
            file = open_file(path)
        except FileNotFoundError:
            return
        with file:
            yield from _lines(file, longest)


def _lines(file: BinaryIO, longest: int) -> Iterator[FileLine]:
    number = 0
    while text := file.readline(longest + 1):
        number += 1
        is_whole = text.endswith(b"\n")
        if not is_whole and len(text) > longest:
            while (rest := file.readline(_CHUNK)) and not rest.endswith(b"\n"):
                pass
            yield FileLine(number, None, rest.endswith(b"\n"))
        else:
            yield FileLine(number, text.removesuffix(b"\n"), is_whole)
