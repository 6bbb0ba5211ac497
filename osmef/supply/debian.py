"""Bundle of a program from Debian's packages, for any architecture, with an apt of its own.

The apt has a state, a cache and settings of its own in a scratch folder, so that it needs no root
and nothing of the system changes. Sources, proxy and keyring are the machine's; signatures are
verified, and no setting of the machine can turn that off: apt is given none of the others.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from osmef.apt import network_settings, signed_by, sources
from osmef.errors import ProviderError, SupplyError
from osmef.files import scratch
from osmef.programs import find_program, search_path
from osmef.supply import compiler
from osmef.supply.bundle import BundledFile, FileKind, Package, ProgramManifest, described, pack
from osmef.supply.closure import Closure, ClosureFile, Tree, command_line, cut
from osmef.supply.compiler import ToolRunner
from osmef.supply.program import Architecture, Program

if TYPE_CHECKING:
    from osmef.remote.session import ProgramResult, SshSession


_MIRROR = "http://deb.debian.org"
_MOST_S = 900.0
_SETTINGS = """\
Dir::State "{root}/state";
Dir::State::status "{root}/status";
Dir::Cache "{root}/cache";
Dir::Log "{root}/log";
Dir::Etc::sourcelist "{root}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Get::AllowUnauthenticated "false";
APT::Sandbox::User "root";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::CNF::DefaultEnabled "false";
"""
_CURES = {
    "NO_PUBKEY": "apt install debian-archive-keyring",
    "is not signed": "apt install debian-archive-keyring",
    "Mirror sync in progress": "try again later: the repository is being updated",
    "No space left": "free some space on the disk of temporary files (TMPDIR)",
    "Temporary failure resolving": "is the package repository reachable? try: apt-get update",
    "Could not connect": "is the package repository reachable? try: apt-get update",
    "Could not resolve": "is the package repository reachable? try: apt-get update",
    "Failed to fetch": "is the package repository reachable? try: apt-get update",
    "Some index files failed": "is the package repository reachable? try: apt-get update",
    "Unable to locate package": "look at the names of its packages: apt-cache search WORD",
    "has no installation candidate": "is it in non-free? add that to the sources of apt, and run"
    " apt-get update",
    "does not have a Release file": "look at --suite: does the repository have that release?",
}
_NO_APT = (
    "make the bundle on a Debian machine, by `osmef program bundle NAME -o FILE`, and give its path"
)
_LIBC = "libc6"
_MOST_LICENCE_BYTES = 1 << 20


@dataclass(frozen=True)
class Deb:
    """A downloaded and verified package."""

    path: Path
    name: str
    version: str
    sha256: str


@dataclass(frozen=True)
class PrivateApt:
    """An apt with its own configuration and state."""

    tool: ToolRunner
    root: Path
    suite: str
    machine: Architecture

    def update(self) -> None:
        """Download the package indexes. Raises SupplyError."""
        self._run("apt-get", "update", "--error-on=any")
        if not list((self.root / "state/lists").glob(f"*_binary-{self.machine.debian}_Packages*")):
            raise SupplyError(
                f"Debian {self.suite} is not made for {self.machine.name}",
                where=self.tool.where,
                cure="take a release that is, such as: --suite trixie",
            )

    def fetch(self, packages: Sequence[str]) -> list[Deb]:
        """Download packages and their dependencies. Raises SupplyError."""
        words = ("install", "--download-only", "--yes", "--no-install-recommends")
        self._run("apt-get", *words, "--", *packages)
        return [self._deb(path) for path in sorted((self.root / "cache/archives").glob("*.deb"))]

    def unpack(self, deb: Deb) -> Path:
        """Unpack a package into a directory of its own, which is returned. Raises SupplyError."""
        folder = self.root / "trees" / deb.name
        folder.mkdir(parents=True)
        self._run("dpkg-deb", "--extract", str(deb.path), str(folder))
        deb.path.unlink()
        return folder

    def _deb(self, path: Path) -> Deb:
        said = self._run("dpkg-deb", "--field", str(path), "Package", "Version")
        fields = dict(re.findall(r"^(Package|Version): (.*)$", said, re.MULTILINE))
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Deb(path, fields["Package"], fields["Version"], digest)

    def _run(self, program: str, *arguments: str) -> str:
        path = find_program(program, "apt", self.tool.where)
        try:
            return self.tool.run([path, *arguments])
        except SupplyError as error:
            cures = (cure for words, cure in _CURES.items() if words in error.message)
            raise SupplyError(
                error.message, where=error.where, cure=next(cures, error.cure)
            ) from error


def fetch_problem() -> str | None:
    """Return why no packages can be downloaded; None if required programs exist."""
    try:
        for name in ("apt-get", "dpkg-deb"):
            find_program(name, "apt", "a bundle")
    except ProviderError as error:
        return error.message
    return None


def open_apt(
    root: Path, suite: str, machine: Architecture, where: str, check: Callable[[], None]
) -> PrivateApt:
    """Create an apt in an empty directory. Raises SupplyError on a machine without apt."""
    why = fetch_problem()
    if why is not None:
        raise SupplyError(f"packages can't be fetched here: {why}", where=where, cure=_NO_APT)
    for name in ("state/lists/partial", "cache/archives/partial", "log"):
        (root / name).mkdir(parents=True)
    (root / "status").touch()
    (root / "sources.list").write_text("\n".join([*_lines(suite), ""]))
    settings = root / "apt.conf"
    settings.touch(mode=0o600)  # a proxy's address may hold a password
    own = _SETTINGS.format(root=root, architecture=machine.debian)
    settings.write_text("\n".join([*network_settings(), own]))
    environment = {
        **os.environ,
        "APT_CONFIG": str(settings),
        "DEBIAN_FRONTEND": "noninteractive",
        "LC_ALL": "C.UTF-8",
        "PATH": search_path(),
    }
    return PrivateApt(ToolRunner(where, environment, root, check, _MOST_S), root, suite, machine)


def _lines(suite: str) -> list[str]:
    """Return the sources of a release: this machine's, or else Debian's own."""
    signed = signed_by()
    return sources(suite) or [
        f"deb {signed}{_MIRROR}/debian {suite} main",
        f"deb {signed}{_MIRROR}/debian {suite}-updates main",
        f"deb {signed}{_MIRROR}/debian-security {suite}-security main",
    ]


@dataclass(frozen=True)
class BundleRequest:
    """Parameters of a bundle: architecture and release of Debian."""

    program: Program
    machine: Architecture
    suite: str


def bundle_of_packages(
    order: BundleRequest, progress: Callable[[str], None], check: Callable[[], None]
) -> bytes:
    """Return the archive of a bundle.

    ``progress`` is called with a line as each step begins; an exception of ``check`` ends it.
    Raises SupplyError; nothing is left then.
    """
    program, machine, suite = order.program, order.machine, order.suite
    where = f"bundle of {program.name!r}"
    with scratch("bundle") as root:
        apt = open_apt(root, suite, machine, where, check)
        progress(f"fetching the index of Debian {suite} for {machine.name}")
        apt.update()
        progress(f"fetching {program.debian_package} and what it depends on")
        debs = {deb.name: deb for deb in apt.fetch((program.debian_package, *program.packages))}
        # A file of two packages is taken from the program's own.
        names = sorted(debs, key=lambda name: (name != program.debian_package, name))
        progress(f"unpacking {len(debs)} packages")
        tree = Tree({name: apt.unpack(debs[name]) for name in names})
        closure = cut(program, tree, machine)
        own: dict[str, bytes] = {}
        if program.shim and closure.loader is not None:
            own[compiler.SHIM_FILE] = compiler.shim(program.shim, machine, where, check)
        return _packed(order, closure, tree, debs, own)


def _packed(
    order: BundleRequest,
    closure: Closure,
    tree: Tree,
    debs: Mapping[str, Deb],
    own: Mapping[str, bytes],
) -> bytes:
    """Return the archive of a program's files, with manifest and licences.

    ``own`` are libraries that come from no package.
    """
    program = order.program
    contents: dict[str, bytes] = {}
    files: dict[str, BundledFile] = {}

    def add(name: str, found: ClosureFile, kind: FileKind) -> None:
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
        argv=command_line(program.name, closure.loader, contents),
        data={path: path.rpartition("/")[2] for path in program.files},
        packages=packages,
        build=None,
        notes=(),
        files=files,
    )
    return pack(manifest, contents)


_DEFAULT_VERSIONS = (("--version",), ("-V",))
_VERSION = re.compile(r"[0-9]+\.[0-9]")
_MOST_VERSION = 200
_CAN_T_RUN = {126, 127}
_TAIL_CHARACTERS = 500
_INSTALL_S = 600.0
# Fixed scripts for a POSIX shell; names and paths are arguments. Each part of their output
# follows a random word, since a login may print something before.
_PLACES = """\
PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""
_LOOK = """\
mark=$1 name=$2
shift 2
IFS=:
for folder in $PATH; do
  if [ -n "$folder" ] && [ -f "$folder/$name" ] && [ -x "$folder/$name" ]; then
    printf '\\n%s %s' "$mark" "$folder/$name"
    for file; do [ -r "$file" ] || printf '\\n%s %s' "$mark" "$file"; done
    break
  fi
done
printf '\\n'
"""
# What hangs is killed after five seconds, with POSIX means: there may be no timeout(1).
_ASK = """\
mark=$1
shift
printf '\\n%s \\n' "$mark"
{
  "$@" </dev/null 2>&1 &
  asked=$!
  { sleep 5; kill -9 "$asked"; } >/dev/null 2>&1 &
  watch=$!
  wait "$asked"
  status=$?
  kill "$watch" 2>/dev/null
  printf '\\n%s %s\\n' "$mark" "$status"
} | dd bs=1 count=65536 2>/dev/null
"""


