"""Lock of a run directory, which only a process with write permission can hold.

It is an open file description lock for writing (fcntl_locking(2)): one needs a file that may be
written, which nobody else can open, and looking at one takes nothing, so that it is in nobody's
way. NFS knows such locks, too. A child that a controller forks has it as long as the controller,
and a program that it starts has it not.

Versions before took a flock(2), which anybody can who may read the file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

from osmef.errors import StorageError
from osmef.results.files import storage

NAME = "lock"
KIND = "ofd"
"""How a journal tells the lock from that of older versions."""

_FLOCK = "hhqqi4x"  # struct flock: type, whence, start, length (0: to the end of all), process
_BUSY = {errno.EAGAIN, errno.EACCES}
# Whoever may write into the directory could put a link or a pipe there.
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

    Raises StorageError, also while somebody else has it.
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
            f"{who} that is no osmef holds its lock for reading: an older version let everybody",
            where=str(directory / NAME),
            cure="stop that process, or remove the file if no osmef works on this run",
        )
    return StorageError(
        "another osmef works on this run",
        where=str(directory),
        cure="wait until it has ended, or stop it with Ctrl-C",
    )


def _wanted(kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)


def _in_the_way(file: int, kind: int) -> tuple[int, int]:
    """Return type and process of a conflicting lock, F_UNLCK without any."""
    found = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_OFD_GETLK, _wanted(kind)))
    return found[0], found[4]
