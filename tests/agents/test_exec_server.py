"""External programs that serve: when they are ready, and how they are ended."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from tests.agents.lab import TIMEOUT_S, Agent, StartAgent, closed_port
from tests.agents.programs import Keys, Marked, arm, failure, outputs, python, serve, shell, text_of


@pytest.fixture
def agent(start: StartAgent) -> Agent:
    return start()


TCP_SERVER = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
server = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family)
connection, _ = server.accept()
connection.sendall(b"only one")
"""
UDP_SERVER = """
import socket, sys
server = socket.socket(type=socket.SOCK_DGRAM)
server.bind((sys.argv[1], int(sys.argv[2])))
data, peer = server.recvfrom(99)
server.sendto(data, peer)
"""


@pytest.mark.parametrize(
    ("listens", "asked"),
    [
        ("127.0.0.1", {"bind": "127.0.0.1"}),
        ("0.0.0.0", {"bind": "127.0.0.1"}),  # noqa: S104
        ("127.0.0.1", {"bind": "0.0.0.0"}),  # noqa: S104
        ("127.0.0.1", {}),
        ("::1", {"bind": "::1"}),
        ("::", {"bind": "::1"}),
    ],
)
def test_a_tcp_server_is_ready_once_it_listens(agent: Agent, listens: str, asked: Keys) -> None:
    """Nobody has connected to it: its first client is its last one."""
    if ":" in listens and not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 on this machine")
    port = closed_port()
    serve(agent, python(TCP_SERVER, listens, str(port)), ready="tcp", port=port, **asked)
    here = "::1" if ":" in listens else "127.0.0.1"
    with socket.create_connection((here, port), timeout=TIMEOUT_S) as client:
        assert client.recv(99) == b"only one"
    assert outputs(agent)[1]["status"] == 0
    agent.idle()


def test_a_udp_server_is_ready_once_it_is_bound(agent: Agent) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.settimeout(TIMEOUT_S)
        port = closed_port()
        argv = python(UDP_SERVER, "127.0.0.1", str(port))
        serve(agent, argv, ready="udp", port=port, bind="127.0.0.1")
        client.sendto(b"hello", ("127.0.0.1", port))
        assert client.recv(99) == b"hello"
    assert outputs(agent)[1]["status"] == 0


@pytest.mark.parametrize("redirection", ["", ">&2"])
def test_a_line_may_say_that_it_is_ready(agent: Agent, redirection: str) -> None:
    """Even in two pieces."""
    program = f"(echo first; printf 'now re'; sleep 0.1; echo 'ady at last'){redirection}; sleep 99"
    before = serve(agent, shell(program), ready="line", ready_line="ready at")
    assert text_of(before, "stderr" if redirection else "stdout").startswith(b"first\nnow re")
    agent.command("stop", id="job-1")
    assert outputs(agent)[1]["signal"] == signal.SIGTERM


def test_a_server_may_exit_after_its_ready_line(agent: Agent) -> None:
    serve(agent, ["echo", "ready"], ready="line", ready_line="ready", port=7)
    assert outputs(agent)[1]["status"] == 0


def test_a_server_without_a_ready_condition_is_ready_once_it_runs(agent: Agent) -> None:
    serve(agent, ["sleep", "1000"])
    agent.command("stop", id="job-1")
    assert outputs(agent)[1]["stopped"]


@pytest.mark.parametrize(
    ("ready", "awaited"),
    [
        ({"ready": "line", "ready_line": "never " * 42}, f"print '{'never ' * 42}'"),
        ({"ready": "tcp", "port": 1}, "listen on port 1 at ::"),
        ({"ready": "udp", "port": 1, "bind": "127.0.0.1"}, "bind UDP port 1 at 127.0.0.1"),
    ],
)
def test_a_server_that_never_becomes_ready_is_an_arm_timeout(
    agent: Agent, ready: Keys, awaited: str
) -> None:
    argv = shell("echo 'some line'; sleep 1000")
    agent.command("exec", id="job-1", argv=argv, serves=True, arm_timeout_s=2, **ready)
    event = failure(agent)
    assert event["kind"] == "arm-timeout"
    told = f"did not {awaited} within 2 s; the end of what it printed: some line"
    assert event["message"].endswith(told)
    agent.idle()


def test_a_server_listening_at_another_address_is_an_arm_timeout(agent: Agent) -> None:
    port = closed_port()
    argv = python(TCP_SERVER, "127.0.0.2", str(port))
    keys: Keys = {"ready": "tcp", "port": port, "bind": "127.0.0.1", "arm_timeout_s": 1}
    agent.command("exec", id="job-1", argv=argv, serves=True, **keys)
    event = failure(agent)
    assert (event["kind"], "printed nothing" in event["message"]) == ("arm-timeout", True)


