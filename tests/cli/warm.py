"""Commands that begin where the program is loaded: a process each, without the imports.

Loading what a command needs takes ten times as long as most commands. A server that has loaded it
forks a child for each command, which has its own directory, environment, input and output, and is
the leader of a session of its own. What happens while the program loads, and what a kill leaves,
is tested on processes that are started as users do.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

import osmef.cli

ROOT = Path(__file__).parents[2]
TERMINAL = {"PYTHONPATH": str(ROOT), "COLUMNS": "120", "TERM": "dumb"}
# What commands load, also what they load only when they come to it.
USUAL = (
    *("osmef.__main__", "osmef.analysis.compare", "osmef.analysis.recommend"),
    *(
        "osmef.analysis.diagnostics",
        "osmef.campaigns.conductor.conductor",
        "osmef.campaigns.report",
    ),
    *("osmef.providers.local.provider", "osmef.report.figures", "osmef.report.html.page"),
    *("osmef.report.campaign", "osmef.results.tables", "rich.table", "paramiko"),
)
_MOST_BYTES = 1 << 20
# In the order in which nsenter(1) enters them; the numbers are of clone(2).
_NAMESPACES = {
    "uts": ("uts", 0x04000000),
    "net": ("net", 0x40000000),
    "mount": ("mnt", 0x20000),
}


@dataclass(frozen=True)
class Entered:
    """Where a command begins: in other namespaces, another directory, with other variables."""

    namespaces: tuple[tuple[str, int], ...] = ()
    directory: str | None = None
    unset: tuple[str, ...] = ()
    set: Mapping[str, str] = field(default_factory=dict)

    def enter(self) -> None:
        """Go there, as nsenter(1) and env(1) do."""
        libc = ctypes.CDLL(None, use_errno=True)
        opened = [(os.open(path, os.O_RDONLY), kind) for path, kind in self.namespaces]
        for descriptor, kind in opened:
            if libc.setns(descriptor, kind) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            os.close(descriptor)
        if self.directory is not None:
            os.chdir(self.directory)
        for name in self.unset:
            os.environ.pop(name, None)
        os.environ.update(self.set)


HERE = Entered()


def entered(prefix: Sequence[str]) -> Entered | None:
    """Return where a prefix of ``nsenter`` and ``env`` leads; None for what else there may be.

    What changes where modules are found is for a process that has not loaded them yet.
    """
    if not prefix:
        return HERE
    words = list(prefix)
    at = words.index("env") if "env" in words else len(words)
    entering, changes = words[:at], words[at + 1 :]
    if entering[:1] != ["nsenter"] or any("PYTHONPATH" in one for one in changes):
        return None
    options = argparse.ArgumentParser(prog="nsenter", allow_abbrev=False)
    options.add_argument("--target")
    options.add_argument("--wdns")
    for name in _NAMESPACES:
        options.add_argument(f"--{name}", nargs="?", const="")
    there, more = options.parse_known_args([one for one in entering[1:] if one != "--"])
    if more:  # another program, such as unshare, comes between
        return None
    namespaces = [
        (getattr(there, name) or f"/proc/{there.target}/ns/{file}", kind)
        for name, (file, kind) in _NAMESPACES.items()
        if getattr(there, name) is not None
    ]
    unset = [changes[n + 1] for n, one in enumerate(changes) if one == "-u"]
    set_ = dict(one.split("=", maxsplit=1) for one in changes if "=" in one)
    return Entered(tuple(namespaces), there.wdns, tuple(unset), set_)


class Warm:
    """A server; its commands begin on this machine, or where they are told to."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            command = [sys.executable, "-m", "tests.cli.warm", str(there.fileno())]
            self._process = subprocess.Popen(
                [*command, *USUAL, *modules],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
                env={**os.environ, **TERMINAL},
            )

    def start(
        self,
        arguments: Sequence[str],
        directory: Path,
        env: Mapping[str, str],
        place: Entered = HERE,
    ) -> Command:
        """Have a command begin."""
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        out, to_out = os.pipe()
        err, to_err = os.pipe()
        request = json.dumps([list(arguments), str(directory), dict(env), asdict(place)]).encode()
        socket.send_fds(self._here, [request], [to_out, to_err, there.fileno()])
        for descriptor in (to_out, to_err):
            os.close(descriptor)
        there.close()
        return Command(tuple(arguments), int(here.recv(64)), here, (out, err))

    def close(self) -> None:
        """End the server, and wait for its end."""
        self._here.close()
        self._process.wait()


