from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.agent import client as agent_client
from osmef.agent.client import Agents, Binary, Deployment, deploy, find_binary
from osmef.agent.messages import (
    ClockReport,
    ErrorEvent,
    Hello,
    IntervalEvent,
    OutputEnded,
    parse_event,
)
from osmef.errors import AgentError
from osmef.remote.session import SshSession


@pytest.fixture
def deployed(session: SshSession, tmp_path: Path) -> Iterator[Deployment]:
    found = deploy(session, f".osmef-{tmp_path.name}")
    yield found
    session.remove_directory(found.directory)


def program(session: SshSession, tmp_path: Path, script: str) -> Deployment:
    """Put a shell script in the place of the agent."""
    data = f"#!/bin/sh\n{script}\n".encode()
    directory = f".osmef-fake-{tmp_path.name}"
    session.put(data, f"{directory}/osmef-agent", 0o700)
    return Deployment(directory, f"{directory}/osmef-agent", Binary("any", data, "-"))


def test_a_pushed_agent_is_the_one_of_this_installation(
    session: SshSession, deployed: Deployment
) -> None:
    sums = session.run(["sha256sum", deployed.path]).stdout.decode().split()
    assert sums[0] == deployed.binary.sha256
    assert session.run(["stat", "-c", "%a", deployed.path]).stdout == b"700\n"


def test_an_architecture_without_an_agent_is_rejected_and_the_supported_ones_are_listed() -> None:
    with pytest.raises(AgentError, match=r"'vax'.*x86_64") as caught:
        find_binary("vax")
    assert "make agents" in str(caught.value.cure)


def test_an_agent_that_was_changed_on_its_way_is_not_started(
    session: SshSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = find_binary("x86_64")
    monkeypatch.setattr(
        agent_client, "find_binary", lambda _machine: Binary("x86_64", real.data, "0" * 64)
    )
    with pytest.raises(AgentError, match="has the hash"):
        deploy(session, f".osmef-{tmp_path.name}")
    assert session.run(["test", "-e", f".osmef-{tmp_path.name}"]).status == 1, "it stays there"


@pytest.fixture
def agents(session: SshSession, deployed: Deployment) -> Iterator[Agents]:
    started = Agents.start(session, deployed)
    yield started
    started.close()


def test_clocks_are_compared(agents: Agents) -> None:
    clock = agents.open().clock_offset()
    assert 0 < clock.uncertainty_s < 5
    assert abs(clock.offset_s) <= clock.uncertainty_s + 0.001
    assert abs(clock.monotonic_s) <= clock.uncertainty_s + 0.001, "it is one machine's"


def test_all_agents_of_a_connection_that_dies_know_it_with_its_reason(
    session: SshSession, deployed: Deployment, agents: Agents
) -> None:
    one, other = agents.open(), agents.open()
    other.carried()
    session.run(["pkill", "-9", "-o", "-f", f"{deployed.path} serve"])
    for client in (one, other):
        with pytest.raises(AgentError, match=r"killed|KILL") as caught:
            client.wait_for(ClockReport, 10)
        assert caught.value.where == "vm-1"
        with pytest.raises(AgentError, match="gone"):
            client.send({"cmd": "clock"})
    with pytest.raises(AgentError, match="gone"):
        agents.open()


def test_an_agent_that_dies_leaves_the_others_at_work(
    session: SshSession, deployed: Deployment, agents: Agents
) -> None:
    one, other = agents.open(), agents.open()
    for client in (one, other):
        client.clock_offset()
    session.run(["pkill", "-9", "-n", "-f", f"{deployed.path} serve"])
    with pytest.raises(AgentError, match="killed by SIGKILL"):
        other.wait_for(ClockReport, 10)
    assert one.clock_offset().uncertainty_s < 5
    assert agents.open().clock_offset().uncertainty_s < 5


def test_a_message_without_a_valid_agent_number_is_a_protocol_error(
    session: SshSession, tmp_path: Path
) -> None:
    hello = json.dumps({"event": "hello", "protocol": 2, "version": "9", "machine": "x", "pid": 1})
    carried = {"event": "interface", "name": "lo"}
    for said in (json.dumps(carried), json.dumps({"agent": 7, **carried}, separators=(",", ":"))):
        fake = program(session, tmp_path, f"echo '{hello}'; read opened; echo '{said}'; cat")
        agent = Agents.start(session, fake).open()
        with pytest.raises(AgentError, match="violated the protocol"):
            agent.wait_for(ClockReport, 10)
        agent.close()
        session.remove_directory(fake.directory)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo hello world; cat", "violated the protocol"),
        ("printf '\\377\\000\\n'; cat", "violated the protocol"),
        ("exit 126", "exit status 126"),
        (
            'echo \'{"event":"hello","protocol":99,"version":"9","machine":"x","pid":1}\'; cat',
            "speaks protocol 99",
        ),
    ],
)
def test_a_program_that_is_no_osmef_agent_is_rejected(
    session: SshSession, tmp_path: Path, script: str, message: str
) -> None:
    fake = program(session, tmp_path, script)
    with pytest.raises(AgentError, match=message):
        Agents.start(session, fake)
    session.remove_directory(fake.directory)


