"""Static build of a program from source on the controller, for an endpoint's architecture.

The source comes from a URL, a file or a folder, and is unpacked so that nothing of it escapes.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import shutil
import stat
import subprocess
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any

from osmef.errors import SupplyError
from osmef.files import open_file, scratch
from osmef.programs import search_path
from osmef.supply.bundle import (
    HERE,
    BuildRecord,
    BundledFile,
    FileKind,
    ProgramManifest,
    described,
    pack,
)
from osmef.supply.closure import ClosureFile, command_line, is_elf, libraries_of, parse, read_elf
from osmef.supply.compiler import Compiler, ToolRunner, compiler_of
from osmef.supply.program import Architecture, Program, SourceCode, this_architecture
from osmef.units import format_duration, format_size

_MOST_S = 900.0
_MOST_PRODUCT_BYTES = 256 << 20
_TRY_S = 10.0
_ASK_S = 30.0
_TIMEOUT_S = 60.0
_FETCH_S = 900.0
_MOST_PACKED_BYTES = 512 << 20
_MOST_BYTES = 2 << 30
_MOST_MEMBERS = 200_000
_PART_BYTES = 1 << 20
_OF_ONE_FILE = {".c", ".cc", ".cpp"}
_COMPILED = "__pycache__"
"""Folders that Python and installers of packages create, with other contents each time."""


def source_hash(source: SourceCode) -> str:
    """Return the SHA-256 of source code, which identifies its version.

    For a URL it is the expected one; nothing is fetched. Raises SupplyError.
    """
    return hash_of(source.path) if source.path is not None else str(source.sha256)


def bundle_of_source(
    program: Program,
    machine: Architecture,
    progress: Callable[[str], None],
    check: Callable[[], None],
) -> bytes:
    """Return the archive of a bundle with a program built from source.

    ``progress`` is called with a line as each step begins; an exception of ``check`` ends the
    build. Raises SupplyError with the end of the compiler's output; nothing is left then.
    """
    source, where = program.source, f"build of {program.name!r}"
    assert source is not None  # noqa: S101 - it is no way without a source
    compiler = compiler_of(source, machine, where)
    with scratch("build") as root:
        code, digest = _code(source, root, progress, check)
        offline = without_network()
        environment = _environment(root, compiler)
        tool = ToolRunner(where, environment, code, check, _MOST_S, prefix=offline)
        by = "" if source.language == "script" else f" with {compiler.name}"
        progress(f"building {program.name} for {machine.name}{by}")
        _run(source, tool, machine)
        contents = _products(source, code, program.name, where)
        build = BuildRecord(
            source=source.url or str(source.path),
            sha256=digest,
            compiler=compiler.name,
            openmp=compiler.openmp,
            network=not offline,
        )
        if source.shared:
            return packed_with_libraries(program, code / source.products[0], contents, build)
        return _packed(program, machine, contents, build, compiler.notes)


def _run(source: SourceCode, tool: ToolRunner, machine: Architecture) -> None:
    """Run all build steps. Raises SupplyError."""
    try:
        for step in source.steps:
            tool.run([word.replace("{target}", machine.zig) for word in step])
    except SupplyError as error:
        if packages := (*source.shared, *source.tools):
            error.cure = f"read what it said; this machine needs: {', '.join(packages)}"
        raise


def without_network() -> tuple[str, ...]:
    """Return a command prefix that removes the network; empty where unavailable.

    It is unshare(1), which a user may run where the kernel allows user namespaces.
    """
    path = shutil.which("unshare", path=search_path())
    if path is None:
        return ()
    user = () if os.geteuid() == 0 else ("--user", "--map-current-user")
    prefix = (path, *user, "--net", "--pid", "--fork", "--kill-child=KILL")
    try:
        done = subprocess.run([*prefix, "true"], capture_output=True, check=False, timeout=_TRY_S)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return prefix if done.returncode == 0 else ()


def _code(
    source: SourceCode, root: Path, progress: Callable[[str], None], check: Callable[[], None]
) -> tuple[Path, str]:
    """Return the source tree and its hash. Raises SupplyError."""
    path = source.path
    if source.url is not None:
        name = Path(urllib.parse.urlsplit(source.url).path).name
        path = root / (name if Path(name).suffix in _OF_ONE_FILE else "archive")
        progress(f"fetching {source.url}")
        download(source.url, str(source.sha256), path, check)
    assert path is not None  # noqa: S101 - it has the one or the other
    digest = hash_of(path)
    if source.sha256 not in {None, digest}:
        raise SupplyError(f"it has the SHA-256 {digest}, not {source.sha256}", where=str(path))
    code = lay_out(path, root / "code")
    for name, text in source.adds:
        (code / name).write_text(text, encoding="utf-8")
    return code, digest


def _environment(root: Path, compiler: Compiler) -> dict[str, str]:
    """Return the environment of build steps, without the user's, which may hold credentials."""
    home = root / "home"
    home.mkdir()
    # zig keeps its C library there once it has compiled it, which takes a while; Go likewise.
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return {
        "HOME": str(home),
        "TMPDIR": str(home),
        "LC_ALL": "C",
        "SOURCE_DATE_EPOCH": "0",
        "ZIG_GLOBAL_CACHE_DIR": os.environ.get("ZIG_GLOBAL_CACHE_DIR", str(Path(cache) / "zig")),
        "GOCACHE": os.environ.get("GOCACHE", str(Path(cache) / "go-build")),
        **compiler.install(root / "tools"),
    }


