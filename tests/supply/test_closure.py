"""What a program needs of unpacked packages: on programs of this machine, and on made-up ones."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from osmef.errors import SupplyError
from osmef.supply.closure import Closure, Tree, cut
from osmef.supply.program import Program, find_architecture, this_architecture
from tests.supply.elf_files import library, program
from tests.supply.made import tree_of

X86 = find_architecture("x86_64")
LIB = "usr/lib/x86_64-linux-gnu"
LOADER = "lib64/ld-linux-x86-64.so.2"


@pytest.mark.parametrize("name", ["seq", "tar", "openssl", "git", "ssh"])
def test_the_libraries_of_a_program_are_those_that_the_loader_lists(
    name: str, tmp_path: Path
) -> None:
    closure = cut(Program(name), tree_of(tmp_path, name), this_architecture())
    path = shutil.which(name)
    assert path is not None
    said = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    told = {Path(one).name for one in re.findall(r"^\s*(\S+)", said, re.MULTILINE)}
    assert set(closure.libraries) == {one for one in told if not one.startswith("linux-")}
    assert closure.loader in closure.libraries


def lay(folder: Path, files: dict[str, bytes | str]) -> Tree:
    """Write files, and links where there is text, as the one package of the name of a program."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)
    return Tree({"bench": folder})


def of(folder: Path, files: dict[str, bytes | str], /, **more: object) -> Closure:
    """Cut the program bench out of files, with a loader and a C library among them."""
    base: dict[str, bytes | str] = {LOADER: library("ld"), f"{LIB}/libc.so.6": library("libc.so.6")}
    needed = Program("bench", **more)  # type: ignore[arg-type]
    return cut(needed, lay(folder, base | files), X86)


def test_libraries_of_libraries_are_found_once_and_by_the_names_that_are_asked_for(
    tmp_path: Path,
) -> None:
    closure = of(
        tmp_path,
        {
            "usr/bin/bench": program(["liba.so.1", "libc.so.6"]),
            f"{LIB}/liba.so.1": "liba.so.1.2.3",
            f"{LIB}/liba.so.1.2.3": library("liba.so.1", ["libb.so", "libc.so.6"]),
            f"{LIB}/libb.so": "../../../lib/x86_64-linux-gnu/libb.so.0",
            "lib/x86_64-linux-gnu/libb.so.0": library("libb.so", ["liba.so.1"]),
        },
    )
    assert sorted(closure.libraries) == [
        *("ld-linux-x86-64.so.2", "liba.so.1", "libb.so", "libc.so.6")
    ]
    assert closure.libraries["liba.so.1"].path.name == "liba.so.1.2.3"


def test_alternatives_are_resolved_as_by_update_alternatives(tmp_path: Path) -> None:
    alternatives = (("bench", "bench-fast"), ("liba.so.1", "liba-fast.so.1"))
    files: dict[str, bytes | str] = {
        "usr/bin/bench-fast": program(["liba.so.1"]),
        f"{LIB}/liba-fast.so.1": library("liba.so.1"),
    }
    closure = of(tmp_path, files, alternatives=alternatives)
    assert closure.program.path.name == "bench-fast"
    assert closure.libraries["liba.so.1"].path.name == "liba-fast.so.1"
    with pytest.raises(SupplyError, match=r"liba\.so\.1, which /usr/bin/bench-fast needs"):
        of(tmp_path, files, alternatives=alternatives[:1])


def test_a_wrapper_script_is_replaced_by_the_program_it_starts(tmp_path: Path) -> None:
    closure = of(
        tmp_path,
        {
            "usr/bin/bench": b'#! /bin/sh\nexec /usr/lib/bench/real "$@"\n',
            "usr/lib/bench/real": program(["liba.so"], runpath="$ORIGIN"),
            "usr/lib/bench/liba.so": library("liba.so"),
        },
    )
    assert closure.program.path.name == "real"
    assert sorted(closure.libraries) == ["ld-linux-x86-64.so.2", "liba.so"]


@pytest.mark.parametrize("where", ["runpath", "rpath"])
def test_folders_that_a_program_names_are_looked_into_first(tmp_path: Path, where: str) -> None:
    files: dict[str, bytes | str] = {
        "usr/bin/bench": program(["liba.so"], **{where: "$ORIGIN/../lib/bench"}),  # type: ignore[arg-type]
        "usr/lib/bench/liba.so": library("liba.so", ["libb.so"]),
        "usr/lib/bench/libb.so": library("libb.so"),
        f"{LIB}/liba.so": library("wrong"),
    }
    if where == "runpath":  # which is not for libraries of libraries
        with pytest.raises(SupplyError, match=r"libb\.so, which /usr/lib/bench/\.\./|libb\.so"):
            of(tmp_path, files)
        return
    closure = of(tmp_path, files)
    assert closure.libraries["liba.so"].path.parent.name == "bench"
    assert closure.libraries["libb.so"].path.parent.name == "bench"


