"""The directory that a program gets for itself: made for the job, and gone with it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.agents.lab import TIMEOUT_S, Agent, StartAgent
from tests.agents.programs import Keys, Marked, arm, failure, outputs, run, serve, shell, text_of
from tests.waiting import until

TREE = """
mkdir -p a/b/c 'odd
name' locked
touch a/1 a/b/2 'odd
name/3' locked/4 .hidden -- -rf
ln -s "$OUTSIDE" link; ln -s nowhere dangling; ln 'a/1' hard; mkfifo fifo
chmod 0 locked a/b; chmod 555 a
echo up
"""
"""What is hard to remove."""
TOO_MUCH = 2**53


@pytest.fixture
def agent(start: StartAgent) -> Agent:
    return start()


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with a file, to which a link of the program's leads."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "kept").write_text("kept")
    return folder


def keys(scratch: Path, outside: Path, **more: object) -> Keys:
    return {"dir": str(scratch), "scratch": True, "env": [f"OUTSIDE={outside}"], **more}


def gone(scratch: Path, outside: Path) -> bool:
    """Tell whether it is gone, and nothing else is."""
    assert (outside / "kept").read_text() == "kept"
    return not scratch.exists()


def test_the_program_works_in_a_directory_of_its_own(agent: Agent, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    printed, _ = run(agent, shell("pwd; stat -c %a ."), dir=str(scratch), scratch=True)
    assert text_of(printed).decode() == f"{scratch}\n700\n"
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_ends_leaves_no_file(agent: Agent, tmp_path: Path, outside: Path) -> None:
    scratch = tmp_path / "scratch"
    for _ in range(2):  # it can be made again
        run(agent, shell(TREE), **keys(scratch, outside))
        assert gone(scratch, outside)


@pytest.mark.parametrize("command", ["stop", "abort"])
def test_a_program_that_is_ended_leaves_no_file(
    agent: Agent, tmp_path: Path, outside: Path, command: str
) -> None:
    scratch = tmp_path / "scratch"
    ready = {"ready": "line", "ready_line": "up"}
    serve(agent, shell(TREE + "exec sleep 1000"), **keys(scratch, outside, **ready))
    assert (scratch / "a").exists()
    agent.command(command, id="job-1")
    outputs(agent)
    until(lambda: gone(scratch, outside))


def test_a_deadline_leaves_no_file(agent: Agent, tmp_path: Path, outside: Path) -> None:
    scratch = tmp_path / "scratch"
    arm(agent, shell(TREE + "exec sleep 1000"), **keys(scratch, outside, deadline_s=0.5))
    agent.command("start", id="job-1")
    assert failure(agent)["kind"] == "deadline"
    assert gone(scratch, outside)


@pytest.mark.parametrize("how", ["input", "agent", "supervisor"])
@pytest.mark.parametrize("stage", ["armed", "running"])
def test_a_kill_leaves_no_file(
    marked: Marked, tmp_path: Path, outside: Path, stage: str, how: str
) -> None:
    scratch = tmp_path / "scratch"
    if stage == "armed":
        arm(marked.agent, ["true"], **keys(scratch, outside))
    else:
        ready = {"ready": "line", "ready_line": "up"}
        serve(marked.agent, shell(TREE + "exec sleep 1000"), **keys(scratch, outside, **ready))
    assert scratch.exists()
    match how:
        case "input":
            assert marked.agent.close_input() == 0
        case "agent":
            marked.agent.process.kill()
            marked.agent.process.wait(TIMEOUT_S)
        case _:
            os.kill(marked.supervisor(), signal.SIGKILL)
            failure(marked.agent)
    until(lambda: gone(scratch, outside))


@pytest.mark.parametrize("argv", [["no-such-program-here"], ["/etc/passwd"]])
def test_a_program_that_cannot_be_executed_leaves_no_directory(
    agent: Agent, tmp_path: Path, argv: list[str]
) -> None:
    scratch = str(tmp_path / "scratch")
    agent.command("exec", id="job-1", argv=argv, dir=scratch, scratch=True, deadline_s=9)
    assert failure(agent)["kind"] == "program"
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_there_is_not_taken(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    scratch = str(tmp_path)
    agent.command("exec", id="job-1", argv=["true"], dir=scratch, scratch=True, deadline_s=9)
    event = failure(agent)
    assert (event["kind"], "File exists" in event["message"]) == ("directory", True)
    assert (tmp_path / "mine").read_text() == "kept"


def test_a_scratch_directory_that_cannot_be_created_is_reported(
    agent: Agent, tmp_path: Path
) -> None:
    scratch = str(tmp_path / "no" / "scratch")
    agent.command("exec", id="job-1", argv=["true"], dir=scratch, scratch=True, deadline_s=9)
    event = failure(agent)
    assert event["kind"] == "directory"
    assert event["message"] == f"can't make the directory {scratch}: No such file or directory"


def test_too_little_disk_space_is_reported_with_the_missing_amount(
    agent: Agent, tmp_path: Path
) -> None:
    scratch = str(tmp_path / "scratch")
    asked: Keys = {"dir": scratch, "scratch": True, "deadline_s": 9, "room": TOO_MUCH}
    agent.command("exec", id="job-1", argv=["true"], **asked)
    event = failure(agent)
    files = os.statvfs(tmp_path)
    free = files.f_frsize * (files.f_bavail if os.geteuid() else files.f_bfree)
    assert event["kind"] == "room"
    assert f"needs {TOO_MUCH / 1e6:.1f} MB in {tmp_path}, and " in event["message"]
    told = [float(word) for word in event["message"].split() if word.replace(".", "").isdigit()]
    assert told[0] == pytest.approx(told[1] + told[2], abs=0.11)
    assert told[1] == pytest.approx(free / 1e6, rel=0.05)
    assert list(tmp_path.iterdir()) == []
    assert run(agent, ["true"], **(asked | {"room": 1000}))[1]["status"] == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"scratch": True}, "needs dir"), ({"dir": "/", "room": 1}, "only with scratch")],
)
def test_invalid_arguments_are_rejected(agent: Agent, wrong: Keys, said: str) -> None:
    agent.command("exec", id="job-1", argv=["true"], deadline_s=9, **wrong)
    event = agent.expect("error")
    assert (event["kind"], said in event["message"]) == ("protocol", True)


def test_a_file_that_cannot_be_removed_is_reported(agent: Agent, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    probe = tmp_path / "probe"
    probe.touch()
    chattr = shutil.which("chattr")
    if chattr is None or subprocess.run([chattr, "+i", probe], check=False).returncode:
        pytest.skip("no file can be made immutable here: needs root and chattr of e2fsprogs")
    subprocess.run([chattr, "-i", probe], check=True)
    try:
        arm(agent, shell("touch a b c; chattr +i b"), dir=str(scratch), scratch=True)
        agent.command("start", id="job-1")
        event = failure(agent)
        assert event["kind"] == "directory"
        assert f"left in {scratch} can't be removed" in event["message"]
        assert [path.name for path in scratch.iterdir()] == ["b"]
    finally:
        subprocess.run([chattr, "-i", scratch / "b"], check=True)
