"""The workload of requests: what the agents are told, its metrics, and all with real agents."""

from __future__ import annotations

import json
import time
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.agent.messages import OutputEnded, PongResult, RequestsEvent, SiegeResult, parse_event
from osmef.errors import AgentError
from osmef.results.observations import Purpose
from osmef.results.tables import TABLES
from osmef.workloads.base import Outcome, PartResult
from osmef.workloads.kinds.pingpong import PingPong, PingPongSettings
from osmef.workloads.siege import as_batch, request_metrics, requests_table
from osmef.workloads.tasks import Pair
from osmef.workloads.trial_runner import TrialJob, run_parts
from tests.workloads.conftest import MakeHosts, MakeScript, pairs

GOOD = {
    "size": 1000, "start_us": 0.0, "duration_us": 400.0, "relay_us": 250.0, "code": 200,
    "length": 1000, "retries": 0, "error": 0,
}  # fmt: skip
UNANSWERED = {"duration_us": None, "relay_us": None, "code": None, "length": None}


def workload(**settings: Any) -> PingPong:
    return PingPong(PingPongSettings.model_validate(settings))


def run(work: PingPong, job: TrialJob) -> Outcome:
    outcome = work.outcome(job.trial, Purpose.MEASURED, run_parts(job, work.parts()).ran)
    assert outcome.metrics.keys() == {one.name for one in work.measures}
    return outcome


def told(*rows: dict[str, Any]) -> RequestsEvent:
    """Return the event that tells these requests, each different from a good one in this."""
    whole = [{**GOOD, **row} for row in rows]
    columns = {name: [row[name] for row in whole] for name in GOOD}
    return RequestsEvent.model_validate({"event": "requests", "id": "1", **columns})


def table(*rows: dict[str, Any]) -> pa.Table:
    return requests_table([as_batch(told(*rows))], 7, Purpose.MEASURED, "s1", "r1")


# --- what the agents are told


def test_ping_stands_between_siege_and_pong() -> None:
    sizes = {"sizes": ["1B", "2kB"], "repetitions": 3, "seed": 5}
    (part,) = workload(**sizes, connections=4, rate=100, timeout="8s", retries=2).parts()
    pong, ping, siege = part.steps
    assert [(s.end, s.command, s.listens, s.serves) for s in part.steps] == [
        ("receiver", "pong", True, True),
        ("sender", "ping", True, True),
        ("sender", "siege", False, False),
    ]
    assert dict(pong.parameters) == {}
    assert dict(ping.parameters) == {"retries": 2, "timeout_s": 4.0}
    assert [step.connections for step in part.steps] == [None, None, 4]
    assert dict(siege.parameters) == {
        "path": "/mping/{size}", "sizes": "1,2000", "repetitions": 3, "seed": 5,
        "keep_alive": True, "rate_per_s": 100.0, "timeout_s": 8.0,
    }  # fmt: skip
    assert part.duration_s == pytest.approx(0.06)
    assert part.deadline_s == 600


def test_without_ping_siege_asks_pong() -> None:
    (part,) = workload(relay=False, max="9kB", replacement=False, keep_alive=False).parts()
    assert [(s.end, s.command) for s in part.steps] == [("receiver", "pong"), ("sender", "siege")]
    asked = part.steps[1].parameters
    assert asked["path"] == "/pong/{size}"
    assert (asked["size_min"], asked["size_max"], asked["coverage"]) == (1, 9000, 0.002)
    assert (asked["replacement"], asked["keep_alive"], asked["rate_per_s"]) == (False, False, 0)
    assert "sizes" not in asked


def test_the_estimate_is_of_seconds_and_never_beyond_the_deadline() -> None:
    (part,) = workload().parts()
    assert 1 < part.duration_s < 10
    (long,) = workload(coverage=1.0, repetitions=10, deadline="5s").parts()
    assert long.duration_s == long.deadline_s == 5
    (slow,) = workload(coverage=1.0, repetitions=10).parts()
    assert slow.deadline_s == 2 * slow.duration_s > 600


