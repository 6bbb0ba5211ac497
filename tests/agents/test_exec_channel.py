"""A program's channel: what it writes there is reported, and what is written comes to it."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.agents.lab import Agent, Event, StartAgent, connect
from tests.agents.programs import arm, failure, outputs, python, run, shell, text_of

TALK = """
import os, socket
channel = socket.socket(fileno=int(os.environ["TALK_FD"]))
for line in channel.makefile("r", newline="\\n"):
    print("heard", line, end="", flush=True)
    channel.sendall(line.upper().encode())
    if line == "end\\n":
        break
"""
CLOSE = """
import os, time
os.close(int(os.environ["TALK_FD"]))
os.write(1, b"closed\\n")
time.sleep(99)
"""


@pytest.fixture
def agent(start: StartAgent) -> Agent:
    return start()


def said(event: Event) -> bytes:
    assert (event["event"], event["stream"]) == ("output", "channel")
    return base64.b64decode(event["data"], validate=True)


def answer(agent: Agent, line: str, printed: list[Event]) -> bytes:
    """Write a line, and return what the program says to it; what it prints is added to a list."""
    agent.command("write", id="job-1", text=line)
    while (event := agent.event())["stream"] != "channel":
        printed.append(event)
    return said(event)


def test_lines_are_exchanged_with_a_program_over_its_channel(agent: Agent) -> None:
    arm(agent, python(TALK), channel="TALK_FD")
    agent.command("start", id="job-1")
    printed: list[Event] = []
    for line in ("one\n", '\N{MUSICAL SYMBOL G CLEF} \\ "\n', "x" * 15_000 + "\n", "end\n"):
        assert answer(agent, line, printed) == line.upper().encode()
    more, result = outputs(agent)
    assert text_of([*printed, *more]).count(b"heard") == 4
    assert result["status"] == 0
    agent.idle()


def test_channel_input_written_before_the_start_is_delivered(agent: Agent) -> None:
    arm(agent, python(TALK), channel="TALK_FD")
    agent.command("write", id="job-1", text="first\nen")
    agent.command("write", id="job-1", text="d\n")
    agent.command("start", id="job-1")
    printed, result = outputs(agent)
    assert text_of(printed, "channel") == b"FIRST\nEND\n"
    assert result["status"] == 0


def test_it_is_the_only_further_descriptor_that_the_program_gets(agent: Agent) -> None:
    program = 'ls /proc/self/fd; echo "fd $TALK_FD"; echo "$PLAIN"'
    printed, _ = run(agent, shell(program), channel="TALK_FD", env=["PLAIN=yes", "TALK_FD=no"])
    *fds, told, plain = text_of(printed).decode().split("\n")[:-1]
    number = told.removeprefix("fd ")
    assert sorted(fds) == sorted({"0", "1", "2", "3", number} if number != "3" else {*"01234"})
    assert plain == "yes"


def test_writes_to_a_program_that_closed_its_channel_are_ignored(agent: Agent) -> None:
    arm(agent, python(CLOSE), channel="TALK_FD")
    agent.command("start", id="job-1")
    assert base64.b64decode(agent.expect("output")["data"]) == b"closed\n"
    for _ in range(10):  # more than the agent would keep
        agent.command("write", id="job-1", text="x" * 15_000)
    agent.command("stop", id="job-1")
    printed, result = outputs(agent)
    assert (printed, result["stopped"]) == ([], True)


def test_a_program_that_does_not_read_its_channel_is_an_error(agent: Agent) -> None:
    arm(agent, shell("sleep 99"), channel="TALK_FD")
    for _ in range(100):
        agent.command("write", id="job-1", text="x" * 15_000)
    event = agent.expect("error")
    assert (event["id"], event["kind"]) == (None, "protocol")
    assert "does not read" in event["message"]
    agent.command("abort", id="job-1")
    while (event := agent.expect("error"))["id"] is None:
        pass
    assert event["kind"] == "aborted"


def test_bytes_on_the_channel_count_against_the_output_limit(agent: Agent) -> None:
    program = "import os\nwhile True: os.write(int(os.environ['TALK_FD']), b'x' * 1000)"
    arm(agent, python(program), channel="TALK_FD", most_output=100_000)
    agent.command("start", id="job-1")
    error = failure(agent)
    assert error["kind"] == "output"
    assert "xxx" not in error["message"]


def test_a_write_to_a_program_without_a_channel_is_rejected(agent: Agent) -> None:
    arm(agent, shell("sleep 99"))
    agent.command("write", id="job-1", text="x")
    assert failure(agent)["kind"] == "protocol"


@pytest.mark.parametrize("channel", ["A=B", "x" * 64, 7])
def test_a_channel_is_named_by_a_variable(agent: Agent, channel: object) -> None:
    agent.command("exec", id="job-1", argv=["true"], deadline_s=9, channel=channel)
    assert "channel" in agent.expect("error")["message"]


def test_a_write_to_a_job_that_is_no_program_is_rejected(start: StartAgent) -> None:
    sender, receiver = start(), start()
    connect(sender, receiver)
    sender.command("write", id="job-1", text="x")
    assert "accepts no input" in sender.expect("error")["message"]


@pytest.mark.parametrize("text", [7, ["a"], None])
def test_only_text_is_written(agent: Agent, text: object) -> None:
    arm(agent, shell("sleep 99"), channel="TALK_FD")
    agent.command("write", id="job-1", text=text)
    assert "text" in agent.expect("error")["message"]


# --- interfaces -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "name"), [("127.0.0.1", "lo"), ("192.0.2.1", None), ("somewhere", None)]
)
def test_the_interface_of_an_address(agent: Agent, address: str, name: str | None) -> None:
    agent.command("interface", address=address)
    assert agent.expect("interface")["name"] == name


def test_the_interface_of_an_ipv6_address(agent: Agent) -> None:
    if not Path("/proc/net/if_inet6").read_text(encoding="utf-8"):
        pytest.skip("no IPv6 on this machine")
    agent.command("interface", address="::1")
    assert agent.expect("interface")["name"] == "lo"


def test_an_interface_has_an_address(agent: Agent) -> None:
    agent.command("interface")
    assert "address" in agent.expect("error")["message"]


SENDS = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
other, _ = server.accept()
for _ in range(100):
    client.sendall(b"x" * 1000)
    left = 1000
    while left:
        left -= len(other.recv(left))
"""


def test_interface_counters_of_a_program_are_reported(agent: Agent) -> None:
    interfaces = run(agent, python(SENDS))[1]["interfaces"]
    at = interfaces["name"].index("lo")
    for way in ("rx", "tx"):
        assert 100_000 < interfaces[f"{way}_bytes"][at] < 10_000_000
        assert interfaces[f"{way}_packets"][at] >= 100
    assert {len(column) for column in interfaces.values()} == {len(interfaces["name"])}
