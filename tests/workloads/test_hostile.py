"""Agents that say what no agent of ours does: without end, or what makes no sense."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osmef.agent.messages import (
    ErrorEvent,
    OutputEnded,
    PointEvent,
    ResultEvent,
    parse_event,
)
from osmef.analysis.bulk_transfer import trial_limit
from osmef.errors import AgentError
from osmef.results.document import read_document
from osmef.results.observations import Purpose
from osmef.results.trial import Status, Trial
from osmef.scenario.load import load_text
from osmef.workloads.base import Outcome, Part, PartResult, Step
from osmef.workloads.tasks import Pair, TaskTimeouts
from osmef.workloads.trial_runner import TrialJob, run_parts
from osmef.workloads.trial_workload import TrialWorkload
from tests.flood import bounded_memory
from tests.workloads.conftest import MakeHosts, MakeScript, pairs

PARAMETERS = {"interval_s": 0.1}
PART = Part((Step("sender", "bulk", PARAMETERS, connections=2),), duration_s=0.2)
INTERVAL = {"role": "sender", "start_s": 0, "length_s": 0.1, "bytes": [1, 1]}
POINT = {"size": 1, "repetitions": 1, "trials": 1}
TIMES = {f"time_{name}_us": [1, 1, 1] for name in ("min", "median", "max")}
POINT_TIMES = {**TIMES, "time_slowest_us": 1}
REQUESTS = {
    name: [1]
    for name in (
        "size",
        "start_us",
        "duration_us",
        "relay_us",
        "code",
        "length",
        "retries",
        "error",
    )
}


def line(event: str, **values: object) -> str:
    return json.dumps({"event": event, "id": "3.0.0.0", **values})


@pytest.mark.parametrize(
    "said",
    [
        line("interval", **INTERVAL),
        line("interval", **{**INTERVAL, "bytes": [1, 1, 1]}),
        line("point", **POINT, **POINT_TIMES),
        line("requests", **REQUESTS),
    ],
    ids=["intervals", "flows", "points", "requests"],
)
def test_an_agent_that_sends_more_events_than_its_job_allows_is_an_error(
    scripted: MakeScript, said: str
) -> None:
    host = scripted({"job-0": f"echo '{line('connected')}'; yes '{said}'"})
    with bounded_memory(), pytest.raises(AgentError, match="more than such a job may") as caught:
        run_parts(TrialJob(3, [Pair(host, host, "127.0.0.1", "127.0.0.1")]), [PART])
    assert caught.value.where == host.name


@pytest.mark.parametrize("said", [line("connected"), '{"event":"listening","id":"x","port":1}'])
def test_an_agent_that_chatters_without_end_misses_its_deadline(
    scripted: MakeScript, said: str
) -> None:
    waits = TaskTimeouts(stall_s=0.0, drain_s=0.0, grace_s=0.2, abort_s=0.2)
    host = scripted({"job-0": f"echo '{line('connected')}'; yes '{said}'"})
    job = TrialJob(3, [Pair(host, host, "127.0.0.1", "127.0.0.1")], waits=waits)
    with bounded_memory(), pytest.raises(AgentError, match="missed every deadline"):
        run_parts(job, [PART])


def test_an_agent_that_chatters_before_its_first_words_is_given_up(
    scripted: MakeScript,
) -> None:
    host = scripted({"job-0": ""})
    host.hello = f"yes '{line('connected')}'"
    with bounded_memory(), pytest.raises(AgentError, match="violated the protocol"):
        host.agent("job-0")


WORKLOADS = (
    "{duration: 200ms, interval: 100ms, connections: 2}",
    "{kind: udp, duration: 200ms, interval: 100ms, rate: 1Mbit/s}",
    "{kind: latency, duration: 200ms}",
    "{kind: size-sweep, max: 100B, point: 10ms}",
    "{kind: pingpong, sizes: [10B, 100B], repetitions: 5}",
)
ODD = [0, -1, 1, 2**63 - 1, -(2**63), 2**63, 10**400, 1e-320, 1e308, "x", None, True, [], {}]


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Give the place of each value in a document."""
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from places(one, (*path, key))


def spoilt(draw: st.DrawFn, value: Any) -> Any:
    """Put something odd into a document."""
    value = json.loads(json.dumps(value))
    *way, last = draw(st.sampled_from(sorted(places(value), key=str)))
    inner = value
    for key in way:
        inner = inner[key]
    if draw(st.booleans()):
        del inner[last]
    else:
        inner[last] = draw(st.sampled_from(ODD))
    return value


@st.composite
def spoilt_runs(draw: st.DrawFn, ran: list[list[PartResult]]) -> list[list[PartResult]] | None:
    """Let agents tell something else; None where that is no message of the protocol."""
    (parts,) = ran
    number = draw(st.integers(0, len(parts) - 1))
    results = list(parts[number].results)
    at = draw(st.integers(0, len(results) - 1))
    told = parse_event(json.dumps(spoilt(draw, results[at].model_dump(mode="json"))))
    if not isinstance(told, ResultEvent):
        assert isinstance(told, OutputEnded | ErrorEvent)
        return None
    results[at] = told
    changed = replace(parts[number], results=tuple(results))
    if draw(st.booleans()) and changed.intervals:
        value = draw(st.sampled_from([0, -1, 2**63 - 1, 1e308, 1e-320]))
        odd = {draw(st.sampled_from(["length_s", "bytes", "rtt_us", "retransmits"])): value}
        kept = changed.intervals[: draw(st.integers(0, 3))]
        changed = replace(changed, intervals=[one.model_copy(update=odd) for one in kept])
    if draw(st.booleans()) and changed.points:
        point = parse_event(json.dumps(spoilt(draw, changed.points[0].model_dump(mode="json"))))
        changed = replace(changed, points=[point] if isinstance(point, PointEvent) else [])
    return [[*parts[:number], changed, *parts[number + 1 :]]]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_no_result_of_an_agent_is_more_than_an_error(hosts: MakeHosts, workload: str) -> None:
    text = f"name: a\nworkload: {workload}"
    trial_workload = TrialWorkload(load_text(text, Path("a.yaml")).scenario)
    job = TrialJob(1, pairs(hosts("s1"), hosts("r1")))
    ran = run_parts(job, [part for _, part in trial_workload._parts]).ran

    @settings(max_examples=150)
    @given(spoilt_runs(ran))
    def check(told: list[list[PartResult]] | None) -> None:
        if told is None:
            return
        try:
            outcome = trial_workload._outcome(trial_workload._measured, 1, Purpose.MEASURED, told)
        except AgentError:
            return
        store(outcome)

    check()


def store(outcome: Outcome) -> None:
    """Do with an outcome what a run does with it."""
    assert all(value is None or math.isfinite(value) for value in outcome.metrics.values())
    trial = Trial(
        index=1,
        cell="a",
        repetition=1,
        group=1,
        values={},
        senders=["s1"],
        receivers=["r1"],
        placement=None,
        tenancy=None,
        distance=None,
        workload="btc",
        started_at=None,
        wall_s=None,
        status=Status.OK,
        metrics=dict(outcome.metrics),
        transfers=outcome.transfers,
        limited_by=trial_limit(outcome.transfers),
        exchanges=outcome.exchanges,
        sizes=outcome.sizes,
        datagrams=outcome.datagrams,
    )
    assert read_document(Trial, trial.model_dump_json().encode(), "here").index == 1
