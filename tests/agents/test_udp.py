"""UDP between two agents: what they report, and that it fits together."""

from __future__ import annotations

import math
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.agents.lab import TIMEOUT_S, Agent, Event, StartAgent, succeed
from tests.agents.udp_peer import flow_of, run, udp_job

COUNTERS = ("lost", "reordered", "duplicates", "dropped")


def total(intervals: list[Event], key: str) -> int:
    return sum(sum(interval[key]) for interval in intervals)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("flows", [1, 5])
def test_both_ends_count_the_same(start: StartAgent, direction: str, flows: int) -> None:
    connecting, listening = start(), start()
    run(connecting, listening, direction=direction, connections=flows)
    ends = succeed(connecting, listening)
    (sent, sender), (received, receiver) = ends if direction == "forward" else reversed(ends)
    assert (sender["role"], receiver["role"]) == ("sender", "receiver")
    assert sender["job"] == receiver["job"] == "udp"
    assert [flow["flow"] for flow in sender["flows"]] == list(range(flows))
    for one, other in zip(sender["flows"], receiver["flows"], strict=True):
        assert one["sent"] == other["sent"]
        assert other["sent"] == other["datagrams"] + other["lost"]
        assert other["bytes"] == 500 * other["datagrams"]
        assert one["sent"] > 0
    assert total(sent, "datagrams") == sum(flow["sent"] for flow in sender["flows"])
    assert total(received, "bytes") == sum(flow["bytes"] for flow in receiver["flows"])
    for key in COUNTERS:
        assert total(received, key) == sum(flow[key] for flow in receiver["flows"])
        assert all(interval[key] is None for interval in sent)


def test_the_path_mtu_is_reported(start: StartAgent) -> None:
    sender, receiver = start(), start()
    run(sender, receiver, connections=2)
    mtu = min(int(Path("/sys/class/net/lo/mtu").read_text()), 65535)  # what an IP packet can be
    (_, sent), (_, received) = succeed(sender, receiver)
    assert [flow["path_mtu"] for flow in sent["flows"]] == [mtu, mtu]
    assert all("path_mtu" not in flow for flow in received["flows"])


def test_a_thousand_udp_flows_are_all_counted(start: StartAgent) -> None:
    sender, receiver = start(), start()
    run(sender, receiver, connections=1000, rate_bps=2e4, duration_s=1)
    (_, sent), (_, received) = succeed(sender, receiver)
    assert [flow["sent"] for flow in sent["flows"]] == [flow["sent"] for flow in received["flows"]]
    assert sum(flow["datagrams"] for flow in received["flows"]) > 1000
    assert received["refused"] == 0


@pytest.mark.parametrize("burst", [1, 4])
def test_the_rate_is_kept(start: StartAgent, burst: int) -> None:
    sender, receiver = start(), start()
    run(sender, receiver, rate_bps=2e6, burst=burst, duration_s=1)
    result = succeed(sender, receiver)[0][1]
    flow = flow_of(result)
    # What a busy machine made it miss is told as slipped_s.
    wanted = 2e6 / 8 / 500 * (1 - flow["slipped_s"])
    assert math.isclose(flow["sent"], wanted, abs_tol=2 * burst + 5)
    assert flow["length_s"] >= 1
    rate_bps = 8 * flow["bytes"] / flow["length_s"]
    assert math.isclose(flow["sent_bps"], rate_bps, abs_tol=1)  # it is a whole number


def test_warm_up_is_kept_apart(start: StartAgent) -> None:
    sender, receiver = start(), start()
    run(sender, receiver, warmup_s=0.4, duration_s=0.2)
    (sent, one), (_, other) = succeed(sender, receiver)
    warm, flow = flow_of(one)["warmup"], flow_of(one)
    assert 0 < flow["sent"] < warm["sent"]
    assert total(sent, "datagrams") == warm["sent"] + flow["sent"]
    assert 0.2 <= flow["length_s"] < one["elapsed_s"] - 0.3
    assert flow_of(other)["warmup"]["sent"] == warm["sent"]
    assert flow_of(other)["sent"] == flow["sent"]


@pytest.mark.parametrize("size", [32, 1200, 9000, 65507])
def test_datagrams_have_the_size_that_was_set(start: StartAgent, size: int) -> None:
    sender, receiver = start(), start()
    run(sender, receiver, size=size, rate_bps=size * 8 * 50)
    flow = flow_of(succeed(sender, receiver)[1][1])
    assert flow["datagrams"] > 0
    assert flow["bytes"] == flow["datagrams"] * size


def test_an_unlimited_udp_rate_sends_at_full_speed(start: StartAgent) -> None:
    sender, receiver = start(), start()
    run(sender, receiver, rate_bps=0, size=1200)
    (_, one), (_, other) = succeed(sender, receiver)
    assert flow_of(one)["sent"] > 1000
    assert 0 < flow_of(other)["datagrams"] <= flow_of(one)["sent"]


