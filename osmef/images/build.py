"""Build a guest image from a distribution's packages. It appears whole, or not at all."""

from __future__ import annotations

import platform
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

import osmef
from osmef.apt import find_suite, network_settings, sources
from osmef.drafts import at_work, draft_directory
from osmef.errors import InputError, ProviderError, StorageError
from osmef.images.bundle import (
    MANIFEST,
    Boot,
    Bundle,
    ImageFile,
    Manifest,
    check_name,
    load_bundle,
    sha256_of,
)
from osmef.images.initrd import make_initrd
from osmef.images.tools import WHERE, Workshop, open_workshop
from osmef.programs import find_program
from osmef.units import format_size

_ROOM_BYTES = 1_500_000_000
_LEAST_DISK_BYTES = 512 << 20
_MIB = 1 << 20
_STEP = re.compile(r"I: (running|downloading|extracting|installing|cleaning) .*\.\.\.")
_CMDLINE = "console={console} net.ifnames=0 panic=-1 quiet"
_FORMATS: dict[Literal["root", "kernel", "initrd"], tuple[str, Literal["qcow2", "linux", "cpio"]]]
_FORMATS = {
    "root": ("root.qcow2", "qcow2"),
    "kernel": ("vmlinuz", "linux"),
    "initrd": ("initrd", "cpio"),
}
_GUEST = Path(__file__).parent / "guest"
# Facts want ip, tc and ethtool; a cloud kernel has the drivers of virtual machines, and netem, fq,
# htb, bonding and the like as modules.
_PACKAGES = ("busybox-static", "ethtool", "iproute2", "kmod", "openssh-server", "procps")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")


@dataclass(frozen=True)
class BuildRequest:
    """An image that is wanted.

    ``progress`` is called with a line for the user as each step begins. ``check`` is called again
    and again; what it raises ends the build.
    """

    name: str
    directory: Path
    suite: str | None
    packages: tuple[str, ...]
    disk_bytes: int
    force: bool
    progress: Callable[[str], None]
    check: Callable[[], None]