# --- with real agents


@pytest.mark.parametrize("relay", [True, False])
def test_every_request_of_two_pairs_is_kept(hosts: MakeHosts, relay: bool) -> None:
    work = workload(sizes=["1kB", "50kB"], repetitions=600, connections=3, relay=relay)
    outcome = run(work, TrialJob(7, pairs(hosts("s1"), hosts("r1", "r2"))))
    kept = pa.concat_tables(outcome.requests)
    assert kept.schema == TABLES["requests"]
    rows = kept.to_pylist()
    assert len(rows) == 2 * 2 * 600, "more than one event of each pair"
    assert {(r["trial"], r["purpose"], r["sender"]) for r in rows} == {(7, "measured", "s1")}
    assert {(r["size"], r["length"], r["code"], r["error"]) for r in rows} == {
        (size, size, 200, None) for size in (1000, 50_000)
    }
    for receiver in ("r1", "r2"):
        sizes = [r["size"] for r in rows if r["receiver"] == receiver]
        assert (sizes.count(1000), sizes.count(50_000)) == (600, 600)
    metrics = outcome.metrics
    assert (metrics["requests"], metrics["failed_requests"]) == (2400, 0)
    assert metrics["retries"] == (0 if relay else None)
    assert metrics["time_p50_us"]
    assert metrics["request_p50_us"]
    if relay:
        assert all(r["relay_s"] <= r["duration_s"] for r in rows), "ping's time is within siege's"
    else:
        assert {(r["relay_s"], r["retries"]) for r in rows} == {(None, None)}
        assert metrics["time_p50_us"] == metrics["request_p50_us"]


def test_an_open_loop_asks_at_its_rate(hosts: MakeHosts) -> None:
    work = workload(sizes=["100B"], repetitions=100, rate=200, connections=2)
    outcome = run(work, TrialJob(1, pairs(hosts("s1"), hosts("r1"))))
    starts = pa.concat_tables(outcome.requests)["intended_start_s"].to_pylist()
    assert starts == pytest.approx([k / 200 for k in range(100)], abs=1e-6)


def test_the_sizes_of_every_trial_are_alike(hosts: MakeHosts) -> None:
    work = workload(coverage=0.0001)
    between = pairs(hosts("s1"), hosts("r1"))
    first, second = (run(work, TrialJob(n, between)).requests[0]["size"] for n in (1, 2))
    assert len(first) == 50
    assert first == second


def test_a_killed_pong_fails_the_trial_and_is_named(hosts: MakeHosts) -> None:
    senders, receivers = hosts("s1"), hosts("r1")
    begun: list[float] = []

    def check() -> None:
        begun.append(time.monotonic())
        if begun[-1] - begun[0] > 1:  # the siege takes 20 s
            begun[0] = float("inf")
            receivers[0].signal()

    work = workload(sizes=["1kB"], repetitions=1000, rate=50)
    with pytest.raises(AgentError, match="the agent is gone") as caught:
        run_parts(TrialJob(1, pairs(senders, receivers), check=check), work.parts())
    assert caught.value.where == "r1"
    assert begun[0] == float("inf")
    run(workload(coverage=0.0001), TrialJob(2, pairs(senders, receivers)))


def said(event: str, **values: Any) -> str:
    return f"echo '{json.dumps({'event': event, 'id': '3.0.0.0', **values})}'"


USE = {"cpu_user_s": 0, "cpu_system_s": 0}
STAT = dict.fromkeys(
    ("cpus", "elapsed_s", "user_s", "nice_s", "system_s", "idle_s", "iowait_s", "irq_s",
     "softirq_s", "steal_s", "guest_s"), 0,
)  # fmt: skip
COUNTS = {"start_realtime_ns": 1, "elapsed_s": 1, "requests": 0, "bad": 0}
PONG = said("result", job="pong", **COUNTS, process=USE, endpoint=STAT)
# A pong that listens at a port which nobody may reach.
UNREACHABLE = f"read command\n{said('listening', port=1)}\nread stop\n{PONG}\ncat >/dev/null"


