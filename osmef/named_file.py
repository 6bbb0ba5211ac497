"""Reading of named files: regular ones, of a bounded size.

Any other would be read without an end (/dev/zero), be waited for for ever (a named pipe), or do
something when it is opened (a tape).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_CURE = "name a regular file; what a program prints: write it into one first"
_AT_ONCE = 1 << 20


class UnfitFileError(OSError):
    """The path is no readable regular file; ``strerror`` is the reason, and ``cure`` the cure."""

    def __init__(self, why: str, path: Path, cure: str = _CURE) -> None:
        super().__init__(errno.EINVAL, why, str(path))
        self.cure = cure

    def __str__(self) -> str:
        return str(self.strerror)


def open_file(path: Path, most: int | None = None) -> BufferedReader:
    """Open a regular file, optionally of a bounded size.

    Raises OSError: UnfitFileError for what is none, or larger.
    """
    file = os.fdopen(_open(path), "rb")
    if most is not None and os.fstat(file.fileno()).st_size > most:
        file.close()
        raise _too_large(path, most)
    return file


def read_file(path: Path, most: int) -> bytes:
    """Return the content of a regular file of a bounded size.

    Raises OSError: UnfitFileError for what is none, or larger.
    """
    file = _open(path)
    try:
        data = bytearray()
        if os.fstat(file).st_size <= most:
            while len(data) <= most and (part := os.read(file, min(_AT_ONCE, most + 1))):
                data += part
            if len(data) <= most:
                return bytes(data)
    finally:
        os.close(file)
    raise _too_large(path, most)


def _too_large(path: Path, most: int) -> UnfitFileError:
    size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most >> 10} KiB"
    return UnfitFileError(f"it is larger than {size}", path, "is it the right file?")


def read_text_file(path: Path, most: int, errors: str = "strict") -> str:
    """Return the text of a regular file of a bounded size. Raises OSError, UnicodeDecodeError.

    As with ``Path.read_text``, the ends of lines become newlines.
    """
    text = read_file(path, most).decode(errors=errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _open(path: Path) -> int:
    try:
        _check(path, path.stat())  # opening a device may do something to it
        # It may have become another since: then at least nothing waits.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except ValueError:  # it holds a NUL, or half a character
        raise UnfitFileError("this is no path", path, "check how it is written") from None
    try:
        _check(path, os.fstat(file))
    except BaseException:
        os.close(file)
        raise
    return file


def _check(path: Path, status: os.stat_result) -> None:
    """Raise OSError unless it is a regular file; /dev/null is an empty one."""
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == Path(os.devnull).stat().st_rdev:
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    for is_one, name in _KINDS:
        if is_one(status.st_mode):
            raise UnfitFileError(f"it is {name}, no regular file", path)


def in_home(path: str) -> Path:
    """Expand ``~`` in a path; unchanged without such a home."""
    with contextlib.suppress(RuntimeError):
        return Path(path).expanduser()
    return Path(path)
