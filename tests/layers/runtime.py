"""crun on machines that have no container engine: that of this machine, or a bundle's."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from osmef.errors import SupplyError
from osmef.layers import crun
from osmef.layers.root import CRUN
from osmef.supply.program import this_architecture
from osmef.supply.supply import Supplier, make
from tests.layers.machines import Machines


def words_of_runtime(folder: Path) -> list[str]:
    """Return the words that start crun, of a bundle in a folder where there is none."""
    if (found := shutil.which(CRUN)) is not None:
        return [found]
    try:
        bundle = make("bundle", crun.PROGRAM, this_architecture(), Supplier())
    except SupplyError as error:
        pytest.skip(f"no crun, and no bundle of it: {error.message}")
    for name in bundle.pushed:
        (folder / name).write_bytes(bundle.contents[name])
        (folder / name).chmod(0o700)
    return [word.replace("{dir}", str(folder)) for word in bundle.manifest.argv]


def install(machines: Machines, runtime: list[str]) -> None:
    """Have crun on each machine, with a /var/lib of its own."""
    machines.on("a", "mount", "-n", "-t", "tmpfs", "none", "/var/lib")
    for host in machines.hosts.values():
        host.root._words = lambda argv: [*runtime, *argv[1:]] if argv[0] == CRUN else list(argv)


def has(machines: Machines) -> list[str]:
    """Return what containers have left on the machines: directories, mounts and processes.

    One that has ended is none: the first process of the tests' namespace may not wait for it.
    """
    mounts = machines.on("a", "cat", "/proc/mounts").splitlines()
    folders = machines.on("a", "ls", "/var/lib").split()
    told = machines.on("a", "sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null; :")
    names = re.findall(r"^\d+ \((.*)\) [^Z]", told, re.MULTILINE)
    return [*mounts, *folders, *(name for name in names if name in {CRUN, "3", "osmef-agent"})]
