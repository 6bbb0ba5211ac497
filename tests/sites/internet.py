"""What lies between two clouds of the tests: a cable, and routes to the addresses at its ends."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.gce.inside import inside

_HERE, _THERE = "100.64.0.1", "100.64.0.2"


@dataclass(frozen=True)
class Shore:
    """The outside of a cloud: its network namespace, what addresses it has, and its own of them."""

    namespace: str
    addresses: str
    own: str


@contextmanager
def joined(one: Shore, other: Shore) -> Iterator[None]:
    """Have the guests of two clouds reach each other by their addresses outside."""
    _in(one, "ip", "link", "add", "wan0", "type", "veth", "peer", "wan0", "netns", other.namespace)
    try:
        _route(one, _HERE, _THERE, other.addresses)
        _route(other, _THERE, _HERE, one.addresses)
        yield
    finally:
        _in(one, "ip", "link", "delete", "wan0")


def _route(shore: Shore, address: str, peer: str, addresses: str) -> None:
    _in(shore, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    _in(shore, "ip", "address", "add", f"{address}/30", "dev", "wan0")
    _in(shore, "ip", "address", "replace", f"{shore.own}/32", "dev", "lo")
    _in(shore, "ip", "link", "set", "wan0", "up")
    _in(shore, "ip", "route", "add", addresses, "via", peer, "src", shore.own)


def _in(shore: Shore, *argv: str) -> None:
    subprocess.run(["nsenter", f"--net={shore.namespace}", *argv], check=True)


@contextmanager
def relayed(shore: Shore, port: int) -> Iterator[None]:
    """Have a port of this loopback be one of the loopback of a cloud's outside, too."""
    here = inside(Path(shore.namespace), lambda: socket.create_server(("127.0.0.1", port)))
    with here as server, ExitStack() as open_ones:
        thread = threading.Thread(target=_accept, args=[server, port, open_ones])
        thread.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _accept(server: socket.socket, port: int, open_ones: ExitStack) -> None:
    while True:
        try:
            near = open_ones.enter_context(server.accept()[0])
        except OSError:  # it is shut down
            return
        far = open_ones.enter_context(socket.create_connection(("127.0.0.1", port)))
        for ends in ((near, far), (far, near)):
            threading.Thread(target=_pump, args=ends, daemon=True).start()


def _pump(one: socket.socket, other: socket.socket) -> None:
    try:
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:  # one of them is gone
        return
