"""The controller's handle of a sandbox: start, requests, end."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import osmef
from osmef.errors import ProviderError
from osmef.programs import start_apart
from osmef.providers.local import processes, wire

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
            self._process = start_apart(
                isolated(unshare, processes.command(sys.executable, run, deadline)),
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
        self.identity = processes.child_identity(self._process.pid)
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
            processes.end(self._run, self.identity)
            self._process.wait(_CLOSE_S)
        os.close(self._log)
        self._closed = True

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):  # closed already
            self._channel.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for an answer
        self._channel.close()
