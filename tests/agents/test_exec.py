"""External programs run by the real agent: exactly as asked, bounded, and with nothing left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from osmef.agent.messages import (
    MOST_OUTPUT_BYTES,
    ExecResult,
    OutputEnded,
    OutputEvent,
    parse_event,
)
from tests.agents.lab import TIMEOUT_S, Agent, StartAgent, connect, succeed
from tests.agents.programs import (
    Keys,
    Marked,
    arm,
    failure,
    outputs,
    python,
    run,
    shell,
    text_of,
)
from tests.waiting import until

HERE = Path(__file__).parent
NS_PER_S = 1_000_000_000


@pytest.fixture
def agent(start: StartAgent) -> Agent:
    return start()


@pytest.fixture(scope="module")
def lasting(binary: Path) -> Iterator[Agent]:
    """One agent for many examples."""
    with Agent(binary) as agent:
        yield agent


# --- what the program gets --------------------------------------------------------------------

words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])).map(os.fsencode)
bytes_words = st.binary().filter(lambda word: b"\0" not in word)


@given(st.lists(words | bytes_words, min_size=1, max_size=20))
@example([b"", b"a b", b"\"'\\", b"$(id) `id` $HOME", b"--", b"-e", b"\n\r\t", b"\xff\xc3"])
@example(["\N{MUSICAL SYMBOL G CLEF}\u00e4\u20ac".encode(), b"\xed\xa0\x80", b"*", b"~", b""])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arguments_arrive_exactly(lasting: Agent, arguments: list[bytes]) -> None:
    printed, result = run(lasting, ["printf", "%s\\0", *map(os.fsdecode, arguments)])
    assert text_of(printed).split(b"\0")[:-1] == arguments
    assert result["status"] == 0


def test_four_thousand_arguments_arrive(agent: Agent) -> None:
    """As many as a command holds."""
    printed, _ = run(agent, ["printf", "%s\\n", *[""] * 4000])
    assert text_of(printed) == b"\n" * 4000


def test_raw_utf8_is_as_good_as_escapes(agent: Agent) -> None:
    agent.write(b'{"cmd":"exec","id":"job-1","argv":["echo","\xc3\xa4\xff"],"deadline_s":9}\n')
    agent.expect("connected")
    agent.command("start", id="job-1")
    assert text_of(outputs(agent)[0]) == b"\xc3\xa4\xff\n"


def test_a_program_gets_its_environment_directory_and_input(agent: Agent, tmp_path: Path) -> None:
    name, value, text = "A_B", "x=y \n'\udcfe", "two\nlines \udcff without an end"
    argv = shell("cat; printf '%s' \"$A_B\"; pwd")
    printed, _ = run(agent, argv, env=[f"{name}={value}"], dir=str(tmp_path), stdin=text)
    assert text_of(printed) == os.fsencode(text + value) + bytes(tmp_path) + b"\n"


def test_by_default_a_program_has_the_login_s_environment_and_no_input(agent: Agent) -> None:
    printed, _ = run(agent, shell('cat; readlink /proc/self/fd/0; echo "$HOME"'), env=["Z=1"])
    assert text_of(printed).decode() == f"/dev/null\n{os.environ['HOME']}\n"


def test_a_relative_directory_is_below_the_agents(agent: Agent) -> None:
    printed, _ = run(agent, ["pwd"], dir="tests")
    assert text_of(printed).decode() == f"{Path.cwd()}/tests\n"


# 32 to 34, which C libraries keep for themselves (nptl(7)): who started the tests may ignore some.
_OF_THE_LIBRARY = 0b111 << 31


def test_nothing_of_the_agent_is_inherited(binary: Path) -> None:
    """Neither what it was given itself, nor what it has changed."""
    odd = 'trap \'\' INT HUP USR1 CHLD; umask 077; ulimit -Sn 200; exec "$0" "$@" 7</dev/null'
    program = "ls /proc/self/fd; grep -E 'Sig(Ign|Blk)' /proc/self/status; umask; ulimit -n"
    with Agent("sh", "-c", odd, binary) as agent:
        printed, _ = run(agent, shell(program))
    lines = text_of(printed).decode().split("\n")
    assert lines[:4] == ["0", "1", "2", "3"]  # 3 is the directory that ls reads
    signals = {line.split()[0]: int(line.split()[1], 16) for line in lines[4:6]}
    assert {name: bits & ~_OF_THE_LIBRARY for name, bits in signals.items()} == {
        "SigBlk:": 0,
        "SigIgn:": 0,
    }
    assert lines[6:] == ["0022", "200", ""]


def test_it_has_a_session_and_a_group_of_its_own(agent: Agent) -> None:
    program = "import os; print(os.getpid(), os.getsid(0), os.getpgrp())"
    printed, _ = run(agent, python(program))
    pid, session, group = text_of(printed).split()
    assert pid == session == group


# --- how it ends ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "status", "number"),
    [
        ("exit 0", 0, None),
        ("exit 255", 255, None),
        ("kill -SEGV $$", None, signal.SIGSEGV),
        ("kill -KILL $$", None, signal.SIGKILL),
    ],
)
def test_the_exit_status_or_signal_of_a_program_is_reported_as_it_is(
    agent: Agent, program: str, status: int | None, number: int | None
) -> None:
    _, result = run(agent, shell(program))
    assert (result["status"], result["signal"], result["stopped"]) == (status, number, False)
    agent.idle()


USES = """
import os, subprocess, sys, time
burn = "import time\\nwhile time.process_time() < 0.2: pass"
subprocess.run([sys.executable, "-c", burn])
much = b"x" * int(sys.argv[1])
ready, tell = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        exec(burn)
        os.write(tell, b"x")
        time.sleep(1000)
    os._exit(0)
