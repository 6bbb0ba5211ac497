"""The guest image that tests boot: built once, kept while what it is made by stays the same."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

import osmef.images
from osmef.errors import ProviderError
from osmef.images.build import BuildRequest, build_image, open_fakeroot
from osmef.images.guest_image import GuestImage, load_image
from osmef.programs import find_program
from tests.cache import alone, cache

_TOOLS = {"mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "qemu-img": "qemu-utils"}
_SOURCES = Path(osmef.images.__file__).parent


def shared_image() -> GuestImage:
    """Return the image of the tests, built if need be; skips where that is not possible."""
    if not (_directory() / _name()).exists():
        _skip_without_tools()
    try:
        return kept_image()
    except ProviderError as error:
        if "registry" in (error.cure or ""):
            pytest.skip(f"no packages for a guest image: {error}")
        raise


def kept_image() -> GuestImage:
    """Return the image that is kept, built if need be. Raises ProviderError."""
    directory, name = _directory(), _name()
    with alone(directory):
        if (directory / name).exists():
            return load_image(directory / name)
        directory.mkdir(exist_ok=True)
        for old in directory.glob("test-*"):
            shutil.rmtree(old)
        request = BuildRequest(
            name=name,
            directory=directory,
            suite=None,
            packages=(),
            disk_bytes=1 << 30,
            force=False,
            progress=print,
            check=lambda: None,
        )
        return build_image(request)


def _directory() -> Path:
    return cache() / "guest-image"


def _name() -> str:
    digest = hashlib.sha256()
    for path in sorted(_SOURCES.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(str(path.relative_to(_SOURCES)).encode() + path.read_bytes())
    return f"test-{digest.hexdigest()[:12]}"


def _skip_without_tools() -> None:
    try:
        for program, package in _TOOLS.items():
            find_program(program, package, "a guest image")
        open_fakeroot(lambda: None)
    except ProviderError as error:
        pytest.skip(str(error))
