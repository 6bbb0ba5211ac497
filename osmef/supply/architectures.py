"""Supported architectures of programs, under each of their names.

Sources: Debian's ports and multiarch tuples (wiki.debian.org/Multiarch/Tuples), the machine
numbers of ELF (elf.h of glibc), the targets of zig.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass

from osmef.errors import SupplyError


@dataclass(frozen=True)
class Architecture:
    """An architecture."""

    name: str
    """As ``uname -m`` says it."""
    debian: str
    triplet: str
    """The folder of its libraries in Debian."""
    elf: tuple[int, int, bool]
    """Of its programs: the machine's number, the bits of an address, and low byte first or not."""
    zig: str

    @property
    def go(self) -> str:
        """Its name in Go."""
        return {"armhf": "arm", "ppc64el": "ppc64le"}.get(self.debian, self.debian)


_ARCHITECTURES = {
    machine.name: machine
    for machine in (
        Architecture("x86_64", "amd64", "x86_64-linux-gnu", (62, 64, True), "x86_64-linux-musl"),
        Architecture(
            "aarch64", "arm64", "aarch64-linux-gnu", (183, 64, True), "aarch64-linux-musl"
        ),
        Architecture(
            "armv7l", "armhf", "arm-linux-gnueabihf", (40, 32, True), "arm-linux-musleabihf"
        ),
        Architecture(
            *("ppc64le", "ppc64el", "powerpc64le-linux-gnu", (21, 64, True)),
            "powerpc64le-linux-musl",
        ),
        Architecture("s390x", "s390x", "s390x-linux-gnu", (22, 64, False), "s390x-linux-musl"),
        Architecture(
            "riscv64", "riscv64", "riscv64-linux-gnu", (243, 64, True), "riscv64-linux-musl"
        ),
    )
}
# What `uname -m` says on systems that run another machine's programs just as well.
_SAME_AS = {"amd64": "x86_64", "arm64": "aarch64", "armv8l": "armv7l"}

NAMES = tuple(_ARCHITECTURES)


def find_architecture(name: str) -> Architecture:
    """Return the architecture of ``uname -m``. Raises SupplyError."""
    found = _ARCHITECTURES.get(_SAME_AS.get(name, name))
    if found is None:
        raise SupplyError(
            f"programs are supplied for {', '.join(NAMES)}, and not for {name!r}",
            cure="install the program on the endpoint, where it is found",
        )
    return found


def this_architecture() -> Architecture:
    """Return this machine's architecture. Raises SupplyError."""
    return find_architecture(platform.machine())
