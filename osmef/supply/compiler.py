"""The C compiler of the controller, set up to make static programs for an endpoint's machine."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from osmef.errors import SupplyError
from osmef.programs import search_path
from osmef.supply.machines import Machine, this_machine
from osmef.supply.program import Source

_ASK_S = 20.0
# Without its names, a program is small, and of the same source the same: they have paths in them.
_STATIC = ("-static", "-s")
_NO_OPENMP = "without OpenMP, so on one thread: {name} has no static OpenMP for {machine}"


@dataclass(frozen=True)
class Compiler:
    """A compiler: what its programs are called, and what starts each of them."""

    name: str
    """With its version."""
    programs: dict[str, tuple[str, ...]]
    openmp: bool | None
    """Whether it compiles with OpenMP; None where nobody has asked for it."""
    notes: tuple[str, ...] = ()

    def install(self, folder: Path) -> dict[str, str]:
        """Put its programs into a folder, and return the environment in which they are found."""
        folder.mkdir()
        for name, argv in self.programs.items():
            path = folder / name
            path.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
            path.chmod(0o755)
        found = {"CC": "cc", "CXX": "c++", "AR": "ar", "RANLIB": "ranlib"}
        named = {variable: name for variable, name in found.items() if name in self.programs}
        return {**named, "PATH": f"{folder}{os.pathsep}{search_path()}"}


def find_compiler(machine: Machine, *, openmp: bool, where: str) -> Compiler:
    """Return a compiler for a kind of machine. Raises SupplyError where there is none.

    zig makes programs for every machine, but has no OpenMP. So where that is wanted, the system's
    compiler is taken if it can make it for this machine, and zig without threads else.
    """
    native = _system_compiler(machine, openmp=openmp)
    if native is not None and native.openmp:
        return native
    zig = _zig(machine, openmp=openmp)
    found = zig or native
    if found is None:
        raise SupplyError(
            f"this machine has no compiler that makes static programs for {machine.name}",
            where=where,
            cure="pip install ziglang",
        )
    return found


def compiler_of(source: Source, machine: Machine, where: str) -> Compiler:
    """Return the compiler that builds a source for a kind of machine. Raises SupplyError."""
    if not source.shared:
        return find_compiler(machine, openmp=source.openmp, where=where)
    path = shutil.which("gcc", path=search_path())
    if machine != this_machine():
        raise SupplyError(
            f"it takes shared libraries of this machine along, which is no {machine.name}",
            where=where,
            cure=f"build it on a {machine.name} with -o FILE, and name that under bundles",
        )
    if path is None:
        raise SupplyError(
            "this machine has no gcc", where=where, cure=f"apt install {' '.join(source.shared)}"
        )
    return Compiler(_name_of(path), {}, openmp=None)


def _zig(machine: Machine, *, openmp: bool) -> Compiler | None:
    """Return zig, as the package ziglang brings it; the agents are compiled with it, too."""
    if importlib.util.find_spec("ziglang") is None:
        return None
    name = f"zig {version('ziglang')}"
    start = (sys.executable, "-m", "ziglang")
    compiling = ("-target", machine.zig, *_STATIC)
    c, cxx = (*start, "cc", *compiling), (*start, "c++", *compiling)
    return Compiler(
        name,
        {
            **dict.fromkeys(("cc", "gcc", "clang"), c),
            **dict.fromkeys(("c++", "g++", "clang++"), cxx),
            "ar": (*start, "ar"),
            "ranlib": (*start, "ranlib"),
        },
        openmp=False if openmp else None,
        notes=(_NO_OPENMP.format(name=name, machine=machine.name),) if openmp else (),
    )


def _system_compiler(machine: Machine, *, openmp: bool) -> Compiler | None:
    """Return the system's compiler, if it makes static programs for that machine."""
    path = shutil.which("gcc", path=search_path()) or shutil.which("cc", path=search_path())
    if path is None or machine != this_machine() or not _has(path, "libc.a"):
        return None
    threads = openmp and _has(path, "libgomp.a")
    flags = (*_STATIC, *(["-fopenmp"] if threads else []))
    name = _name_of(path)
    programs = dict.fromkeys(("cc", "gcc"), (path, *flags))
    cxx = shutil.which("g++", path=search_path())
    if cxx is not None:
        programs |= dict.fromkeys(("c++", "g++"), (cxx, *flags))
    lacks = openmp and not threads
    return Compiler(
        name,
        programs,
        openmp=threads if openmp else None,
        notes=(_NO_OPENMP.format(name=name, machine=machine.name),) if lacks else (),
    )


def _name_of(compiler: str) -> str:
    return _said(compiler, "--version").partition("\n")[0].strip() or "cc"


def _has(compiler: str, library: str) -> bool:
    """Tell whether a compiler has a library: it prints its path, or else only its name."""
    return Path(_said(compiler, f"-print-file-name={library}").strip()).is_absolute()


def _said(compiler: str, argument: str) -> str:
    try:
        done = subprocess.run(
            [compiler, argument], capture_output=True, text=True, check=False, timeout=_ASK_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
