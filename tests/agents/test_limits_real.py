"""Each limit made real, with what the kernel offers: the verdict must name it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from osmef.analysis.bulk_transfer import prevailing, transfer_limits
from osmef.results.trial import Bottleneck, FlowLimit, Interval, TransferEnd
from tests.agents.paths import FIRST, Paths, busy
from tests.unique import unique

Measured = tuple[TransferEnd, TransferEnd, list[Interval]]
CPU = min(os.sched_getaffinity(0))
HERE = ["taskset", "-c", str(CPU)]
# Next to a program that never stops it gets 1.5 % of the CPU (sched(7)), in many small pieces.
LAST = [*HERE, "nice", "-n", "19"]


@pytest.fixture(scope="module")
def paths(binary: Path) -> Iterator[Paths]:
    if os.geteuid() != 0:
        pytest.skip("namespaces, qdiscs and tun devices need root")
    if missing := [tool for tool in ("tc", "taskset", "nice", "nsenter") if not shutil.which(tool)]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    paths = Paths(binary)
    yield paths
    paths.close()


def starved_sender(paths: Paths) -> Measured:
    with busy(CPU):
        return paths.transfer(how=(LAST, FIRST), duration_s=3)


def starved_receiver(paths: Paths) -> Measured:
    with busy(CPU):
        return paths.transfer(how=(FIRST, LAST), duration_s=3)


def one_cpu_for_all(paths: Paths) -> Measured:
    with busy(CPU):
        return paths.transfer(how=(HERE, HERE), duration_s=1.5)


def small_receive_window(paths: Paths) -> Measured:
    address = paths.far()[1]
    return paths.transfer(address=address, receiver={"window": 16384}, duration_s=1.5)


def small_receive_window_unpaced(paths: Paths) -> Measured:
    sender = {"congestion_control": "reno"}
    address = paths.far()[1]
    return paths.transfer(
        address=address, sender=sender, receiver={"window": 16384}, duration_s=1.5
    )


def small_send_buffer(paths: Paths) -> Measured:
    address = paths.far()[1]
    return paths.transfer(address=address, sender={"window": 16384}, duration_s=1.5)


def small_send_buffer_unpaced(paths: Paths) -> Measured:
    sender = {"window": 16384, "congestion_control": "reno"}
    return paths.transfer(address=paths.far()[1], sender=sender, duration_s=1.5)


SLOW = "tbf rate 20mbit burst 64kb latency 50ms"


def slow_link(paths: Paths) -> Measured:
    with paths.shaped(SLOW):
        return paths.transfer(duration_s=1.5)


def slow_link_of_four(paths: Paths) -> Measured:
    with paths.shaped(SLOW):
        return paths.transfer(connections=4, duration_s=1.5)


# 16 MB at up to 400 Mbit/s are a third of a second. The plateau has 48 of the kernel's packets of
# 64 KiB in each interval of 0.25 s: with a few only, the series has steps instead of a plateau.
BUCKET = "tbf rate 100mbit burst 16mb latency 50ms peakrate 400mbit mtu 70000"


def bucket_with_a_burst(paths: Paths) -> Measured:
    with paths.shaped(BUCKET):
        return paths.transfer(duration_s=4, interval_s=0.25)


# Two segments every 6 ms: the kernel makes up for half of that when a loaded CPU wakes it late.
PACING_BPS = 4e6


def paced(paths: Paths) -> Measured:
    return paths.transfer(sender={"pacing_bps": PACING_BPS}, duration_s=3, interval_s=0.3)


def emptied_bucket(paths: Paths) -> Measured:
    with paths.shaped(BUCKET):
        return paths.transfer(duration_s=3, warmup_s=1, interval_s=0.25)


def pauses(paths: Paths) -> Measured:
    sender = {"active_s": 0.05, "idle_s": 0.25}
    return paths.transfer(sender=sender, connections=2, duration_s=1.5)


CASES: list[tuple[Callable[[Paths], Measured], set[Bottleneck]]] = [
    (starved_sender, {Bottleneck.SENDER_CPU}),
    (starved_receiver, {Bottleneck.RECEIVER_CPU}),
    (one_cpu_for_all, {Bottleneck.SENDER_CPU, Bottleneck.RECEIVER_CPU}),
    (small_receive_window, {Bottleneck.RECEIVE_WINDOW}),
    (small_receive_window_unpaced, {Bottleneck.RECEIVE_WINDOW}),
    (small_send_buffer, {Bottleneck.SEND_BUFFER}),
    (small_send_buffer_unpaced, {Bottleneck.SEND_BUFFER}),
    (slow_link, {Bottleneck.NETWORK}),
    (slow_link_of_four, {Bottleneck.NETWORK}),
    (bucket_with_a_burst, {Bottleneck.SHAPER}),
    (paced, {Bottleneck.SHAPER}),
    (emptied_bucket, {Bottleneck.SHAPER}),
    (pauses, {Bottleneck.SENDER_IDLE}),
]


def judge(measured: Measured) -> tuple[Bottleneck, list[FlowLimit]]:
    limits = transfer_limits(*measured)
    return prevailing(limits, [flow.bytes for flow in measured[1].flows]), limits


@pytest.mark.parametrize(("make", "expected"), CASES, ids=[make.__name__ for make, _ in CASES])
def test_the_limit_is_named(
    make: Callable[[Paths], Measured], expected: set[Bottleneck], paths: Paths
) -> None:
    verdict, limits = judge(make(paths))
    assert verdict in expected, limits


def test_many_flows_drain_on_a_slow_link(paths: Paths) -> None:
    """What lies unsent in the sender's kernel at the end is bounded in all, not by the flow."""
    with paths.shaped("tbf rate 20mbit burst 10kb limit 1mb"):
        sent, received, _ = paths.transfer(connections=128, duration_s=2)
    assert sum(flow.bytes for flow in sent.flows) == sum(flow.bytes for flow in received.flows) > 0


