"""Jobs of any kind that has two ends, with an agent or the test itself at either of them."""

from __future__ import annotations

import select
import socket

from tests.agents.lab import TIMEOUT_S, Agent, Event, arm, connect, dial, header, job

KINDS = {"exchange": 3, "sizes": 4}


def join(kind: str, leader: Agent, follower: Agent, **changes: object) -> None:
    """Connect two agents and start the job."""
    connect(leader, follower, kind, **changes)
    leader.command("start", id="job-1")


def handshake(kind: str, flow: int = 0, flows: int = 1) -> bytes:
    """Return the 48 bytes that open a data connection of this kind."""
    text = header(flow, flows)
    return text[:10] + bytes([KINDS[kind]]) + text[11:]


def lead(agent: Agent, kind: str, **changes: object) -> socket.socket:
    """Connect to a listening agent as its peer."""
    peer = dial(arm(agent, kind, **changes))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.sendall(handshake(kind))
    assert peer.recv(1) == b"+"
    agent.expect("connected")
    return peer


def follow(agent: Agent, kind: str, **changes: object) -> socket.socket:
    """Let an agent connect to us and start; return the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        agent.command(kind, side="connect", host="127.0.0.1", port=port, **job(**changes))
        server.settimeout(TIMEOUT_S)
        peer, _ = server.accept()
    peer.settimeout(TIMEOUT_S)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    got = take(peer, 48)
    assert got is not None
    assert (got[:6], got[10]) == (b"OSMEF2", KINDS[kind])
    peer.sendall(b"+")
    agent.expect("connected")
    agent.command("start", id="job-1")
    return peer


def take(peer: socket.socket, size: int) -> bytes | None:
    """Read exactly so many bytes; None when the other end has ended the connection before."""
    data = b""
    while len(data) < size:
        some = peer.recv(size - len(data))
        if not some:
            return None
        data += some
    return data


def keep_quiet(peer: socket.socket, seconds: float) -> None:
    """Say nothing for this time, while the other end has nothing to say either."""
    select.select([peer], [], [], seconds)


def ending(agent: Agent) -> tuple[list[Event], Event]:
    """Return what a job says before its last event, and that."""
    before = []
    while (event := agent.event())["event"] not in {"result", "error"}:
        before.append(event)
    return before, event


def result(agent: Agent) -> tuple[list[Event], Event]:
    """Return what a job says before its result, and that."""
    before, last = ending(agent)
    assert last["event"] == "result", last
    return before, last


def failure(agent: Agent) -> Event:
    """Return the error that ends a job."""
    _, last = ending(agent)
    assert last["event"] == "error", last
    return last
