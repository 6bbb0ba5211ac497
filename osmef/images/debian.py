"""What is asked of Debian: which packages, from where, installed how."""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from osmef.apt import network_settings, sources
from osmef.errors import InputError, ProviderError
from osmef.images.tools import WHERE
from osmef.programs import find_program

_GUEST = Path(__file__).parent / "guest"
# Facts want ip, tc and ethtool; a cloud kernel has the drivers of virtual machines, and netem, fq,
# htb, bonding and the like as modules.
_PACKAGES = ("busybox-static", "ethtool", "iproute2", "kmod", "openssh-server", "procps")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")


@dataclass(frozen=True)
class Machine:
    """A kind of machine: its names in the kernel and in Debian, and its console."""

    architecture: str
    debian: str
    console: str


_MACHINES = {
    machine.architecture: machine
    for machine in (Machine("x86_64", "amd64", "ttyS0"), Machine("aarch64", "arm64", "ttyAMA0"))
}


def this_machine() -> Machine:
    """Return the kind of this machine. Raises ProviderError if no cloud kernel fits it."""
    found = _MACHINES.get(platform.machine())
    if found is None:
        raise ProviderError(
            f"images are made for {' and '.join(_MACHINES)}, and this is {platform.machine()}",
            where=WHERE,
            cure="use an image of your own",
        )
    return found


def check_packages(packages: Sequence[str]) -> None:
    """Raise InputError unless these can be names of packages."""
    for package in packages:
        if not _PACKAGE.fullmatch(package):
            raise InputError(
                f"{package!r} is not the name of a package",
                where="--packages",
                cure="write, for example: --packages iperf3,nuttcp",
            )


def install_command(
    suite: str, machine: Machine, packages: Sequence[str], draft: Path
) -> list[str]:
    """Return the command that installs a guest into the directory ``tree`` of a draft.

    What apt is told may hold passwords of a registry or proxy, so it is written to files there.
    """
    settings, sources_list = draft / "apt.conf", draft / "sources.list"
    settings.write_text(_apt_settings())
    lines = sources(suite)
    sources_list.write_text("\n".join([*lines, ""]))
    wanted = [f"linux-image-cloud-{machine.debian}", *_PACKAGES, *packages]
    install = f'sh {shlex.quote(str(_GUEST / "install"))} "$1"'
    return [
        find_program("mmdebstrap", "mmdebstrap", WHERE),
        "--mode=root",
        "--variant=essential",
        "--format=directory",
        f"--architectures={machine.debian}",
        f"--aptopt={settings}",
        "--dpkgopt=force-unsafe-io",  # whoever interrupts it loses it all anyway
        *(f"--dpkgopt=path-exclude={path}" for path in _LEFT_OUT),
        f"--include={','.join(dict.fromkeys(wanted))}",
        f"--customize-hook={install}",
        suite,
        str(draft / "tree"),
        *([str(sources_list)] if lines else []),  # without it mmdebstrap knows Debian's own
    ]


def guest_file(name: str) -> bytes:
    """Return a file that guests are given."""
    return (_GUEST / name).read_bytes()


def installed_packages(root: Path) -> dict[str, str]:
    """Return the versions of the packages in a guest's file system, by name."""
    status = (root / "var/lib/dpkg/status").read_text(encoding="utf-8")
    found = {}
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Status): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status") == "install ok installed":
            found[fields["Package"]] = fields["Version"]
    return dict(sorted(found.items()))


def _apt_settings() -> str:
    """Return the settings of the apt that installs a guest."""
    own = network_settings()
    return "\n".join([*own, 'Acquire::Languages "none";', 'APT::Install-Recommends "false";', ""])
