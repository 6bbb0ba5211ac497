"""Malformed commands are answered, never obeyed, and never the end of a session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.agents.lab import Agent, StartAgent, arm, connect, job, succeed


@pytest.fixture(scope="module")
def lasting(binary: Path) -> Iterator[Agent]:
    """One agent for many examples."""
    with Agent(binary) as agent:
        yield agent


def complaint(agent: Agent) -> str:
    event = agent.expect("error")
    assert (event["id"], event["kind"]) == (None, "protocol")
    message: str = event["message"]
    return message


def listen_with(**changes: object) -> dict[str, object]:
    keys: dict[str, object] = {"cmd": "bulk", "side": "listen", "bind": "127.0.0.1", "port": 0}
    keys |= job() | changes
    return {key: value for key, value in keys.items() if value is not ...}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"{}",
        b'{"cmd":"clock"',
        b'{"cmd":"clock"} x',
        b'{"cmd":"clock",}',
        b'{"cmd" "clock"}',
        b'{"cmd":clock}',
        b'{"cmd":"clo\nck"}',
        b'{"cmd":"clock","x":{}}',
        b'{"cmd":"clock","x":01}',
        b'{"cmd":"clock","x":1e999}',
        b'{"cmd":"clock","x":-}',
        b'{"cmd":"clock","x":1.}',
        b'{"cmd":"\\u00zz"}',
        b'{"cmd":"\\u0000"}',
        b'{"cmd":"\\q"}',
        b'{"cmd":"\\ud800"}',
        b'{"cmd":"clock","x":"\\ud800\\u0041"}',
        b'{"cmd":"clock","x":"\\udc7f"}',
        b'{"cmd":"clock","x":["a",1]}',
        b'{"cmd":"clock","x":[["a"]]}',
        b'{"cmd":"clock","x":["a",]}',
        b'{"cmd":"clock","x":["a"}',
        b'{"cmd":"clock","x":[',
        b'{"cmd":"fly"}',
        b'{"cmd":7}',
        b'{"cmd":"clock\0"}',
        b'{"cmd":"start"}',
        b'{"cmd":"abort","id":"nobody"}',
        b"{" + b",".join(b'"k%d":1' % i for i in range(60)) + b"}",
    ],
)
def test_a_line_that_is_no_command(lasting: Agent, line: bytes) -> None:
    lasting.write(line + b"\n")
    for _ in range(line.count(b"\n") + 1):
        assert complaint(lasting)
    lasting.idle()


@pytest.mark.parametrize(
    "line",
    [
        b' { "cmd" : "clock" } \r',
        b'{"\\u0063md":"clo\\u0063k"}',
        b'{"cmd":"clock","later":"\xc3\xa4 \\u00e4 \\" \\\\","more":null}',
        b'{"cmd":"clock","list":[],"another":[ "a" , "\\ud834\\udd1e\\udcff" ]}',
        b'{"cmd":"clock","a":true,"b":false,"c":-0.5e-3,"d":0}',
    ],
)
def test_any_spelling_of_json_is_read(lasting: Agent, line: bytes) -> None:
    lasting.write(line + b"\n")
    lasting.expect("clock")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"id": ...}, "id"),
        ({"id": ""}, "id"),
        ({"id": 'a"b'}, "id"),
        ({"id": "x" * 65}, "id"),
        ({"id": 17}, "id"),
        ({"side": ...}, "side"),
        ({"side": "recv"}, "side"),
        ({"side": "connect"}, "host"),
        ({"window": 1}, "window"),
        ({"mss": "1400"}, "mss"),
        ({"dscp": 64}, "dscp"),
        ({"congestion_control": "x" * 16}, "congestion_control"),
        ({"pacing_bps": 0}, "pacing_bps"),
        ({"mptcp": 1}, "mptcp"),
        ({"cookie": ...}, "cookie"),
        ({"cookie": "00" * 15}, "cookie"),
        ({"cookie": "zz" * 16}, "cookie"),
        ({"bind": ...}, "bind"),
        ({"bind": ""}, "bind"),
        ({"bind": "1" * 300}, "bind"),
        ({"port": -1}, "port"),
        ({"port": 65536}, "port"),
        ({"port": 80.5}, "port"),
        ({"port": "80"}, "port"),
        ({"connections": 0}, "connections"),
        ({"connections": 1001}, "connections"),
        ({"connections": 1.5}, "connections"),
        ({"connections": None}, "connections"),
        ({"duration_s": 0}, "duration_s"),
        ({"duration_s": 1e9}, "duration_s"),
        ({"interval_s": 0}, "interval_s"),
        ({"arm_timeout_s": ...}, "arm_timeout_s"),
        ({"stall_timeout_s": -1}, "stall_timeout_s"),
    ],
)
def test_a_job_with_a_wrong_value_names_it(
    lasting: Agent, changes: dict[str, object], named: str
) -> None:
    lasting.write(json.dumps(listen_with(**changes)).encode() + b"\n")
    assert complaint(lasting).startswith(named)
    lasting.idle()


def test_a_second_job_has_to_wait(start: StartAgent) -> None:
    agent = start()
    arm(agent)
    agent.command("bulk", side="listen", bind="127.0.0.1", port=0, **job(id="other"))
    assert "running" in complaint(agent)
    agent.command("abort", id="other")
    assert complaint(agent)
    agent.command("clock")
    agent.expect("clock")


def test_commands_may_come_in_pieces_and_in_crowds(lasting: Agent) -> None:
    lasting.write(b'{"cmd":')
    lasting.write(b'"clock"}\n{"cmd":"clock"}\n{"cmd"')
    lasting.expect("clock")
    lasting.expect("clock")
    lasting.write(b':"clock"}\n')
    lasting.expect("clock")


@pytest.mark.parametrize("length", [16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 100_000])
def test_a_line_that_is_too_long_is_skipped(lasting: Agent, length: int) -> None:
    start = b'{"cmd":"clock","x":"'
    lasting.write(start + b"x" * (length - len(start) - 2) + b'"}\n')
    if length < 16 * 1024:
        lasting.expect("clock")
    else:
        assert "16 KiB" in complaint(lasting)
    lasting.idle()


def test_a_start_may_name_its_moment(start: StartAgent) -> None:
    sender, receiver = start(), start()
    connect(sender, receiver, duration_s=0.1)
    sender.command("clock")
    now_ns = sender.expect("clock")["monotonic_ns"]
    sender.command("start", id="job-1", at_monotonic_ns=now_ns + 300_000_000)
    succeed(receiver)
    sender.command("clock")
    # It can't have begun before that moment, and it lasted 0.1 s.
    while (event := sender.event())["event"] != "clock":
        assert event["event"] in {"interval", "result"}, event
    assert event["monotonic_ns"] >= now_ns + 400_000_000


def test_a_start_at_no_time(start: StartAgent) -> None:
    sender, receiver = start(), start()
    connect(sender, receiver, duration_s=0.1)
    sender.command("start", id="job-1", at_monotonic_ns="soon")
    assert "at_monotonic_ns" in complaint(sender)
    sender.command("start", id="job-1")
    succeed(sender)


def test_only_servers_can_be_stopped(start: StartAgent) -> None:
    sender, receiver = start(), start()
    connect(sender, receiver, duration_s=0.1)
    sender.command("stop", id="job-1")
    assert "ends by itself" in complaint(sender)
    sender.command("start", id="job-1")
    succeed(sender)


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({}, id="forward"),
        pytest.param({"direction": "reverse"}, id="reverse"),
        pytest.param({"bytes": 2**40}, id="many-bytes"),
        pytest.param({"connections": 3, "threads": 2}, id="shared-threads"),
    ],
)
def test_a_transfer_that_is_stopped_ends_well(start: StartAgent, keys: dict[str, object]) -> None:
    connecting, listening = start(), start()
    wanted = {"duration_s": 600, "interval_s": 0.05, "until_stopped": True, **keys}
    connect(connecting, listening, **wanted)
    connecting.command("start", id="job-1")
    sends, receives = (listening, connecting) if "direction" in keys else (connecting, listening)
    for agent in (sends, receives):
        assert agent.event()["event"] == "interval"
    sends.command("stop", id="job-1")
    told = {agent: agent.ending() for agent in (sends, receives)}
    moved = {}
    for (agent, (_, result)), way in zip(told.items(), ("sending", "receiving"), strict=True):
        assert result["event"] == "result", result
        moved[agent] = sum(flow["bytes"] for flow in result[way]["flows"])
        assert result["elapsed_s"] < 60
    assert moved[sends] == moved[receives] > 0


def test_a_transfer_until_it_is_stopped_ends_by_itself(start: StartAgent) -> None:
    sender, receiver = start(), start()
    connect(sender, receiver, duration_s=0.1, until_stopped=True)
    sender.command("start", id="job-1")
    assert sender.ending()[1]["event"] == receiver.ending()[1]["event"] == "result"


def test_flows_that_pause_are_not_stopped(start: StartAgent) -> None:
    agent = start()
    keys = {"active_s": 0.1, "idle_s": 0.1, "until_stopped": True}
    agent.command("bulk", side="listen", bind="127.0.0.1", port=0, **job(**keys))
    assert "until_stopped" in complaint(agent)


def test_the_bytes_carried_by_interfaces_are_reported(start: StartAgent) -> None:
    agent, other = start(), start()
    before = carried(agent)
    connect(agent, other, duration_s=0.1)
    agent.command("start", id="job-1")
    moved = sum(flow["bytes"] for flow in agent.ending()[1]["sending"]["flows"])
    assert carried(agent) - before >= moved


def carried(agent: Agent) -> int:
    """Return what the loopback has sent."""
    agent.command("carried")
    told = agent.expect("carried")["interfaces"]
    sent: int = told["tx_bytes"][told["name"].index("lo")]
    return sent


def test_start_comes_once_connected(start: StartAgent) -> None:
    sender, receiver = start(), start()
    connect(sender, receiver, duration_s=0.1)
    sender.command("start", id="wrong")
    assert complaint(sender)
    sender.command("start", id="job-1")
    succeed(sender)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
objects = st.dictionaries(
    st.sampled_from(["cmd", "id", "port", "connections", "bind", "host", "cookie"]) | st.text(),
    json_values,
)


@given(
    line=st.binary(max_size=300)
    | json_values.map(lambda v: json.dumps(v).encode())
    | objects.map(lambda v: json.dumps(v).encode())
)
@example(line=b'{"cmd":"bulk"')
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_an_invalid_command_line_does_not_end_the_session(lasting: Agent, line: bytes) -> None:
    lasting.write(line + b"\n")
    for _ in range(line.count(b"\n") + 1):
        assert complaint(lasting)
    lasting.idle()


def test_a_closed_output_pipe_ends_the_agent(binary: Path) -> None:
    with Agent(binary) as agent:
        assert agent.process.stdout is not None
        agent.process.stdout.close()
        agent.command("clock")
        assert agent.process.wait(20) == 1
