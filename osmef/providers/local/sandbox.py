"""A sandbox: whether this machine can have one, and its start, requests, and end."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import osmef
from osmef.errors import ProviderError
from osmef.programs import find_program, start_in_new_session
from osmef.providers.base import Unread, ignore_unreadable
from osmef.providers.local import wire
from osmef.providers.local.wire import MODULE
from osmef.providers.marks import Mark, unread_line
from osmef.units import parse_count

_END_S = 10.0
_LONGEST = 32 * 1024
"""Of a command line of ours; another program may make its own as long as its memory."""
_IDENTITY = re.compile(r"pid:[0-9]+:[0-9]+")
_STATE, _PARENT, _START = 0, 1, 19  # fields of /proc/PID/stat behind the program's name


@dataclass(frozen=True)
class Process:
    """A marked process; pid and start time together are unique."""

    pid: int
    parent: int
    start: int
    run: str
    deadline: float

    @property
    def identity(self) -> str:
        """The id of the resource: ``pid:PID:START``, start in clock ticks since boot."""
        return f"pid:{self.pid}:{self.start}"

    @property
    def made(self) -> float:
        """Its start as a UNIX time."""
        ticks = os.sysconf("SC_CLK_TCK")
        return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - self.start / ticks)


def is_identity(text: str | None) -> bool:
    """Return whether a text is the id of a process, or empty."""
    return text is None or _IDENTITY.fullmatch(text) is not None


def command(python: str, run: str, deadline: float) -> list[str]:
    """Return the command line of a sandbox's first process, which ends with the mark."""
    return [python, "-P", "-S", "-m", MODULE, "--run", run, "--deadline", f"{deadline:.0f}"]


def _marked(argv: list[str]) -> tuple[str, float] | None:
    match argv[-6:]:
        case ["-m", module, "--run", run, "--deadline", deadline] if module == MODULE:
            mark = Mark.read(run, "0", deadline)  # when it was started, the kernel knows
            return (mark.run, float(mark.deadline)) if mark else None
    return None


def _argv(pid: int) -> list[str]:
    with Path(f"/proc/{pid}/cmdline").open("rb") as file:
        reported = file.read(_LONGEST + 1)
    return [] if len(reported) > _LONGEST else reported.decode(errors="replace").split("\0")[:-1]


def _stat(pid: int) -> list[str]:
    # The program's name is in parentheses and may itself hold spaces and parentheses.
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _user(pid: int) -> int | None:
    """Return the user of a process; None once it has ended."""
    status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    words = (line.split() for line in status.splitlines() if line.startswith("Uid:"))
    return next((int(line[1]) for line in words), None)


def child_identity(pid: int) -> str:
    """Return the id of an unreaped child of this process."""
    return f"pid:{pid}:{_stat(pid)[_START]}"


def inspect(pid: int, unread: Unread = ignore_unreadable) -> Process | None:
    """Return a process if it is alive, marked, and may be ended by this user, else None."""
    try:
        me = os.geteuid()
        if me != 0 and _user(pid) != me:
            return None
        argv = _argv(pid)
        mark = _marked(argv)
        if mark is None:
            if argv[-6:-3] == ["-m", MODULE, "--run"]:
                unread(unread_line(f"process {pid}", argv[-4:]))
            return None
        fields = _stat(pid)
    except OSError:  # gone meanwhile
        return None
    if fields[_STATE] in "ZX":
        return None
    return Process(pid, int(fields[_PARENT]), int(fields[_START]), *mark)


def marked(unread: Unread = ignore_unreadable) -> list[Process]:
    """List all living marked processes: this user's, or for root all users'."""
    named = (parse_count(entry.name) for entry in Path("/proc").iterdir())
    pids = [pid for pid in named if pid is not None]
    looks = (inspect(pid, unread) for pid in sorted(pids))
    return [found for found in looks if found is not None]


def sandboxes(unread: Unread = ignore_unreadable) -> list[Process]:
    """List the outermost process of each sandbox."""
    found = {process.pid: process for process in marked(unread)}
    return [process for process in found.values() if process.parent not in found]


