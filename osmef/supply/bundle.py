"""Bundles: one archive with a program, its dependencies, and a manifest; and this user's store.

A bundle is a .tar.gz of plain files in one folder. From the same files it gets the same bytes on
every machine with the same zlib. It is created once: its name in the store has the hashes of its
origin and of its bytes, and the latter is verified at each read. So a damaged one is detected and
created again; two processes that create the same one wait for each other.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue, ValidationError

from osmef.errors import StorageError, SupplyError
from osmef.files import draft_file, is_directory, read_file
from osmef.scenario.base import Model
from osmef.supply.program import NAMES

MANIFEST = "manifest.json"
HERE = "{dir}"
"""Placeholder for the folder on the endpoint in a manifest's command line."""

MOST_PACKED_BYTES = 256 << 20
_MOST_BYTES = 512 << 20
_MOST_MANIFEST_BYTES = 1 << 20
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,99}$"
_AGAIN = "make it again: osmef program bundle NAME --force -o FILE"


FileKind = Literal["program", "loader", "library", "data", "licence"]


class DamageError(ValueError):
    """Damage of an archive."""


class BundledFile(Model):
    """A file of a bundle."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the file")
    size_bytes: int = Field(ge=0, description="length of the file")
    kind: FileKind = Field(description="what it is; licences stay on the controller")
    package: str | None = Field(default=None, description="the package that it comes from")


class Package(Model):
    """A package with files in a bundle."""

    version: str = Field(description="its version")
    deb_sha256: str = Field(description="SHA-256 of the .deb, as the signed index has it")
    licence: str | None = Field(description="the file of the bundle that says who may do what")


class BuildRecord(Model):
    """Record of a build from source."""

    source: str = Field(description="the URL, or the path on the controller")
    sha256: str = Field(description="SHA-256 of the archive; of a folder, of all that is in it")
    compiler: str = Field(description="the compiler and its version")
    openmp: bool | None = Field(description="whether it has OpenMP; null where none is wanted")
    network: bool = Field(description="whether its steps could reach the network")
    libraries: tuple[str, ...] = Field(
        default=(),
        description="the controller's own packages of shared libraries, with their versions; their"
        " files where dpkg does not list them; empty for a static program",
    )


class ProgramManifest(Model):
    """The manifest of a bundle: manifest.json."""

    schema_version: Literal[1] = Field(description="the version of this file")
    program: str = Field(pattern=_NAME, description="the program's name")
    how: Literal["bundle", "build"] = Field(description="of packages, or built from source")
    architecture: str = Field(description="of the endpoints that it is for, as `uname -m` says it")
    libc: str = Field(description="the C library that it brings")
    suite: str | None = Field(description="the release of Debian")
    argv: tuple[str, ...] = Field(
        min_length=1, description="what starts it; {dir} is the folder on the endpoint"
    )
    data: dict[str, str] = Field(
        description="the files beside it by the paths that they have in their package or source"
    )
    packages: dict[str, Package] = Field(description="the packages of which it holds something")
    build: BuildRecord | None = Field(description="how it was built")
    notes: tuple[str, ...] = Field(description="what its users should know")
    files: dict[str, BundledFile] = Field(description="its files")


@dataclass(frozen=True)
class ProgramBundle:
    """A bundle that was read and verified against its manifest."""

    manifest: ProgramManifest
    contents: Mapping[str, bytes]
    sha256: str
    """Of the archive."""
    packed_bytes: int

    @property
    def pushed(self) -> dict[str, BundledFile]:
        """The files for an endpoint."""
        files = self.manifest.files.items()
        return {name: file for name, file in files if file.kind != "licence"}


def pack(manifest: ProgramManifest, contents: Mapping[str, bytes]) -> bytes:
    """Return the archive of a bundle."""
    text = manifest.model_dump_json(indent=2).encode() + b"\n"
    packed = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", compresslevel=9, fileobj=packed, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, data in ((MANIFEST, text), *sorted(contents.items())):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.mode = 0o755 if name != MANIFEST and _runs(manifest.files[name]) else 0o644
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def described(data: bytes, kind: FileKind, package: str | None = None) -> BundledFile:
    """Return a file's entry in a manifest."""
    digest = hashlib.sha256(data).hexdigest()
    return BundledFile(sha256=digest, size_bytes=len(data), kind=kind, package=package)


