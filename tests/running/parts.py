"""The parts of ``make test-real``: what each covers, needs and takes."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
_GUESTS = (
    *("mmdebstrap", "qemu-system-x86", "qemu-utils", "libvirt-daemon-system", "libvirt-dev"),
    *("pkg-config", "gcc", "libc6-dev", "python3-dev", "dnsmasq-base", "genisoimage"),
    *("busybox-static", "nftables", "iproute2"),
)
_TOOLS = (
    *("openssh-server", "gcc", "libc6-dev", "iperf", "nuttcp", "netpipe-tcp", "sockperf", "qperf"),
    *("apache2-utils", "wrk", "fio", "ioping", "dbench", "redis-server", "redis-tools", "sysbench"),
    *("stress-ng", "tachyon", "tachyon-doc", "p7zip", "openssl"),
)


@dataclass(frozen=True)
class Part:
    """Some of the tests that take long or much of the machine, and can be run alone."""

    name: str
    what: str
    covers: tuple[str, ...]
    """Folders and files whose change asks for it, from the project's root."""
    minutes: int
    """What it takes at most on two cores, its packages included."""
    debian: tuple[str, ...] = ()
    extras: tuple[str, ...] = ("dev",)
    prepare: tuple[str, ...] = field(default=())
    """A module that makes ready what needs the internet: the tests have none."""
    online: bool = False
    """Its tests need the internet themselves, so they have no network of their own."""

    def is_asked_for(self, changed: Sequence[str]) -> bool:
        """Tell whether one of the changed files is among what it covers."""
        return any(path.startswith(self.covers) for path in changed)


