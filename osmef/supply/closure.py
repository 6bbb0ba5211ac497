"""Closure of one program in unpacked packages: itself, libraries, loader and data.

Libraries are searched as by ld.so(8): those of the dynamic section of each ELF file (System V ABI,
chapters 4 and 5, and elf.h of glibc), in the folders that the file names (DT_RPATH, DT_RUNPATH),
then in those of the distribution. For any content of a file only ElfError is raised, and the work
is limited by its size. Symbolic links never lead out of the folders of unpacked packages.
"""

from __future__ import annotations

import os
import posixpath
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from osmef.errors import SupplyError
from osmef.files import read_file
from osmef.supply.bundle import HERE
from osmef.supply.compiler import SHIM_FILE
from osmef.supply.program import Architecture, Program

MOST_BYTES = 256 << 20
"""Of a program or library."""

_MAGIC = b"\x7fELF"
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 0, 1, 5, 14, 15, 29
_MOST_NAME_BYTES = 4096
_MOST_NEEDED = 1000


class ElfError(SupplyError):
    """It is no valid ELF file of Linux."""

    kind = "elf"


@dataclass(frozen=True)
class Elf:
    """Dependencies of an ELF file. Directories may begin with $ORIGIN."""

    machine: tuple[int, int, bool]
    """Number of the machine, bits of an address, whether the low byte comes first."""
    interpreter: str | None
    """Path of the loader of a program; None for a library or a static program."""
    needed: tuple[str, ...]
    """The names of the libraries that are loaded with it."""
    rpath: tuple[str, ...]
    """Folders for the libraries of it and of all that it loads, before all others."""
    runpath: tuple[str, ...]
    """Folders for its own libraries. Where there is one, ``rpath`` does not count."""
    soname: str | None


