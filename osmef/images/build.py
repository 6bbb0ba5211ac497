"""Build of a guest image from a distribution's packages, atomically."""

from __future__ import annotations

import contextlib
import lzma
import os
import platform
import re
import select
import shlex
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

import osmef
from osmef.apt import find_suite, network_settings, sources
from osmef.errors import InputError, ProviderError, StorageError
from osmef.files import draft_directory, draft_kinds, exists, locked_drafts, stale_drafts
from osmef.images.guest_image import (
    MANIFEST,
    BootConfig,
    GuestImage,
    ImageFile,
    Manifest,
    check_name,
    load_image,
    sha256_of,
)
from osmef.programs import find_program, search_path, start_in_new_session
from osmef.units import format_size

WHERE = "osmef image build"
_LOOK_S = 0.2
_END_S = 10.0
_TAIL_LINES = 12
_SAID = 300
# An empty directory: tools find no configuration there.
_ENVIRONMENT = {"LC_ALL": "C", "INITRD": "No"}


@dataclass(frozen=True)
class FakerootRunner:
    """Runner of tools as root of a user namespace: ``check`` is polled and may cancel.

    ``prefix`` starts a command as root of namespaces of its own: whatever the tool mounts or
    starts is gone when it ends, also if it is killed or this process is (setpriv, unshare(1)).
    """

    prefix: tuple[str, ...]
    check: Callable[[], None]

    def run(
        self,
        argv: Sequence[str],
        on_line: Callable[[str], None] = lambda _line: None,
        **environment: str,
    ) -> None:
        """Run a tool to its end. Raises ProviderError with the end of its output."""
        tail: list[str] = []

        def on_output(line: str) -> None:
            tail.append(line)
            del tail[:-_TAIL_LINES]
            on_line(line)

        process = start_in_new_session(
            [*self.prefix, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_ENVIRONMENT, "PATH": search_path(), **environment},
        )
        with process:
            try:
                self._follow(process, on_output)
            except BaseException:
                process.kill()
                _drain(process)
                raise
        if process.returncode != 0:
            errors = [line for line in tail if line.startswith("E: ")] or tail[-3:]
            raise ProviderError(
                f"{Path(argv[0]).name} failed: {' / '.join(errors)[:_SAID]}",
                where=WHERE,
                cure=_cure("\n".join(tail)),
            )

    def _follow(self, process: subprocess.Popen[bytes], on_output: Callable[[str], None]) -> None:
        rest = b""
        while True:
            self.check()
            if not _readable(process, _LOOK_S):
                continue
            data = os.read(_output(process), 65536)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                on_output(line.decode(errors="replace").strip())
            if not data:
                return


def open_fakeroot(check: Callable[[], None]) -> FakerootRunner:
    """Return how this user can run tools as (fake) root. Raises ProviderError."""
    setpriv = find_program("setpriv", "util-linux", WHERE)
    unshare = find_program("unshare", "util-linux", WHERE)
    user: tuple[str, ...] = ()
    if os.geteuid() != 0:
        find_program("newuidmap", "uidmap", WHERE)
        user = ("--user", "--map-root-user", "--map-auto")
    spaces = ("--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc")
    runner = FakerootRunner((setpriv, "--pdeathsig", "KILL", unshare, *user, *spaces), check)
    try:
        runner.run(["true"])
    except ProviderError as error:
        raise ProviderError(
            f"this machine does not let this user make namespaces: {error.message}",
            where=WHERE,
            cure="run it as root; or see that /etc/subuid and /etc/subgid have a line for this"
            " user, and that user namespaces are allowed",
        ) from error
    return runner


