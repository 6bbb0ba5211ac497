"""Store of this user's bundles: made once, by hash, verified at each read.

The name of one tells what it was made of, and the SHA-256 of its bytes. So a damaged one is known,
and made again; two that make the same one wait for each other.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from osmef.drafts import draft_file
from osmef.errors import StorageError, SupplyError
from osmef.named_file import read_file
from osmef.supply.architectures import NAMES
from osmef.supply.bundle import MOST_PACKED_BYTES, DamageError, ProgramBundle, unpack

_NAME = re.compile(
    r"(?P<program>[A-Za-z0-9][A-Za-z0-9._+-]*)_(?P<architecture>" + "|".join(NAMES) + r")"
    r"_(?P<order>[0-9a-f]{16})_(?P<sha256>[0-9a-f]{64})\.tar\.gz"
)
_LOOK_S = 0.1
_LOCK = ".lock"


@dataclass(frozen=True)
class BundleKey:
    """Inputs of a bundle: the same are made once."""

    program: str
    architecture: str
    made_of: JsonValue

    @property
    def prefix(self) -> str:
        """The prefix of its name."""
        text = json.dumps([self.program, self.architecture, self.made_of], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"{self.program}_{self.architecture}_{digest}_"


@dataclass(frozen=True)
class Kept:
    """A bundle in the store; ``damage`` says why it is unusable."""

    path: Path
    program: str
    architecture: str
    bundle: ProgramBundle | None
    damage: str = ""


def default_directory() -> Path:
    """Return the directory that holds this user's bundles."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "osmef" / "programs"


@dataclass(frozen=True)
class BundleStore:
    """A store of bundles. ``tell`` gets progress; an exception of ``check`` ends a wait."""

    directory: Path
    tell: Callable[[str], None] = lambda _line: None
    check: Callable[[], None] = lambda: None

    def obtain(
        self, wanted: BundleKey, make: Callable[[], bytes], *, again: bool = False
    ) -> ProgramBundle:
        """Return the wanted bundle, from the store or newly made.

        A damaged one is made again; with ``again`` any. Raises what ``make`` raises, StorageError.
        """
        found = None if again else self._whole(wanted)
        if found is not None:
            return found
        with self._storage(), self._lock():
            found = None if again else self._whole(wanted)  # another may have made it meanwhile
            return self._keep(wanted, make()) if found is None else found

    def has(self, wanted: BundleKey) -> bool:
        """Return whether it is stored, by name."""
        return bool(self._paths(wanted.prefix))

    def bundles(self) -> list[Kept]:
        """Return all bundles, each verified."""
        return [self._look(path) for path in self._paths("")]

    def remove(self, program: str | None, architecture: str | None = None) -> list[Path]:
        """Remove the bundles of a program, or all; return these. Raises StorageError."""
        gone = []
        if not self.directory.is_dir():
            return []
        with self._storage(), self._lock():
            for path in self._paths(""):
                match = _NAME.fullmatch(path.name)
                if (
                    match is not None
                    and program in {None, match["program"]}
                    and architecture in {None, match["architecture"]}
                ):
                    path.unlink()
                    gone.append(path)
        return gone

    def _paths(self, prefix: str) -> list[Path]:
        try:
            found = sorted(self.directory.iterdir())
        except OSError:
            return []
        return [p for p in found if p.name.startswith(prefix) and _NAME.fullmatch(p.name)]

    def _whole(self, wanted: BundleKey) -> ProgramBundle | None:
        """Return the stored bundle, None without a usable one."""
        for path in self._paths(wanted.prefix):
            kept = self._look(path)
            if kept.bundle is not None:
                return kept.bundle
            self.tell(f"note: {path.name}: {kept.damage}; it is made again")
        return None

    def _look(self, path: Path) -> Kept:
        match = _NAME.fullmatch(path.name)
        assert match is not None  # noqa: S101 - it was found by its name
        program, architecture = match["program"], match["architecture"]
        try:
            packed = read_file(path, MOST_PACKED_BYTES)
            if hashlib.sha256(packed).hexdigest() != match["sha256"]:
                raise DamageError("it is not what was written")
            return Kept(path, program, architecture, unpack(packed))
        except OSError as error:
            damage = f"it can't be read: {error.strerror}"
        except DamageError as error:
            damage = f"it is damaged: {error}"
        return Kept(path, program, architecture, None, damage)

    def _keep(self, wanted: BundleKey, packed: bytes) -> ProgramBundle:
        bundle = unpack(packed)
        path = self.directory / f"{wanted.prefix}{bundle.sha256}.tar.gz"
        old = self._paths(wanted.prefix)
        with draft_file(path, 0o600) as file:
            file.write(packed)
        for other in old:
            if other != path:
                other.unlink(missing_ok=True)
        return bundle

    @contextmanager
    def _storage(self) -> Iterator[None]:
        """Create the directory; turn an OSError into a StorageError."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            yield
        except OSError as error:
            raise StorageError(
                f"can't keep a bundle: {error.strerror or error}",
                where=str(error.filename or self.directory),
                cure="look at the disk and the permissions",
            ) from error

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Lock the store; released at this process's end, also by kill -9."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(self.directory / _LOCK, flags, 0o600)
        try:
            told = False
            while not _taken(lock):
                if not told:
                    self.tell("waiting for another osmef that makes a bundle")
                told = True
                self.check()
                time.sleep(_LOOK_S)
            yield
        finally:
            os.close(lock)


def write(path: Path, packed: bytes) -> None:
    """Write a bundle to a file. Raises SupplyError."""
    try:
        with draft_file(path) as file:
            file.write(packed)
    except OSError as error:
        raise SupplyError(
            f"can't write the bundle: {error.strerror or error}",
            where=str(path),
            cure="look at the disk and the permissions, or give another path",
        ) from error


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