def test_a_shell_that_starts_in_another_directory_is_named_as_the_cause(
    session: SshSession, tmp_path: Path
) -> None:
    """Its start files change it, so the agent is not where its file was pushed to."""
    fake = program(session, tmp_path, "exit 127")
    with pytest.raises(AgentError, match="exit status 127") as caught:
        Agents.start(session, fake)
    assert "must not change the directory" in str(caught.value.cure)
    session.remove_directory(fake.directory)


def test_an_agent_that_sends_no_hello_times_out(session: SshSession, tmp_path: Path) -> None:
    fake = program(session, tmp_path, "cat")
    with pytest.raises(AgentError, match="no hello within") as caught:
        Agents.start(session, fake, hello_s=0.2)
    assert "start files (~/.bashrc)" in str(caught.value.cure)
    session.remove_directory(fake.directory)


@given(st.text() | st.binary().map(lambda data: data.decode(errors="replace")))
def test_no_line_makes_the_reader_fail(line: str) -> None:
    assert isinstance(parse_event(line), OutputEnded)


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none()))
def test_no_object_makes_the_reader_fail(value: dict[str, object]) -> None:
    assert isinstance(parse_event(json.dumps({**value, "event": "hello"})), OutputEnded | Hello)


CLOCK = '{"event":"clock","realtime_ns":%s,"monotonic_ns":2}'
INTERVAL = (
    '{"event":"interval","id":"1","role":"sender","start_s":%s,"length_s":1,"bytes":[1,2],'
    '"cwnd":%s}'
)


@pytest.mark.parametrize("number", [str(2**63), str(-(2**63) - 1), "9" * 4000, "9" * 100_000])
def test_a_number_of_more_than_64_bits_is_outside_the_protocol(number: str) -> None:
    assert isinstance(parse_event(CLOCK % number), OutputEnded)
    assert isinstance(parse_event(CLOCK % (2**63 - 1)), ClockReport)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity", "-Infinity", "1e9999999"])
def test_a_number_without_end_is_outside_the_protocol(number: str) -> None:
    assert isinstance(parse_event(INTERVAL % (number, "null")), OutputEnded)
    assert isinstance(parse_event(INTERVAL % ("1e-400", "null")), IntervalEvent)


@pytest.mark.parametrize(
    "line",
    [
        "[" * 500_000,
        CLOCK.replace("2}", '2,"x":' + "[" * 500_000) % 1,
        CLOCK.replace("2}", '2,"x":' + '{"a":' * 100_000 + "1" + "}" * 100_001) % 1,
        INTERVAL % ("1", "[1]"),
        INTERVAL % ("1", "[1,2,3]"),
        '{"event":"error","id":null,"kind":"x","message":"' + "y" * 100_000 + '"}',
        '{"event":"error","id":null,"kind":"x","message":"\\ud800"}',
    ],
    ids=["brackets", "arrays", "objects", "too few", "too many", "too long", "surrogate"],
)
def test_a_malformed_event_line_is_a_protocol_error(line: str) -> None:
    event = parse_event(line)
    assert isinstance(event, OutputEnded)
    assert len(event.reason) < 1000


def test_a_text_may_hold_what_looks_like_a_large_number() -> None:
    line = '{"event":"error","id":null,"kind":"x","message":"%s 1e400 NaN"}' % ("9" * 30)
    assert isinstance(parse_event(line), ErrorEvent)


def test_the_last_value_of_a_duplicate_json_key_is_used() -> None:
    line = '{"event":"hello","event":"clock","realtime_ns":1,"monotonic_ns":2,"realtime_ns":3}'
    assert parse_event(line) == ClockReport(event="clock", realtime_ns=3, monotonic_ns=2)


def test_keys_of_a_later_agent_are_ignored() -> None:
    line = '{"event":"clock","realtime_ns":1,"monotonic_ns":2,"new":[3]}'
    assert parse_event(line) == ClockReport(event="clock", realtime_ns=1, monotonic_ns=2)