os.read(ready, 1)
"""


def test_the_resource_usage_of_a_program_is_reported(agent: Agent) -> None:
    """With its children, whether it has waited for them or not."""
    before_ns, size = time.time_ns(), 64 << 20
    _, raw = run(agent, python(USES, str(size)))
    result = ExecResult.model_validate(raw)
    assert before_ns <= result.start_realtime_ns <= time.time_ns()
    assert 0.4 <= result.process.cpu_user_s + result.process.cpu_system_s < TIMEOUT_S
    assert result.process.max_rss_kb is not None
    assert result.process.max_rss_kb > size >> 10
    assert result.endpoint.cpus > 0
    assert 0.2 <= result.elapsed_s < TIMEOUT_S
    assert 0.2 <= result.endpoint.elapsed_s < TIMEOUT_S


def test_the_deadline_kills_and_shows_the_end_of_the_output(agent: Agent) -> None:
    arm(agent, shell("echo one two >&2; sleep 1000"), deadline_s=0.3)
    agent.command("start", id="job-1")
    event = failure(agent)
    assert event["kind"] == "deadline"
    assert event["message"].endswith("after 0.3 s; the end of what it printed: one two")
    agent.idle()


def test_unprintable_output_is_mentioned_in_the_error(agent: Agent) -> None:
    arm(agent, ["head", "-c", "999", "/dev/zero"], most_output=500)
    agent.command("start", id="job-1")
    message = "the program printed more than 500 bytes; it printed nothing that can be shown"
    assert failure(agent)["message"] == message


# --- what can't be run ------------------------------------------------------------------------


def complaint_at_arming(agent: Agent, argv: list[str], **keys: object) -> str:
    agent.command("exec", id="job-1", argv=argv, deadline_s=9, **keys)
    event = agent.expect("error")
    assert (event["id"], event["kind"]) == ("job-1", "program"), event
    message: str = event["message"]
    return message


@pytest.fixture
def unfit(tmp_path: Path) -> Path:
    """A folder of files that can't be run."""
    shutil.copy("/bin/true", tmp_path / "foreign")
    with (tmp_path / "foreign").open("r+b") as file:
        file.seek(18)
        file.write(b"\xfe\xfe")  # no such machine (elf.h)
    (tmp_path / "text").write_text("echo hello\n")
    (tmp_path / "orphan").write_text("#!/nowhere/interpreter\n")
    for name in ("foreign", "text", "orphan"):
        (tmp_path / name).chmod(0o755)
    (tmp_path / "data").write_text("#!/bin/sh\n")
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("absent", "No such file"),
        ("orphan", "No such file"),
        ("data", "Permission denied"),
        ("folder", "Permission denied"),
        ("foreign", "Exec format error"),
        ("text", "Exec format error"),
    ],
)
def test_a_program_that_cannot_be_executed_is_reported_at_arming(
    agent: Agent, unfit: Path, name: str, why: str
) -> None:
    for program, keys in (
        (str(unfit / name), Keys()),
        (f"./{name}", Keys(dir=str(unfit))),
        (name, Keys(env=[f"PATH={unfit}"])),
    ):
        assert f"can't run {program}: {why}" in complaint_at_arming(agent, [program], **keys)
    agent.idle()


