"""A session on the local cloud."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest

from osmef.campaigns.executors.session import SessionJob, measure
from osmef.campaigns.state.rows import SessionState
from osmef.engine.cancellation import CancellationToken
from osmef.engine.events import Observer
from osmef.results.rundir import RunDirectory
from osmef.scenario.fields import Placement

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs namespaces")
# An hour of trials by plan, and ten seconds to make them in.
SCENARIO = "name: pair\nworkload: {duration: 1s, interval: 100ms}\nrepeat: 3600\ndeadline: 10s\n"


def test_a_session_measures_what_is_not_known_yet(tmp_path: Path) -> None:
    text = "name: pair\nworkload: {duration: 200ms, interval: 100ms}\nrepeat: 1\n"
    text += "sweep: {placement: [same-host, different-host], connections: [1, 2]}\n"
    path = tmp_path / "pair-1"
    known = ("placement=same-host,connections=1", "placement=same-host,connections=2")
    work = SessionJob(1, "monday", "peak", "pair", text, "pair.yaml", str(path), 1, left_out=known)
    with closing(CancellationToken()) as stop:
        assert measure(work, stop, Observer()).trials_ok == 2
    found = RunDirectory(path).read_summary()
    assert {cell.placement for cell in found.cells} == {Placement.DIFFERENT_HOST}
    assert len(found.endpoints) == 2
    assert found.run.complete


def test_a_run_that_reaches_its_own_deadline_ends_its_session_only(tmp_path: Path) -> None:
    path = tmp_path / "pair-1"
    work = SessionJob(1, "monday", "peak", "pair", SCENARIO, "pair.yaml", str(path), 1)
    stop = CancellationToken()
    end = measure(work, stop, Observer())
    stop.check()
    trials = RunDirectory(path).read_trials().trials
    assert (end.trials_ok, end.trials_failed) == (len(trials), 0)
    assert end.state is (SessionState.DONE if trials else SessionState.FAILED)
    assert "deadline of the run" in (end.why or "")
