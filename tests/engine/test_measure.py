from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from osmef.engine import measure
from osmef.engine.cancellation import CancellationToken
from osmef.engine.events import Observer
from osmef.engine.journal import Journal
from osmef.engine.measure import Batch, EndedTrial, TrialContext, run_trials
from osmef.engine.placement import TrialConflicts
from osmef.engine.plan import PlannedTrial, make_plan
from osmef.errors import Interrupted, StorageError
from osmef.providers.sites import sites_of
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Status, Trial
from osmef.scenario.load import load_text
from osmef.workloads import Outcome

PLAN = make_plan(
    load_text(
        """
name: many
provider: {kind: local, hosts: 8}
parallel: 4
repeat: 4
sweep:
  placement: [same-host, different-host]
  tenancy: [same-tenant, different-tenant]
  flavor: [small, medium]
""",
        Path("many.yaml"),
    ),
    seed=1,
)


RunTrial = Callable[[TrialContext, PlannedTrial], EndedTrial]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[TrialContext]:
    stop = CancellationToken()
    with RunDirectory.create(tmp_path, "many", "name: many\n", ".yaml") as directory:
        journal = Journal(directory.journal)
        sites = sites_of(PLAN.study.scenario)
        yield TrialContext(sites, {}, directory, journal, Observer(), stop)
    stop.close()


def ended(planned: PlannedTrial) -> EndedTrial:
    cell = planned.cell
    trial = Trial(
        index=planned.index, cell=cell.cell.key, repetition=planned.repetition,
        group=planned.group, values={}, senders=[end.name for end in cell.senders],
        receivers=[end.name for end in cell.receivers],
        placement=cell.cell.scenario.placement, tenancy=cell.cell.scenario.tenancy, distance=0,
        workload="btc", started_at=datetime.now(UTC), wall_s=0.1, status=Status.OK,
    )  # fmt: skip
    return EndedTrial(trial, Outcome({}))


def two_at_once(monkeypatch: pytest.MonkeyPatch, first: RunTrial) -> list[PlannedTrial]:
    """Let the first of two trials do this, and the other one end well as soon as all must stop."""
    chosen = TrialConflicts({}).startable(PLAN.trials, [], 2)

    def run(bench: TrialContext, planned: PlannedTrial) -> EndedTrial:
        if planned is chosen[0]:
            return first(bench, planned)
        with pytest.raises(Interrupted):
            bench.stop.wait(60)
        return ended(planned)

    monkeypatch.setattr(measure, "_run_trial", run)
    return chosen


def test_a_trial_that_ends_while_others_stop_is_recorded(
    bench: TrialContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(bench: TrialContext, _planned: PlannedTrial) -> EndedTrial:
        bench.stop.request("stopped by the test")
        raise Interrupted("stopped by the test")

    chosen = two_at_once(monkeypatch, stopped)
    with pytest.raises(Interrupted):
        run_trials(bench, Batch(PLAN.trials), 2)
    assert [trial.index for trial in bench.directory.read_trials().trials] == [chosen[1].index]


def test_a_full_disk_does_not_wait_for_the_other_trials(
    bench: TrialContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unrecordable(bench: TrialContext, planned: PlannedTrial) -> EndedTrial:
        (bench.directory.path / "intervals").write_text("in the way")
        return ended(planned)

    chosen = two_at_once(monkeypatch, unrecordable)
    started = time.monotonic()
    with pytest.raises(StorageError):
        run_trials(bench, Batch(chosen), 2)
    assert time.monotonic() - started < 30