@pytest.mark.parametrize(
    ("name", "folder", "explanation"),
    [
        ("absent", "", "it is in no folder of PATH"),
        ("absent", "{}/", "it is missing"),
        ("orphan", "{}/", "the loader or interpreter that it asks for is missing"),
        ("orphan", "", "the loader or interpreter that it asks for is missing"),
        ("foreign", "{}/", "no program for this kind of machine"),
    ],
)
def test_why_it_can_not_be_run_is_explained(
    agent: Agent, unfit: Path, name: str, folder: str, explanation: str
) -> None:
    program = f"{folder.format(unfit)}{name}"
    message = complaint_at_arming(agent, [program], env=[f"PATH={unfit}"])
    assert message.endswith(explanation)


def test_a_directory_that_is_not_there(agent: Agent) -> None:
    message = complaint_at_arming(agent, ["true"], dir="/not/there")
    assert "/not/there: No such file" in message


def test_a_program_is_looked_up_in_the_path_of_its_environment(
    agent: Agent, tmp_path: Path
) -> None:
    for folder in ("one", "two", "three"):
        (tmp_path / folder).mkdir()
    (tmp_path / "one" / "here").mkdir()  # is passed over
    (tmp_path / "two" / "here").write_text("not for running")
    (tmp_path / "three" / "here").write_text("#!/bin/sh\necho three\n")
    (tmp_path / "three" / "here").chmod(0o755)
    path = ":".join(str(tmp_path / folder) for folder in ("none", "one", "two", "three"))
    printed, _ = run(agent, ["here"], env=[f"PATH={path}"])
    assert text_of(printed) == b"three\n"


