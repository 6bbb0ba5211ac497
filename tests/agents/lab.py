"""Drives the real agent over loopback."""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

COOKIE = "00112233445566778899aabbccddeeff"
# Longer than the agent's own timeouts, so that it is the agent that says what went wrong: queues of
# a slow link may take it 60 s to empty.
TIMEOUT_S = 90.0

Event = dict[str, Any]
StartAgent = Callable[[], "Agent"]


class Agent:
    """A real ``osmef-agent serve`` behind pipes, started by the command that runs the program."""

    def __init__(
        self, *command: Path | str, env: dict[str, str] | None = None, many: bool = False
    ) -> None:
        self.process = subprocess.Popen(
            [*command, "serve", *(["--many"] if many else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin = self.process.stdin
        self._stdout = self.process.stdout.fileno()
        self._rest = b""
        self.progress: list[Event] = []
        self.hello = self.event()

    def __enter__(self) -> Agent:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT_S)
        assert self.process.stderr is not None
        stderr = self.process.stderr.read()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        assert b"Sanitizer" not in stderr, stderr.decode()
        assert b"runtime error" not in stderr, stderr.decode()

    def write(self, data: bytes) -> None:
        self._stdin.write(data)
        self._stdin.flush()

    def command(self, cmd: str, **keys: object) -> None:
        self.write(json.dumps({"cmd": cmd, **keys}).encode() + b"\n")

    def event(self, timeout_s: float = TIMEOUT_S) -> Event:
        """Return the next event; how far a siege is, which no test can time, goes to a list."""
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._stdout], [], [], deadline - time.monotonic())
            assert ready, "the agent says nothing"
            data = os.read(self._stdout, 65536)
            assert data, f"the agent is gone, status {self.process.wait(TIMEOUT_S)}"
            self._rest += data
        line, self._rest = self._rest.split(b"\n", 1)
        event: Event = json.loads(line)
        if event["event"] == "progress":
            self.progress.append(event)
            return self.event(deadline - time.monotonic())
        return event

    def expect(self, event: str) -> Event:
        """Return the next event, which must be of this kind."""
        got = self.event()
        assert got["event"] == event, got
        return got

    def ending(self) -> tuple[list[Event], Event]:
        """Return the intervals up to the job's last event, and that."""
        intervals = []
        while (event := self.event())["event"] == "interval":
            intervals.append(event)
        return intervals, event

    def idle(self) -> None:
        """Check that the agent obeys and has nothing left to say."""
        self.command("clock")
        assert self.event()["event"] == "clock"

    def threads(self) -> int:
        """Count its threads."""
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    def close_input(self) -> int:
        """End its input, hear it out, and return its status: with a full pipe it could not end."""
        self._stdin.close()
        deadline = time.monotonic() + TIMEOUT_S
        while select.select([self._stdout], [], [], max(deadline - time.monotonic(), 0))[0]:
            if not os.read(self._stdout, 65536):
                break
        return self.process.wait(TIMEOUT_S)


def job(**changes: object) -> dict[str, object]:
    """Return the keys that both sides of a job share, with some changed."""
    usual: dict[str, object] = {
        "id": "job-1",
        "cookie": COOKIE,
        "connections": 1,
        "duration_s": 0.3,
        "interval_s": 0.1,
        "arm_timeout_s": 10,
        "stall_timeout_s": 10,
    }
    return usual | changes


def arm(receiver: Agent, command: str = "bulk", /, **changes: object) -> int:
    """Have the agent listen on loopback; return the port."""
    receiver.command(command, side="listen", bind="127.0.0.1", port=0, **job(**changes))
    port = receiver.expect("listening")["port"]
    assert isinstance(port, int)
    return port


def connect(sender: Agent, receiver: Agent, command: str = "bulk", /, **changes: object) -> None:
    """Bring both agents to the point where only ``start`` is missing."""
    port = arm(receiver, command, **changes)
    sender.command(command, side="connect", host="127.0.0.1", port=port, **job(**changes))
    assert sender.expect("connected")["id"] == "job-1"
    assert receiver.expect("connected")["id"] == "job-1"


def header(flow: int, flows: int, cookie: str = COOKIE, duration_ms: int = 300) -> bytes:
    """Return the 48 bytes that open a data connection of a bulk transfer."""
    bulk, forward = 1, 0
    what = flow.to_bytes(2) + flows.to_bytes(2) + bytes([bulk, forward])
    how_much = duration_ms.to_bytes(4) + bytes(4) + bytes(8)
    return b"OSMEF2" + what + how_much + bytes(4) + bytes.fromhex(cookie)


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)


def reset(peer: socket.socket) -> None:
    """Close a connection by a TCP reset."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def closed_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def succeed(*agents: Agent) -> list[tuple[list[Event], Event]]:
    """Return each agent's intervals and its result, which must be one."""
    ends = [agent.ending() for agent in agents]
    for _, event in ends:
        assert event["event"] == "result", event
    return ends


def way(result: Event) -> Event:
    """Return what went one way: what this end sent, or what it received."""
    assert (result["sending"] is None) != (result["receiving"] is None)
    only: Event = result["sending"] or result["receiving"]
    return only


def transfer(
    sender: Agent, receiver: Agent, **changes: object
) -> tuple[tuple[list[Event], Event], tuple[list[Event], Event]]:
    """Run a job; return intervals and result of the connecting and of the listening end."""
    connect(sender, receiver, **changes)
    sender.command("start", id="job-1")
    one, two = succeed(sender, receiver)
    return one, two