def test_a_static_program_needs_nothing(tmp_path: Path) -> None:
    closure = of(tmp_path, {"usr/sbin/bench": program(interpreter=None)})
    assert (closure.loader, closure.libraries) == (None, {})


def test_a_program_behind_a_link_to_the_root(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "usr/bin/bench": "/etc/alternatives/bench",
        "etc/alternatives/bench": "/usr/lib/bench/real",
        "usr/lib/bench/real": program(["libc.so.6"]),
    }
    assert of(tmp_path, files).program.path.name == "real"


def test_libraries_and_files_that_are_named_come_along(tmp_path: Path) -> None:
    closure = of(
        tmp_path,
        {
            "usr/bin/bench": program(["libc.so.6"]),
            f"{LIB}/libnss_x.so.2": library("libnss_x.so.2", ["libdeep.so"]),
            f"{LIB}/libdeep.so": library("libdeep.so"),
            "usr/share/bench/load.txt": b"load",
        },
        files=("/usr/share/bench/load.txt",),
        libraries=("libnss_x.so.2",),
    )
    assert {"libnss_x.so.2", "libdeep.so"} < set(closure.libraries)
    assert closure.data["load.txt"].path.read_bytes() == b"load"


CPU = program(machine=183)


@pytest.mark.parametrize(
    ("files", "more", "message"),
    [
        ({}, {}, "has no program of this name"),
        ({"usr/bin/other": CPU}, {}, "no program of this name\n  cure: it has other"),
        ({"usr/bin/bench": b"#!/usr/bin/perl -w\n"}, {}, "a script for /usr/bin/perl -w"),
        ({"usr/bin/bench": b"#!/bin/perl\n"}, {}, r"(?s)script for .* cure: .*ways: \[present\]"),
        ({"usr/bin/bench": b'#!/bin/sh\nexec /no/where "$@"\n'}, {}, "a script for /bin/sh"),
        ({"usr/bin/bench": b'#!/bin/sh\nx\nexec /bin/sh "$@"\n'}, {}, "a script for /bin/sh"),
        ({"usr/bin/bench": b"MZ"}, {}, "no program or library of Linux"),
        ({"usr/bin/bench": program()[:80]}, {}, "cut off"),
        ({"usr/bin/bench": CPU}, {}, "is not for x86_64"),
        ({"usr/bin/bench": program(["liba.so"])}, {}, r"liba\.so, which /usr/bin/bench needs"),
        (
            {"usr/bin/bench": program(["liba.so"]), f"{LIB}/liba.so": "liba.so"},
            {},
            "is in none of its packages",
        ),
        (
            {"usr/bin/bench": program(["liba.so"]), f"{LIB}/liba.so": program(machine=3)},
            {},
            "is not for x86_64",
        ),
        (
            {"usr/bin/bench": program(["liba.so"]), f"{LIB}/liba.so": "/../../../etc/passwd"},
            {},
            "is in none of its packages",
        ),
        ({"usr/bin/bench": program(interpreter="/lib/ld-musl.so")}, {}, "its loader /lib/ld-musl"),
        (
            {"usr/bin/bench": program()},
            {"files": ("/usr/share/x",)},
            "/usr/share/x is in none of its packages",
        ),
        ({"usr/bin/bench": program()}, {"libraries": ("libx.so",)}, r"the library libx\.so is in"),
        (
            {"usr/bin/bench": program(), "a/load": b"1", "b/load": b"2"},
            {"files": ("/a/load", "/b/load")},
            "two of its files have the name load",
        ),
    ],
)
def test_a_program_that_cannot_be_bundled_is_reported(
    tmp_path: Path, files: dict[str, bytes | str], more: dict[str, object], message: str
) -> None:
    with pytest.raises(SupplyError, match=message):
        of(tmp_path, files, **more)


def test_of_a_path_in_two_packages_the_first_is_used(tmp_path: Path) -> None:
    for package in ("first", "second"):
        lay(tmp_path / package, {"usr/bin/bench": package.encode()})
    tree = Tree({package: tmp_path / package for package in ("first", "second")})
    found = tree.find("/bin/bench")
    assert found is not None
    assert found.path.read_bytes() == b"first"