def test_trying_a_program_does_not_run_it(agent: Agent, tmp_path: Path) -> None:
    arm(agent, ["touch", "trace"], dir=str(tmp_path))
    agent.idle()
    assert list(tmp_path.iterdir()) == []
    agent.command("abort", id="job-1")
    assert failure(agent)["kind"] == "aborted"
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_is_gone_at_its_start(agent: Agent, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    arm(agent, [str(program)])
    program.unlink()
    agent.command("start", id="job-1")
    event = failure(agent)
    assert event["kind"] == "program"
    assert "No such file" in event["message"]
    agent.idle()


# --- the start --------------------------------------------------------------------------------


def test_it_is_started_at_the_moment_that_was_named(start: StartAgent) -> None:
    """Two at once, by two agents."""
    agents = start(), start()
    for one in agents:
        arm(one, python("import time; print(time.monotonic_ns())"))
    agents[0].command("clock")
    moment_ns = agents[0].expect("clock")["monotonic_ns"] + NS_PER_S // 5
    for one in agents:
        one.command("start", id="job-1", at_monotonic_ns=moment_ns)
    for one in agents:
        printed, result = outputs(one)
        assert result["status"] == 0
        assert int(text_of(printed)) >= moment_ns


def test_the_start_is_awaited_for_a_while(agent: Agent) -> None:
    arm(agent, ["true"], arm_timeout_s=1)
    event = failure(agent)
    assert (event["kind"], "not started" in event["message"]) == ("arm-timeout", True)
    agent.idle()


def test_a_program_killed_before_its_start_is_reported(marked: Marked) -> None:
    arm(marked.agent, ["true"])
    (held,) = marked.alive() - {marked.agent.process.pid, marked.supervisor()}
    os.kill(held, signal.SIGKILL)
    event = failure(marked.agent)
    assert (event["kind"], "before its start" in event["message"]) == ("program", True)


# --- what it prints ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, MOST_OUTPUT_BYTES, MOST_OUTPUT_BYTES + 1])
def test_output_bytes_are_reported_exactly(agent: Agent, size: int) -> None:
    program = "import sys; sys.stdout.buffer.write((bytes(range(256)) * 999)[: int(sys.argv[1])])"
    printed, result = run(agent, python(program, str(size)))
    assert text_of(printed) == (bytes(range(256)) * 999)[:size]
    assert (result["stdout_bytes"], result["stderr_bytes"]) == (size, 0)
    for event in printed:
        assert 0 <= event["at_s"] <= result["elapsed_s"] + TIMEOUT_S


def test_both_streams_are_kept_apart(agent: Agent) -> None:
    program = "import os\nfor i in range(999): os.write(1 + i % 2, b'%d\\n' % i)"
    printed, result = run(agent, python(program))
    for number, stream in enumerate(("stdout", "stderr")):
        expected = b"".join(b"%d\n" % i for i in range(999) if i % 2 == number)
        assert text_of(printed, stream) == expected
        assert result[f"{stream}_bytes"] == len(expected)
    assert len(printed) < 500, "what comes in little pieces is told in larger ones"


def test_a_program_that_closes_its_output_early_runs_on(agent: Agent) -> None:
    program = "echo last words; exec >&- 2>&-; sleep 0.3; exit 6"
    printed, result = run(agent, shell(program))
    assert text_of(printed) == b"last words\n"
    assert (result["status"], result["elapsed_s"] > 0.3) == (6, True)


def resident_kb(agent: Agent) -> int:
    pages = int(Path(f"/proc/{agent.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 10


def test_a_flood_does_not_make_the_agent_grow(agent: Agent) -> None:
    size = 100_000_000
    arm(agent, ["head", "-c", str(size), "/dev/zero"], most_output=size)
    before_kb = resident_kb(agent)
    agent.command("start", id="job-1")
    printed = 0
    while (event := agent.event())["event"] == "output":
        assert len(event["data"]) <= MOST_OUTPUT_BYTES * 4 / 3
        printed += len(event["data"]) * 3 // 4 - event["data"].count("=")
    assert resident_kb(agent) < before_kb + 1024
    assert printed == event["stdout_bytes"] == size


def test_a_program_waits_for_a_controller_that_reads_slowly(marked: Marked) -> None:
    """It fills its pipe, and no more is taken from it."""
    agent = marked.agent
    arm(agent, ["head", "-c", "5000000", "/dev/zero"])
    (program,) = marked.alive() - {agent.process.pid, marked.supervisor()}
    agent.command("start", id="job-1")
    wchan = Path(f"/proc/{program}/stat")
    written = [-1]

    def stands_still() -> bool:
        before, written[0] = written[0], _written(program)
        return 0 < before == written[0] and wchan.read_text().split()[2] == "S"

    until(stands_still)
    assert written[0] < 2_000_000
    assert resident_kb(agent) < 4096
    assert len(text_of(outputs(agent)[0])) == 5_000_000


def _written(pid: int) -> int:
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("wchar")))


@pytest.mark.parametrize("most", [0, 1000, 100_000])
def test_output_beyond_the_limit_is_an_error(marked: Marked, most: int) -> None:
    arm(marked.agent, shell("yes 'no end'"), most_output=most)
    marked.agent.command("start", id="job-1")
    printed, event = outputs(marked.agent)
    assert (event["event"], event["kind"]) == ("error", "output")
    assert f"more than {most} bytes" in event["message"]
    assert len(text_of(printed)) == most
    assert marked.alive() == {marked.agent.process.pid}


def test_output_up_to_the_limit_is_accepted(agent: Agent) -> None:
    printed, _ = run(agent, ["printf", "12345"], most_output=5)
    assert text_of(printed) == b"12345"


# --- the command ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"argv": None}, "argv"),
        ({"argv": []}, "argv"),
        ({"argv": [""]}, "argv"),
        ({"argv": "true"}, "argv"),
        ({"argv": ["true", 1]}, "a list"),
        ({"argv": ["true", ["x"]]}, "a list"),
        ({"argv": ["true", "\0"]}, "a string"),
        ({"argv": ["true", "\ud800"]}, "a string"),
        ({"env": ["A"]}, "env"),
        ({"env": ["=A"]}, "env"),
        ({"env": {"A": "B"}}, "a value"),
        ({"dir": 7}, "dir"),
        ({"stdin": 7}, "stdin"),
        ({"serves": "yes"}, "serves"),
        ({"ready": "tcp"}, "ready"),
        ({"serves": True, "ready": "soon"}, "ready"),
        ({"serves": True, "ready": "tcp"}, "port"),
        ({"serves": True, "ready": "udp", "port": 0}, "port"),
        ({"serves": True, "ready": "line"}, "ready_line"),
        ({"serves": True, "ready": "line", "ready_line": "x" * 256}, "ready_line"),
        ({"deadline_s": None}, "deadline_s"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"grace_s": -1}, "grace_s"),
        ({"most_output": -1}, "most_output"),
        ({"arm_timeout_s": "soon"}, "arm_timeout_s"),
    ],
)
def test_a_wrong_value_is_named(lasting: Agent, changes: Keys, named: str) -> None:
    keys: Keys = {"id": "job-1", "argv": ["true"], "deadline_s": 9}
    lasting.command("exec", **(keys | changes))
    event = lasting.expect("error")
    assert (event["id"], event["kind"]) == (None, "protocol")
    assert event["message"].startswith(named)
    lasting.idle()