@cache
def warm(modules: tuple[str, ...] = ()) -> Warm:
    """Return the server of these tests that has loaded some more modules."""
    server = Warm(modules)
    atexit.register(server.close)
    return server


@dataclass
class Command:
    """A command that runs, as far as tests ask it what they ask a process of subprocess."""

    args: tuple[str, ...]
    pid: int
    _server: socket.socket
    _outputs: tuple[int, int]
    returncode: int | None = None

    def send_signal(self, number: int) -> None:
        """Send a signal; one that has ended gets none."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        if self.returncode is None and select.select([self._server], [], [], 0)[0]:
            self.returncode = int(self._server.recv(64))
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Return its output and errors, once both are closed and it has ended.

        Raises TimeoutExpired when nothing comes for so long; closing the server's end kills it.
        """
        if self._server.fileno() == -1:
            return "", ""
        self._server.settimeout(timeout)
        try:
            out, err = _read_all(self._outputs, timeout)
            self.returncode = int(self._server.recv(64)) if self.poll() is None else self.returncode
        except TimeoutError as error:
            raise subprocess.TimeoutExpired(self.args, timeout or 0) from error
        finally:
            self._server.close()
            for descriptor in self._outputs:
                os.close(descriptor)
        return out, err


def _read_all(descriptors: Sequence[int], end_s: float | None) -> list[str]:
    """Read both to their ends. Raises TimeoutError when nothing comes for so long."""
    poll = select.poll()
    found: dict[int, list[bytes]] = {descriptor: [] for descriptor in descriptors}
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    missing = set(descriptors)
    while missing:
        ready = poll.poll(None if end_s is None else 1000 * end_s)
        if not ready:
            raise TimeoutError
        for descriptor, _ in ready:
            data = os.read(descriptor, _MOST_BYTES)
            found[descriptor].append(data)
            if not data:
                poll.unregister(descriptor)
                missing.discard(descriptor)
    return [b"".join(parts).decode() for parts in found.values()]


class _Server:
    """Forks a child for each request, and tells how it ended; ends with the one who asks."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)
        self._running: dict[int, tuple[int, socket.socket]] = {}  # by pidfd
        self._askers: dict[int, int] = {}  # pidfds by the descriptor of who asked

    def serve(self) -> None:
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._running:
                    self._tell(descriptor)
                elif descriptor in self._askers:
                    self._poll.unregister(descriptor)
                    os.kill(self._running[self._askers.pop(descriptor)][0], signal.SIGKILL)
                elif not self._begin():
                    return

    def _begin(self) -> bool:
        request, files, _, _ = socket.recv_fds(self._listener, _MOST_BYTES, 3)
        if not request:
            return False
        pid = os.fork()
        if pid == 0:
            _become(request, files)
        asker = socket.socket(fileno=files.pop())
        asker.send(str(pid).encode())
        for file in files:
            os.close(file)
        pidfd = os.pidfd_open(pid)
        self._running[pidfd] = (pid, asker)
        self._askers[asker.fileno()] = pidfd
        self._poll.register(pidfd, select.POLLIN)
        self._poll.register(asker, 0)  # a hang-up is told all the same
        return True

    def _tell(self, pidfd: int) -> None:
        pid, asker = self._running.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(pid, 0)
        if self._askers.pop(asker.fileno(), None) is not None:
            self._poll.unregister(asker)
        with asker, contextlib.suppress(BrokenPipeError):
            asker.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(request: bytes, files: list[int]) -> None:
    """Be the command in a forked child; does not return."""
    code = 70
    try:
        arguments, directory, env, place = json.loads(request)
        os.setsid()
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(env)
        Entered(**place).enter()
        for file, standard in zip(files[:2], (1, 2), strict=True):
            os.dup2(file, standard)
        os.closerange(3, max(files) + 1)
        # Others than before: these still believe in the files that they were made for.
        sys.stdout = sys.__stdout__ = _text_to(1)  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = _text_to(2, "backslashreplace")  # type: ignore[misc]
        sys.argv = ["osmef", *arguments]
        sys.path[0] = directory
        random.seed()
        time.tzset()
        main = importlib.import_module("osmef.__main__").main
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _text_to(descriptor: int, errors: str = "strict") -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), errors=errors, line_buffering=descriptor == 2)


if __name__ == "__main__":
    _commands = (f"osmef.cli.{one.name}" for one in pkgutil.iter_modules(osmef.cli.__path__))
    for _name in (*_commands, *sys.argv[2:]):
        importlib.import_module(_name)
    gc.freeze()
    _Server(socket.socket(fileno=int(sys.argv[1]))).serve()
