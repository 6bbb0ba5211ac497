"""What is asked of Debian: which packages, from where, installed how."""

from __future__ import annotations

import platform
import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from osmef.errors import InputError, ProviderError
from osmef.images.tools import WHERE
from osmef.programs import find_program

_DEFAULT_SUITE = "bookworm"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_GUEST = Path(__file__).parent / "guest"
# Facts want ip, tc and ethtool; a cloud kernel has the drivers of virtual machines, and netem, fq,
# htb, bonding and the like as modules.
_PACKAGES = ("busybox-static", "ethtool", "iproute2", "kmod", "openssh-server", "procps")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_SUITE = re.compile(r"[a-z][a-z0-9.-]*")
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")
_NETWORK_SETTING = re.compile(r"Acquire::(https?::|ftp::|Check-|Retries|Force|Proxy).*")


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


def find_suite(wanted: str | None) -> str:
    """Return the release to install: the wanted one, this machine's, or a default."""
    if wanted is not None:
        if not _SUITE.fullmatch(wanted):
            raise InputError(
                f"{wanted!r} is not the name of a release", where="--suite", cure="such as bookworm"
            )
        return wanted
    release = platform.freedesktop_os_release()
    own = release.get("VERSION_CODENAME", "")
    return own if release.get("ID") == "debian" and own else _DEFAULT_SUITE


def install_command(
    suite: str, machine: Machine, packages: Sequence[str], draft: Path
) -> list[str]:
    """Return the command that installs a guest into the directory ``tree`` of a draft.

    What apt is told may hold passwords of a registry or proxy, so it is written to files there.
    """
    settings, sources = draft / "apt.conf", draft / "sources.list"
    settings.write_text(_apt_settings())
    lines = _sources(suite)
    sources.write_text("\n".join([*lines, ""]))
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
        *([str(sources)] if lines else []),  # without it mmdebstrap knows Debian's own
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


def _sources(suite: str) -> list[str]:
    """Return where this machine's apt gets the release from; nothing if it does not know it."""
    release_format = "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
    lines = _ask("apt-get", "indextargets", f"--format={release_format}", "Created-By: Packages")
    signed = f"[signed-by={_KEYRING}] " if _KEYRING.exists() else ""
    wanted = {suite, f"{suite}-updates", f"{suite}-security", f"{suite}/updates"}
    found: dict[str, None] = {}
    for line in lines:
        origin, uri, release, component = line.split("|")
        # Before the first `apt-get update` nobody knows whose a source is.
        if origin in {"Debian", "$(ORIGIN)", ""} and release in wanted:
            found[f"deb {signed}{uri} {release} {component}"] = None
    return list(found)


def _apt_settings() -> str:
    """Return this machine's ways to its package registry, such as a proxy, as apt settings."""
    lines = _ask("apt-config", "dump", '--format=%f "%v";%n', "Acquire")
    own = [line for line in lines if _NETWORK_SETTING.fullmatch(line)]
    return "\n".join([*own, 'Acquire::Languages "none";', 'APT::Install-Recommends "false";', ""])


def _ask(program: str, *arguments: str) -> list[str]:
    """Return the lines that a program of apt prints; none on a machine without apt."""
    try:
        path = find_program(program, "apt", WHERE)
    except ProviderError:
        return []
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []
