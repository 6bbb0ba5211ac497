"""The reader of programs and libraries: on those of this machine, of others, and on garbage."""

from __future__ import annotations

import platform
import re
import shutil
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.supply.closure import Elf, ElfError, parse, read_elf
from osmef.supply.program import find_architecture
from tests.supply.elf_files import PROGRAM, library, program

AGENTS = Path(__file__).parents[2] / "osmef/agent/bin"
PROGRAMS = ("sh", "dash", "ls", "cp", "tar", "gzip", "ssh", "git", "gcc", "apt-get")


def told_by_readelf(path: Path) -> tuple[list[str], list[str], str | None]:
    """What binutils' readelf reads: the libraries, the folders, the loader."""
    if shutil.which("readelf") is None:
        pytest.skip("no readelf here (Debian: apt install binutils)")
    done = subprocess.run(
        ["readelf", "-lWd", str(path)], capture_output=True, text=True, check=True
    )
    loader = re.search(r"program interpreter: (.*)\]", done.stdout)
    folders = re.findall(r"\(RUNPATH\).*\[(.*)\]", done.stdout)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", done.stdout)
    return needed, [one for text in folders for one in text.split(":")], loader and loader[1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_this_machine(name: str) -> None:
    found = shutil.which(name)
    if found is None or not Path(found).read_bytes().startswith(b"\x7fELF"):
        pytest.skip(f"no {name} here that is a program")
    path = Path(found).resolve()
    elf = read_elf(path)
    needed, folders, loader = told_by_readelf(path)
    assert (list(elf.needed), list(elf.runpath), elf.interpreter) == (needed, folders, loader)
    assert elf.machine == find_architecture(platform.machine()).elf


def test_a_library_has_a_name_and_no_loader() -> None:
    import _ssl  # noqa: PLC0415 - only its file is wanted

    needed, _, loader = told_by_readelf(Path(_ssl.__file__))
    assert loader is None
    elf = read_elf(Path(_ssl.__file__))
    assert (elf.interpreter, list(elf.needed)) == (None, needed)


def test_static_programs_of_every_machine_that_there_is_one_for() -> None:
    for path in AGENTS.glob("osmef-agent-*"):
        machine = find_architecture(path.name.removeprefix("osmef-agent-"))
        assert read_elf(path) == Elf(machine.elf, None, (), (), (), None)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_class_and_order_of_bytes(bits: int, order: str) -> None:
    data = program(
        ["libc.so.6", "libm.so.6"],
        interpreter="/lib/ld.so.1",
        runpath="$ORIGIN/../lib:/opt",
        bits=bits,
        order=order,
        machine=20,
    )
    assert parse(data) == Elf(
        machine=(20, bits, order == "<"),
        interpreter="/lib/ld.so.1",
        needed=("libc.so.6", "libm.so.6"),
        rpath=(),
        runpath=("$ORIGIN/../lib", "/opt"),
        soname=None,
    )
    assert parse(library("libx.so.1", bits=bits, order=order)).soname == "libx.so.1"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no program or library"),
        (b"#!/bin/sh\n", "no program or library"),
        (b"\x7fELF", "cut off"),
        (b"\x7fELF\x09\x01" + bytes(100), "no known class"),
        (PROGRAM[:60], "cut off"),
    ],
)
def test_unparsable_input_is_rejected(data: bytes, message: str) -> None:
    with pytest.raises(ElfError, match=message):
        parse(data)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ElfError, match="can't be read"):
        read_elf(tmp_path / "nowhere")


def read(data: bytes) -> None:
    """Read bytes, which raises nothing but its own error."""
    with suppress(ElfError):
        parse(data)


@given(st.binary(max_size=200))
def test_garbage_is_an_error_and_no_crash(data: bytes) -> None:
    read(data)
    read(b"\x7fELF" + data)
    read(b"\x7fELF\x02\x01\x01" + bytes(9) + data)
    read(b"\x7fELF\x01\x02\x01" + bytes(9) + data)


@given(st.data())
def test_a_program_with_damaged_bytes(data: st.DataObject) -> None:
    damaged = bytearray(PROGRAM)
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    read(bytes(damaged))


@given(st.integers(0, len(PROGRAM)))
def test_a_program_that_is_cut_off(length: int) -> None:
    read(PROGRAM[:length])


@given(st.integers(0, 2**64 - 1), st.sampled_from([32, 40, 64, 72, 80, 96, 104]))
def test_corrupt_elf_offsets_are_handled(number: int, place: int) -> None:
    read(PROGRAM[:place] + struct.pack("<Q", number) + PROGRAM[place + 8 :])


def test_the_loader_of_this_python_is_read() -> None:
    path = Path(sys.executable).resolve()
    assert read_elf(path).interpreter is not None
