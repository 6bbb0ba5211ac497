"""Dynamic section of an ELF file: the dependencies of a program or library.

Source: System V ABI, chapters 4 and 5, and elf.h of glibc. Whatever the bytes are, nothing but
ElfError is raised, and no more work is done than a file of that size can ask for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from osmef.errors import SupplyError
from osmef.named_file import read_file

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