@dataclass(frozen=True)
class Present:
    """A program that is installed on an endpoint."""

    path: str
    version: str | None
    """The line with its version; None if no line looks like one."""


def find(program: Program, session: SshSession) -> Present:
    """Find a program in PATH and in system directories, with its data files.

    Raises SupplyError that says what is missing, ReachError.
    """
    where = f"program {program.name!r} on {session.name}"
    mark = secrets.token_hex(16)
    argv = ["sh", "-c", _PLACES + _LOOK, "sh", mark, program.name, *program.files]
    found = _marked(session.run(argv), mark)
    if not found:
        raise SupplyError("the endpoint does not have it", where=where)
    path, *missing = found
    if missing:
        raise SupplyError(f"the endpoint has it, but no {missing[0]}", where=where)
    return Present(path, _version(program, path, session, where))


def _version(program: Program, path: str, session: SshSession, where: str) -> str | None:
    """Return the program's version. Raises SupplyError if it can't run there."""
    for words in (program.version,) if program.version else _DEFAULT_VERSIONS:
        mark = secrets.token_hex(16)
        said = session.run(["sh", "-c", _ASK, "sh", mark, path, *words])
        text = said.stdout.decode(errors="replace").partition(f"{mark} \n")[2]
        answer, _, end = text.partition(f"\n{mark} ")
        lines, status = [line.strip() for line in answer.splitlines()], end.strip()
        if status.isdigit() and int(status) in _CAN_T_RUN:
            reported = next(filter(None, lines), f"exit status {status}")[:_MOST_VERSION]
            raise SupplyError(f"the endpoint has it, and can't run it: {reported}", where=where)
        for line in lines:
            if _VERSION.search(line):
                return line[:_MOST_VERSION]
    return None


