"""Endpoints that the cloud moves between two groups of trials of a run, on a cloud in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from osmef.engine.cancellation import CancellationToken
from osmef.engine.events import Observer
from osmef.engine.plan import make_plan
from osmef.engine.recovery import note_plan, reopen
from osmef.engine.run import Run
from osmef.engine.summarise import summarise
from osmef.errors import ApiError, CapacityError, Interrupted, LostError
from osmef.providers import sites
from osmef.providers.base import Endpoint
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary
from osmef.results.trial import Trial
from osmef.scenario.fields import Placement
from osmef.scenario.load import load_text
from osmef.scenario.location import Gone, Location
from tests.memory.cloud import MemoryProvider, World

BTC = "{kind: btc, duration: 200ms, interval: 100ms}"
SCENARIO = """\
name: moves
sweep: {connections: [1, 2]}
order: sequential
repeat: 1
"""
UNTIL = """\
name: moves
repeat: {until: 100 %, least: 8, most: 12}
"""
DOWN = "the API is down"
NOWHERE = "nobody knows"
GONE = "it has ended"
TAKEN = "the run other holds it"
DIFFERENT, SAME = Placement.DIFFERENT_HOST, Placement.SAME_HOST


class Migrating(MemoryProvider):
    """A cloud in memory whose receivers move as a script says: a host at each look, or none."""

    script: ClassVar[list[str]] = []

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        found = super().describe(endpoints)
        where = Migrating.script.pop(0)
        if where == DOWN:
            raise ApiError(DOWN)
        if where == TAKEN:
            raise CapacityError(TAKEN)
        there = {NOWHERE: Location(), GONE: Gone()}.get(where)
        return [
            there or place.model_copy(update={"host": where})
            if end.request.role == "receiver"
            else place
            for end, place in zip(endpoints, found, strict=True)
        ]


RunIt = Callable[..., tuple[Summary, list[Trial]]]


@pytest.fixture
def run(tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunIt]:
    monkeypatch.setattr(sites, "provider_for", Migrating)
    stop = CancellationToken()

    def execute(
        *script: str,
        more: str = "",
        stopping: bool = False,
        workload: str = BTC,
        text: str = SCENARIO,
    ) -> tuple[Summary, list[Trial]]:
        monkeypatch.setattr(Migrating, "script", list(script))
        text = f"{text}workload: {workload}\n{more}\n"
        plan = make_plan(load_text(text, Path("moves.yaml")))
        with RunDirectory.create(tmp_path, "moves", text, ".yaml") as directory:
            note_plan(directory, plan)
            observer = Stopping(stop) if stopping else Observer()
            summary = Run(plan, directory, observer, stop).execute()
            rows = {trial.index: trial for trial in directory.read_trials().trials}
            from osmef.results.frame import load_intervals  # noqa: PLC0415 - as slow as pyarrow

            kept = set(load_intervals(directory.path)["trial"])
        assert kept == {index for index, trial in rows.items() if trial.status == "ok"}
        return summary, [rows[index] for index in sorted(rows)]

    yield execute
    stop.close()


class Stopping(Observer):
    """Asks a run to stop when its first trial has ended."""

    def __init__(self, stop: CancellationToken) -> None:
        self.stop = stop

    def trial_ended(self, trial: Trial) -> None:  # noqa: ARG002
        self.stop.request("enough")


def ends(trials: Sequence[Trial]) -> list[tuple[str, Placement | None]]:
    return [(trial.status, trial.achieved_placement) for trial in trials]


def test_without_a_migration_no_trial_is_affected(run: RunIt) -> None:
    summary, trials = run("host-2", "host-2", "host-2")
    assert ends(trials) == [("ok", DIFFERENT)] * 2
    assert not any("moved" in warning for warning in summary.run.warnings)


def test_trials_during_a_migration_and_at_a_wrong_placement_after_it_fail(run: RunIt) -> None:
    summary, trials = run("host-2", "host-1", "host-1")
    assert ends(trials) == [("failed", None), ("failed", SAME)]
    moved, wrong = trials
    assert moved.failure is not None
    assert wrong.failure is not None
    assert (moved.failure.kind, wrong.failure.kind) == ("placement", "placement")
    assert "migrated" in moved.failure.message
    assert (moved.metrics, moved.transfers) == ({}, [])
    assert [cell.n_ok for cell in summary.cells] == [0, 0]
    (receiver,) = (end for end in summary.endpoints if end.earlier)
    assert receiver.achieved.host == "host-1"
    assert [place.host for place in receiver.earlier] == ["host-2"]
    assert any("moved it from host-2 to host-1, in group 1" in w for w in summary.run.warnings)


def test_findings_of_a_trial_that_fails_later_are_discarded(run: RunIt) -> None:
    knee = "{kind: btc, until: knee, duration: 2s, interval: 100ms}"
    _, (_, kept) = run("host-2", "host-2", "host-2", workload=knee)
    assert kept.buckets
    _, (moved, _) = run("host-2", "host-1", "host-1", workload=knee)
    assert moved.failure is not None
    assert (moved.buckets, moved.search, moved.transfers) == ([], None, [])


def test_a_trial_that_fails_later_is_no_value_of_the_stopping_rule(run: RunIt) -> None:
    """The eighth trial would have ended the cell."""
    _, trials = run(*["host-2"] * 13, text=UNTIL)
    assert len(trials) == 8
    _, trials = run(*["host-2"] * 8, "host-1", *["host-2"] * 4, text=UNTIL)
    assert [trial.status for trial in trials] == ["ok"] * 7 + ["failed"] * 2 + ["ok"]


def test_an_endpoint_without_a_known_host_counts_as_migrated(run: RunIt) -> None:
    summary, trials = run("host-2", NOWHERE, "host-2")
    assert ends(trials) == [("failed", None), ("failed", None)]
    assert [cell.n_ok for cell in summary.cells] == [0, 0]


def test_a_reclaimed_endpoint_is_lost_and_not_counted_as_migrated(
    run: RunIt, tmp_path: Path
) -> None:
    with pytest.raises(LostError, match="reclaimed, as spot VMs may be") as caught:
        run("host-2", GONE, "host-2")
    with RunDirectory.open(path_in(tmp_path)) as directory:
        trials, summary = directory.read_trials().trials, directory.read_summary()
    assert ends(trials) == [("ok", DIFFERENT)]
    assert caught.value.where == trials[0].receivers[0]
    assert [(cell.n_ok, cell.n_failed) for cell in summary.cells] == [(1, 0), (0, 0)]
    assert not any("moved" in warning for warning in summary.run.warnings)


def test_trials_before_a_migration_keep_their_placement(run: RunIt) -> None:
    summary, trials = run("host-2", "host-2", "host-1")
    assert ends(trials) == [("ok", DIFFERENT), ("failed", None)]
    assert [cell.n_ok for cell in summary.cells] == [1, 0]


def test_with_on_mismatch_record_the_placement_is_unknown_during_a_migration(run: RunIt) -> None:
    summary, trials = run("host-2", "host-1", "host-1", more="on_mismatch: record")
    assert ends(trials) == [("ok", None), ("ok", SAME)]
    assert [trial.distance for trial in trials] == [None, 0]
    assert all(trial.metrics for trial in trials)
    assert [cell.mismatch for cell in summary.cells] == [["placement", "distance"]] * 2


def test_with_placement_any_no_trial_fails_by_a_migration(run: RunIt) -> None:
    summary, trials = run("host-2", "host-1", "host-1", more="placement: any")
    assert ends(trials) == [("ok", None), ("ok", SAME)]
    assert [cell.mismatch for cell in summary.cells] == [[], []]


def test_a_migration_that_keeps_the_placement_is_only_a_warning(run: RunIt) -> None:
    summary, trials = run("host-2", "host-3", "host-3")
    assert ends(trials) == [("ok", DIFFERENT)] * 2
    assert any("moved it from host-2 to host-3" in warning for warning in summary.run.warnings)


def test_a_failed_host_check_does_not_end_the_run(run: RunIt) -> None:
    summary, trials = run("host-2", DOWN, "host-2")
    assert ends(trials) == [("ok", DIFFERENT)] * 2
    assert any(
        "checked after group 1 of the trials: a migration" in warning
        for warning in summary.run.warnings
    )


def test_a_machine_that_another_run_has_taken_ends_the_run_and_fails_what_it_may_have_met(
    run: RunIt, tmp_path: Path
) -> None:
    with pytest.raises(CapacityError, match=TAKEN):
        run("host-2", "host-2", TAKEN)
    with RunDirectory.open(path_in(tmp_path)) as directory:
        first, second = sorted(directory.read_trials().trials, key=lambda trial: trial.index)
    assert first.status == "ok"
    assert second.failure is not None
    assert (second.failure.kind, second.metrics) == ("capacity", {})


def path_in(tmp_path: Path) -> Path:
    (path,) = (one for one in tmp_path.iterdir() if one.is_dir())
    return path


def not_read(summary: Summary) -> list[str]:
    return [warning for warning in summary.run.warnings if "could not be checked" in warning]


def test_hosts_are_checked_once_more_after_a_stop(run: RunIt, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        run("host-2", "host-1", stopping=True)
    with RunDirectory.open(path_in(tmp_path)) as directory:
        (moved,) = directory.read_trials().trials
        assert directory.read_summary().cells[0].n_ok == 0
    assert moved.failure is not None
    assert (moved.failure.kind, moved.metrics) == ("placement", {})


def test_a_failed_host_check_is_still_reported_after_a_resume(
    run: RunIt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Interrupted):
        run("host-2", DOWN, stopping=True)
    monkeypatch.setattr(Migrating, "script", ["host-2", "host-2"])
    stop = CancellationToken()
    with RunDirectory.open(path_in(tmp_path)) as directory:
        (warning,) = not_read(directory.read_summary())
        assert "after group 1 of the trials" in warning
        summary = Run(reopen(directory), directory, Observer(), stop).execute()
    stop.close()
    assert [cell.n_ok for cell in summary.cells] == [1, 1]
    assert not_read(summary) == [warning]


def test_trial_groups_without_a_host_check_due_to_a_kill_are_reported(
    run: RunIt, tmp_path: Path
) -> None:
    run("host-2", "host-2", "host-2")
    path = path_in(tmp_path)
    with RunDirectory.open(path) as directory:
        plan, lines = reopen(directory), directory.journal.read_text().splitlines(keepends=True)
        last = max(number for number, line in enumerate(lines) if '"looked"' in line)
        directory.journal.write_text("".join(lines[:last]))  # it was killed just before
        (warning,) = not_read(summarise(plan, directory))
    assert "after group 2 of the trials" in warning