def test_the_controller_parses_the_events_of_the_agent(agent: Agent) -> None:
    printed, result = run(agent, ["printf", "\\377"])
    event = parse_event(json.dumps(printed[0]))
    assert isinstance(event, OutputEvent)
    assert (event.stream, event.data) == ("stdout", b"\xff")
    assert isinstance(parse_event(json.dumps(result)), ExecResult)
    for wrong in (
        printed[0] | {"data": "%%%%"},
        printed[0] | {"data": ""},
        printed[0] | {"data": "AAAA" * MOST_OUTPUT_BYTES},
        printed[0] | {"stream": "stdlog"},
        printed[0] | {"at_s": -1},
        result | {"status": None},
        result | {"signal": 9},
        result | {"status": 256},
        result | {"stdout_bytes": -1},
    ):
        assert isinstance(parse_event(json.dumps(wrong)), OutputEnded)


def test_a_program_runs_beside_a_transfer(start: StartAgent) -> None:
    sender, receiver, other = start(), start(), start()
    connect(sender, receiver, connections=4)
    arm(other, python("print(sum(range(10**6)))"))
    for one in (sender, other):
        one.command("start", id="job-1")
    succeed(sender, receiver)
    printed, result = outputs(other)
    assert (text_of(printed), result["status"]) == (b"499999500000\n", 0)