@pytest.mark.parametrize(
    ("relay", "message"),
    [
        (True, "none of 50 requests got a good answer; 50 of them: status"),
        (False, "connect: "),
    ],
)
def test_an_unreachable_pong_fails_the_trial(
    hosts: MakeHosts, scripted: MakeScript, relay: bool, message: str
) -> None:
    pong = scripted({"job-0": UNREACHABLE})
    retries: dict[str, object] = {"retries": 1} if relay else {}
    pair = Pair(hosts("s1")[0], pong, "127.0.0.1", "127.0.0.1")
    with pytest.raises(AgentError, match=message) as caught:
        run(workload(coverage=0.0001, relay=relay, **retries), TrialJob(3, [pair]))
    assert "firewall" in str(caught.value.cure)
    assert "s1" in str(caught.value.where)


def test_a_trial_past_its_deadline_fails_with_a_cure(hosts: MakeHosts) -> None:
    between = pairs(hosts("s1"), hosts("r1"))
    slow = workload(sizes=["1MB"], repetitions=100_000, deadline="300ms")
    with pytest.raises(AgentError, match="missed every deadline") as caught:
        run_parts(TrialJob(1, between), slow.parts())
    assert caught.value.where == "s1"
    assert "deadline" in str(caught.value.cure)
    run(workload(coverage=0.0001), TrialJob(2, between))


# --- what they tell


def test_a_hundred_thousand_requests_take_a_few_megabytes() -> None:
    line = told(
        *[{"start_us": 12.5 * k, "size": 70_000 + k} for k in range(1000)]
    ).model_dump_json()
    first = parse_event(line)
    assert isinstance(first, RequestsEvent)
    requests_table([as_batch(first)], 1, Purpose.MEASURED, "s1", "r1")  # imports what it takes
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        batches = []
        for _ in range(100):
            event = parse_event(line)
            assert isinstance(event, RequestsEvent)
            batches.append(as_batch(event))
        kept = requests_table(batches, 1, Purpose.MEASURED, "s1", "r1")
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept.num_rows == 100_000
    assert peak < 8e6
    assert pa.total_allocated_bytes() - before < 20e6


@pytest.mark.parametrize("change", [{"size": [1, 2]}, {"error": [9]}, {"start_us": [None]}])
def test_requests_that_make_no_sense_end_the_conversation(change: dict[str, Any]) -> None:
    line = json.dumps({**told({}).model_dump(mode="json"), **change})
    assert isinstance(parse_event(line), OutputEnded)


def siege_result(requests: int, failed: int) -> SiegeResult:
    values = {**COUNTS, "requests": requests, "failed": failed, "job": "siege", "id": "1"}
    return SiegeResult.model_validate(
        {"event": "result", **values, "process": USE, "endpoint": STAT}
    )


def test_a_part_of_the_requests_is_no_result() -> None:
    ran = PartResult("s1", "r1", (siege_result(3, 0),), [], [], [as_batch(told({}, {}))])
    with pytest.raises(AgentError, match="made 3 requests and reported 2"):
        workload().outcome(1, Purpose.MEASURED, [[ran]])


def test_a_result_without_a_siege_is_an_error() -> None:
    values = {**COUNTS, "event": "result", "id": "1", "job": "pong"}
    other = PongResult.model_validate({**values, "process": USE, "endpoint": STAT})
    with pytest.raises(AgentError, match="made no requests"):
        workload().outcome(1, Purpose.MEASURED, [[PartResult("s1", "r1", (other,), [])]])


# --- the metrics


@pytest.mark.parametrize(
    ("failed", "requests", "count"), [(0, 100, 0), (0.9, 100, 0), (1, 100, 1), (None, 100, 0)]
)
def test_quantiles_without_many_failed_requests_are_doubted(
    failed: float | None, requests: float, count: int
) -> None:
    metrics = {"failed_requests": failed, "requests": requests}
    found = list(PingPongSettings().warnings_from_metrics(metrics))
    assert len(found) == count
    assert all("of some trials 1 % of the requests failed" in one for one in found)