def number(limit: FlowLimit, name: str) -> float:
    value = limit.evidence[name]
    assert value is not None
    return value


def test_the_evidence_distinguishes_configured_pacing_from_a_token_bucket(paths: Paths) -> None:
    _, (limit,) = judge(paced(paths))
    assert number(limit, "pacing_percent") >= 85
    assert limit.evidence["max_pacing_rate_bps"] == pytest.approx(PACING_BPS)
    assert limit.evidence["knee_s"] is None
    _, (limit,) = judge(bucket_with_a_burst(paths))
    assert limit.evidence["pacing_percent"] is None
    assert limit.evidence["knee_s"] is not None


def test_the_evidence_of_pauses_is_that_there_was_nothing_to_send(paths: Paths) -> None:
    for limit in judge(pauses(paths))[1]:
        assert number(limit, "nothing_to_send_percent") > 50


QUOTA_GROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 100_000


@contextmanager
def quota(cpus: float) -> Iterator[list[str]]:
    """Make a control group with a CPU quota; return what begins a command in it."""
    if not (QUOTA_GROUPS / "cpu.cfs_quota_us").exists():
        pytest.skip("no control groups of version 1 with CPU quotas")
    group = QUOTA_GROUPS / f"osmef-test-{unique()}"
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(round(cpus * PERIOD_US)))
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *FIRST]
    finally:
        group.rmdir()


@pytest.mark.parametrize(
    ("cpus", "flows", "congestion_control"),
    [(0.05, 1, "cubic"), (0.05, 4, "reno"), (0.2, 1, "reno"), (0.2, 4, "cubic")],
)
def test_a_receiver_under_a_quota(
    paths: Paths, cpus: float, flows: int, congestion_control: str
) -> None:
    sender = {"congestion_control": congestion_control}
    with quota(cpus) as group:
        measured = paths.transfer(
            how=(FIRST, group), sender=sender, connections=flows, duration_s=1.5
        )
    verdict, limits = judge(measured)
    told = measured[1].host.quota
    assert told is not None
    assert told.cpus == pytest.approx(cpus)
    assert told.throttled <= told.periods
    if cpus < 0.1 or 2 * told.throttled >= told.periods:
        assert verdict is Bottleneck.RECEIVER_CPU, limits
        assert told.throttled > 0
        assert told.throttled_s > 0
    else:  # a fifth of a CPU is more than a busy machine had for it
        assert verdict is not Bottleneck.NETWORK, limits
    assert measured[0].host.quota is None


def test_a_sender_under_a_quota(paths: Paths) -> None:
    with quota(0.3) as group:
        verdict, limits = judge(paths.transfer(how=(group, FIRST), connections=4, duration_s=1.5))
    assert verdict is Bottleneck.SENDER_CPU, limits


def test_a_quota_that_is_enough(paths: Paths) -> None:
    with quota(0.3) as group, paths.shaped(SLOW):
        verdict, limits = judge(paths.transfer(how=(group, group), duration_s=1.5))
    assert verdict is Bottleneck.NETWORK, limits


def test_a_quota_that_others_use_up(paths: Paths) -> None:
    hog = ["taskset", "-c", str(CPU), sys.executable, "-c", "while True: pass"]
    with quota(0.3) as group, paths.shaped(SLOW):
        other = subprocess.Popen([*group, *hog])
        try:
            measured = paths.transfer(how=(FIRST, group), duration_s=1.5)
        finally:
            other.kill()
            other.wait()
    verdict, limits = judge(measured)
    assert verdict is Bottleneck.NETWORK, limits
