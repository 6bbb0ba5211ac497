"""Many agents on one standard input and output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.lab import Agent, Event, job
from tests.agents.programs import shell
from tests.waiting import until

LOOPBACK = "127.0.0.1"


@pytest.fixture
def many(binary: Path) -> Iterator[Agent]:
    with Agent(binary, many=True) as many:
        yield many


def children(agent: Agent) -> list[int]:
    """Return the agents, in the order in which they were opened."""
    pid = agent.process.pid
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def open_agents(many: Agent, *numbers: int) -> dict[int, int]:
    """Open agents, and return their processes once they have said something."""
    for number in numbers:
        many.command("open", agent=number)
        many.command("clock", agent=number)
    assert sorted(many.expect("clock")["agent"] for _ in numbers) == sorted(numbers)
    return dict(zip(numbers, children(many), strict=True))


def answers(many: Agent, number: int) -> None:
    many.command("clock", agent=number)
    assert many.expect("clock")["agent"] == number


def events_of(many: Agent, number: int, last: str) -> list[Event]:
    """Return what an agent says up to an event, and hear the others out."""
    said: list[Event] = []
    while not said or said[-1]["event"] != last:
        event = many.event()
        said += [event] if event["agent"] == number else []
    return said


def until_gone(pid: int) -> None:
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_both_ends_of_a_transfer_are_on_one_connection(many: Agent) -> None:
    open_agents(many, 1, 2)
    wanted = job(duration_s=0.2, interval_s=0.1, connections=3)
    many.command("bulk", agent=1, side="listen", bind=LOOPBACK, port=0, **wanted)
    port = many.expect("listening")["port"]
    many.command("bulk", agent=2, side="connect", host=LOOPBACK, port=port, **wanted)
    assert {many.expect("connected")["agent"] for _ in range(2)} == {1, 2}
    many.command("start", agent=2, id=wanted["id"])
    ended: set[int] = set()
    while len(ended) < 2:
        event = many.event()
        ended |= {event["agent"]} if event["event"] == "result" else set()


def test_a_line_longer_than_any_pipe_takes_comes_whole(many: Agent) -> None:
    open_agents(many, 1, 2)
    wanted = job(duration_s=0.2, interval_s=0.2, connections=400)
    many.command("bulk", agent=1, side="listen", bind=LOOPBACK, port=0, **wanted)
    port = many.expect("listening")["port"]
    many.command("bulk", agent=2, side="connect", host=LOOPBACK, port=port, **wanted)
    for _ in range(2):
        many.expect("connected")
    many.command("start", agent=2, id=wanted["id"])
    result = events_of(many, 1, "result")[-1]
    assert len(result["receiving"]["flows"]) == 400
    assert len(json.dumps(result)) > 200_000


def test_a_killed_agent_is_reported_and_the_others_continue(many: Agent) -> None:
    pids = open_agents(many, 1, 2, 3)
    os.kill(pids[2], signal.SIGKILL)
    ended = {"agent": 2, "event": "ended", "status": None, "signal": 9, "message": ""}
    assert many.event() == ended
    many.command("clock", agent=2)  # this and its end may have crossed
    answers(many, 1)
    answers(many, 3)
    many.command("open", agent=4)
    answers(many, 4)


@pytest.mark.parametrize("number", [1, 0, -1, 2**31, 1.5, "1", None])
def test_an_invalid_agent_number_is_a_protocol_error(many: Agent, number: object) -> None:
    open_agents(many, 1)
    many.command("open", agent=number)
    error = many.expect("error")
    assert error["kind"] == "protocol"
    assert "agent" not in error
    answers(many, 1)


def test_a_command_that_names_no_agent_is_refused(many: Agent) -> None:
    many.command("clock")
    assert "agent" in many.expect("error")["message"]
    many.command("clock", agent=3)
    assert "no agent of this number" in many.expect("error")["message"]
    many.write(b"{\n" + b"x" * 20_000 + b"\n")
    assert [many.expect("error")["kind"] for _ in range(2)] == ["protocol"] * 2


def test_the_end_of_the_input_is_that_of_all_and_of_their_programs(
    many: Agent, tmp_path: Path
) -> None:
    pids = open_agents(many, 1, 2)
    told = tmp_path / "pid"
    many.command("exec", agent=2, id="p", argv=shell(f"echo $$ >{told}; sleep 1000"), deadline_s=60)
    many.expect("connected")
    many.command("start", agent=2, id="p")
    until(lambda: told.exists() and told.read_text().endswith("\n"))
    assert many.close_input() == 0
    for pid in (*pids.values(), int(told.read_text())):
        until_gone(pid)


def test_the_agents_end_when_their_parent_is_killed(many: Agent) -> None:
    pids = open_agents(many, 1, 2)
    many.process.kill()
    for pid in pids.values():
        until_gone(pid)


def test_an_agent_that_reads_no_commands_is_killed_before_it_blocks_the_others(many: Agent) -> None:
    pids = open_agents(many, 1, 2)
    os.kill(pids[1], signal.SIGSTOP)
    for _ in range(100):
        many.command("clock", agent=1, filling="x" * 10_000)
    assert many.expect("ended")["signal"] == signal.SIGKILL
    answers(many, 2)


def may_be_first() -> bool:
    """Tell whether programs here may have a real-time policy."""
    command = ["chrt", "--fifo", "1", "true"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def policies(pid: int) -> set[int]:
    """Return the scheduling policies of a process's threads."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return {os.sched_getscheduler(int(one.name)) for one in threads}


@pytest.mark.parametrize("then", ["start", "abort"])
def test_an_agent_that_waits_for_its_start_time_has_real_time_priority_until_then(
    many: Agent, then: str
) -> None:
    pids = open_agents(many, 1, 2)
    wanted = job(duration_s=0.2, interval_s=0.1, connections=2)
    many.command("bulk", agent=1, side="listen", bind=LOOPBACK, port=0, **wanted)
    port = many.expect("listening")["port"]
    many.command("bulk", agent=2, side="connect", host=LOOPBACK, port=port, **wanted)
    for _ in range(2):
        many.expect("connected")
    far_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 3_600_000_000_000
    many.command("start", agent=2, id=wanted["id"], at_monotonic_ns=far_ns)
    answers(many, 2)
    waiting = {os.SCHED_FIFO} if may_be_first() else {os.SCHED_OTHER}
    assert os.sched_getscheduler(pids[2]) in waiting
    many.command(then, agent=2, id=wanted["id"])
    assert events_of(many, 2, "result" if then == "start" else "error")
    assert policies(pids[2]) == {os.SCHED_OTHER}
