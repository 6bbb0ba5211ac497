"""Whatever an external program starts is gone after its job, and after its agent."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.compiling import compile_with
from tests.agents.lab import TIMEOUT_S, Agent
from tests.agents.programs import (
    FAMILY,
    FAMILY_SIZE,
    Keys,
    Marked,
    arm,
    failure,
    outputs,
    run,
    serve,
    shell,
)
from tests.waiting import until

HERE = Path(__file__).parent


def start_descendants(marked: Marked, then: str = "wait") -> None:
    """Run a program that has many descendants."""
    keys: Keys = {"ready": "line", "ready_line": "up", "grace_s": 0.1}
    serve(marked.agent, shell(FAMILY + then), **keys)


def test_a_program_that_ends_leaves_nothing(marked: Marked) -> None:
    start_descendants(marked, "sleep 0.2; exit 5")
    _, result = outputs(marked.agent)
    assert (result["status"], result["signal"]) == (5, None)
    assert marked.alive() == {marked.agent.process.pid}
    marked.agent.idle()


@pytest.mark.parametrize("command", ["stop", "abort"])
def test_a_program_that_is_ended_leaves_nothing(marked: Marked, command: str) -> None:
    start_descendants(marked)
    until(lambda: len(marked.alive()) == FAMILY_SIZE + 2)
    marked.agent.command(command, id="job-1")
    assert outputs(marked.agent)[1]["event"] == ("result" if command == "stop" else "error")
    assert marked.alive() == {marked.agent.process.pid}
    marked.agent.idle()


def test_a_deadline_leaves_nothing(marked: Marked) -> None:
    arm(marked.agent, shell(FAMILY + "wait"), deadline_s=0.5)
    marked.agent.command("start", id="job-1")
    assert failure(marked.agent)["kind"] == "deadline"
    assert marked.alive() == {marked.agent.process.pid}


@pytest.mark.parametrize("stage", ["armed", "running"])
def test_the_end_of_input_leaves_nothing(marked: Marked, stage: str) -> None:
    """Once the agent is gone, all else is gone, too."""
    if stage == "armed":
        arm(marked.agent, ["true"])
    else:
        start_descendants(marked)
        until(lambda: len(marked.alive()) == FAMILY_SIZE + 2)
    assert marked.agent.close_input() == 0
    assert marked.alive() == set()


@pytest.mark.parametrize("stage", ["armed", "running"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_agent_that_is_killed_leaves_nothing(
    marked: Marked, number: signal.Signals, stage: str
) -> None:
    if stage == "armed":
        arm(marked.agent, ["true"])
    else:
        start_descendants(marked)
        until(lambda: len(marked.alive()) == FAMILY_SIZE + 2)
    marked.agent.process.send_signal(number)
    marked.agent.process.wait(TIMEOUT_S)
    until(lambda: not marked.alive())


def test_a_supervisor_that_is_killed_leaves_nothing(marked: Marked) -> None:
    """The agent does its work then."""
    start_descendants(marked)
    until(lambda: len(marked.alive()) == FAMILY_SIZE + 2)
    os.kill(marked.supervisor(), signal.SIGKILL)
    event = failure(marked.agent)
    assert (event["kind"], "supervisor" in event["message"]) == ("resource", True)
    assert marked.alive() == {marked.agent.process.pid}
    assert run(marked.agent, ["true"])[1]["status"] == 0


def test_signals_to_the_supervisor_change_nothing(marked: Marked) -> None:
    serve(marked.agent, ["sleep", "1000"])
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGCHLD, signal.SIGUSR1):
        os.kill(marked.supervisor(), number)
    marked.agent.command("stop", id="job-1")
    assert outputs(marked.agent)[1]["signal"] == signal.SIGTERM


@pytest.fixture(scope="module")
def restless(tmp_path_factory: pytest.TempPathFactory) -> str:
    program = tmp_path_factory.mktemp("restless") / "restless"
    return str(compile_with("gcc", program, ["-O1", "-Wall"], [HERE / "c" / "restless.c"]))


@pytest.mark.parametrize("chains", ["1", "100"])
@pytest.mark.parametrize("end", ["abort", "kill"])
def test_processes_that_keep_forking_are_killed(
    marked: Marked, restless: str, chains: str, end: str
) -> None:
    """Each in a session of its own, with a parent that has ended, and gone in a moment."""
    serve(marked.agent, [restless, chains], ready="line", ready_line="up")
    if end == "abort":
        marked.agent.command("abort", id="job-1")
        assert failure(marked.agent)["kind"] == "aborted"
        assert marked.alive() == {marked.agent.process.pid}
    else:
        marked.agent.process.kill()
        marked.agent.process.wait(TIMEOUT_S)
        until(lambda: not marked.alive())


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may read."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_process_that_cannot_be_killed_is_reported(binary: Path, open_folder: Path) -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root, to be another user")
    program, here = open_folder / "of_root", open_folder / "agent"
    compile_with("gcc", program, ["-O1", "-Wall"], [HERE / "c" / "of_root.c"])
    program.chmod(0o4755)
    shutil.copy(binary, here)
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    with Marked(*nobody, here) as marked:
        serve(marked.agent, [str(program)], ready="line", ready_line="up")
        marked.agent.command("stop", id="job-1")
        event = failure(marked.agent)
        assert (event["kind"], "can't be killed: 1;" in event["message"]) == ("left", True)
        assert run(marked.agent, ["true"])[1]["status"] == 0


def belongings(agent: Agent) -> int:
    return len(list(Path(f"/proc/{agent.process.pid}/fd").iterdir()))


def test_the_agent_keeps_nothing_of_a_job(marked: Marked) -> None:
    agent = marked.agent
    had = belongings(agent)
    for _ in range(3):
        run(agent, ["cat"], stdin="x")
        agent.command("exec", id="job-1", argv=["absent"], deadline_s=9)
        failure(agent)
        serve(agent, ["sleep", "1000"])
        agent.command("stop", id="job-1")
        outputs(agent)
    assert belongings(agent) == had
    assert agent.threads() == 1
    assert marked.alive() == {agent.process.pid}
