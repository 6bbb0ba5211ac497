"""Atomic, durable files of a run directory.

They are read as files of unknown origin, which a kill or a disk may have damaged.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from osmef.errors import InputError, StorageError, limit_cure
from osmef.files import UnfitFileError, draft_directory, draft_file, exists, is_file, open_file

_NO_DIRECTORY = "is the path right? A part of it is a file, or a link that leads nowhere"
_CURES = {
    errno.ENOSPC: "free some space on that disk",
    errno.EDQUOT: "free some space within your quota",
    errno.EFBIG: "raise the limit of the file size (ulimit -f)",
    errno.EACCES: "choose a directory that you may write to",
    errno.EPERM: "choose a directory that you may write to",
    errno.EROFS: "choose a directory that you may write to",
    errno.ELOOP: "there is a symbolic link in its place: find out who made it, and remove it",
    errno.EINVAL: "name a file; without an option for it most commands write to standard output",
    errno.ENOENT: "is the path right, and does its directory still exist?",
    errno.ENOTDIR: _NO_DIRECTORY,
    errno.EEXIST: _NO_DIRECTORY,
    errno.EISDIR: "name a file in this directory",
    errno.ENAMETOOLONG: "choose a shorter name",
}
_FOR_READING = dict.fromkeys(
    (errno.EACCES, errno.EPERM), "check the permissions: can you read it as this user?"
)
_READING = ("read", "look at", "look into", "look for")
"""Actions of ``storage`` that write nothing."""
_DEFAULT_CURE = "look at the disk and the permissions of that directory"
CURE = "give a run directory, or its summary.json or trials.jsonl as OSMeF wrote them"
LONGEST = 256 * 1024**2
"""Of a line or a document, in bytes."""
_CHUNK = 1024**2


class Copier(Protocol):
    """Mirror of a directory, notified of each change once that is on disk.

    What it raises is raised by the writer of the change.
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
        raise storage_error(action, path, error) from error


def storage_error(action: str, path: Path, error: OSError) -> StorageError:
    """Return the error of an operation on a path that failed."""
    cures = _CURES | _FOR_READING if action in _READING else _CURES
    cure = cures.get(error.errno or 0) or limit_cure(error) or _DEFAULT_CURE
    if isinstance(error, UnfitFileError):
        cure = error.cure
    why = error.strerror or str(error)
    return StorageError(f"can't {action}: {why}", where=str(path), cure=cure)


def holds_no_results(directory: Path) -> bool:
    """Return whether a directory is none that a user puts results into, by its name."""
    return directory.name == "lost+found" or directory.name.startswith(".")


def files_below(directory: Path) -> list[Path]:
    """Return the regular files in a directory at any depth, sorted.

    Raises StorageError where one may not look, but for what ``holds_no_results``; ``Path.rglob``
    passes over it all.
    """

    def refuse(error: OSError) -> None:
        if not holds_no_results(Path(error.filename)):
            raise error

    try:
        walk = os.walk(directory, onerror=refuse)
        found = [Path(folder, name) for folder, _, names in walk for name in names]
        return sorted(filter(is_file, found))
    except OSError as error:
        raise storage_error("look into", Path(error.filename or directory), error) from error


def writable(directory: Path) -> Path:
    """Check that a directory can be written to, or created, later; return it.

    Raises StorageError.
    """
    with storage("write to", directory):
        there = next(one for one in (directory, *directory.parents) if exists(one))
        with draft_directory(there, "check"):
            return directory


def write_atomically(
    path: Path, content: bytes | Callable[[BinaryIO], object], mode: int | None = None
) -> None:
    """Write a file atomically and durably: a draft, renamed to ``path`` once fsynced.

    A reader, also after a crash, finds the old file or the new one, never a half.
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


class _DiscardedError(Exception):
    """A draft was only tried."""


def check_writable(path: Path) -> None:
    """Try whether ``write_atomically`` can write a file, before that is made with much effort.

    Raises StorageError, and leaves nothing behind.
    """
    with storage("write", path), contextlib.suppress(_DiscardedError):
        exists(path)  # raises for a name that is too long, which no draft has
        with draft_file(path if exists(path.parent) else path.parent):  # which it makes
            raise _DiscardedError


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


NAME = "lock"
KIND = "ofd"
"""Kind of the lock in a journal; those of older versions had none."""

_FLOCK = "hhqqi4x"  # struct flock: type, whence, start, length (0: to the end of all), process
_BUSY = {errno.EAGAIN, errno.EACCES}
# A user who may write into the directory could put a link or a pipe there.
_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


@dataclass(frozen=True)
class Lock:
    """A lock that this process, or its parent before a fork, has taken."""

    file: int
    process: int

    def release(self) -> None:
        """Release the lock, even if forked children live; in such a child it stays."""
        try:
            if self.process == os.getpid():
                fcntl.fcntl(self.file, fcntl.F_OFD_SETLK, _wanted(fcntl.F_UNLCK))
        finally:
            os.close(self.file)


def hold(directory: Path) -> Lock:
    """Lock a directory until the end of this process.

    Raises StorageError, also while another process has it.
    """
    path = directory / NAME
    with storage("lock", path):
        file = os.open(path, os.O_RDWR | os.O_CREAT | _SAFE, 0o600)
        try:
            _shut(file, directory)
            try:
                fcntl.fcntl(file, fcntl.F_OFD_SETLK, _wanted(fcntl.F_WRLCK))
            except OSError as error:
                if error.errno not in _BUSY:
                    raise
                raise _refusal(file, directory) from error
        except BaseException:
            os.close(file)
            raise
    return Lock(file, os.getpid())


def is_held(directory: Path) -> bool | None:
    """Return whether a directory is locked; None without permission to look.

    Raises StorageError.
    """
    with storage("look at", directory / NAME):
        try:
            file = os.open(directory / NAME, os.O_RDONLY | _SAFE)
        except FileNotFoundError:
            return False
        except PermissionError:
            return None
        try:
            return _in_the_way(file, fcntl.F_RDLCK)[0] == fcntl.F_WRLCK
        finally:
            os.close(file)


def is_held_by_older(directory: Path) -> bool:
    """Return whether an older version's flock may be held, or a reader's."""
    try:
        file = os.open(directory / NAME, os.O_RDONLY | _SAFE)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def identity(directory: Path) -> str:
    """Return the identity of a directory's lock, which a copy does not have; empty without one.

    Raises StorageError.
    """
    with storage("look at", directory):
        try:
            found = (directory / NAME).lstat()
        except FileNotFoundError:
            return ""
    return f"{found.st_dev}:{found.st_ino}"


def _shut(file: int, directory: Path) -> None:
    """Restrict opening to users with write permission: a reader can't lock then."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        raise StorageError(
            "it is no file", where=str(directory / NAME), cure="remove it; only osmef makes it"
        )
    writers = directory.stat().st_mode & 0o222
    mode = writers | writers << 1
    if stat.S_IMODE(found.st_mode) != mode and os.geteuid() in {0, found.st_uid}:
        os.fchmod(file, mode)


def _refusal(file: int, directory: Path) -> StorageError:
    kind, process = _in_the_way(file, fcntl.F_WRLCK)
    if kind == fcntl.F_RDLCK:  # no version of osmef has taken one
        who = f"the process {process}" if process > 0 else "a process"
        return StorageError(
            f"{who} that is not osmef holds a read lock on it, as older versions let every user",
            where=str(directory / NAME),
            cure="stop that process, or remove the file if no osmef process is working on this run",
        )
    return StorageError(
        "another osmef process is working on this run",
        where=str(directory),
        cure="wait until it has ended, or stop it with Ctrl-C",
    )


def _wanted(kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)


def _in_the_way(file: int, kind: int) -> tuple[int, int]:
    """Return type and process of a conflicting lock, F_UNLCK without any."""
    found = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_OFD_GETLK, _wanted(kind)))
    return found[0], found[4]
