"""External programs: name, packages and source of one, and the architectures it is supplied for.

Sources: Debian's ports and multiarch tuples (wiki.debian.org/Multiarch/Tuples), the machine
numbers of ELF (elf.h of glibc), the targets of zig.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from osmef.errors import InputError, SupplyError


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


Way = Literal["present", "bundle", "build", "install"]
WAYS: tuple[Way, ...] = ("present", "bundle", "build", "install")
DEFAULT_WAYS: tuple[Way, ...] = ("present", "bundle", "build")
"""Nothing is installed on an endpoint unless a scenario allows it."""

Language = Literal["c", "go", "java", "script"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]{1,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_HASHED = "sha256sum ARCHIVE prints it"


@dataclass(frozen=True)
class SourceCode:
    """Source code, and its static build.

    Only code of OSMeF or of an installed package may make one, never a scenario: its steps run on
    the controller.
    """

    steps: tuple[tuple[str, ...], ...]
    """Commands that run in the unpacked folder, one after the other: argument lists. ``{target}``
    in one is the machine as compilers name it, such as aarch64-linux-musl. ``cc`` and ``c++`` in
    PATH, also in CC and CXX, compile for the endpoint, statically."""
    products: tuple[str, ...]
    """Their products, as paths in that folder: first the program, then the data files and further
    programs that it needs."""
    url: str | None = None
    sha256: str | None = None
    """Of the archive; a URL is not taken without."""
    path: Path | None = None
    """A folder, an archive or a file of C of this machine. With neither, each user brings the
    source once: `osmef program build NAME --source PATH`."""
    origin: str = ""
    """Where users get it, a page or a repository of git: an error that misses it names that."""
    openmp: bool = False
    """Whether it is compiled with -fopenmp where the compiler has a static OpenMP."""
    shared: tuple[str, ...] = ()
    """Debian's packages that this machine has to have for the steps. Where some are named, the
    program is built with shared libraries, which go along; so for this machine's kind only."""
    tools: tuple[str, ...] = ()
    """Debian's packages of what the steps need beside a compiler."""
    adds: tuple[tuple[str, str], ...] = ()
    """Files of OSMeF's own, names and texts, that are laid into the folder beforehand."""
    language: Language = "c"
    """Tools in PATH for the steps: ``cc`` and ``c++``, ``go``, or ``javac`` and ``jar``. Java
    classes and scripts need an interpreter, which gets their path; each product is named by its
    own."""

    @property
    def is_interpreted(self) -> bool:
        """Whether its product needs an interpreter."""
        return self.language in {"java", "script"}

    def __post_init__(self) -> None:
        if self.url is not None and self.path is not None:
            raise _bad("source", "either a URL or a path", "give one of the two")
        if self.sha256 is not None and not _SHA256.fullmatch(self.sha256):
            what = f"{self.sha256[:80]!r} is no SHA-256, which has 64 digits of 0-9 and a-f"
            raise _bad("source", what, _HASHED)
        if self.url is not None and self.sha256 is None:
            raise _bad("source", "no SHA-256 of what is at its URL", _HASHED)
        if self.url is not None and not self.url.startswith(("https://", "http://")):
            raise _bad("source", f"{self.url!r} is no URL of the web", "it begins with https://")
        if not self.products or not all(map(_is_inside, (*self.products, *dict(self.adds)))):
            raise _bad("source", "products are paths in its folder", "such as src/iozone")


@dataclass(frozen=True)
class Program:
    """An external program of a workload or a layer."""

    name: str
    """As it is called: the name of its file."""
    package: str = ""
    """Debian's package of it, by default of the same name."""
    component: str = "main"
    """The part of Debian in which that is: one in non-free only comes from sources that have it."""
    files: tuple[str, ...] = ()
    """Data files of its package that it needs, such as /usr/share/dbench/client.txt."""
    libraries: tuple[str, ...] = ()
    """Libraries that it loads by itself (dlopen), such as libnss_dns.so.2: the program's own file
    does not list them."""
    alternatives: tuple[tuple[str, str], ...] = ()
    """Names of programs or libraries that Debian's update-alternatives makes when their package is
    installed, each with the name of its target."""
    packages: tuple[str, ...] = ()
    """Further packages of Debian, which hold such libraries or files."""
    shim: str = ""
    """C code of functions that take the place of the C library's own in a bundle."""
    source: SourceCode | None = None
    bundle: Path | None = None
    """A bundle that was made elsewhere, by `osmef program bundle`."""
    how: tuple[Way, ...] = DEFAULT_WAYS
    """The ways in which it may be had, the first one that works."""
    version: tuple[str, ...] = ()
    """The arguments that print its version; by default --version, then -V."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            cure = "use letters, digits and . _ + -, such as: iperf3"
            raise _bad(self.name, "this can't be the name of a program", cure)
        for package in (self.debian_package, *self.packages):
            if not _PACKAGE.fullmatch(package):
                cure = "write, for example: --package iperf3"
                raise _bad(self.name, f"{package!r} is not the name of a package", cure)
        for path in self.files:
            if not path.startswith("/") or not _is_inside(path[1:]):
                cure = "such as /usr/share/dbench/client.txt: dpkg -L PACKAGE lists them"
                raise _bad(self.name, f"{path!r} is no path of a file of a package", cure)
        for library in (*self.libraries, *(name for pair in self.alternatives for name in pair)):
            if not _NAME.fullmatch(library):
                raise _bad(self.name, f"{library!r} is no library", "such as libnss_dns.so.2")
        check_ways(self.how, self.name)

    @property
    def debian_package(self) -> str:
        """The name of its Debian package."""
        return self.package or self.name

    @property
    def is_sourced(self) -> bool:
        """Whether its source can be downloaded; else each user provides it."""
        return self.source is not None and bool(self.source.url or self.source.path)

    @property
    def ways(self) -> tuple[Way, ...]:
        """The ways of supply to try: nothing is built without source."""
        return tuple(way for way in self.how if way != "build" or self.source is not None)


def check_ways(ways: Sequence[str], name: str) -> None:
    """Raise InputError unless these are valid ways of supply, each once."""
    if not ways or len(set(ways)) != len(ways) or not set(ways) <= set(WAYS):
        listed = ", ".join(ways) or "none"
        cure = f"name one or several of {', '.join(WAYS)}, each once"
        raise _bad(name, f"these are not ways to have a program: {listed}", cure)


def _is_inside(path: str) -> bool:
    """Return whether a relative path stays inside of its directory."""
    parts = path.split("/")
    plain = not any(ord(char) < 32 for char in path)
    return plain and all(part not in {"", ".", ".."} for part in parts)


def _bad(name: str, message: str, cure: str) -> InputError:
    return InputError(message, where=f"program {name!r}", cure=cure)