@dataclass(frozen=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int


@dataclass(frozen=True)
class _Layout:
    """Byte order and word size of an ELF file, with its formats."""

    order: str
    bits: int

    def header(self, data: bytes) -> tuple[int, int, int, int]:
        """Return machine, and offset, entry size and count of the program headers."""
        word = "Q" if self.bits == 64 else "I"
        fields = struct.unpack_from(f"{self.order}HHI{word}{word}{word}IHHH", data, 16)
        return fields[1], fields[4], fields[8], fields[9]

    def segment(self, data: bytes, offset: int) -> _Segment:
        """Return the segment that a program header describes."""
        if self.bits == 64:
            kind, _, start, address, _, size = struct.unpack_from(
                f"{self.order}IIQQQQ", data, offset
            )
        else:
            kind, start, address, _, size = struct.unpack_from(f"{self.order}IIIII", data, offset)
        return _Segment(kind, start, address, size)

    @property
    def entry(self) -> struct.Struct:
        """Unpack an entry of the dynamic section: tag and value."""
        return struct.Struct(f"{self.order}{'QQ' if self.bits == 64 else 'II'}")


def read_elf(path: Path) -> Elf:
    """Parse a file. Raises ElfError, also for an unreadable one."""
    try:
        return parse(read_file(path, MOST_BYTES))
    except OSError as error:
        raise ElfError(f"can't be read: {error.strerror}", where=str(path)) from error
    except ElfError as error:
        raise ElfError(error.message, where=str(path)) from error


def parse(data: bytes) -> Elf:
    """Parse the content of a file. Raises ElfError."""
    try:
        return _parse(data)
    except (struct.error, OverflowError) as error:
        raise ElfError("it is cut off, or damaged") from error


def is_elf(data: bytes) -> bool:
    """Return whether a file has the magic number of ELF."""
    return data.startswith(_MAGIC)


def _parse(data: bytes) -> Elf:
    if not is_elf(data):
        raise ElfError("it is no program or library of Linux (ELF)")
    classes = struct.unpack_from("BB", data, 4)
    bits, order = {1: 32, 2: 64}.get(classes[0]), {1: "<", 2: ">"}.get(classes[1])
    if bits is None or order is None:
        raise ElfError("it is damaged: of no known class")
    layout = _Layout(order, bits)
    machine, offset, size, count = layout.header(data)
    segments = [layout.segment(data, offset + size * number) for number in range(count)]
    names: dict[int, list[str]] = {}
    for tag, value in _dynamic(data, layout, segments):
        names.setdefault(tag, []).append(value)
    return Elf(
        machine=(machine, bits, order == "<"),
        interpreter=_interpreter(data, segments),
        needed=tuple(names.get(_DT_NEEDED, ())),
        rpath=_folders(names.get(_DT_RPATH, ())),
        runpath=_folders(names.get(_DT_RUNPATH, ())),
        soname=next(iter(names.get(_DT_SONAME, ())), None),
    )


def _folders(texts: list[str] | tuple[()]) -> tuple[str, ...]:
    return tuple(folder for text in texts for folder in text.split(":") if folder)


def _interpreter(data: bytes, segments: list[_Segment]) -> str | None:
    for segment in segments:
        if segment.kind == _PT_INTERP:
            return _text(data, segment.offset)
    return None


def _dynamic(data: bytes, layout: _Layout, segments: list[_Segment]) -> Iterator[tuple[int, str]]:
    """Yield the named entries of the dynamic section by tag."""
    sections = [segment for segment in segments if segment.kind == _PT_DYNAMIC]
    entries = list(_entries(data, layout, sections[0])) if sections else []
    tables = [value for tag, value in entries if tag == _DT_STRTAB]
    named = [
        (tag, value)
        for tag, value in entries
        if tag in {_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH}
    ]
    if len(named) > _MOST_NEEDED:
        raise ElfError(f"it is damaged: it needs more than {_MOST_NEEDED} libraries")
    if named and not tables:
        raise ElfError("it is damaged: it has no table of names")
    table = _offset_of(tables[0], segments) if named else 0
    for tag, value in named:
        yield tag, _text(data, table + value)


def _entries(data: bytes, layout: _Layout, segment: _Segment) -> Iterator[tuple[int, int]]:
    part = data[segment.offset : segment.offset + segment.size]
    whole = len(part) // layout.entry.size * layout.entry.size
    for tag, value in layout.entry.iter_unpack(part[:whole]):
        if tag == _DT_NULL:
            return
        yield tag, value


def _offset_of(address: int, segments: list[_Segment]) -> int:
    """Return the file offset of a virtual address."""
    for segment in segments:
        if segment.kind == _PT_LOAD and 0 <= address - segment.address < segment.size:
            return address - segment.address + segment.offset
    raise ElfError("it is damaged: its table of names is nowhere")


def _text(data: bytes, offset: int) -> str:
    end = data.find(b"\0", offset, offset + _MOST_NAME_BYTES)
    if not 0 <= offset < end:
        raise ElfError("it is damaged: a name in it is empty, or has no end")
    try:
        return data[offset:end].decode()
    except UnicodeDecodeError as error:
        raise ElfError("it is damaged: a name in it is no text") from error


_MOST_LINKS = 40
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64")
"""Of /usr, and links to there in the root: they are in no package (usrmerge)."""


@dataclass(frozen=True)
class ClosureFile:
    """A file: its path, and its package."""

    path: Path
    package: str


class Tree:
    """The merged files of several packages; of duplicate paths the first counts."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        """Scan the directory of each package, by name."""
        self._files: dict[str, ClosureFile] = {}
        self._links: dict[str, str] = {}
        for package, folder in folders.items():
            self._add(package, folder)

    def find(self, path: str) -> ClosureFile | None:
        """Return the file at an absolute path, None if it does not exist."""
        for start in (path, f"/usr{path}"):
            if start == path or path.split("/")[1] in _MERGED:
                found = self._files.get(self._resolved(start))
                if found is not None:
                    return found
        return None

    def names(self, folder: str, package: str) -> list[str]:
        """Return the names of a package's files and links in a directory."""
        paths = [path for path, found in self._files.items() if found.package == package]
        return sorted(posixpath.basename(p) for p in paths if posixpath.dirname(p) == folder)

    def _add(self, package: str, folder: Path) -> None:
        for parent, folders, files in os.walk(folder):
            for name in (*folders, *files):
                path = Path(parent, name)
                absolute = f"/{path.relative_to(folder).as_posix()}"
                if path.is_symlink():
                    self._links.setdefault(absolute, str(path.readlink()))
                elif path.is_file():
                    self._files.setdefault(absolute, ClosureFile(path, package))

    def _resolved(self, path: str) -> str:
        """Resolve the links in a path; empty for a loop."""
        left = [part for part in path.split("/") if part not in {"", "."}]
        done: list[str] = []
        links = 0
        while left:
            part = left.pop(0)
            if part == "..":
                del done[-1:]
                continue
            target = self._links.get("/" + "/".join([*done, part]))
            if target is None:
                done.append(part)
                continue
            links += 1
            if links > _MOST_LINKS:
                return ""
            if target.startswith("/"):
                done = []
            left = [one for one in target.split("/") if one not in {"", "."}] + left
        return "/" + "/".join(done)


_PROGRAMS = ("/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/games", "/usr/local/bin")
_MOST_LIBRARIES = 500
_MOST_LISTED = 12
_MOST_SCRIPT_BYTES = 1000
_STARTS = re.compile(rb'#! */bin/sh\nexec (/[A-Za-z0-9._+/-]{1,200}) "\$@"\n*')


class Files(Protocol):
    """A file system, real or merged."""

    def find(self, path: str) -> ClosureFile | None:
        """Return the file at an absolute path, None if it does not exist."""


@dataclass(frozen=True)
class Closure:
    """The files of a program by their names in one directory."""

    program: ClosureFile
    loader: str | None
    """The name of its loader; None for a static program."""
    libraries: dict[str, ClosureFile]
    """With the loader."""
    data: dict[str, ClosureFile]
    """By their names."""


@dataclass(frozen=True)
class _Libraries:
    """Library lookup in packages of an architecture."""

    tree: Files
    machine: Architecture
    stands_for: Mapping[str, str]

    def find(self, name: str, folders: Sequence[str]) -> tuple[ClosureFile | None, str]:
        """Return a library and its path, in one of these directories or a default one."""
        triplet, file = self.machine.triplet, self.stands_for.get(name, name)
        usual = (f"/lib/{triplet}", f"/usr/lib/{triplet}", "/lib64", "/lib", "/usr/lib")
        for path in (f"{folder}/{file}" for folder in (*folders, *usual)):
            found = self.tree.find(path)
            if found is not None:
                return found, path
        return None, ""


def cut(program: Program, tree: Tree, machine: Architecture) -> Closure:
    """Return the closure of a program in its packages. Raises SupplyError."""
    where = f"program {program.name!r}"
    stands_for = dict(program.alternatives)
    path, found = _find_program(program, stands_for.get(program.name, program.name), tree, where)
    elf = _read(found, path, machine, where)
    wanted: list[tuple[str, str]] = [("", name) for name in program.libraries]
    loader = posixpath.basename(elf.interpreter) if elf.interpreter else None
    libraries = libraries_of(path, elf, tree, machine, wanted, stands_for)
    return Closure(found, loader, libraries, _data(program, tree, where, {*libraries}))


def libraries_of(  # noqa: PLR0913, PLR0917 - all that a search goes by
    path: str,
    elf: Elf,
    files: Files,
    machine: Architecture,
    wanted: Sequence[tuple[str, str]] = (),
    stands_for: Mapping[str, str] | None = None,
) -> dict[str, ClosureFile]:
    """Return the loader and the libraries of a program at a path, by name.

    ``wanted`` are further libraries, each with what needs it; some lie there by the names
    of others (``stands_for``). A static program has none. Raises SupplyError.
    """
    if elf.interpreter is None:
        return {}
    at = files.find(elf.interpreter)
    if at is None:
        where = f"program {posixpath.basename(path)!r}"
        raise SupplyError(f"its loader {elf.interpreter} is in no package", where=where)
    libraries = {posixpath.basename(elf.interpreter): at}
    _follow(_Libraries(files, machine, stands_for or {}), (path, elf), libraries, wanted)
    return libraries


def command_line(name: str, loader: str | None, contents: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the command line of a program: its loader, with its directory as library path."""
    if loader is None:
        return (f"{HERE}/{name}",)
    # --argv0 of glibc since 2.33; without it the program gets its path as its name.
    named = ("--argv0", name) if b"--argv0" in contents[loader] else ()
    own = ("--inhibit-cache", "--library-path", HERE)
    first = ("--preload", f"{HERE}/{SHIM_FILE}") if SHIM_FILE in contents else ()
    return (f"{HERE}/{loader}", *named, *own, *first, f"{HERE}/{name}")


def _find_program(program: Program, name: str, tree: Tree, where: str) -> tuple[str, ClosureFile]:
    for folder in _PROGRAMS:
        path = f"{folder}/{name}"
        found = tree.find(path)
        if found is not None:
            return _behind_script(path, found, tree, where)
    package = program.debian_package
    have = [name for folder in _PROGRAMS for name in tree.names(folder, package)]
    listed = ", ".join(have[:_MOST_LISTED]) + (", …" if have[_MOST_LISTED:] else "")
    raise SupplyError(
        f"the package {package} has no program of this name",
        where=where,
        cure=f"it has {listed}: is it one of these?" if have else "name the package that has it",
    )


def _behind_script(
    path: str, found: ClosureFile, tree: Tree, where: str
) -> tuple[str, ClosureFile]:
    """Return a program, or that of a wrapper script of one command (as of p7zip)."""
    with found.path.open("rb") as file:
        start = file.read(_MOST_SCRIPT_BYTES)
    one = _STARTS.fullmatch(start)
    started = tree.find(one[1].decode()) if one else None
    if one and started:
        return one[1].decode(), started
    first = start.partition(b"\n")[0]
    if first.startswith(b"#!"):
        shell = first[2:200].decode(errors="replace").strip()
        raise SupplyError(
            f"it is a script for {shell}, and a bundle holds compiled programs only",
            where=where,
            cure="install it on the endpoints, and write ways: [present]",
        )
    return path, found


def _read(found: ClosureFile, path: str, machine: Architecture, where: str) -> Elf:
    elf = read_elf(found.path)
    if elf.machine != machine.elf:
        raise SupplyError(f"{path} of {found.package} is not for {machine.name}", where=where)
    return elf


def _follow(
    available: _Libraries,
    program: tuple[str, Elf],
    libraries: dict[str, ClosureFile],
    wanted: Sequence[tuple[str, str]],
) -> None:
    """Add the libraries of a program, transitively, by name."""
    _, root = program
    where = f"program {posixpath.basename(program[0])!r}"
    waiting = [*_needs(program[0], root, ()), *((origin, name, ()) for origin, name in wanted)]
    while waiting:
        origin, name, folders = waiting.pop()
        if name in libraries:
            continue
        found, path = available.find(name, folders)
        if found is None:
            by = f", which {origin} needs," if origin else ""
            raise SupplyError(
                f"the library {name}{by} is in none of its packages",
                where=where,
                cure="name the package that has it among the program's packages",
            )
        libraries[name] = found
        if len(libraries) > _MOST_LIBRARIES:
            raise SupplyError(f"it needs more than {_MOST_LIBRARIES} libraries", where=where)
        inherited = () if root.runpath else _expanded(root.rpath, program[0])
        waiting += _needs(path, _read(found, path, available.machine, where), inherited)


def _needs(
    path: str, elf: Elf, inherited: Sequence[str]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the libraries of a file: dependant, name, and search path."""
    own = _expanded(elf.runpath or elf.rpath, path)
    for name in elf.needed:
        yield path, name, (*own, *inherited)


def _expanded(folders: Sequence[str], path: str) -> tuple[str, ...]:
    """Expand $ORIGIN. Source: ld.so(8)."""
    origin = posixpath.dirname(path)
    return tuple(
        folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for folder in folders
    )


def _data(program: Program, tree: Tree, where: str, taken: set[str]) -> dict[str, ClosureFile]:
    """Return the data files by name, which must be unique in one directory."""
    data: dict[str, ClosureFile] = {}
    for path in program.files:
        found = tree.find(path)
        if found is None:
            raise SupplyError(
                f"{path} is in none of its packages",
                where=where,
                cure=f"dpkg -L {program.debian_package} lists what is in the package",
            )
        name = posixpath.basename(path)
        if name in data or name in taken or name == program.name:
            raise SupplyError(f"two of its files have the name {name}", where=where)
        data[name] = found
    return data