def _products(source: SourceCode, code: Path, name: str, where: str) -> dict[str, bytes]:
    """Return the built files by their names in the bundle; the program first."""
    found: dict[str, bytes] = {}
    for number, product in enumerate(source.products):
        path = code / product
        if not path.is_file() or not path.resolve().is_relative_to(code.resolve()):
            raise SupplyError(
                f"its steps made no {product}",
                where=where,
                cure="products are files in the folder of the source: look at its steps",
            )
        if path.stat().st_size > _MOST_PRODUCT_BYTES:
            raise SupplyError(f"{product} is larger than 256 MiB", where=where)
        key = path.name if number or source.is_interpreted else name
        if key in found:
            raise SupplyError(f"two of its products have the name {key}", where=where)
        found[key] = path.read_bytes()
    return found


def _packed(
    program: Program,
    machine: Architecture,
    contents: dict[str, bytes],
    build: BuildRecord,
    notes: tuple[str, ...],
) -> bytes:
    source = program.source
    assert source is not None  # noqa: S101 - it was built of it
    first = next(iter(contents))

    def kind(name: str) -> FileKind:
        return "program" if name == first or is_elf(contents[name]) else "data"

    for name, data in contents.items():
        if kind(name) == "program" and not source.is_interpreted:
            _check_static(data, machine, f"build of {program.name!r}")
    files: dict[str, BundledFile] = {
        name: described(data, kind(name)) for name, data in contents.items()
    }
    named = source.products if source.is_interpreted else source.products[1:]
    manifest = ProgramManifest(
        schema_version=1,
        program=program.name,
        how="build",
        architecture=machine.name,
        libc="none" if source.is_interpreted else "static",
        suite=None,
        argv=(f"{HERE}/{first}",),
        data={path: Path(path).name for path in named},
        packages={},
        build=build,
        notes=notes,
        files=files,
    )
    return pack(manifest, contents)


def _check_static(data: bytes, machine: Architecture, where: str) -> None:
    """Raise SupplyError unless this is a static program for that architecture."""
    elf = parse(data)
    if elf.machine != machine.elf:
        raise SupplyError(f"what was built is not for {machine.name}", where=where)
    if elf.interpreter is not None or elf.needed:
        raise SupplyError(
            "what was built is no static program",
            where=where,
            cure="have its steps compile with cc from PATH, or $CC, which is given -static",
        )


class _ThisMachine:
    """File system of this machine."""

    def find(self, path: str) -> ClosureFile | None:
        file = Path(path)
        return ClosureFile(file.resolve(), "") if file.is_file() else None


def packed_with_libraries(
    program: Program, path: Path, contents: dict[str, bytes], build: BuildRecord
) -> bytes:
    """Return the archive of a program at a path, with its loader and libraries.

    ``contents`` are the built files with the program. Raises SupplyError.
    """
    elf, machine = read_elf(path), this_architecture()
    libraries = libraries_of(str(path), elf, _ThisMachine(), machine)
    loader = elf.interpreter and Path(elf.interpreter).name

    def kind(name: str) -> FileKind:
        if name in libraries:
            return "loader" if name == loader else "library"
        return "program" if name == program.name else "data"

    every = contents | {name: found.path.read_bytes() for name, found in libraries.items()}
    files: dict[str, BundledFile] = {
        name: described(data, kind(name)) for name, data in every.items()
    }
    packages = packages_of([found.path for found in libraries.values()])
    manifest = ProgramManifest(
        schema_version=1,
        program=program.name,
        how="build",
        architecture=machine.name,
        libc=_libc() if loader else "static",
        suite=None,
        argv=command_line(program.name, loader, every),
        data={name: name for name in contents if name != program.name},
        packages={},
        build=build.model_copy(update={"libraries": packages}),
        notes=(),
        files=files,
    )
    return pack(manifest, every)


def packages_of(files: Sequence[Path]) -> tuple[str, ...]:
    """Return the packages of files with versions; the files themselves without dpkg."""
    names = tuple(sorted(file.name for file in files))
    # dpkg may know a file of /usr by the path that it had before the two were merged.
    paths = [path for file in files for path in (str(file), str(file).removeprefix("/usr"))]
    owners = _output_of("dpkg-query", "--search", *dict.fromkeys(paths)).splitlines()
    packages = sorted({line.partition(": ")[0] for line in owners})
    shown = "--showformat=${Package} ${Version}\n"
    lines = _output_of("dpkg-query", "--show", shown, *packages).splitlines() if packages else []
    return tuple(sorted(set(lines))) or names