def end(run: str, identity: str | None) -> None:
    """Kill a sandbox's processes and wait for their end; without an id all of the run.

    Raises ProviderError if one does not go within 10 s.
    """
    ours = [process for process in marked() if process.run == run]
    heads = {process.pid for process in ours if identity in {None, process.identity}}
    for process in ours:
        if process.pid in heads or process.parent in heads:
            _kill(process)


def _kill(process: Process) -> None:
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        # Now that the handle is held, the number can't pass to another process unseen.
        found = inspect(process.pid)
        if found is None or found.identity != process.identity:
            return
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        wait_gone(handle, f"process {process.pid} of run {process.run}")
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise ProviderError(
            f"process {process.pid} of run {process.run} is another user's",
            cure="run this command as that user, or as root",
        ) from error
    finally:
        os.close(handle)


def wait_gone(handle: int, what: str) -> None:
    """Wait until the process of a pidfd has ended. Raises ProviderError after 10 s."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    if not poll.poll(_END_S * 1000):
        raise ProviderError(
            f"{what} does not end", cure="look at it with ps; it may hang in the kernel"
        )


_ANSWER_S = 60.0
_CLOSE_S = 2.0
_LOG_TAIL_BYTES = 2000


def is_rootless() -> bool:
    """Return whether sandboxes need a user namespace, as this process is not root."""
    return os.geteuid() != 0


def isolated(unshare: str, command: list[str]) -> list[str]:
    """Return the command line that runs a command in new namespaces (unshare(1))."""
    user = ["--user", "--map-root-user"] if is_rootless() else []
    spaces = ["--net", "--mount", "--uts", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
    return [unshare, *user, *spaces, *command]


class Sandbox:
    """A started sandbox. Thread-safe."""

    def __init__(self, run: str, deadline: float, unshare: str) -> None:
        """Start it; it ends with its channel. Raises ProviderError."""
        self._run = run
        self._closed = False
        self._lock = threading.Lock()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(_ANSWER_S)
        self._log = os.memfd_create("osmef-sandbox")
        # The same modules as here, also when they came from the current directory ("").
        path = [str(Path(osmef.__file__).parent.parent), *filter(None, sys.path)]
        try:
            # The terminal's Ctrl-C is for the controller alone, which then takes the cloud down in
            # order.
            self._process = start_in_new_session(
                isolated(unshare, command(sys.executable, run, deadline)),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._log,
                cwd="/",
                env={
                    "PATH": os.environ.get("PATH", os.defpath),
                    "PYTHONPATH": os.pathsep.join(path),
                },
            )
        except OSError as error:
            self._channel.close()
            os.close(self._log)
            raise ProviderError(f"the sandbox does not start: {error}") from error
        finally:
            theirs.close()
        self.identity = child_identity(self._process.pid)
        """The id of the resource."""

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send a request to the daemon, and return its answer. Raises ProviderError."""
        reply, fds = self._exchange({"do": do, **arguments})
        for fd in fds:
            os.close(fd)
        return reply

    def connect(self, name: str) -> socket.socket:
        """Open a connection to an endpoint's sshd. Raises OSError, as any connect does."""
        try:
            _, fds = self._exchange({"do": "connect", "name": name})
        except ProviderError as error:
            raise ConnectionError(error.message) from error
        return socket.socket(fileno=fds[0])

    def _exchange(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        with self._lock:
            try:
                wire.send(self._channel, request)
                reply, fds = wire.receive(self._channel)
            except BaseException as error:
                # Else the next request would be given the answer to this one.
                self._hang_up()
                if isinstance(error, EOFError | OSError):
                    raise ProviderError(self._why(error), cure="start the run again") from error
                raise
        if "error" in reply:
            raise ProviderError(**reply["error"])
        return reply, fds

    def has_ended(self) -> bool:
        """Return whether it has ended by itself, within a short wait."""
        try:
            self._process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _why(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"the local cloud's sandbox does not answer within {_ANSWER_S:.0f} s"
        size = os.fstat(self._log).st_size
        tail = os.pread(self._log, _LOG_TAIL_BYTES, max(0, size - _LOG_TAIL_BYTES))
        return f"the local cloud's sandbox has ended: {tail.decode(errors='replace').strip()}"

    def close(self) -> None:
        """End it with everything in it; may be called again. Raises ProviderError."""
        if self._closed:
            return
        self._hang_up()
        try:
            self._process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:  # a stopped process does not see the channel close
            end(self._run, self.identity)
            self._process.wait(_CLOSE_S)
        os.close(self._log)
        self._closed = True

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):  # closed already
            self._channel.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for an answer
        self._channel.close()


WHERE = "provider: local"
_TRIAL_S = 20.0
_NO_NAMESPACES = {
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl -w user.max_user_namespaces=15000"),
    "/proc/sys/kernel/unprivileged_userns_clone": (
        "0",
        "sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
}


def check_machine() -> None:
    """Check all requirements by trying them. Raises ProviderError with a cure."""
    if sys.platform != "linux":
        raise ProviderError(
            f"the local cloud is made of Linux namespaces, and this is {sys.platform}",
            where=WHERE,
            cure="run osmef on a Linux machine",
        )
    if find_spec("pyroute2") is None:
        raise ProviderError(
            "the local cloud needs the Python package pyroute2, which is not installed",
            where=WHERE,
            cure="pip install 'osmef[local]'",
        )
    find_program("sshd", "openssh-server", WHERE)
    unshare = find_program("unshare", "util-linux", WHERE)
    true = find_program("true", "coreutils", WHERE)
    try:
        trial = subprocess.run(
            isolated(unshare, [true]), capture_output=True, text=True, timeout=_TRIAL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProviderError(f"unshare does not work: {error}", where=WHERE) from error
    if trial.returncode != 0:
        raise ProviderError(
            f"this machine does not allow new namespaces: {trial.stderr.strip()}",
            where=WHERE,
            cure=_namespace_cure(),
        )
    _check_root_is_whole()


def has_module(name: str) -> bool:
    """Return whether the kernel has a module: loaded, built in, or loadable.

    Only of those that show themselves in /sys/module once they are there; "" is one that all have.
    """
    if not name or Path("/sys/module", name).exists():
        return True
    directory = Path("/lib/modules", os.uname().release)
    lists = [directory / f"modules.{kind}" for kind in ("dep", "builtin")]
    found = re.compile(rf"/{re.escape(name)}\.ko\b")
    return any(found.search(file.read_text()) for file in lists if file.exists())


def _namespace_cure() -> str:
    if not is_rootless():
        if _is_chroot():
            return "in a chroot, its directory must be a mount: mount --bind DIRECTORY DIRECTORY"
        return "in a container, give it CAP_SYS_ADMIN (docker run --privileged)"
    for path, (forbidding, command) in _NO_NAMESPACES.items():
        switch = Path(path)
        if switch.exists() and switch.read_text().strip() == forbidding:
            return f"as root: {command}; or run osmef as root"
    return "run osmef as root; in a container, start it with docker run --privileged"


def _is_chroot() -> bool:
    """Return whether no mount is the root directory: its propagation can't be changed then."""
    mounts = Path("/proc/self/mountinfo")
    lines = mounts.read_text().splitlines() if mounts.exists() else ["0 0 0:0 / / rw"]
    return all(line.split()[4] != "/" for line in lines)


def _check_root_is_whole() -> None:
    """Refuse root without all ids: its sshd could not change to another user."""
    switch = Path("/proc/self/setgroups")
    if not is_rootless() and switch.exists() and switch.read_text().strip() == "deny":
        raise ProviderError(
            "root of this user namespace may not change groups, so its sshd can't start",
            where=WHERE,
            cure="run osmef as the ordinary user; it makes the namespaces that it needs itself",
        )