def _output(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None  # noqa: S101 - it was started with a pipe
    return process.stdout.fileno()


def _readable(process: subprocess.Popen[bytes], seconds: float) -> bool:
    return bool(select.select([_output(process)], [], [], seconds)[0])


def _drain(process: subprocess.Popen[bytes]) -> None:
    """Wait until the last process that could write has ended, and with it the namespaces."""
    with contextlib.suppress(OSError):
        while _readable(process, _END_S) and os.read(_output(process), 65536):
            pass


def _cure(said: str) -> str:
    for words, cure in _CURES.items():
        if words in said:
            return cure
    return "read what it said; `apt-get update` and a retry help after a failure of the network"


_CURES = {
    "No space left": "free some space on that disk, or give another --output",
    "Could not allocate": "give the image more room: --size 4GiB",
    "Unable to locate package": "look at the names of --packages: apt-cache search WORD",
    "Temporary failure resolving": "is the package repository reachable? try: apt-get update",
    "Could not connect": "is the package repository reachable? try: apt-get update",
    "NO_PUBKEY": "apt install debian-archive-keyring",
    "does not have a Release file": "look at --suite: does the repository have that release?",
}


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
    """List modules' files behind their dependencies, without built-in ones."""
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
# htb, bonding and the like as modules. Containers of crun want mount.
_PACKAGES = ("busybox-static", "ethtool", "iproute2", "kmod", "mount", "openssh-server", "procps")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")


@dataclass(frozen=True)
class BuildRequest:
    """Parameters of an image.

    ``progress`` is called with a line for the user as each step begins. ``check`` is called
    repeatedly; an exception ends the build.
    """

    name: str
    directory: Path
    suite: str | None
    packages: tuple[str, ...]
    disk_bytes: int
    force: bool
    progress: Callable[[str], None]
    check: Callable[[], None]


def build_image(request: BuildRequest) -> GuestImage:
    """Build an image and return it.

    Raises InputError for what can't be ordered, ProviderError for a tool that is missing or
    failed, StorageError for the disk. Nothing of it stays then.
    """
    began = time.monotonic()
    _check(request)
    machine, suite = this_architecture(), find_suite(request.suite)
    for program, package in (("mke2fs", "e2fsprogs"), ("qemu-img", "qemu-utils")):
        find_program(program, package, WHERE)
    runner = open_fakeroot(request.check)
    with _storage(request.directory), _draft(request, runner) as draft:
        root = draft / "tree"
        request.progress(f"installing Debian {suite} for {machine.architecture}")
        command = install_command(suite, machine, request.packages, draft)
        temporary = draft / "tmp"  # mmdebstrap leaves its own files behind when it is killed
        temporary.mkdir()
        runner.run(
            command, lambda line: _report_step(line, request.progress), TMPDIR=str(temporary)
        )
        packages = installed_packages(root)
        release = _take_kernel(root, draft)
        _make_disk(request, runner, draft)
        for path in (root, temporary, draft / "apt.conf", draft / "sources.list"):
            _remove(runner, path)
        manifest = Manifest(
            schema_version=1,
            name=request.name,
            created=datetime.now(UTC).replace(microsecond=0),
            build_s=round(time.monotonic() - began, 1),
            osmef=osmef.__version__,
            architecture=machine.architecture,
            suite=suite,
            kernel=release,
            boot=_boot(machine),
            seed="tar-disk-1",
            disk_bytes=request.disk_bytes,
            files=_files(draft),
            wanted=request.packages,
            packages=packages,
        )
        (draft / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n")
        return _publish(draft, request.directory / request.name)


def _check(request: BuildRequest) -> None:
    check_name(request.name)
    check_packages(request.packages)
    if request.disk_bytes < _LEAST_DISK_BYTES:
        raise InputError(
            f"a guest needs a disk of {format_size(_LEAST_DISK_BYTES)} or more",
            where="--size",
            cure="write, for example: --size 2GiB",
        )
    if exists(request.directory / request.name) and not request.force:
        raise InputError(
            f"there is an image {request.name} already",
            where=str(request.directory / request.name),
            cure="add --force to replace it, or give this one another --name",
        )


@contextmanager
def _storage(directory: Path) -> Iterator[None]:
    """Create the directory of images; turn an OSError into a StorageError."""
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


_DRAFT = "image-"
"""How the kind of a draft of an image begins; the image's name follows."""


@contextmanager
def _draft(request: BuildRequest, runner: FakerootRunner) -> Iterator[Path]:
    """Provide a directory for the image, removed unless it was published.

    What killed builds left goes first, whatever image they were for.
    """
    kind = f"{_DRAFT}{request.name}"
    for one in draft_kinds(request.directory, _DRAFT):
        for rest in stale_drafts(request.directory, one):
            _remove(runner, rest)
    with draft_directory(request.directory, kind, partial(_remove, runner)) as draft:
        for other in locked_drafts(request.directory, kind):
            if other != draft:
                raise InputError(
                    f"the image {request.name} is being built by another process",
                    where=str(other),
                    cure="wait for it, or give this one another --name",
                )
        yield draft


def _remove(runner: FakerootRunner, path: Path) -> None:
    """Remove a tree that may have files of users that only the namespace's root can remove."""
    undisturbed = FakerootRunner(runner.prefix, lambda: None)
    undisturbed.run(["rm", "-rf", "--one-file-system", str(path)])


def _report_step(line: str, progress: Callable[[str], None]) -> None:
    if _STEP.fullmatch(line):
        progress(f"  {line.removeprefix('I: ').removesuffix('...')}")


def _take_kernel(root: Path, draft: Path) -> str:
    """Copy the kernel from the root file system, make its initrd, and return its release."""
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


def _make_disk(request: BuildRequest, runner: FakerootRunner, draft: Path) -> None:
    raw = draft / "root.raw"
    request.progress(f"making the disk of {format_size(request.disk_bytes)}")
    # No work is left to the guest's kernel: it would run while something is measured.
    eager = "lazy_itable_init=0,lazy_journal_init=0"
    mke2fs = ["mke2fs", "-q", "-F", "-t", "ext4", "-L", "osmef-root", "-E", eager]
    size = f"{request.disk_bytes // _MIB}M"
    runner.run([*mke2fs, "-d", str(draft / "tree"), str(raw), size])
    request.progress("compressing it")
    convert = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c"]
    root = draft / _FORMATS["root"][0]
    runner.run([*convert, "-o", "compression_type=zstd", str(raw), str(root)])
    raw.unlink()


def _boot(machine: ImageArchitecture) -> BootConfig:
    return BootConfig(kind="direct-kernel", cmdline=_CMDLINE.format(console=machine.console))


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


def _publish(draft: Path, target: Path) -> GuestImage:
    """Rename the finished image into place, and remove the old one."""
    for path in draft.iterdir():
        path.chmod(0o644)
    draft.chmod(0o755)
    if exists(target):
        old = draft / "old"
        target.rename(old)
        draft.rename(target)
        shutil.rmtree(target / "old")
    else:
        draft.rename(target)
    return load_image(target)


@dataclass(frozen=True)
class ImageArchitecture:
    """An architecture: its names in the kernel and in Debian, and its console."""

    architecture: str
    debian: str
    console: str


_ARCHITECTURES = {
    machine.architecture: machine
    for machine in (
        ImageArchitecture("x86_64", "amd64", "ttyS0"),
        ImageArchitecture("aarch64", "arm64", "ttyAMA0"),
    )
}


def this_architecture() -> ImageArchitecture:
    """Return this machine's architecture. Raises ProviderError without a cloud kernel for it."""
    found = _ARCHITECTURES.get(platform.machine())
    if found is None:
        raise ProviderError(
            f"images are made for {' and '.join(_ARCHITECTURES)}, and this is {platform.machine()}",
            where=WHERE,
            cure="use an image of your own",
        )
    return found


def check_packages(packages: Sequence[str]) -> None:
    """Raise InputError for invalid names of packages."""
    for package in packages:
        if not _PACKAGE.fullmatch(package):
            raise InputError(
                f"{package!r} is not the name of a package",
                where="--packages",
                cure="write, for example: --packages iperf3,nuttcp",
            )


def install_command(
    suite: str, machine: ImageArchitecture, packages: Sequence[str], draft: Path
) -> list[str]:
    """Return the command that installs a guest into the directory ``tree`` of a draft.

    apt's configuration may hold passwords of a repository or proxy, so it is written to files.
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
        "--dpkgopt=force-unsafe-io",  # an interrupted build is discarded anyway
        *(f"--dpkgopt=path-exclude={path}" for path in _LEFT_OUT),
        f"--include={','.join(dict.fromkeys(wanted))}",
        f"--customize-hook={install}",
        suite,
        str(draft / "tree"),
        *([str(sources_list)] if lines else []),  # without it mmdebstrap knows Debian's own
    ]


def guest_file(name: str) -> bytes:
    """Return a file for guests."""
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