def _output_of(name: str, *arguments: str) -> str:
    """Return a tool's output, empty without the tool."""
    path = shutil.which(name, path=search_path())
    if path is None:
        return ""
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, check=False, timeout=_ASK_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _libc() -> str:
    return os.confstr("CS_GNU_LIBC_VERSION") or "glibc"


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
    """Download a URL to a file, if its hash matches. Raises SupplyError."""
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
                if time.monotonic() - began > _FETCH_S:
                    raise _bad(url, f"it is not here after {format_duration(_FETCH_S)}")
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
    """Return the SHA-256 of a file, or of a directory tree. Raises SupplyError."""
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
    """Copy a directory or a file of C, or unpack an archive; return its top directory.

    Raises SupplyError, also for an archive of which something would lie elsewhere.
    """
    folder.mkdir()
    try:
        if path.is_dir():
            left_out = shutil.ignore_patterns(_COMPILED)
            shutil.copytree(path, folder, symlinks=True, dirs_exist_ok=True, ignore=left_out)
            return folder
        with open_file(path, _MOST_PACKED_BYTES) as file:
            if path.suffix in _OF_ONE_FILE:
                shutil.copyfile(path, folder / path.name)
                return folder
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
    """Unpack a tar archive; links are created last, so that nothing is written through one."""
    links: list[tuple[Path, str]] = []
    quota = _UnpackQuota(where)
    for member in archive:
        path = _path_in(member.name, folder, where)
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
        elif member.isreg():
            source = archive.extractfile(member)
            assert source is not None  # noqa: S101 - it is a regular file
            quota.write(source, path, executable=bool(member.mode & 0o100))
        elif member.issym() or member.islnk():
            base = posixpath.dirname(member.name) if member.issym() else ""
            target = posixpath.normpath(posixpath.join(base, member.linkname))
            _path_in(target, folder, where)
            up = os.path.relpath(folder / target, path.parent)
            links.append((path, up))
        else:
            raise _bad(where, f"{member.name!r} is a device or a pipe")
        quota.count()
    root = folder.resolve()
    for path, target in links:
        if path.parent.resolve() != root / path.parent.relative_to(folder):
            raise _bad(where, f"{path.relative_to(folder)} lies behind a link")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)
    _refuse_escapes([path for path, _ in links], folder, where)


def _take_zip(archive: zipfile.ZipFile, folder: Path, where: str) -> None:
    quota = _UnpackQuota(where)
    for entry in archive.infolist():
        path = _path_in(entry.filename, folder, where)
        mode = entry.external_attr >> 16
        if entry.is_dir():
            path.mkdir(parents=True, exist_ok=True)
        elif stat.S_IFMT(mode) in {0, stat.S_IFREG}:
            with archive.open(entry) as source:
                quota.write(source, path, executable=bool(mode & 0o100))
        else:
            raise _bad(where, f"{entry.filename!r} is a link, a device or a pipe")
        quota.count()


class _UnpackQuota:
    """Remaining size and number of files to unpack."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._bytes = _MOST_BYTES
        self._members = _MOST_MEMBERS

    def count(self) -> None:
        self._members -= 1
        if self._members < 0:
            raise _bad(self._where, f"it holds more than {_MOST_MEMBERS} files")

    def write(self, source: IO[bytes], path: Path, *, executable: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            while data := source.read(_PART_BYTES):
                self._bytes -= len(data)
                if self._bytes < 0:
                    raise _bad(self._where, f"it unpacks to more than {format_size(_MOST_BYTES)}")
                file.write(data)
        path.chmod(0o755 if executable else 0o644)


def _path_in(name: str, folder: Path, where: str) -> Path:
    """Return the path of an archive's member. Raises SupplyError for one outside."""
    path = posixpath.normpath(name)
    if name.startswith("/") or "\\" in name or "\0" in name or path.split("/")[0] == "..":
        raise _bad(where, f"{name!r} would lie outside of its folder")
    return folder / path


def _refuse_escapes(links: list[Path], folder: Path, where: str) -> None:
    """Refuse symbolic links that lead outside, also through other links."""
    for link in links:
        try:
            inside = link.resolve().is_relative_to(folder.resolve())
        except (OSError, RuntimeError):  # it leads round in a circle, so nowhere
            continue
        if not inside:
            raise _bad(where, f"{link.relative_to(folder)} would lead outside of its folder")


def _entries(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield path and mode of all entries of a tree, sorted by name."""
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    for name in found:
        if _COMPILED not in name.split("/"):
            yield name, (folder / name).lstat().st_mode


def _bad(where: str, message: str, cure: str | None = None) -> SupplyError:
    return SupplyError(message, where=where, cure=cure or "look at the source and its address")
