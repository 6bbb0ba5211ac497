"""Programs that are built with shared libraries of this machine, which their bundle takes along."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from osmef.programs import search_path
from osmef.supply.bundle import Build, BundledFile, Kind, ProgramManifest, described, pack
from osmef.supply.closure import libraries_of, words_of
from osmef.supply.elf import read_elf
from osmef.supply.machines import this_machine
from osmef.supply.program import Program
from osmef.supply.tree import Found

_ASK_S = 30.0


class _ThisMachine:
    """The files of this machine."""

    def find(self, path: str) -> Found | None:
        place = Path(path)
        return Found(place.resolve(), "") if place.is_file() else None


def packed_with_libraries(
    program: Program, path: Path, contents: dict[str, bytes], build: Build
) -> bytes:
    """Return the archive of a program at a path, with its loader and libraries.

    ``contents`` are what was built, the program among them. Raises SupplyError.
    """
    elf, machine = read_elf(path), this_machine()
    libraries = libraries_of(str(path), elf, _ThisMachine(), machine)
    loader = elf.interpreter and Path(elf.interpreter).name

    def kind(name: str) -> Kind:
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
        argv=words_of(program.name, loader, every),
        data={name: name for name in contents if name != program.name},
        packages={},
        build=build.model_copy(update={"libraries": packages}),
        notes=(),
        files=files,
    )
    return pack(manifest, every)


def packages_of(files: Sequence[Path]) -> tuple[str, ...]:
    """Return the packages of files with their versions; the files where no dpkg knows them."""
    names = tuple(sorted(file.name for file in files))
    # dpkg may know a file of /usr by the path that it had before the two were merged.
    paths = [path for file in files for path in (str(file), str(file).removeprefix("/usr"))]
    owners = _said("dpkg-query", "--search", *dict.fromkeys(paths)).splitlines()
    packages = sorted({line.partition(": ")[0] for line in owners})
    shown = "--showformat=${Package} ${Version}\n"
    told = _said("dpkg-query", "--show", shown, *packages).splitlines() if packages else []
    return tuple(sorted(set(told))) or names


def _said(name: str, *arguments: str) -> str:
    """Return what a tool prints, nothing where there is none."""
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