def test_a_server_that_exits_before_it_is_ready_is_an_error(agent: Agent) -> None:
    argv = shell("echo 'no such option' >&2; exit 3")
    agent.command("exec", id="job-1", argv=argv, serves=True, ready="tcp", port=1)
    event = failure(agent)
    assert event["kind"] == "program"
    assert "with status 3 before it was ready" in event["message"]
    assert event["message"].endswith("no such option")


def test_a_server_killed_before_it_is_ready_is_an_error(agent: Agent) -> None:
    agent.command("exec", id="job-1", argv=shell("kill -SEGV $$"), serves=True, ready="tcp", port=1)
    told = "by signal 11 (Segmentation fault) before it was ready; it printed nothing"
    assert failure(agent)["message"].endswith(told)


def test_a_port_of_a_connection_that_has_just_ended_is_in_use(agent: Agent) -> None:
    """Some servers, such as sockperf, ask for no SO_REUSEADDR."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            server.accept()[0].close()
            assert client.recv(1) == b""
    argv = python(TCP_SERVER, "127.0.0.1", str(port))
    agent.command(
        "exec", id="job-1", argv=argv, serves=True, ready="tcp", port=port, bind="127.0.0.1"
    )
    event = failure(agent)
    assert (event["kind"], "has just ended" in event["message"]) == ("bind", True)


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_the_port_is_taken(agent: Agent, kind: str) -> None:
    with socket.socket(type=socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        if kind == "tcp":
            taken.listen()
        port = taken.getsockname()[1]
        keys: Keys = {"ready": kind, "port": port, "bind": "127.0.0.1"}
        agent.command("exec", id="job-1", argv=["true"], serves=True, **keys)
        event = agent.expect("error")
    assert (event["kind"], str(port) in event["message"]) == ("bind", True)
    agent.command("exec", id="job-1", argv=["true"], serves=True, **keys | {"bind": "nowhere"})
    assert "numeric" in agent.expect("error")["message"]


# --- stop and abort ---------------------------------------------------------------------------


def test_a_server_may_end_in_its_own_way(agent: Agent) -> None:
    program = "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"
    serve(agent, shell(program), ready="line", ready_line="up")
    agent.command("stop", id="job-1")
    printed, result = outputs(agent)
    assert (result["status"], result["signal"], result["stopped"]) == (7, None, True)
    assert text_of(printed) == b"bye\n"


@pytest.mark.parametrize("grace_s", [0, 0.2])
def test_a_server_that_ignores_sigterm_is_killed(agent: Agent, grace_s: float) -> None:
    program = "trap '' TERM; echo up; while :; do sleep 0.05; done"
    serve(agent, shell(program), ready="line", ready_line="up", grace_s=grace_s)
    agent.command("stop", id="job-1")
    _, result = outputs(agent)
    assert (result["status"], result["signal"]) == (None, signal.SIGKILL)
    assert result["elapsed_s"] >= grace_s
    agent.idle()


def test_a_client_may_be_stopped(agent: Agent) -> None:
    arm(agent, shell("echo up; exec sleep 1000"))
    agent.command("start", id="job-1")
    agent.expect("output")
    agent.command("stop", id="job-1")
    _, result = outputs(agent)
    assert (result["signal"], result["stopped"]) == (signal.SIGTERM, True)


def test_a_client_that_is_stopped_before_its_start_has_no_result(agent: Agent) -> None:
    arm(agent, ["true"])
    agent.command("stop", id="job-1")
    assert failure(agent)["kind"] == "aborted"
    agent.idle()


@pytest.mark.parametrize("stage", ["armed", "running", "not ready", "ready"])
def test_an_abort_ends_a_program_at_any_stage(marked: Marked, stage: str) -> None:
    agent = marked.agent
    program = shell("trap '' TERM; echo up; sleep 1000; echo never")
    if stage in {"armed", "running"}:
        arm(agent, program)
        if stage == "running":
            agent.command("start", id="job-1")
            agent.expect("output")
    elif stage == "ready":
        serve(agent, program, ready="line", ready_line="up")
    else:
        keys: Keys = {"ready": "tcp", "port": 1}
        agent.command("exec", id="job-1", argv=program, serves=True, **keys)
        agent.expect("output")
    agent.command("abort", id="job-1")
    assert failure(agent)["kind"] == "aborted"
    assert marked.alive() == {agent.process.pid}
    agent.idle()
