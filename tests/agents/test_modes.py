"""How payload is moved, by how many threads, on which CPUs and with what pauses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.agents.lab import StartAgent, arm, job, transfer, way


@pytest.mark.parametrize(
    ("mode", "sent", "received"),
    [
        ("copy", "copy", "copy"),
        ("zerocopy", "zerocopy", "copy"),
        ("discard", "copy", "discard"),
        ("zerocopy-discard", "zerocopy", "discard"),
    ],
)
@pytest.mark.parametrize("threads", [None, 1])
def test_the_result_names_the_mode(
    start: StartAgent, mode: str, sent: str, received: str, threads: int | None
) -> None:
    keys = {"mode": mode, "connections": 2, "threads": threads, "duration_s": 15}
    ends = transfer(start(), start(), **keys, bytes=3_000_001)
    for (_, result), name in zip(ends, (sent, received), strict=True):
        assert way(result)["mode"] == name
        assert [flow["bytes"] for flow in way(result)["flows"]] == [3_000_001] * 2


@pytest.mark.parametrize("threads", [None, 1])
@pytest.mark.parametrize("mode", ["zerocopy", "discard"])
def test_a_fast_receiver_that_is_woken_for_many_bytes_gets_the_last_few(
    start: StartAgent, mode: str, threads: int | None
) -> None:
    keys = {
        "mode": mode,
        "connections": 2,
        "threads": threads,
        "bytes": 150_000_001,
        "duration_s": 15,
    }
    ends = transfer(start(), start(), **keys)
    for intervals, result in ends:
        assert [flow["bytes"] for flow in way(result)["flows"]] == [150_000_001] * 2
        assert sum(sum(i["bytes"]) for i in intervals) == 300_000_002


@pytest.mark.parametrize("threads", [1, 3])
def test_shared_threads_have_the_cpu_time(start: StartAgent, threads: int) -> None:
    for intervals, result in transfer(start(), start(), connections=7, threads=threads):
        end = way(result)
        assert len(end["threads"]) == threads
        assert all(thread["cpu_system_s"] >= 0 for thread in end["threads"])
        assert all(flow["bytes"] > 0 for flow in end["flows"])
        assert all(flow["cpu_user_s"] is None for flow in end["flows"])
        sums = [sum(flow) for flow in zip(*(i["bytes"] for i in intervals), strict=True)]
        assert sums == [flow["bytes"] for flow in end["flows"]]


def test_as_many_threads_as_flows_serve_one_each(start: StartAgent) -> None:
    for _, result in transfer(start(), start(), connections=2, threads=5):
        assert way(result)["threads"] is None
        assert all(flow["cpu_system_s"] is not None for flow in way(result)["flows"])


@pytest.mark.parametrize("threads", [None, 1])
def test_threads_are_bound_to_their_cpus(start: StartAgent, threads: int | None) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    cpus = [allowed[-1], allowed[0]]
    ends = transfer(start(), start(), connections=3, threads=threads, cpus=",".join(map(str, cpus)))
    for _, result in ends:
        assert result["cpus"] == cpus
        users = way(result)["threads"] or way(result)["flows"]
        used = [user["last_cpu"] for user in users]
        assert used == [cpus[i % 2] for i in range(len(users))]


def test_a_cpu_that_is_not_ours_is_an_option_error(start: StartAgent) -> None:
    agent = start()
    agent.command(
        "bulk",
        side="listen",
        bind="127.0.0.1",
        port=0,
        **job(cpus=f"{min(os.sched_getaffinity(0))},8191"),
    )
    error = agent.expect("error")
    assert error["kind"] == "option"
    assert "CPU 8191; it may use" in error["message"]
    agent.idle()


@pytest.mark.parametrize("cpus", ["", ",", "0,", "0;1", "-1", "8192", "0,,1", "x"])
def test_a_list_of_cpus_that_is_none(start: StartAgent, cpus: str) -> None:
    agent = start()
    agent.command("bulk", side="listen", bind="127.0.0.1", port=0, **job(cpus=cpus))
    error = agent.expect("error")
    assert error["kind"] == "protocol"
    assert "cpus" in error["message"]


@pytest.mark.parametrize("threads", [None, 1])
def test_pauses_are_no_stall(start: StartAgent, threads: int | None) -> None:
    sender, receiver = start(), start()
    (intervals, sent), (_, received) = transfer(
        sender,
        receiver,
        connections=2,
        threads=threads,
        duration_s=2.8,
        interval_s=0.2,
        active_s=0.2,
        idle_s=2.4,
        stall_timeout_s=2,
    )
    assert [flow["bursts"] for flow in way(sent)["flows"]] == [2, 2]
    assert [flow["bursts"] for flow in way(received)["flows"]] == [None, None]
    # The second interval but one lies within the first pause, whose last sends have drained.
    assert min(sum(interval["bytes"]) for interval in intervals) == 0


@pytest.mark.parametrize(
    "keys", [{"active_s": 1}, {"idle_s": 1, "side": "connect"}, {"idle_s": -1}, {"mode": "fast"}]
)
def test_incompatible_keys_of_a_command_are_rejected(
    start: StartAgent, keys: dict[str, object]
) -> None:
    agent = start()
    ends = {"side": "listen", "bind": "127.0.0.1", "host": "127.0.0.1", "port": 1}
    agent.command("bulk", **(ends | job(**keys)))
    error = agent.expect("error")
    assert error["kind"] == "protocol"
    assert next(iter(keys)) in error["message"]


def test_a_zerocopy_job_leaves_nothing_open(start: StartAgent) -> None:
    sender, receiver = start(), start()
    fds = Path(f"/proc/{sender.process.pid}/fd")
    before = len(list(fds.iterdir()))
    transfer(sender, receiver, mode="zerocopy", connections=4, threads=2)
    assert len(list(fds.iterdir())) == before
    port = arm(receiver, mode="zerocopy")
    sender.command("bulk", side="connect", host="127.0.0.1", port=port, **job(mode="zerocopy"))
    sender.expect("connected")
    sender.command("abort", id="job-1")
    assert sender.ending()[1]["kind"] == "aborted"
    assert len(list(fds.iterdir())) == before
