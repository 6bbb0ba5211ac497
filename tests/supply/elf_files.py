"""Small programs and libraries as the reader sees them: headers and a dynamic section."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_NEEDED, _STRTAB, _SONAME, _RPATH, _RUNPATH = 1, 5, 14, 15, 29
_X86_64 = 62


def program(
    needed: Sequence[str] = (),
    *,
    interpreter: str | None = "/lib64/ld-linux-x86-64.so.2",
    soname: str | None = None,
    rpath: str | None = None,
    runpath: str | None = None,
    bits: int = 64,
    order: str = "<",
    machine: int = _X86_64,
    filling: bytes = b"",
) -> bytes:
    """A file with these names in it; it can't run."""
    wide = bits == 64
    names = bytearray(b"\0")
    entries: list[tuple[int, int]] = []
    for tag, name in (
        *((_NEEDED, one) for one in needed),
        *((tag, one) for tag, one in ((_SONAME, soname), (_RPATH, rpath), (_RUNPATH, runpath))),
    ):
        if name is not None:
            entries.append((tag, len(names)))
            names += name.encode() + b"\0"
    header_size, one_size = (64, 56) if wide else (52, 32)
    count = 2 + (interpreter is not None)
    start = header_size + one_size * count
    loader = (interpreter or "").encode() + b"\0"
    word = "Q" if wide else "I"
    base = 0x10000
    strings = start + len(loader)
    table = strings + len(names)
    entries += [(_STRTAB, base + strings), (0, 0)]
    dynamic = b"".join(struct.pack(f"{order}{word}{word}", *entry) for entry in entries)
    end = table + len(dynamic)

    def segment(kind: int, offset: int, size: int) -> bytes:
        if wide:
            fields = (kind, 4, offset, base + offset, base + offset, size, size, 8)
            return struct.pack(f"{order}IIQQQQQQ", *fields)
        fields = (kind, offset, base + offset, base + offset, size, size, 4, 4)
        return struct.pack(f"{order}IIIIIIII", *fields)

    segments = segment(1, 0, end) + segment(2, table, len(dynamic))
    if interpreter is not None:
        segments += segment(3, start, len(loader))
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    header = struct.pack(
        f"{order}HHI{word}{word}{word}IHHHHHH",
        *(3, machine, 1, 0, header_size, 0, 0, header_size, one_size, count, 0, 0, 0),
    )
    return ident + header + segments + loader + bytes(names) + dynamic + filling


def library(name: str, needed: Sequence[str] = (), *, bits: int = 64, order: str = "<") -> bytes:
    """A library of that name."""
    return program(needed, interpreter=None, soname=name, bits=bits, order=order)


PROGRAM = program(["libc.so.6", "libm.so.6"], runpath="$ORIGIN/../lib")
