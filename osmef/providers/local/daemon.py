"""The sandbox's first process: serves the controller's requests, and ends with it.

Its standard input is the channel to the controller. When the other end closes, for whatever
reason, this process exits at once, and the kernel ends all that lives in the sandbox.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osmef.errors import ProviderError
from osmef.programs import TERMINAL_SIGNALS
from osmef.providers.local import wire

if TYPE_CHECKING:
    from osmef.providers.local.cloud import Cloud


def _exit_with_controller(channel: socket.socket) -> None:
    """Exit on the channel's end, even during work (signal-driven I/O, fcntl(2))."""
    poll = select.poll()
    poll.register(channel, 0)

    def look(_signal: int = 0, _frame: object = None) -> None:
        if poll.poll(0):
            os._exit(0)

    signal.signal(signal.SIGIO, look)
    fcntl.fcntl(channel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(channel, fcntl.F_SETFL, fcntl.fcntl(channel, fcntl.F_GETFL) | os.O_ASYNC)
    look()


class _Daemon:
    """The requests, one method each. An answer may carry one file descriptor."""

    def __init__(self) -> None:
        self._cloud: Cloud | None = None

    @property
    def cloud(self) -> Cloud:
        if self._cloud is None:
            raise ProviderError("the sandbox has no cloud yet")
        return self._cloud

    def answer(self, request: dict[str, Any]) -> tuple[dict[str, Any], socket.socket | None]:
        """Serve one request."""
        match request:
            case {"do": "build", "cloud": spec}:
                # Imported late, so that a controller that is gone by now is noticed before.
                from osmef.providers.local.cloud import Cloud  # noqa: PLC0415

                self._cloud = Cloud(wire.cloud_from(spec))
            case {"do": "boot", "guest": spec}:
                self.cloud.boot(wire.guest_from(spec))
            case {"do": "prepare", "hosts": hosts, "in_turns": in_turns}:
                self.cloud.prepare(hosts, in_turns=in_turns)
            case {"do": "wait"}:
                self.cloud.wait_ready()
            case {"do": "connect", "name": name}:
                return {}, self.cloud.connect(name)
            case {"do": "locate", "name": name}:
                return {"place": self.cloud.locate(name)}, None
            case _:
                raise ProviderError(f"the sandbox does not know {request.get('do')!r}")
        return {}, None

    def serve(self, channel: socket.socket) -> None:
        """Serve requests until the channel closes."""
        while True:
            try:
                request, _ = wire.receive(channel)
            except EOFError:
                return
            try:
                reply, sock = self.answer(request)
            except ProviderError as error:
                failure = {"message": error.message, "where": error.where, "cure": error.cure}
                reply, sock = {"error": failure}, None
            except OSError as error:
                reply, sock = {"error": {"message": str(error), "where": None, "cure": None}}, None
            wire.send(channel, reply, [sock.fileno()] if sock else [])
            if sock:
                sock.close()


def main() -> None:
    """Serve the channel on standard input."""
    channel = socket.socket(fileno=os.dup(0))
    with Path(os.devnull).open("rb") as null:
        os.dup2(null.fileno(), 0)
    _exit_with_controller(channel)
    # The terminal's Ctrl-C is the controller's business.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, TERMINAL_SIGNALS)  # guests have theirs as usual
    _Daemon().serve(channel)


if __name__ == "__main__":
    main()
