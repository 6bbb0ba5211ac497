"""Files of this machine: reading of those that a user names, and atomic creation.

Only regular files of a bounded size are read. Any other would be read without an end (/dev/zero),
be waited for for ever (a named pipe), or do something when it is opened (a tape).

What is created is a draft until it is complete, and then renamed into place. A draft has a random
name and is made exclusively, so that no link can lie in its way, also in a directory that others
write to. Its creator holds a lock on it (flock(2)) until it is in its place. What a killed program
left is unlocked, and the next that writes there removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_CURE = "name a regular file; what a program prints: write it into one first"
_AT_ONCE = 1 << 20
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP}


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


def exists(path: Path) -> bool:
    """Return whether a path leads to something. Raises OSError where one may not look.

    Python's own ``Path.exists`` takes that for "no" from 3.14 on, and so do the others: results
    that may not be read would be left out without a word.
    """
    return _mode(path) is not None


def is_directory(path: Path) -> bool:
    """Return whether a path leads to a directory. Raises OSError where one may not look."""
    mode = _mode(path)
    return mode is not None and stat.S_ISDIR(mode)


def is_file(path: Path) -> bool:
    """Return whether a path leads to a regular file. Raises OSError where one may not look."""
    mode = _mode(path)
    return mode is not None and stat.S_ISREG(mode)


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
    except ValueError:  # it has a null character
        pass
    return None


def in_home(path: str) -> Path:
    """Expand ``~`` in a path; unchanged without such a home."""
    with suppress(RuntimeError):
        return Path(path).expanduser()
    return Path(path)


def real_path(path: Path) -> Path:
    """Resolve the links of a path; where they are a loop, its use fails, as that of any other.

    Path.resolve raises RuntimeError for them before Python 3.13.
    """
    return Path(os.path.realpath(path))


def make_private_directory(path: Path) -> None:
    """Create a directory and the missing ones above it for their owner alone. Raises OSError.

    So the XDG Base Directory Specification wants it. One that exists stays as it is.
    """
    for one in (*reversed(path.parents), path):
        if not is_directory(one):
            one.mkdir(mode=0o700, exist_ok=True)


_NAME = re.compile(r"\.osmef-(?:(.+)-)?[0-9a-f]{16}\.draft")
_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_TRIES = 100


@contextmanager
def draft_file(path: Path, mode: int | None = None) -> Iterator[BinaryIO]:
    """Provide a new file, renamed to ``path`` at the end; removed after an error.

    It gets exactly this ``mode``, with no more rights from its first byte on. Without one it gets
    that of our own file which it replaces, else what the umask leaves. A link is replaced, not
    followed. Raises OSError; also where something is there that is no file.
    """
    _remove_stale_once(path.parent)
    old = _mode_of_ours(path)
    if mode is None:
        mode = old
    draft, lock = _make_file(path.parent, 0o666 if mode is None else 0o600)
    try:
        try:
            with os.fdopen(os.dup(lock), "wb") as file:
                yield file
            if mode is not None:
                os.fchmod(lock, mode)
            draft.replace(path)
        except BaseException:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
    finally:
        os.close(lock)


@contextmanager
def draft_directory(
    parent: Path, kind: str, remove: Callable[[Path], object] | None = None
) -> Iterator[Path]:
    """Provide a new private directory; removed at the end unless it was renamed into place.

    Those of the same ``kind`` that killed programs left go first. Raises OSError.
    """
    remove = remove or _remove_tree
    for rest in stale_drafts(parent, kind):
        remove(rest)
    path, lock = _make_directory(parent, kind)
    try:
        yield path
    finally:
        if exists(path):
            remove(path)
        os.close(lock)


@contextmanager
def scratch(kind: str) -> Iterator[Path]:
    """Provide a temporary directory. Raises OSError."""
    with draft_directory(Path(tempfile.gettempdir()), kind) as path:
        yield path


def stale_drafts(directory: Path, kind: str = "") -> Iterator[Path]:
    """Yield the stale drafts of a kind, each locked meanwhile.

    Only this user's count. Files are of no kind. Raises OSError.
    """
    for path, lock in _found(directory, kind):
        if lock is not None:
            yield path


def draft_kinds(directory: Path, prefix: str) -> set[str]:
    """Return the kinds of drafts in a directory that begin with a prefix. Raises OSError."""
    with os.scandir(directory) as entries:
        found = (_NAME.fullmatch(entry.name) for entry in entries)
        kinds = {match[1] or "" for match in found if match}
    return {kind for kind in kinds if kind.startswith(prefix)}


def locked_drafts(directory: Path, kind: str) -> list[Path]:
    """Return this user's drafts of a kind that a program has locked. Raises OSError."""
    return [path for path, lock in _found(directory, kind) if lock is None]


