"""External programs for the job `exec`, and what is left of them."""

from __future__ import annotations

import base64
import os
import signal
import sys
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tests.agents.lab import Agent, Event, StartAgent, closed_port

Keys = dict[str, object]

FAMILY = """
trap '' TERM
sleep 1000 &
setsid sleep 1000 &
(setsid sh -c 'sleep 1000 & sleep 1000' &)
echo up
"""
"""Relatives that ignore SIGTERM, in sessions of their own, and without their parents."""
FAMILY_SIZE = 6  # with the shell that runs it


def python(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", program, *arguments]


def shell(program: str) -> list[str]:
    return ["sh", "-c", program]


class Marked:
    """An agent whose descendants, also the supervisor, are found by a mark in the environment."""

    def __init__(self, *command: Path | str) -> None:
        self._mark = b"OSMEF_TEST=" + uuid.uuid4().hex.encode()
        env = os.environ | dict([self._mark.decode().split("=")])
        self.agent = Agent(*command, env=env)

    def __enter__(self) -> Marked:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.agent.__exit__(kind, error, at)
        for pid in self.alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def alive(self) -> set[int]:
        """Find the agent and all of its descendants that have not ended."""
        found = set()
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                if process.name.isdecimal() and self._mark in _words(process / "environ"):
                    found.add(int(process.name))
        return found

    def supervisor(self) -> int:
        """Return the process between the agent and its program."""
        (pid,) = (p for p in self.alive() if _parent(p) == self.agent.process.pid)
        return pid


def _words(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\0")


def _parent(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return int(stat.rpartition(")")[2].split()[1])


def arm(agent: Agent, argv: list[str], **keys: object) -> None:
    """Have the agent hold a program ready that does not serve."""
    usual: Keys = {"id": "job-1", "argv": argv, "deadline_s": 60}
    agent.command("exec", **(usual | keys))
    agent.expect("connected")


def serve(agent: Agent, argv: list[str], **keys: object) -> list[Event]:
    """Have the agent run a program that serves, until it is ready; return what it said before."""
    agent.command("exec", id="job-1", argv=argv, serves=True, **keys)
    before = []
    while (event := agent.event())["event"] == "output":
        before.append(event)
    assert event["event"] == "listening", event
    return before


def outputs(agent: Agent) -> tuple[list[Event], Event]:
    """Return what a program prints up to its end, and the job's last event."""
    printed = []
    while (event := agent.event())["event"] == "output":
        printed.append(event)
    return printed, event


def text_of(printed: list[Event], stream: str = "stdout") -> bytes:
    """Return what a program has printed there."""
    return b"".join(
        base64.b64decode(event["data"], validate=True)
        for event in printed
        if event["stream"] == stream
    )


def run(agent: Agent, argv: list[str], **keys: object) -> tuple[list[Event], Event]:
    """Run a program to its end; return what it printed and its result."""
    arm(agent, argv, **keys)
    agent.command("start", id="job-1")
    printed, last = outputs(agent)
    assert last["event"] == "result", last
    return printed, last


def failure(agent: Agent) -> Event:
    """Return the error that ends a job, whatever its program prints before."""
    _, last = outputs(agent)
    assert last["event"] == "error", last
    return last


def try_all(start: StartAgent) -> None:
    """Have one agent do each kind of thing once."""
    agent = start()
    words = ["", "a b", "$(id)", "\N{MUSICAL SYMBOL G CLEF}", "\udcff"]
    for _ in range(2):  # what a job leaves behind meets the next one
        printed, result = run(agent, ["printf", "%s\\0", *words])
        assert text_of(printed).split(b"\0")[:-1] == [os.fsencode(word) for word in words]
        assert result["status"] == 0
        assert text_of(run(agent, ["cat"], stdin="x\n")[0]) == b"x\n"
        with tempfile.TemporaryDirectory() as folder:
            scratch: Keys = {"dir": f"{folder}/scratch", "scratch": True, "room": 1}
            run(agent, shell("mkdir -p a/b; touch a/b/c"), **scratch)
            assert list(Path(folder).iterdir()) == []
    agent.command("exec", id="job-1", argv=["./absent"], deadline_s=9)
    assert failure(agent)["kind"] == "program"
    serve(agent, shell(FAMILY + "wait"), ready="line", ready_line="up", grace_s=0.1)
    agent.command("stop", id="job-1")
    assert outputs(agent)[1]["signal"] == signal.SIGKILL
    arm(agent, shell("yes"), most_output=1_000_000)
    agent.command("start", id="job-1")
    assert failure(agent)["kind"] == "output"
    port = closed_port()
    argv = python(f"import socket, time; s = socket.create_server(('', {port})); time.sleep(99)")
    serve(agent, argv, ready="tcp", port=port)
    agent.command("abort", id="job-1")
    assert failure(agent)["kind"] == "aborted"
    assert agent.close_input() == 0
