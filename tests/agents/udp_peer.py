"""Plays one end of a UDP job against a real agent, so that what happens on the path is known."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.agents.lab import COOKIE, TIMEOUT_S, Agent, job

UDP, FORWARD, REVERSE = 2, 0, 1
SIZE = 64
WARMUP, MEASURED = 0, 1


def udp_job(**changes: object) -> dict[str, object]:
    """Return the keys of a short UDP job."""
    usual = {"rate_bps": 4e6, "size": 500, "loss_threshold_s": 0.05}
    return job(**{**usual, **changes})


def handshake(flow: int, flows: int, direction: int = FORWARD) -> bytes:
    """Return the 48 bytes that open a flow's TCP connection."""
    what = flow.to_bytes(2) + flows.to_bytes(2) + bytes([UDP, direction])
    return b"OSMEF2" + what + (300).to_bytes(4) + bytes(16) + bytes.fromhex(COOKIE)


def datagram(
    sequence: int,
    *,
    phase: int = MEASURED,
    flow: int = 0,
    direction: int = FORWARD,
    sent_ns: int | None = None,
    size: int = SIZE,
    cookie: str = COOKIE,
) -> bytes:
    """Return a datagram as an agent sends it."""
    when = time.monotonic_ns() if sent_ns is None else sent_ns
    head = struct.pack(">HBBQq", flow, phase, direction, sequence, when)
    return (b"OSMU" + bytes.fromhex(cookie)[:8] + head).ljust(size, b".")


def count(sent: int, warmup: int = 0, length_ns: int = 300_000_000) -> bytes:
    """Return what a sender says at its end."""
    return struct.pack(">QQQ", warmup, sent, length_ns)


class Peer:
    """One flow of the end that we play: its connection and its UDP socket."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.control.settimeout(TIMEOUT_S)
        self.data = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.data.settimeout(TIMEOUT_S)
        self.data.bind(("127.0.0.1", 0))

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.control.close()
        self.data.close()

    def swap_ports(self) -> None:
        """Tell our UDP port, hear the agent's, and connect to that."""
        self.control.sendall(self.data.getsockname()[1].to_bytes(2))
        port = int.from_bytes(self.control.recv(2, socket.MSG_WAITALL))
        self.data.connect(("127.0.0.1", port))

    def go(self) -> None:
        self.control.sendall(b"G")

    def send(self, sequences: Iterable[int], phase: int = MEASURED) -> None:
        for sequence in sequences:
            self.data.send(datagram(sequence, phase=phase))

    def end(self, sent: int, warmup: int = 0) -> None:
        """Tell the count and wait until the agent has closed."""
        self.control.sendall(count(sent, warmup))
        self.control.shutdown(socket.SHUT_WR)
        assert self.control.recv(1) == b""


@contextmanager
def playing_sender(receiver: Agent, **changes: object) -> Iterator[Peer]:
    """Have the agent listen and receive; give the connecting end, which has just said go."""
    keys = udp_job(**{"size": SIZE, **changes})
    receiver.command("udp", side="listen", bind="127.0.0.1", port=0, **keys)
    port = receiver.expect("listening")["port"]
    with Peer(socket.create_connection(("127.0.0.1", port))) as peer:
        direction = REVERSE if keys.get("direction") == "reverse" else FORWARD
        peer.control.sendall(handshake(0, 1, direction))
        assert peer.control.recv(1) == b"+"
        peer.swap_ports()
        receiver.expect("connected")
        peer.go()
        yield peer


@contextmanager
def playing_receiver(sender: Agent, **changes: object) -> Iterator[Peer]:
    """Have the agent connect and send; give the listening end, once the agent is connected."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        sender.command("udp", side="connect", host="127.0.0.1", port=port, **udp_job(**changes))
        control, _ = server.accept()
    with Peer(control) as peer:
        assert control.recv(48, socket.MSG_WAITALL)[:6] == b"OSMEF2"
        control.sendall(b"+")
        peer.swap_ports()
        sender.expect("connected")
        yield peer


def run(connecting: Agent, listening: Agent, **changes: object) -> None:
    """Start a UDP job between two agents."""
    keys = udp_job(**changes)
    listening.command("udp", side="listen", bind="127.0.0.1", port=0, **keys)
    port = listening.expect("listening")["port"]
    connecting.command("udp", side="connect", host="127.0.0.1", port=port, **keys)
    connecting.expect("connected")
    listening.expect("connected")
    connecting.command("start", id="job-1")


def flow_of(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result's only flow."""
    assert result["event"] == "result", result
    (flow,) = result["flows"]
    assert isinstance(flow, dict)
    return flow
