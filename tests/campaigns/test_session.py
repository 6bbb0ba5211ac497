"""A session on the local cloud."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from osmef.campaigns.rows import State
from osmef.campaigns.session import Work, measure
from osmef.engine.observer import Observer
from osmef.engine.stop import Stop
from osmef.results.rundir import RunDirectory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs namespaces")
# An hour of trials by plan, and ten seconds to make them in.
SCENARIO = "name: pair\nworkload: {duration: 1s, interval: 100ms}\nrepeat: 3600\ndeadline: 10s\n"


def test_a_run_that_reaches_its_own_deadline_ends_its_session_only(tmp_path: Path) -> None:
    path = tmp_path / "pair-1"
    work = Work(1, "monday", "peak", "pair", SCENARIO, "pair.yaml", str(path), 1)
    stop = Stop()
    end = measure(work, stop, Observer())
    stop.check()
    trials = RunDirectory(path).read_trials().trials
    assert (end.trials_ok, end.trials_failed) == (len(trials), 0)
    assert end.state is (State.DONE if trials else State.FAILED)
    assert "deadline of the run" in (end.why or "")
