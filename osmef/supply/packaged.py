"""Make a bundle of a program's package and of what that depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from osmef.drafts import scratch
from osmef.supply import shim
from osmef.supply.bundle import BundledFile, Kind, Package, ProgramManifest, described, pack
from osmef.supply.closure import Closure, cut, words_of
from osmef.supply.debian import Deb, open_shop
from osmef.supply.machines import Machine
from osmef.supply.program import Program
from osmef.supply.tree import Found, Tree

_LIBC = "libc6"
_MOST_LICENCE_BYTES = 1 << 20


@dataclass(frozen=True)
class Order:
    """A bundle that is wanted: for a kind of machine, of a release of Debian."""

    program: Program
    machine: Machine
    suite: str


def bundle_of_packages(
    order: Order, tell: Callable[[str], None], check: Callable[[], None]
) -> bytes:
    """Return the archive of a bundle.

    ``tell`` is given a line as each step begins; what ``check`` raises ends it. Raises
    SupplyError; nothing of it stays then.
    """
    program, machine, suite = order.program, order.machine, order.suite
    where = f"bundle of {program.name!r}"
    with scratch("bundle") as root:
        shop = open_shop(root, suite, machine, where, check)
        tell(f"fetching the index of Debian {suite} for {machine.name}")
        shop.update()
        tell(f"fetching {program.debian_package} and what it depends on")
        debs = {deb.name: deb for deb in shop.fetch((program.debian_package, *program.packages))}
        # What two packages bring is taken from the program's own.
        names = sorted(debs, key=lambda name: (name != program.debian_package, name))
        tell(f"unpacking {len(debs)} packages")
        tree = Tree({name: shop.unpack(debs[name]) for name in names})
        closure = cut(program, tree, machine)
        own: dict[str, bytes] = {}
        if program.shim and closure.loader is not None:
            own[shim.FILE] = shim.shim(program.shim, machine, where, check)
        return _packed(order, closure, tree, debs, own)


def _packed(
    order: Order, closure: Closure, tree: Tree, debs: Mapping[str, Deb], own: Mapping[str, bytes]
) -> bytes:
    """Return the archive of the files of a program, with a manifest and their licences.

    ``own`` are libraries that come from no package.
    """
    program = order.program
    contents: dict[str, bytes] = {}
    files: dict[str, BundledFile] = {}

    def add(name: str, found: Found, kind: Kind) -> None:
        contents[name] = found.path.read_bytes()
        files[name] = described(contents[name], kind, found.package)

    add(program.name, closure.program, "program")
    for name, found in closure.libraries.items():
        add(name, found, "loader" if name == closure.loader else "library")
    for name, found in closure.data.items():
        add(name, found, "data")
    for name, data in own.items():
        contents[name], files[name] = data, described(data, "library")
    packages: dict[str, Package] = {}
    for package in sorted({file.package for file in files.values() if file.package}):
        licence = tree.find(f"/usr/share/doc/{package}/copyright")
        name = f"licence-{package}"
        if licence is not None and licence.path.stat().st_size <= _MOST_LICENCE_BYTES:
            add(name, licence, "licence")
        deb = debs[package]
        packages[package] = Package(
            version=deb.version, deb_sha256=deb.sha256, licence=name if name in files else None
        )
    manifest = ProgramManifest(
        schema_version=1,
        program=program.name,
        how="bundle",
        architecture=order.machine.name,
        libc=f"glibc {debs[_LIBC].version}" if closure.loader and _LIBC in debs else "static",
        suite=order.suite,
        argv=words_of(program.name, closure.loader, contents),
        data={path: path.rpartition("/")[2] for path in program.files},
        packages=packages,
        build=None,
        notes=(),
        files=files,
    )
    return pack(manifest, contents)
