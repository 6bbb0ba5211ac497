"""Jobs of HTTP that end in any way: nothing is left of them, and the agent does the next one."""

from __future__ import annotations

import resource
import signal
from contextlib import ExitStack

import pytest

from tests.agents import web
from tests.agents.lab import Agent, StartAgent, dial
from tests.agents.test_every_kind import belongings
from tests.agents.two_ended_jobs import ending


def end_by(agent: Agent, cmd: str, name: str) -> None:
    agent.command(cmd, id=name)
    assert ending(agent)[1]["event"] == ("result" if cmd == "stop" else "error")


@pytest.mark.parametrize("cmd", ["stop", "abort", "input"])
def test_servers_with_clients_at_every_stage(start: StartAgent, cmd: str) -> None:
    pong, ping = start(), start()
    had = belongings(pong)
    for _ in range(2):
        pong_port = web.serve_pong(pong, threads=2)
        port = web.serve_ping(ping, pong_port, threads=2)
        with ExitStack() as stack:
            for said in (
                b"",
                b"GET /po",
                b"GET /ping/5 HTTP/1.1\r\nHost: a\r\n\r\n",
                b"GET /ping/1000000000 HTTP/1.1\r\nHost: a\r\n\r\n",
                bytes(range(256)),
            ):
                stack.enter_context(dial(port)).sendall(said)
                stack.enter_context(dial(pong_port)).sendall(said.replace(b"ping", b"pong"))
            assert web.get(port, "/ping/70000")[0] == 200
            if cmd == "input":
                assert ping.close_input() == 0
                assert pong.close_input() == 0
                return
            end_by(ping, cmd, "ping-1")
            end_by(pong, cmd, "pong-1")
        assert belongings(ping) == belongings(pong) == had


def besiege(siege: Agent, port: int, **changes: object) -> None:
    keys = {"sizes": "5", "repetitions": 1_000_000, "path": "/pong/{size}", "connections": 5}
    siege.command("siege", id="siege-1", host="127.0.0.1", port=port, **{**keys, **changes})


@pytest.mark.parametrize("stage", ["connected", "running", "telling"])
@pytest.mark.parametrize("cmd", ["abort", "input"])
def test_a_siege_at_every_stage(start: StartAgent, cmd: str, stage: str) -> None:
    siege, pong = start(), start()
    had = belongings(siege)
    port = web.serve_pong(pong, threads=1)
    for _ in range(2):
        besiege(siege, port, repetitions=20_000 if stage == "telling" else 1_000_000, threads=2)
        siege.expect("connected")
        if stage != "connected":
            siege.command("start", id="siege-1")
        if stage == "telling":
            siege.expect("requests")
        if cmd == "input":
            assert siege.close_input() == 0
            return
        end_by(siege, "abort", "siege-1")
        assert belongings(siege) == had


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_siege_whose_server_dies(start: StartAgent, number: signal.Signals) -> None:
    """Each request that is left fails for its own; the siege has a result."""
    siege, pong = start(), start()
    had = belongings(siege)
    port = web.serve_pong(pong, threads=1)
    besiege(siege, port, repetitions=40, rate_per_s=100, timeout_s=0.3)
    siege.expect("connected")
    siege.command("start", id="siege-1")
    pong.process.send_signal(number)
    result = ending(siege)[1]
    assert result["event"] == "result"
    assert result["failed"] > 0
    assert belongings(siege) == had


@pytest.mark.parametrize("rate_per_s", [1e-300, 1e-9])
def test_a_tiny_rate_sends_at_most_the_first_request(start: StartAgent, rate_per_s: float) -> None:
    """The first request is due at once, the second one never."""
    siege, pong = start(), start()
    port = web.serve_pong(pong, threads=1)
    besiege(siege, port, repetitions=10, rate_per_s=rate_per_s)
    siege.expect("connected")
    siege.command("start", id="siege-1")
    siege.idle()
    assert web.get(port, "/pong/5")[0] == 200
    end_by(siege, "abort", "siege-1")
    pong.command("stop", id="pong-1")
    assert pong.expect("result")["requests"] <= 2


def serve(agent: Agent, kind: str, port: int) -> None:
    keys: dict[str, object] = {"bind": "127.0.0.1"}
    if kind == "pong":
        agent.command("pong", id="job-1", port=0, **keys)
    elif kind == "ping":
        agent.command("ping", id="job-1", listen_port=0, host="127.0.0.1", port=port, **keys)
    else:
        keys = {"sizes": "5", "path": "/pong/{size}", "connections": 4, "threads": 2}
        agent.command("siege", id="job-1", host="127.0.0.1", port=port, **keys)


@pytest.mark.parametrize("kind", ["pong", "ping", "siege"])
def test_a_job_fails_and_the_agent_stays_where_descriptors_run_out(
    start: StartAgent, kind: str
) -> None:
    agent, pong = start(), start()
    port = web.serve_pong(pong)
    had = belongings(agent)
    _, highest = resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE)
    kinds = set()
    for spare in range(14):
        resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (had[0] + spare, highest))
        serve(agent, kind, port)
        event = agent.event()
        if event["event"] != "error":
            agent.command("abort", id="job-1")
            event = agent.expect("error")
        kinds.add(event["kind"])
        agent.idle()
        assert belongings(agent) == had, spare
    assert {"resource", "aborted"} <= kinds <= {"resource", "aborted", "bind"}


def test_descriptors_that_run_out_in_a_siege(start: StartAgent) -> None:
    """Without keep-alive its connections are opened as it goes."""
    agent, pong = start(), start()
    port = web.serve_pong(pong)
    _, highest = resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE)
    # the pipes, a loop, the eventfds and a few connections
    resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (20, highest))
    keys: dict[str, object] = {"sizes": "5", "path": "/pong/{size}", "keep_alive": False}
    keys |= {"host": "127.0.0.1", "port": port, "threads": 1, "connections": 100}
    agent.command("siege", id="job-1", repetitions=1000, **keys)
    agent.expect("connected")
    agent.command("start", id="job-1")
    error = agent.expect("error")
    assert (error["kind"], "raise the limits" in error["message"]) == ("resource", True)
    agent.idle()