def build_image(order: BuildRequest) -> Bundle:
    """Build an image and return it.

    Raises InputError for what can't be ordered, ProviderError for a tool that is missing or
    failed, StorageError for the disk. Nothing of it stays then.
    """
    began = time.monotonic()
    _check(order)
    machine, suite = this_machine(), find_suite(order.suite)
    for program, package in (("mke2fs", "e2fsprogs"), ("qemu-img", "qemu-utils")):
        find_program(program, package, WHERE)
    workshop = open_workshop(order.check)
    with _storage(order.directory), _draft(order, workshop) as draft:
        root = draft / "tree"
        order.progress(f"installing Debian {suite} for {machine.architecture}")
        command = install_command(suite, machine, order.packages, draft)
        workshop.run(command, lambda line: _tell_step(line, order.progress))
        packages = installed_packages(root)
        release = _take_kernel(root, draft)
        _make_disk(order, workshop, draft)
        for path in (root, draft / "apt.conf", draft / "sources.list"):
            _remove(workshop, path)
        manifest = Manifest(
            schema_version=1,
            name=order.name,
            created=datetime.now(UTC).replace(microsecond=0),
            build_s=round(time.monotonic() - began, 1),
            osmef=osmef.__version__,
            architecture=machine.architecture,
            suite=suite,
            kernel=release,
            boot=_boot(machine),
            seed="tar-disk-1",
            disk_bytes=order.disk_bytes,
            files=_files(draft),
            wanted=order.packages,
            packages=packages,
        )
        (draft / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n")
        return _publish(draft, order.directory / order.name)


def _check(order: BuildRequest) -> None:
    check_name(order.name)
    check_packages(order.packages)
    if order.disk_bytes < _LEAST_DISK_BYTES:
        raise InputError(
            f"a guest needs a disk of {format_size(_LEAST_DISK_BYTES)} or more",
            where="--size",
            cure="write, for example: --size 2GiB",
        )
    if (order.directory / order.name).exists() and not order.force:
        raise InputError(
            f"there is an image {order.name} already",
            where=str(order.directory / order.name),
            cure="add --force to replace it, or give this one another --name",
        )


@contextmanager
def _storage(directory: Path) -> Iterator[None]:
    """Make the directory of all images; turn what fails on its disk into a StorageError."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(directory).free
        if free < _ROOM_BYTES:
            raise StorageError(
                f"only {format_size(free)} are free, and a build needs {format_size(_ROOM_BYTES)}",
                where=str(directory),
                cure="free some space on that disk, or give another --output",
            )
        yield
    except OSError as error:
        raise StorageError(
            f"can't write the image: {error.strerror or error}",
            where=str(error.filename or directory),
            cure="look at the disk and the permissions, or give another --output",
        ) from error


@contextmanager
def _draft(order: BuildRequest, workshop: Workshop) -> Iterator[Path]:
    """Make the directory in which an image grows, and remove it unless it became the image.

    What a killed build left goes first.
    """
    kind = f"image-{order.name}"
    with draft_directory(order.directory, kind, partial(_remove, workshop)) as draft:
        for other in at_work(order.directory, kind):
            if other != draft:
                raise InputError(
                    f"the image {order.name} is being built by another process",
                    where=str(other),
                    cure="wait for it, or give this one another --name",
                )
        yield draft


def _remove(workshop: Workshop, path: Path) -> None:
    """Remove a tree, some of which may belong to users whom only the workshop's root rules."""
    undisturbed = Workshop(workshop.prefix, lambda: None)
    undisturbed.run(["rm", "-rf", "--one-file-system", str(path)])


def _tell_step(line: str, progress: Callable[[str], None]) -> None:
    if _STEP.fullmatch(line):
        progress(f"  {line.removeprefix('I: ').removesuffix('...')}")


def _take_kernel(root: Path, draft: Path) -> str:
    """Copy the kernel out of the file system, make its initrd, and return its release."""
    releases = sorted(path.name for path in (root / "lib/modules").iterdir())
    if len(releases) != 1:
        raise ProviderError(
            f"the guest should have one kernel, and has {len(releases)}: {', '.join(releases)}",
            where=WHERE,
            cure="leave packages of kernels out of --packages",
        )
    (release,) = releases
    shutil.copyfile(root / f"boot/vmlinuz-{release}", draft / "vmlinuz")
    initrd = make_initrd(
        (root / "bin/busybox").read_bytes(),
        guest_file("initrd"),
        root / "lib/modules" / release,
    )
    (draft / "initrd").write_bytes(initrd)
    return release


def _make_disk(order: BuildRequest, workshop: Workshop, draft: Path) -> None:
    raw = draft / "root.raw"
    order.progress(f"making the disk of {format_size(order.disk_bytes)}")
    # No work is left to the guest's kernel: it would run while something is measured.
    eager = "lazy_itable_init=0,lazy_journal_init=0"
    mke2fs = ["mke2fs", "-q", "-F", "-t", "ext4", "-L", "osmef-root", "-E", eager]
    size = f"{order.disk_bytes // _MIB}M"
    workshop.run([*mke2fs, "-d", str(draft / "tree"), str(raw), size])
    order.progress("compressing it")
    convert = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c"]
    root = draft / _FORMATS["root"][0]
    workshop.run([*convert, "-o", "compression_type=zstd", str(raw), str(root)])
    raw.unlink()


def _boot(machine: Machine) -> Boot:
    return Boot(kind="direct-kernel", cmdline=_CMDLINE.format(console=machine.console))


def _files(draft: Path) -> dict[Literal["root", "kernel", "initrd"], ImageFile]:
    return {
        key: ImageFile(
            name=name,
            format=kind,
            size_bytes=(draft / name).stat().st_size,
            sha256=sha256_of(draft / name),
        )
        for key, (name, kind) in _FORMATS.items()
    }


def _publish(draft: Path, target: Path) -> Bundle:
    """Put the finished image in its place, and the old one away."""
    for path in draft.iterdir():
        path.chmod(0o644)
    draft.chmod(0o755)
    if target.exists():
        old = draft / "old"
        target.rename(old)
        draft.rename(target)
        shutil.rmtree(target / "old")
    else:
        draft.rename(target)
    return load_bundle(target)


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