def remove_stale_drafts(root: Path) -> None:
    """Remove the stale drafts in a directory tree."""
    for folder, _, _ in os.walk(root):
        _remove_stale(Path(folder))


@lru_cache(maxsize=1000)
def _remove_stale_once(directory: Path) -> None:
    """Remove stale drafts, at this process's first write into a directory."""
    _remove_stale(directory)


def _remove_stale(directory: Path) -> None:
    with suppress(OSError):  # to write is what matters
        for rest in stale_drafts(directory):
            rest.unlink(missing_ok=True)


def _found(directory: Path, kind: str) -> Iterator[tuple[Path, int | None]]:
    """Yield this user's drafts, each with its lock where it is free."""
    with os.scandir(directory) as entries:
        names = [
            entry.name
            for entry in entries
            if (match := _NAME.fullmatch(entry.name)) and (match[1] or "") == kind
        ]
    for name in names:
        path = directory / name
        try:
            lock = os.open(path, _SAFE | (os.O_RDONLY | os.O_DIRECTORY if kind else os.O_RDWR))
        except OSError:
            continue  # it has gone, or is none of ours
        try:
            about = os.fstat(lock)
            is_wanted = stat.S_ISDIR if kind else stat.S_ISREG
            if about.st_uid == os.geteuid() and is_wanted(about.st_mode):
                yield path, lock if _is_free(lock) else None
        finally:
            os.close(lock)


def _is_free(lock: int) -> bool:
    """Lock a draft, if its creator no longer holds the lock."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _make_file(parent: Path, mode: int) -> tuple[Path, int]:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFE
    return _locked(lambda: _random(parent, ""), lambda path: os.open(path, flags, mode))


def _make_directory(parent: Path, kind: str) -> tuple[Path, int]:
    def make(path: Path) -> int:
        path.mkdir(mode=0o700)
        try:
            return os.open(path, os.O_RDONLY | os.O_DIRECTORY | _SAFE)
        except FileNotFoundError as error:  # tidied up already
            raise FileExistsError from error

    return _locked(lambda: _random(parent, kind), make)


def _random(parent: Path, kind: str) -> Path:
    return parent / f".osmef-{kind and f'{kind}-'}{secrets.token_hex(8)}.draft"


def _locked(name: Callable[[], Path], make: Callable[[Path], int]) -> tuple[Path, int]:
    """Create and lock a draft; retried if a cleanup removed it in between."""
    for _ in range(_TRIES):
        path = name()
        try:
            lock = make(path)
        except FileExistsError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        except OSError:
            pass  # a file system without locks: there is no cleanup, either
        if _is_still(path, lock):
            return path, lock
        os.close(lock)
    raise FileExistsError(errno.EEXIST, "others remove every file that is made there", str(path))


def _is_still(path: Path, lock: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(lock))
    except FileNotFoundError:
        return False


def _mode_of_ours(path: Path) -> int | None:
    """Return the mode of our own file at a path; None without one.

    Raises OSError where something else stands there, such as a directory or a device.
    """
    try:
        here = path.lstat()
        end = path.stat() if stat.S_ISLNK(here.st_mode) else here
    except OSError:  # nothing, or a link to nothing; more is said when it is written
        return None
    if stat.S_ISDIR(end.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(end.st_mode):
        raise OSError(errno.EINVAL, "it is no file, but a device, pipe or socket", str(path))
    is_ours = here is end and here.st_uid == os.geteuid()
    return stat.S_IMODE(here.st_mode) & 0o777 if is_ours else None


def _remove_tree(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
