"""As many flows as one job may have."""

from __future__ import annotations

import re
import resource
import socket
import time
from pathlib import Path

import pytest

from tests.agents.lab import (
    Agent,
    StartAgent,
    arm,
    connect,
    dial,
    header,
    job,
    succeed,
    transfer,
    way,
)

MOST = 1000


def peak_kb(agent: Agent) -> int:
    text = Path(f"/proc/{agent.process.pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    assert found
    return int(found[1])


@pytest.mark.parametrize("threads", [2, 1000])
def test_a_thousand_tcp_flows_transfer_all_their_bytes(start: StartAgent, threads: int) -> None:
    sender, receiver = start(), start()
    began = time.monotonic()
    connect(
        sender,
        receiver,
        connections=MOST,
        threads=threads,
        arm_timeout_s=15,
        bytes=20_000,
        duration_s=60,
    )
    assert time.monotonic() - began < 15
    sender.command("start", id="job-1")
    for intervals, result in succeed(sender, receiver):
        assert [flow["bytes"] for flow in way(result)["flows"]] == [20_000] * MOST
        assert all(len(event["bytes"]) == MOST for event in intervals)
        assert result["refused"] == 0


def test_memory_at_128_flows_stays_small(start: StartAgent) -> None:
    sender, receiver = start(), start()
    transfer(sender, receiver, connections=128, duration_s=1.5)
    for agent in (sender, receiver):
        assert peak_kb(agent) < 20_000


@pytest.mark.parametrize("direction", ["forward", "both"])
def test_few_descriptors_are_a_resource_error(start: StartAgent, direction: str) -> None:
    sender, receiver = start(), start()
    resource.prlimit(sender.process.pid, resource.RLIMIT_NOFILE, (40, 40))
    receiver.command(
        "bulk", side="listen", bind="127.0.0.1", port=0, **job(connections=64, direction=direction)
    )
    port = receiver.expect("listening")["port"]
    keys = {"side": "connect", "host": "127.0.0.1", "port": port}
    sender.command("bulk", **keys, **job(connections=64, direction=direction))
    error = sender.expect("error")
    assert error["kind"] == "resource"
    assert "limits" in error["message"]
    sender.idle()


def test_flows_that_starve_beside_others_are_no_stall(start: StartAgent) -> None:
    """One connection that the receiver does not hear of for long, while the other one moves."""
    receiver = start()
    port = arm(receiver, connections=2, duration_s=1, stall_timeout_s=0.4)
    with dial(port) as busy, dial(port) as starved:
        for flow, peer in enumerate((busy, starved)):
            peer.sendall(header(flow, 2, duration_ms=1000))
            assert peer.recv(1) == b"+"
        receiver.expect("connected")
        starved.sendall(b"x")
        began = time.monotonic()
        while time.monotonic() - began < 1.1:
            busy.sendall(b"x" * 1000)
        for peer in (busy, starved):
            peer.shutdown(socket.SHUT_WR)
        result = receiver.ending()[1]
    assert result["event"] == "result", result
    assert way(result)["flows"][1]["bytes"] == 1
