"""Runs whose endpoints are cut off while they measure, and some come back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from osmef.engine.cancellation import CancellationToken
from osmef.engine.events import Observer
from osmef.engine.journal import Journal
from osmef.engine.plan import PlannedTrial, make_plan
from osmef.engine.recovery import note_plan, reopen
from osmef.engine.run import Run
from osmef.errors import Interrupted, LostError
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary
from osmef.results.trial import Status
from osmef.scenario.fields import Placement
from osmef.scenario.load import load_text
from tests.journals import read_notes
from tests.memory.agent import Fault
from tests.memory.cloud import World

PAIR = """\
name: pair
workload: {kind: btc, duration: 100ms, interval: 100ms}
order: sequential
repeat: 40
"""
TWO_PAIRS = """\
name: two
provider: {kind: local, hosts: 4}
workload: {kind: btc, duration: 100ms, interval: 100ms}
sweep: {flavor: [small, medium]}
order: random
parallel: 2
repeat: 5
seed: 1
"""
SENDER, RECEIVER = "sender-h1-t1", "receiver-h2-t1"
SHORT_S, LONG_S = 0.5, 60.0
SAME = Placement.SAME_HOST

At = Callable[["Script"], None]


class Script(Observer):
    """Does something as a trial begins, ``times`` of it, and as the run waits for an endpoint."""

    def __init__(
        self,
        world: World,
        at_trial: dict[int, At],
        at_waiting: At = lambda _: None,
        times: int = 1,
    ) -> None:
        self.world = world
        self.at_trial, self.at_waiting, self.times = at_trial, at_waiting, times
        self.steps: list[str] = []
        self.warnings: list[str] = []
        self.started: list[int] = []
        self.stop = CancellationToken()

    def trial_started(self, planned: PlannedTrial) -> None:
        self.started.append(planned.index)
        if planned.index in self.at_trial and self.started.count(planned.index) <= self.times:
            self.at_trial[planned.index](self)

    def activity(self, text: str) -> None:
        self.steps.append(text)
        if "waiting" in text:
            self.at_waiting(self)

    def warning(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture(autouse=True)
def _endpoints_are_cleaned(world: World) -> None:
    world.cleans_by_login = True


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Callable[[str], RunDirectory]]:
    made = []

    def make(text: str) -> RunDirectory:
        run = RunDirectory.create(tmp_path, "run", text, ".yaml")
        made.append(run)
        note_plan(run, make_plan(load_text(text, Path("run.yaml"))))
        return run

    yield make
    for run in made:
        run.close()


Make = Callable[[str], RunDirectory]


def go(
    run: RunDirectory, script: Script, reconnect_timeout_s: float = LONG_S, **more: Any
) -> Summary:
    with closing(script.stop):
        return Run(
            reopen(run), run, script, script.stop, reconnect_timeout_s=reconnect_timeout_s, **more
        ).execute()


def off(name: str) -> At:
    return lambda script: script.world.machine(name).switch_off()


def on(name: str) -> At:
    return lambda script: script.world.machine(name).switch_on()


def taken_back(name: str) -> At:
    return lambda script: script.world.take_back(name)


def agent_dies(name: str) -> At:
    def arrange(script: Script) -> None:
        script.world.faults.append(Fault(name, script.started[-1], "bulk", dies=True))

    return arrange


def indices(run: RunDirectory) -> list[int]:
    return [trial.index for trial in run.read_trials().trials]


def records(run: RunDirectory) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.trials.read_text().splitlines()]


def test_an_endpoint_that_boots_costs_no_trial(directory: Make, world: World) -> None:
    run = directory(PAIR.replace("40", "4"))
    script = Script(world, {3: off(RECEIVER)}, on(RECEIVER))
    before = time.monotonic()
    summary = go(run, script)
    assert time.monotonic() - before < LONG_S
    assert summary.run.complete
    assert [one["status"] for one in records(run)] == ["ok"] * 4
    assert script.started == [1, 2, 3, 3, 4]
    (step,) = (text for text in script.steps if "waiting" in text)
    assert step == f"no answer from {RECEIVER}: waiting up to 1 min"
    (note,) = read_notes(Journal(run.journal), "disturbed")
    assert (note["trial"], note["lost"]) == (3, [RECEIVER])
    warnings = " ".join(summary.run.warnings)
    assert f"{RECEIVER} was lost, and answered again" in warnings
    assert "lost in attempts at these trials: 3" in warnings


def test_an_endpoint_that_stays_away_leaves_its_trials_to_be_measured(
    directory: Make, world: World
) -> None:
    run = directory(PAIR)
    script = Script(world, {3: off(RECEIVER)})
    with pytest.raises(LostError) as caught:
        go(run, script, SHORT_S)
    error = caught.value
    assert (error.exit_code, error.where) == (4, RECEIVER)
    assert "38 of 40 trials could not be measured" in error.message
    assert "lost since 20" in error.message
    assert "refused it" in error.message
    assert any(f"{RECEIVER} may still have what the run made" in text for text in script.warnings)
    assert not read_notes(Journal(run.journal), "gone")
    assert indices(run) == [1, 2]
    assert script.started == [1, 2, 3]
    summary = run.read_summary()
    assert (summary.run.complete, summary.cells[0].n_failed) == (False, 0)
    summary = go(run, Script(world, {}))
    assert summary.run.complete
    assert sorted(indices(run)) == list(range(1, 41))
    assert {one["status"] for one in records(run)} == {"ok"}


def test_trials_that_need_no_lost_endpoint_go_on(directory: Make, world: World) -> None:
    run = directory(TWO_PAIRS)
    lost = "receiver-small-h2-t1"
    script = Script(world, {}, lambda _: None)
    first = next(one for one in reopen(run).trials if lost in names_of(one))
    script.at_trial = {first.index: off(lost)}
    with pytest.raises(LostError) as caught:
        go(run, script, SHORT_S)
    assert caught.value.where == lost
    assert "5 of 10 trials could not be measured, of 1 cell;" in caught.value.message
    done = run.read_trials().trials
    assert len(done) == 5
    assert not any(lost in trial.receivers for trial in done)
    assert sum("waiting" in text for text in script.steps) == 1
    assert go(run, Script(world, {})).run.complete


def names_of(planned: PlannedTrial) -> list[str]:
    return [end.name for end in planned.cell.endpoints]


def test_all_that_are_lost_at_once_are_awaited_at_once(directory: Make, world: World) -> None:
    run = directory(TWO_PAIRS)

    def all_off(_script: Script) -> None:
        for one in world.made:
            one.switch_off()

    script = Script(world, {1: all_off})
    with pytest.raises(LostError) as caught:
        go(run, script, SHORT_S)
    assert (caught.value.where or "").split(", ") == [one.name for one in world.made]
    assert sum("waiting" in text for text in script.steps) == 1
    assert indices(run) == []


def test_a_reclaimed_vm_is_not_waited_for(directory: Make, world: World) -> None:
    run = directory(PAIR)
    script = Script(world, {3: taken_back(RECEIVER)})
    with pytest.raises(LostError, match="reclaimed, as spot VMs may be") as caught:
        go(run, script)
    assert caught.value.where == RECEIVER
    assert "38 of 40" in caught.value.message
    assert not any("waiting" in text for text in script.steps)
    assert indices(run) == [1, 2]
    assert go(run, Script(world, {})).run.complete
    assert len(world.made) == 4


def test_a_vm_reclaimed_while_waited_for_is_reported_as_such(directory: Make, world: World) -> None:
    run = directory(PAIR)
    script = Script(world, {1: off(RECEIVER)}, taken_back(RECEIVER))
    with pytest.raises(LostError, match="reclaimed, as spot VMs may be"):
        go(run, script, SHORT_S)


def test_a_machine_that_returns_with_another_host_key_is_rejected(
    directory: Make, world: World
) -> None:
    run = directory(PAIR)

    def changed(_script: Script) -> None:
        world.machine(RECEIVER).change_host_key()
        world.machine(RECEIVER).switch_on()

    before = time.monotonic()
    with pytest.raises(LostError, match="is not the one that"):
        go(run, Script(world, {2: off(RECEIVER)}, changed))
    assert time.monotonic() - before < LONG_S
    assert indices(run) == [1]


def test_a_machine_that_answers_before_it_accepts_files_is_retried(
    directory: Make, world: World
) -> None:
    run = directory(PAIR.replace("40", "2"))

    def boots(_script: Script) -> None:
        world.machine(RECEIVER).boots = True
        world.machine(RECEIVER).switch_on()

    assert go(run, Script(world, {1: off(RECEIVER)}, boots)).run.complete


def test_a_machine_that_returns_on_another_host_has_migrated(directory: Make, world: World) -> None:
    run = directory(PAIR.replace("40", "3"))

    def moves(_script: Script) -> None:
        world.hosts[RECEIVER] = "host-1"
        world.machine(RECEIVER).switch_on()

    script = Script(world, {2: off(RECEIVER)}, moves)
    go(run, script)
    assert any(f"has moved {RECEIVER}, from host-2 to host-1" in text for text in script.warnings)
    kinds = [one.failure and one.failure.kind for one in run.read_trials().trials]
    assert kinds == ["placement"] * 3
    assert [one.achieved_placement for one in run.read_trials().trials] == [None, SAME, SAME]


def test_a_trial_that_brings_its_endpoint_down_each_time_has_failed(
    directory: Make, world: World
) -> None:
    run = directory(PAIR.replace("40", "3"))
    script = Script(world, {2: off(RECEIVER)}, on(RECEIVER), times=9)
    summary = go(run, script)
    assert script.started == [1, 2, 2, 2, 3]
    assert summary.run.complete
    (failed,) = [one for one in run.read_trials().trials if one.status is Status.FAILED]
    assert failed.index == 2
    assert failed.failure is not None
    assert "lost in each of its 3 attempts" in failed.failure.message


def test_attempts_of_a_trial_are_counted_across_resumes(directory: Make, world: World) -> None:
    run = directory(PAIR.replace("40", "3"))
    for _ in range(3):
        with pytest.raises(LostError):
            go(run, Script(world, {2: off(RECEIVER)}), SHORT_S)
    assert [one["status"] for one in records(run)] == ["ok", "failed"]
    assert go(run, Script(world, {})).run.complete
    assert indices(run) == [1, 2, 3]


def test_a_stop_ends_the_wait_at_once(directory: Make, world: World) -> None:
    run = directory(PAIR)
    script = Script(
        world, {2: off(RECEIVER)}, lambda script: script.stop.request("stopped by SIGINT")
    )
    before = time.monotonic()
    with pytest.raises(Interrupted, match="SIGINT"):
        go(run, script)
    assert time.monotonic() - before < LONG_S / 2
    assert indices(run) == [1]
    assert run.read_summary().cells[0].n_ok == 1


def test_an_agent_that_dies_alone_fails_its_trial(directory: Make, world: World) -> None:
    run = directory(PAIR.replace("40", "2"))
    script = Script(world, {2: agent_dies(SENDER)})
    summary = go(run, script)
    assert [one["status"] for one in records(run)] == ["ok", "failed"]
    assert summary.run.complete


# --- failed trials, measured again by wish


def with_failures(run: RunDirectory, world: World) -> None:
    """Measure a pair of which an agent dies in the trials 2 and 4."""
    dies = agent_dies(SENDER)
    summary = go(run, Script(world, {2: dies, 4: dies}))
    assert summary.cells[0].n_failed == 2


def test_failed_trials_are_measured_again_only_on_request(directory: Make, world: World) -> None:
    run = directory(PAIR.replace("40", "5"))
    with_failures(run, world)
    script = Script(world, {})
    summary = go(run, script)
    assert (script.started, summary.cells[0].n_failed) == ([], 2)
    script = Script(world, {})
    summary = go(run, script, retries_failed=True)
    assert script.started == [2, 4]
    assert (summary.cells[0].n_ok, summary.cells[0].n_failed) == (5, 0)
    assert summary.run.repeated == 2
    assert "measured again after they had failed: 2 trials" in summary.run.warnings
    assert [(one["index"], one["status"]) for one in records(run)] == [
        *((1, "ok"), (2, "failed"), (3, "ok"), (4, "failed"), (5, "ok"), (2, "ok"), (4, "ok")),
    ]
    from osmef.results.frame import load, load_intervals  # noqa: PLC0415 - loads pandas

    frame = load(run.path)
    assert frame["trial"].tolist() == [1, 3, 5, 2, 4]
    assert set(frame["status"]) == {"ok"}
    assert set(load_intervals(run.path)["trial"]) == {1, 2, 3, 4, 5}


def test_a_lost_endpoint_leaves_failed_trials_as_they_were(directory: Make, world: World) -> None:
    run = directory(PAIR.replace("40", "5"))
    with_failures(run, world)
    with pytest.raises(LostError, match="2 of 5 trials could not be measured"):
        go(run, Script(world, {2: off(RECEIVER)}), SHORT_S, retries_failed=True)
    summary = run.read_summary()
    assert (summary.cells[0].n_ok, summary.cells[0].n_failed) == (3, 2)
    assert go(run, Script(world, {}), retries_failed=True).cells[0].n_failed == 0