@pytest.mark.parametrize(
    ("rate", "lasted_s", "changes", "count"),
    [
        (100.0, 1.0, {}, 0),
        (100.0, 1.04, {}, 0),
        (100.0, 2.0, {}, 1),
        (None, 2.0, {}, 0),
        (100.0, 2.0, {"requests_per_s": None}, 0),
        pytest.param(100.0, 2.0, {"request_p50_us": 1e6}, 0, id="every answer takes long"),
        pytest.param(100.0, 2.0, {"request_p99_us": 2e3}, 0, id="the last answer was late"),
        pytest.param(100.0, 2.0, {"failed_requests": 10, "requests_per_s": 45.0}, 1, id="failed"),
        pytest.param(100.0, 2.0, {"requests": 300, "requests_per_s": 150.0}, 1, id="three pairs"),
        pytest.param(100.0, 1.0, {"requests": 300, "requests_per_s": 300.0}, 0, id="are fast"),
    ],
)
def test_a_rate_that_was_not_kept_is_noted(
    rate: float | None, lasted_s: float, changes: dict[str, float | None], count: int
) -> None:
    settings = PingPongSettings.model_validate({"sizes": ["1kB"], "repetitions": 100, "rate": rate})
    times = {"request_p50_us": 5e5, "request_p99_us": 9.9e5}
    metrics = {"requests": 100, "requests_per_s": 100 / lasted_s, **times}
    found = list(settings.warnings_from_metrics({**metrics, **changes}))
    assert sum("than 95 % of the 100 requests per second were" in one for one in found) == count


def test_failed_requests_are_counted_and_excluded_from_times() -> None:
    one = table({}, {"relay_us": 750.0, "retries": 2}, {"error": 2, **UNANSWERED, "retries": None})
    other = table({"error": 5, "code": 503, "length": 0, "retries": 10, "relay_us": 1e9}, {})
    found = request_metrics([one, other], [0.5, 0.25])
    assert found["requests"] == 5
    assert found["failed_requests"] == 2
    assert found["retries"] == 12
    assert found["requests_per_s"] == 2 / 0.5 + 1 / 0.25
    assert found["goodput_bps"] == 8 * (2000 / 0.5 + 1000 / 0.25)
    assert found["time_mean_us"] == pytest.approx(1250 / 3)
    assert found["time_p50_us"] == pytest.approx(250)
    assert found["time_max_us"] == pytest.approx(750)
    assert found["request_p50_us"] == pytest.approx(400)
    assert found["transfer_rate_bytes_per_s"] == pytest.approx(3000 / 1250e-6)
    assert one["error"].to_pylist() == [None, None, "timeout"]
    assert one["duration_s"].to_pylist() == [4e-4, 4e-4, None]


@given(
    requests=st.lists(
        st.tuples(st.integers(1, 10**6), st.floats(1, 1e7), st.integers(0, 5)), min_size=1
    ).filter(lambda rows: any(error == 0 for _, _, error in rows))
)
def test_the_transfer_rate_is_that_of_ppbench(requests: list[tuple[int, float, int]]) -> None:
    rows = [{"length": n, "relay_us": us, "error": error} for n, us, error in requests]
    found = request_metrics([table(*rows)], [1.0])
    good = [(n, us / 1000) for n, us, error in requests if error == 0]
    rate = sum(n for n, _ in good) * 1000 / sum(ms for _, ms in good)
    assert found["transfer_rate_bytes_per_s"] == pytest.approx(rate)
    low, high = min(ms for _, ms in good) * 1000, max(ms for _, ms in good) * 1000
    times = [found[f"time_{name}_us"] for name in ("p50", "p90", "p99", "max")]
    assert [low, *times] == sorted([low, *times], key=lambda us: round(us or 0, 6))
    assert times[-1] == pytest.approx(high)
