"""Bundles: one archive with a program, its dependencies, and a manifest.

It is a .tar.gz of plain files in one folder. Of the same files it has the same bytes, wherever and
whenever it is made with the same zlib.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from osmef.errors import SupplyError
from osmef.named_file import read_file
from osmef.scenario.base import Model

MANIFEST = "manifest.json"
HERE = "{dir}"
"""What stands for the folder on the endpoint in the words of a manifest."""

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
    notes: tuple[str, ...] = Field(description="what somebody who uses it should know")
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