def _marked(output: ProgramResult, mark: str) -> list[str]:
    """Return the lines of a script's output with its marker."""
    lines = output.stdout.decode(errors="replace").splitlines()
    return [line.removeprefix(f"{mark} ") for line in lines if line.startswith(f"{mark} ")]


_APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get")
_MANAGERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "apt-get": (
        (*_APT, "update"),
        (*_APT, "install", "--yes", "--no-install-recommends", "--"),
    ),
    "dnf": (("dnf", "install", "--assumeyes", "--"),),
    "apk": (("apk", "add", "--no-cache", "--"),),
    "zypper": (("zypper", "--non-interactive", "install", "--no-recommends", "--"),),
}
"""Commands by which package managers install packages; these are appended to the last one."""


def install_commands(manager: str, program: Program, *, root: bool) -> list[list[str]]:
    """Return the commands that install a program's packages."""
    sudo = () if root else ("sudo", "-n")
    *before, last = _MANAGERS[manager]
    packages = (program.debian_package, *program.packages)
    return [*([*sudo, *command] for command in before), [*sudo, *last, *packages]]


def install(program: Program, session: SshSession) -> tuple[Present, list[list[str]]]:
    """Install a program by the endpoint's package manager; return it and the commands.

    Raises SupplyError, ReachError. Installed packages are kept.
    """
    where = f"program {program.name!r} on {session.name}"
    manager = _manager(session, where)
    root = session.word(["id", "-u"]) == "0"
    if not root and session.run(["sudo", "-n", "true"]).status != 0:
        raise SupplyError(
            "it can't be installed: the login is not root, and has no sudo without a password",
            where=where,
        )
    commands = install_commands(manager, program, root=root)
    for argv in commands:
        done = session.run(argv, within_s=_INSTALL_S)
        if done.status != 0:
            said = (done.stdout + done.stderr).decode(errors="replace").strip()
            message = f"{manager} failed (exit status {done.status}): {said[-_TAIL_CHARACTERS:]}"
            raise SupplyError(message, where=where, cure="install it there yourself")
    return find(program, session), commands


def _manager(session: SshSession, where: str) -> str:
    for manager in _MANAGERS:
        mark = secrets.token_hex(16)
        argv = ["sh", "-c", _PLACES + _LOOK, "sh", mark, manager]
        if _marked(session.run(argv), mark):
            return manager
    raise SupplyError(f"the endpoint has none of {', '.join(_MANAGERS)}", where=where)