def read_bundle(path: Path) -> ProgramBundle:
    """Load and verify a bundle. Raises SupplyError for a damaged or invalid one."""
    try:
        packed = read_file(path, MOST_PACKED_BYTES)
    except OSError as error:
        raise SupplyError(
            f"can't read the bundle {path}: {error.strerror}",
            where=str(path),
            cure="osmef program bundle NAME -o FILE makes one",
        ) from error
    try:
        return unpack(packed)
    except DamageError as damage:
        message = f"this bundle is damaged, or none: {damage}"
        raise SupplyError(message, where=str(path), cure=_AGAIN) from damage


def unpack(packed: bytes) -> ProgramBundle:
    """Return the bundle of an archive. Raises DamageError."""
    contents = _members(_inflated(packed))
    try:
        manifest = ProgramManifest.model_validate_json(contents.pop(MANIFEST, b""))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(step) for step in first["loc"])
        raise DamageError(f"{MANIFEST}: {key}: {first['msg']}") from error
    _check(manifest, contents)
    return ProgramBundle(manifest, contents, hashlib.sha256(packed).hexdigest(), len(packed))


def _runs(file: BundledFile) -> bool:
    return file.kind in {"program", "loader"}


def _inflated(packed: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            data = stream.read(_MOST_BYTES + 1)
            if len(data) > _MOST_BYTES:
                raise DamageError(f"it unpacks to more than {_MOST_BYTES >> 20} MiB")
            return data
    except (OSError, EOFError, zlib.error) as error:
        raise DamageError(f"it is cut off, or no .tar.gz ({error})") from error


def _members(data: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isreg() else None
                if file is None or not re.fullmatch(_NAME[1:-1], member.name):
                    raise DamageError(f"{member.name[:99]!r} is no plain file in one folder")
                if member.name in found:
                    raise DamageError(f"it holds {member.name} twice")
                most = _MOST_MANIFEST_BYTES if member.name == MANIFEST else _MOST_BYTES
                found[member.name] = file.read(most)
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise error if isinstance(error, DamageError) else DamageError(str(error)) from error
    return found


def _check(manifest: ProgramManifest, contents: Mapping[str, bytes]) -> None:
    """Verify the files against the manifest, and its program among them."""
    if contents.keys() != manifest.files.keys():
        odd = sorted(contents.keys() ^ manifest.files.keys())
        raise DamageError(f"{odd[0]} is not in both manifest and archive")
    for name, file in manifest.files.items():
        if hashlib.sha256(contents[name]).hexdigest() != file.sha256:
            raise DamageError(f"{name} is not the file that was bundled")
    first = manifest.argv[0].removeprefix(f"{HERE}/")
    if first not in contents or not _runs(manifest.files[first]):
        raise DamageError(f"{MANIFEST}: argv does not start one of its files")
    for name in manifest.data.values():
        if name not in contents:
            raise DamageError(f"{MANIFEST}: data: there is no {name}")


_STORED_NAME = re.compile(
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
    """A bundle in the store; ``damage`` is why it is unusable."""

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
    """A store of bundles. ``progress`` gets lines; an exception of ``check`` ends a wait."""

    directory: Path
    progress: Callable[[str], None] = lambda _line: None
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
        if not is_directory(self.directory):
            return []
        with self._storage(), self._lock():
            for path in self._paths(""):
                match = _STORED_NAME.fullmatch(path.name)
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
        return [p for p in found if p.name.startswith(prefix) and _STORED_NAME.fullmatch(p.name)]

    def _whole(self, wanted: BundleKey) -> ProgramBundle | None:
        """Return the stored bundle, None without a usable one."""
        for path in self._paths(wanted.prefix):
            kept = self._look(path)
            if kept.bundle is not None:
                return kept.bundle
            self.progress(f"note: {path.name}: {kept.damage}; it is made again")
        return None

    def _look(self, path: Path) -> Kept:
        match = _STORED_NAME.fullmatch(path.name)
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
            has_reported = False
            while not _taken(lock):
                if not has_reported:
                    self.progress("waiting until another bundle is made")
                has_reported = True
                self.check()
                time.sleep(_LOOK_S)
            yield
        finally:
            os.close(lock)


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
