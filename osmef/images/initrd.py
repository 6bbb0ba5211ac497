"""The initial file system of a guest: a shell, the modules of its disks, and one script.

It is a tenth of what the distribution makes, and needs none of its time.
"""

from __future__ import annotations

import lzma
import stat
from collections.abc import Iterable
from pathlib import Path

_DRIVERS = ("virtio_pci", "virtio_mmio", "virtio_blk", "virtio_net", "virtio_rng", "ext4")
_DIRECTORIES = ("bin", "dev", "modules", "newroot", "proc", "sys")
_FORMAT_MAGIC = "070701"  # "newc" of cpio(5): 13 numbers of 8 hexadecimal digits follow


def make_initrd(busybox: bytes, script: bytes, modules: Path) -> bytes:
    """Return a cpio archive as Linux loads it (its driver-api/early-userspace/buffer-format).

    ``modules`` is the directory /lib/modules/RELEASE of the guest. It is not compressed: to
    decompress it would take longer than to load it. Raises OSError.
    """
    files = [("init", script), ("bin/busybox", busybox)]
    drivers = _with_dependencies(modules, _DRIVERS)
    order = "".join(f"{_plain_name(path)}\n" for path in drivers)
    files.append(("modules/order", order.encode()))
    files += [(f"modules/{_plain_name(path)}", _read_module(path)) for path in drivers]
    entries = [_entry(name, b"", stat.S_IFDIR | 0o755) for name in _DIRECTORIES]
    entries += [_entry(name, data, stat.S_IFREG | 0o755) for name, data in files]
    return b"".join([*entries, _entry("TRAILER!!!", b"", 0)])


def _entry(name: str, data: bytes, mode: int) -> bytes:
    encoded = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    numbers = (0, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
    head = (_FORMAT_MAGIC + "".join(f"{n:08X}" for n in numbers)).encode() + encoded
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def _with_dependencies(modules: Path, wanted: Iterable[str]) -> list[Path]:
    """List the files of modules, each behind those that it needs; what is built in is left out."""
    needs: dict[str, list[str]] = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _colon, others = line.partition(":")
        needs[path] = others.split()
    by_name = {_module_name(path): path for path in needs}
    order: dict[str, None] = {}

    def add(path: str) -> None:
        for other in reversed(needs[path]):  # modules.dep(5): the last must be loaded first
            order.setdefault(other)
        order.setdefault(path)

    for name in wanted:
        if name in by_name:
            add(by_name[name])
    return [modules / path for path in order]


def _plain_name(path: Path) -> str:
    return path.name.removesuffix(".xz")


def _module_name(path: str) -> str:
    return Path(path).name.partition(".")[0].replace("-", "_")


def _read_module(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data
