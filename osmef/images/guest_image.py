"""A guest image on disk: a directory with a root file system, a kernel and an initrd."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from osmef.errors import InputError
from osmef.files import open_file, read_file
from osmef.scenario.base import Model

MANIFEST = "image.json"
DEFAULT_NAME = "default"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_MOST_BYTES = 1 << 20
_BUILD = "make it again: osmef image build --force"


def default_directory() -> Path:
    """Return the directory that holds this user's images."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "osmef" / "images"


def check_name(name: str) -> None:
    """Raise InputError unless the name can be that of an image."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} can't be the name of an image",
            where="--name",
            cure="use lower-case letters, digits and . _ - such as: debian-12",
        )


class ImageFile(Model):
    """A file of an image."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="its name in the image's directory",
    )
    format: Literal["qcow2", "linux", "cpio"] = Field(description="what it holds")
    size_bytes: int = Field(description="length of the file")
    sha256: str = Field(description="SHA-256 of the file")


class BootConfig(Model):
    """Boot configuration of an image."""

    kind: Literal["direct-kernel"] = Field(
        description="the hypervisor loads kernel and initrd itself; there is no boot loader"
    )
    cmdline: str = Field(description="what the kernel must be given")


class Manifest(Model):
    """The manifest of an image: image.json."""

    schema_version: Literal[1] = Field(description="the version of this file")
    name: str = Field(description="the image's name")
    created: datetime = Field(description="when it was made")
    build_s: float = Field(description="how long that took")
    osmef: str = Field(description="the version of OSMeF that made it")
    architecture: str = Field(description="as `uname -m` says it in a guest")
    suite: str = Field(description="the release of Debian")
    kernel: str = Field(description="release of the kernel")
    boot: BootConfig = Field(description="how a machine starts from it")
    seed: Literal["tar-disk-1"] = Field(
        description="how a guest gets its keys, name and addresses: a disk with a tar file on it"
    )
    disk_bytes: int = Field(description="size of the disk that a guest sees")
    files: dict[Literal["root", "kernel", "initrd"], ImageFile] = Field(description="its files")
    wanted: tuple[str, ...] = Field(description="packages that were asked for beside the usual")
    packages: dict[str, str] = Field(description="versions of all packages")


@dataclass(frozen=True)
class GuestImage:
    """An existing image."""

    directory: Path
    manifest: Manifest

    @property
    def root(self) -> Path:
        """The root file system, a qcow2 file: guests write to an overlay of their own."""
        return self.directory / self.manifest.files["root"].name

    @property
    def kernel(self) -> Path:
        """The kernel."""
        return self.directory / self.manifest.files["kernel"].name

    @property
    def initrd(self) -> Path:
        """The initial file system in memory."""
        return self.directory / self.manifest.files["initrd"].name

    def verify(self) -> None:
        """Compare the hashes of all files. Raises InputError."""
        for file in self.manifest.files.values():
            if sha256_of(self.directory / file.name) != file.sha256:
                raise _damaged(self.directory, f"{file.name} is not the file that was built")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_image(directory: Path) -> GuestImage:
    """Load an image, with a check of its files' sizes.

    Raises InputError if it is missing or damaged.
    """
    try:
        text = read_file(directory / MANIFEST, _MOST_BYTES)
    except OSError as error:
        raise InputError(
            f"no image here: {error.strerror}",
            where=str(directory),
            cure="osmef image list shows the images, osmef image build makes one",
        ) from error
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        steps = [MANIFEST, ".".join(str(step) for step in first["loc"]), first["msg"]]
        raise _damaged(directory, ": ".join(filter(None, steps))) from error
    for file in manifest.files.values():
        path = directory / file.name
        if path.is_symlink():  # what it leads to would be sent to the hypervisor
            raise _damaged(directory, f"{file.name} is a link")
        if not path.is_file() or path.stat().st_size != file.size_bytes:
            raise _damaged(directory, f"{file.name} is missing, or cut off")
    return GuestImage(directory, manifest)


def _damaged(directory: Path, why: str) -> InputError:
    return InputError(f"this image is damaged: {why}", where=str(directory), cure=_BUILD)


def image_directories(directory: Path) -> list[Path]:
    """List the directories of images, by name."""
    return sorted(path.parent for path in directory.glob(f"[!.]*/{MANIFEST}"))
