"""Get source code from a URL, a file or a folder, and unpack it so that nothing of it escapes."""

from __future__ import annotations

import hashlib
import os
import posixpath
import shutil
import stat
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any

from osmef.errors import SupplyError
from osmef.named_file import open_file
from osmef.units import format_duration, format_size

_TIMEOUT_S = 60.0
_MOST_S = 900.0
_MOST_PACKED_BYTES = 512 << 20
_MOST_BYTES = 2 << 30
_MOST_MEMBERS = 200_000
_PART_BYTES = 1 << 20
_COMPILED = "__pycache__"
"""Python, or who installs a package, makes such a folder anywhere, another one each time."""


class _OnlySafer(urllib.request.HTTPRedirectHandler):
    """Follows redirections to https only."""

    def redirect_request(self, *arguments: Any) -> urllib.request.Request | None:
        url = str(arguments[-1])
        if not url.startswith("https://"):
            arguments[1].close()
            raise urllib.error.URLError(f"it leads to {url}, and only https is followed")
        return super().redirect_request(*arguments)


_OPENER = urllib.request.build_opener(_OnlySafer)


def download(url: str, sha256: str, path: Path, check: Callable[[], None]) -> None:
    """Write what is at a URL to a file, if it has this hash. Raises SupplyError."""
    began, digest, count = time.monotonic(), hashlib.sha256(), 0
    try:
        with _OPENER.open(url, timeout=_TIMEOUT_S) as answer, path.open("wb") as file:
            while data := answer.read(_PART_BYTES):
                check()
                digest.update(data)
                count += len(data)
                file.write(data)
                if count > _MOST_PACKED_BYTES:
                    raise _bad(url, f"it is larger than {format_size(_MOST_PACKED_BYTES)}")
                if time.monotonic() - began > _MOST_S:
                    raise _bad(url, f"it is not here after {format_duration(_MOST_S)}")
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        reason = getattr(error, "reason", None) or error
        raise _bad(url, f"can't be fetched: {reason}", "is this machine online?") from error
    if digest.hexdigest() != sha256:
        raise _bad(
            url,
            f"what is there has the SHA-256 {digest.hexdigest()}, not {sha256}",
            "somebody has changed it, or the hash is that of another version: find out",
        )


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file, or of all that is in a folder. Raises SupplyError."""
    try:
        if not path.is_dir():
            with open_file(path, _MOST_PACKED_BYTES) as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256()
        for name, about in _entries(path):
            digest.update(f"{name}\0{about:o}\0".encode())
            inner = path / name
            if stat.S_ISLNK(about):
                digest.update(os.fsencode(inner.readlink()) + b"\0")
            elif stat.S_ISREG(about):
                with open_file(inner) as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()
    except OSError as error:
        raise _bad(str(path), f"can't be read: {error.strerror or error}") from error


def lay_out(path: Path, folder: Path) -> Path:
    """Copy a folder, or unpack an archive, and return the folder in which its files lie.

    Raises SupplyError, also for an archive of which something would lie elsewhere.
    """
    folder.mkdir()
    try:
        if path.is_dir():
            left_out = shutil.ignore_patterns(_COMPILED)
            shutil.copytree(path, folder, symlinks=True, dirs_exist_ok=True, ignore=left_out)
            return folder
        with open_file(path, _MOST_PACKED_BYTES) as file:
            _unpack(file, folder, str(path))
    except (OSError, shutil.Error, tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise _bad(str(path), f"can't be unpacked: {error}") from error
    inner = list(folder.iterdir())
    return inner[0] if len(inner) == 1 and inner[0].is_dir() else folder


def _unpack(file: IO[bytes], folder: Path, where: str) -> None:
    if zipfile.is_zipfile(file):
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            _take_zip(archive, folder, where)
        return
    file.seek(0)
    with tarfile.open(fileobj=file, mode="r:*") as archive:
        _take_tar(archive, folder, where)


def _take_tar(archive: tarfile.TarFile, folder: Path, where: str) -> None:
    """Unpack; links are made once all files are there, so that nothing is written through one."""
    links: list[tuple[Path, str]] = []
    room = _Room(where)
    for member in archive:
        place = _place(member.name, folder, where)
        if member.isdir():
            place.mkdir(parents=True, exist_ok=True)
        elif member.isreg():
            source = archive.extractfile(member)
            assert source is not None  # noqa: S101 - it is a regular file
            room.write(source, place, executable=bool(member.mode & 0o100))
        elif member.issym() or member.islnk():
            base = posixpath.dirname(member.name) if member.issym() else ""
            target = posixpath.normpath(posixpath.join(base, member.linkname))
            _place(target, folder, where)
            up = os.path.relpath(folder / target, place.parent)
            links.append((place, up))
        else:
            raise _bad(where, f"{member.name!r} is a device or a pipe")
        room.count()
    root = folder.resolve()
    for place, target in links:
        if place.parent.resolve() != root / place.parent.relative_to(folder):
            raise _bad(where, f"{place.relative_to(folder)} lies behind a link")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(target)
    _refuse_escapes([place for place, _ in links], folder, where)


def _take_zip(archive: zipfile.ZipFile, folder: Path, where: str) -> None:
    room = _Room(where)
    for entry in archive.infolist():
        place = _place(entry.filename, folder, where)
        mode = entry.external_attr >> 16
        if entry.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        elif stat.S_IFMT(mode) in {0, stat.S_IFREG}:
            with archive.open(entry) as source:
                room.write(source, place, executable=bool(mode & 0o100))
        else:
            raise _bad(where, f"{entry.filename!r} is a link, a device or a pipe")
        room.count()


class _Room:
    """How much an archive may still unpack to."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._bytes = _MOST_BYTES
        self._members = _MOST_MEMBERS

    def count(self) -> None:
        self._members -= 1
        if self._members < 0:
            raise _bad(self._where, f"it holds more than {_MOST_MEMBERS} files")

    def write(self, source: IO[bytes], place: Path, *, executable: bool) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("wb") as file:
            while data := source.read(_PART_BYTES):
                self._bytes -= len(data)
                if self._bytes < 0:
                    raise _bad(self._where, f"it unpacks to more than {format_size(_MOST_BYTES)}")
                file.write(data)
        place.chmod(0o755 if executable else 0o644)


def _place(name: str, folder: Path, where: str) -> Path:
    """Return where a member of an archive lies. Raises SupplyError for one that lies elsewhere."""
    path = posixpath.normpath(name)
    if name.startswith("/") or "\\" in name or "\0" in name or path.split("/")[0] == "..":
        raise _bad(where, f"{name!r} would lie outside of its folder")
    return folder / path


def _refuse_escapes(links: list[Path], folder: Path, where: str) -> None:
    """See that no link leads out, through others neither."""
    for link in links:
        try:
            inside = link.resolve().is_relative_to(folder.resolve())
        except (OSError, RuntimeError):  # it leads round in a circle, so nowhere
            continue
        if not inside:
            raise _bad(where, f"{link.relative_to(folder)} would lead outside of its folder")


def _entries(folder: Path) -> Iterator[tuple[str, int]]:
    """Give the path and the mode of all that is in a folder, in the order of their names."""
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    for name in found:
        if _COMPILED not in name.split("/"):
            yield name, (folder / name).lstat().st_mode


def _bad(where: str, message: str, cure: str | None = None) -> SupplyError:
    return SupplyError(message, where=where, cure=cure or "look at the source and its address")
