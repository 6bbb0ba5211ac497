"""Closure of one program in unpacked packages: itself, libraries, loader and data.

Libraries are looked for as ld.so(8) does it: in the folders that the file names (DT_RPATH,
DT_RUNPATH), then in those of the distribution. Nothing outside of the folders that packages were
unpacked into is ever looked at, whatever links in them say.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from osmef.errors import SupplyError
from osmef.supply import shim
from osmef.supply.architectures import Architecture
from osmef.supply.bundle import HERE
from osmef.supply.elf import Elf, read_elf
from osmef.supply.program import Program

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
                place = f"/{path.relative_to(folder).as_posix()}"
                if path.is_symlink():
                    self._links.setdefault(place, str(path.readlink()))
                elif path.is_file():
                    self._files.setdefault(place, ClosureFile(path, package))

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
_TOLD = 12
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


def words_of(name: str, loader: str | None, contents: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the command line of a program: its loader, with its directory as library path."""
    if loader is None:
        return (f"{HERE}/{name}",)
    # glibc has it since 2.33; without it the program is told its path as its name.
    named = ("--argv0", name) if b"--argv0" in contents[loader] else ()
    own = ("--inhibit-cache", "--library-path", HERE)
    first = ("--preload", f"{HERE}/{shim.FILE}") if shim.FILE in contents else ()
    return (f"{HERE}/{loader}", *named, *own, *first, f"{HERE}/{name}")


def _find_program(program: Program, name: str, tree: Tree, where: str) -> tuple[str, ClosureFile]:
    for folder in _PROGRAMS:
        path = f"{folder}/{name}"
        found = tree.find(path)
        if found is not None:
            return _behind_script(path, found, tree, where)
    package = program.debian_package
    have = [name for folder in _PROGRAMS for name in tree.names(folder, package)]
    told = ", ".join(have[:_TOLD]) + (", …" if have[_TOLD:] else "")
    raise SupplyError(
        f"the package {package} has no program of this name",
        where=where,
        cure=f"it has {told}: is it one of these?" if have else "name the package that has it",
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
            cure="install it on the endpoints, where it is found: how: [present]",
        )
    return path, found


def _read(found: ClosureFile, path: str, machine: Architecture, where: str) -> Elf:
    elf = read_elf(found.path)
    if elf.machine != machine.elf:
        raise SupplyError(f"{path} of {found.package} is not for {machine.name}", where=where)
    return elf


def _follow(
    places: _Libraries,
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
        found, path = places.find(name, folders)
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
        waiting += _needs(path, _read(found, path, places.machine, where), inherited)


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
