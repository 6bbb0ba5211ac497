"""Bundles made of programs of this machine, without a registry."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from osmef.supply.bundle import HERE, BundledFile, ProgramManifest, described, pack
from osmef.supply.closure import Closure, Tree, cut
from osmef.supply.program import Program, this_architecture


def tree_of(folder: Path, *names: str) -> Tree:
    """Copy programs of this machine with what ldd says that they load, as a package has them."""
    for name in names:
        found = shutil.which(name)
        if found is None or shutil.which("ldd") is None:
            pytest.skip(f"no {name} or no ldd here")
        said = subprocess.run(["ldd", found], capture_output=True, text=True, check=True).stdout
        paths = [word for line in said.splitlines() for word in line.split() if word[0] == "/"]
        for path in (f"/usr/bin/{name}", *paths):
            place = folder / path[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            source = found if path.endswith(f"/bin/{name}") else path
            shutil.copyfile(source, place)
    return Tree({"some": folder})


def packed(program: Program, folder: Path) -> bytes:
    """The archive of a bundle of a program of this machine."""
    closure = cut(program, tree_of(folder, program.name), this_architecture())
    return archive(program, closure)


def archive(program: Program, closure: Closure, more: dict[str, bytes] | None = None) -> bytes:
    """The archive of the files of a program, and of some data."""
    contents = {program.name: closure.program.path.read_bytes()}
    contents |= {name: found.path.read_bytes() for name, found in closure.libraries.items()}
    data = {name: found.path.read_bytes() for name, found in closure.data.items()} | (more or {})
    files: dict[str, BundledFile] = {}
    for name, content in contents.items():
        kind = "loader" if name == closure.loader else "library"
        files[name] = described(content, "program" if name == program.name else kind)  # type: ignore[arg-type]
    files |= {name: described(content, "data") for name, content in data.items()}
    return pack(manifest(program.name, files, closure.loader), {**contents, **data})


def of_script(name: str, text: str, **data: bytes) -> bytes:
    """The archive of a shell script and its data."""
    contents = {name: f"#!/bin/sh\n{text}\n".encode(), **data}
    files = {
        one: described(content, "program" if one == name else "data")
        for one, content in contents.items()
    }
    return pack(manifest(name, files, None), contents)


def manifest(
    name: str, files: dict[str, BundledFile], loader: str | None, **changes: object
) -> ProgramManifest:
    """The manifest of these files."""
    start = (f"{HERE}/{loader}", "--inhibit-cache", "--library-path", HERE) if loader else ()
    fields: dict[str, object] = {
        "schema_version": 1,
        "program": name,
        "how": "bundle",
        "architecture": this_architecture().name,
        "libc": "this machine's",
        "suite": None,
        "argv": (*start, f"{HERE}/{name}"),
        "data": {f"/usr/share/{one}": one for one, file in files.items() if file.kind == "data"},
        "packages": {},
        "build": None,
        "notes": (),
        "files": files,
    }
    return ProgramManifest.model_validate({**fields, **changes})