def test_delay_variation_and_jitter_are_reported(start: StartAgent) -> None:
    sender, receiver = start(), start()
    run(sender, receiver)
    flow = flow_of(succeed(sender, receiver)[1][1])
    variation = flow["delay_variation"]
    assert 0 < variation["count"] < flow["datagrams"]
    values = [variation[key] for key in ("p50_us", "p90_us", "p99_us", "p999_us", "max_us")]
    assert values == sorted(values)
    assert 0 < flow["jitter_us"] <= flow["jitter_max_us"]


def free_ports(count: int) -> int:
    """Return the first of some UDP ports that follow each other and are free."""
    for first in range(20000, 32000, count):
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                    sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise AssertionError("no free ports")


def test_ports_can_be_given(start: StartAgent) -> None:
    """A firewall can be opened for them: the first flow's port, and those that follow."""
    sender, receiver = start(), start()
    run(sender, receiver, udp_port=free_ports(3), connections=3)
    for _, result in succeed(sender, receiver):
        assert all(flow["sent"] > 0 for flow in result["flows"])


def test_a_port_that_another_program_holds_is_passed_over(start: StartAgent) -> None:
    """Both ends are on one machine here, so that they take turns as well."""
    sender, receiver = start(), start()
    first = free_ports(8)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held:
        held.bind(("127.0.0.1", first + 1))
        run(sender, receiver, udp_port=first, connections=3)
        for _, result in succeed(sender, receiver):
            assert all(flow["sent"] > 0 for flow in result["flows"])


def test_ipv6_carries_datagrams_too(start: StartAgent) -> None:
    sender, receiver = start(), start()
    receiver.command("udp", side="listen", bind="::1", port=0, **udp_job(dscp=10))
    answer = receiver.event()
    if answer["event"] == "error":
        pytest.skip(f"no IPv6 here: {answer['message']}")
    keys = udp_job(dscp=10)
    sender.command("udp", side="connect", host="::1", port=answer["port"], **keys)
    sender.expect("connected")
    sender.command("start", id="job-1")
    receiver.expect("connected")
    assert flow_of(succeed(sender, receiver)[1][1])["datagrams"] > 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("size", 31),
        ("size", 65508),
        ("burst", 0),
        ("burst", 65),
        ("rate_bps", -1),
        ("direction", "both"),
        ("direction", 1),
        ("warmup_s", -1),
        ("loss_threshold_s", 0),
        ("udp_port", 65536),
        ("mss", 1000),
        ("pacing_bps", 1e6),
        ("mptcp", True),
        ("congestion_control", "reno"),
        ("duration_s", None),
    ],
)
def test_a_wrong_value_is_named(start: StartAgent, key: str, value: object) -> None:
    agent = start()
    agent.command("udp", side="listen", bind="127.0.0.1", port=0, **udp_job(**{key: value}))
    event = agent.event()
    assert (event["event"], event["kind"]) == ("error", "protocol")
    assert key in event["message"]
    agent.idle()


def test_a_window_is_that_of_the_datagrams(start: StartAgent) -> None:
    sender, receiver = start(), start()
    run(sender, receiver, window=50000)
    assert flow_of(succeed(sender, receiver)[1][1])["receive_buffer"] >= 50000


@pytest.fixture
def slow_room(binary: Path, tmp_path: Path) -> Iterator[Path]:
    """A way to start agents in a network namespace whose loopback takes 4 Mbit/s."""
    unshare = ["unshare", "--user", "--map-root-user", "--net"]
    inside = "ip link set lo up && tc qdisc add dev lo root tbf rate 4mbit burst 4k limit 8k"
    for tool in ("unshare", "nsenter", "tc", "ip"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} on this machine")
    with subprocess.Popen(
        [*unshare, "sh", "-c", f"{inside} && echo ready && exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"ready\n":
            assert holder.stderr is not None
            pytest.skip(f"no namespace with tbf here: {holder.stderr.read().decode()}")
        script = tmp_path / "agent-in-the-room"
        enter = f"nsenter --target {holder.pid} --user --preserve-credentials --net"
        script.write_text(f'#!/bin/sh\nexec {enter} "{binary}" "$@"\n')
        script.chmod(0o700)
        yield script
        holder.communicate(timeout=TIMEOUT_S)


def test_a_slow_link_loses_the_rest(slow_room: Path) -> None:
    """8 Mbit/s of payload into a bucket of 4 Mbit/s: about half of it is lost, and not by us."""
    with ExitStack() as stack:
        sender, receiver = (stack.enter_context(Agent(slow_room)) for _ in range(2))
        keys = udp_job(rate_bps=8e6, size=1000, duration_s=1.5, arm_timeout_s=20)
        run(sender, receiver, **keys)
        flow = flow_of(succeed(sender, receiver)[1][1])
        # The socket counts nothing as its own; loss is the link's.
        assert flow["dropped"] == 0
        assert 0.35 < flow["lost"] / flow["sent"] < 0.7
        assert 2.5e6 < flow["goodput_bps"] < 4.5e6
        assert flow["loss_episodes"] > 10
        assert 1 <= flow["loss_longest"] < flow["lost"]
        assert flow["reordered"] == flow["duplicates"] == flow["late"] == 0