PARTS = {
    part.name: part
    for part in (
        Part(
            "agents",
            "the agent on other architectures, with sanitizers, fuzzed, and as it is built",
            ("agents/", "osmef/agent/", "tests/agents/"),
            minutes=7,
            debian=("gcc", "libc6-dev", "qemu-user-static", "clang", "libclang-rt-dev"),
        ),
        Part(
            "browser",
            "every page in a real browser",
            ("osmef/report/", "osmef/campaigns/", "tests/report/", "tests/chromium.py"),
            minutes=3,
            debian=("chromium-headless-shell",),
        ),
        Part(
            "campaigns",
            "campaigns on PostgreSQL and on Dask, and twenty kills",
            ("osmef/campaigns/", "osmef/engine/", "tests/campaigns/", "tests/postgres.py"),
            minutes=4,
            debian=("postgresql",),
        ),
        Part(
            "clouds",
            "runs across clouds, regions and zones, and what goes wrong in each cloud",
            (
                *("osmef/providers/aws/", "osmef/providers/azure/", "osmef/providers/gce/"),
                *("osmef/providers/openstack/", "osmef/providers/cloud/"),
                *("osmef/providers/sites.py", "tests/sites/"),
                *("tests/providers/aws/", "tests/providers/azure/", "tests/providers/gce/"),
                *("tests/providers/conformance/", "tests/providers/sites/"),
            ),
            minutes=9,
            debian=("gcc", "libc6-dev", "nftables", "iproute2", "openssh-server"),
        ),
        Part(
            "faults",
            "signals and kills at every stage, damaged files, and the local cloud without root",
            (
                *("osmef/engine/", "osmef/cli/", "osmef/providers/local/", "osmef/results/"),
                *("tests/cli/", "tests/providers/local/"),
            ),
            minutes=6,
            debian=("gcc", "libc6-dev", "nftables", "iproute2", "openssh-server"),
        ),
        Part(
            "layers",
            "layers whose machine is lost, or whose journal is",
            (
                "osmef/layers/",
                "osmef/engine/layers.py",
                "tests/layers/",
                "tests/cli/test_layers.py",
            ),
            minutes=9,
            debian=("gcc", "libc6-dev", "nftables", "iproute2", "openssh-server", "crun"),
        ),
        Part(
            "libvirt",
            "emulated guests of real libvirt daemons, and of a guest image alone",
            (
                *("osmef/providers/libvirt/", "osmef/layers/", "osmef/images/", "tests/libvirt/"),
                *("tests/providers/libvirt/", "tests/images/", "tests/guest_image.py"),
            ),
            minutes=12,
            debian=_GUESTS,
            extras=("dev", "libvirt"),
            prepare=("tests.running.prepare", "guest-image"),
        ),
        Part(
            "notebooks",
            "every notebook",
            ("docs/notebooks/", "osmef/analysis/", "osmef/results/", "osmef/report/"),
            minutes=3,
        ),
        Part(
            "openstack",
            "real OpenStack services",
            ("osmef/providers/openstack/", "tests/openstack/", "tests/providers/openstack/"),
            minutes=18,
            debian=("nftables", "iproute2", "openssh-client"),
            prepare=("tests.running.prepare", "openstack"),
        ),
        Part(
            "properties",
            "every property, on many examples",
            (
                *("osmef/analysis/", "osmef/importers/", "osmef/results/", "osmef/scenario/"),
                *("osmef/facts/", "osmef/formats.py", "osmef/workloads/kinds/", "osmef/report/"),
                *("tests/analysis/", "tests/formats/", "tests/importers/"),
            ),
            minutes=4,
        ),
        Part(
            "published",
            "every command and page on all that was once published",
            (
                *("osmef/importers/", "osmef/formats.py", "osmef/workloads/kinds/"),
                *("osmef/analysis/", "osmef/report/"),
                *("tests/importers/", "tests/report/"),
            ),
            minutes=5,
        ),
        Part(
            "simulations",
            "verdicts on many draws of noise, and a published campaign as a whole",
            ("osmef/analysis/", "osmef/campaigns/", "tests/analysis/", "tests/campaigns/"),
            minutes=3,
        ),
        Part(
            "images",
            "builds of guest images",
            ("osmef/images/", "tests/images/", "tests/guest_image.py"),
            minutes=3,
            debian=_GUESTS,
            online=True,
        ),
        Part(
            "packages",
            "the wheel in an environment of its own, and the oldest packages that it allows",
            ("pyproject.toml", "agents/build.py", "osmef/cli/", "tests/packages/"),
            minutes=9,
            debian=("openssh-server",),
            online=True,
        ),
        Part(
            "programs",
            "programs in bundles of Debian's packages, and built for other machines",
            ("osmef/supply/", "osmef/apt.py", "osmef/cli/program.py", "tests/supply/"),
            minutes=12,
            debian=("gcc", "libc6-dev", "openssh-server", "qemu-user-static"),
            online=True,
        ),
        Part(
            "tools",
            "the programs of the field, each for real",
            ("osmef/workloads/", "osmef/formats.py", "tests/workloads/", "tests/formats/"),
            minutes=6,
            debian=_TOOLS,
        ),
        Part(
            "cloud-init",
            "emulated guests of a Debian with cloud-init",
            ("osmef/providers/libvirt/", "osmef/providers/cloud_init.py", "tests/libvirt/"),
            minutes=15,
            debian=(*_GUESTS, "grub-common", "grub-pc-bin"),
            extras=("dev", "libvirt"),
            online=True,
        ),
        Part(
            "openstack-guests",
            "real OpenStack with emulated guests",
            ("osmef/providers/openstack/", "tests/openstack/"),
            minutes=15,
            debian=_GUESTS,
            prepare=("tests.running.prepare", "openstack-guests"),
        ),
        Part(
            "openstack-volumes",
            "real OpenStack with cinder",
            ("osmef/providers/openstack/", "tests/openstack/"),
            minutes=10,
            debian=("nftables", "iproute2", "openssh-client"),
            prepare=("tests.running.prepare", "openstack-volumes"),
        ),
    )
}


def changed_files() -> list[str] | None:
    """Return what has changed since the last release tag; None where that can't be told."""

    def git(*command: str) -> str | None:
        argv = ["git", "-C", str(ROOT), *command]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
        except OSError:
            return None
        return None if done.returncode else done.stdout

    tag = git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*")
    found = None if tag is None else git("diff", "--name-only", tag.strip())
    return None if found is None else found.splitlines()


def parts_of(changed: Sequence[str] | None) -> list[Part]:
    """Return the parts that a change asks for: all where it can't be told."""
    return [one for one in PARTS.values() if changed is None or one.is_asked_for(changed)]
