"""What a conductor does when clocks jump, machines sleep, and others take over."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from osmef.campaigns.conductor.cleanup import ConductorContext
from osmef.campaigns.conductor.conductor import Conductor
from osmef.campaigns.executors.session import Measure, SessionJob, SessionResult
from osmef.campaigns.process_identity import this_process
from osmef.campaigns.state.rows import LEASE, CampaignPhase, Refusal, SessionRow, SessionState
from osmef.campaigns.watching.web import CampaignPages
from osmef.engine.cancellation import CancellationToken
from osmef.engine.journal import Journal
from osmef.errors import Interrupted
from osmef.kinds import PROVIDERS
from osmef.results.rundir import RunDirectory
from tests.campaigns.emulated import AtOnce
from tests.campaigns.test_conductor import START, Stage, done
from tests.engine.memory_cloud import MemoryCloud, Site, thing

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
TEST = 1
"""The campaign's number."""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@dataclass
class Held:
    """An executor whose jobs end when the test says so."""

    capacity: int = 8
    works: dict[Future[SessionResult], SessionJob] = field(default_factory=dict)
    clears: dict[Future[None], Path] = field(default_factory=dict)

    def submit(self, _measure: Measure, work: SessionJob) -> Future[SessionResult]:
        future: Future[SessionResult] = Future()
        self.works[future] = work
        return future

    def clear(self, directory: Path, _provider: str) -> Future[None]:
        future: Future[None] = Future()
        self.clears[future] = directory
        return future

    def close(self) -> None:
        pass


def conductor(stage: Stage, executor: Held, halted: list[int] | None = None) -> Conductor:
    halt = (lambda _: None) if halted is None else halted.append
    context = ConductorContext(this_process(), stage.clock, executor, done, stage.tell, halt=halt)
    return Conductor(
        stage.store, stage.store.campaign("test"), stage.campaign_plan, context, stage.stop
    )


def test_a_clock_that_was_wrong_for_a_while_costs_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine says 2096 until it has asked the network."""
    wait, jumps = stage.clock.wait, [timedelta(days=70 * 365), timedelta(days=-70 * 365)]

    def waits(until: datetime | None, wake: threading.Event) -> None:
        if jumps:
            stage.clock.set(jumps.pop(0))
        else:
            wait(until, wake)

    monkeypatch.setattr(stage.clock, "wait", waits)
    assert stage.conduct(done) is CampaignPhase.ENDED
    assert stage.states == [SessionState.DONE] * 7
    assert [text for kind, text in stage.told if kind == "gap"] == [
        "the clock was set forward by 613200 h",
        "the clock was set back by 613200 h",
    ]


def test_a_clock_that_was_wrong_at_the_start_costs_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, jumps = stage.clock.wait, [timedelta(days=-70 * 365)]
    stage.clock.set(timedelta(days=70 * 365))

    def waits(until: datetime | None, wake: threading.Event) -> None:
        if jumps:
            stage.clock.set(jumps.pop())
        else:
            wait(until, wake)

    monkeypatch.setattr(stage.clock, "wait", waits)
    assert stage.conduct(done) is CampaignPhase.ENDED
    assert stage.states == [SessionState.DONE] * 7


def test_a_machine_that_slept_leaves_a_gap(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    wait, sleeps = stage.clock.wait, [timedelta(hours=20)]

    def waits(until: datetime | None, wake: threading.Event) -> None:
        wait(until, wake)
        if sleeps:
            stage.clock.time += sleeps.pop()

    monkeypatch.setattr(stage.clock, "wait", waits)
    stage.conduct(done)
    assert stage.states == [SessionState.MISSED] + [SessionState.DONE] * 6
    (gap,) = stage.store.gaps(TEST)
    assert (gap.since, gap.until) == (START, START + timedelta(hours=29))
    assert "slept" in gap.why
    assert "no conductor of the campaign was running" in (stage.sessions[0].why or "")


def test_time_without_a_conductor_is_recorded_as_a_gap(stage: Stage) -> None:
    def stops(work: SessionJob) -> SessionResult:
        stage.stop.request("stopped by SIGTERM")
        return done(work)

    stage.conduct(stops)
    began = stage.clock.time
    back = Stage(stage.directory, "", stage.clock)
    stage.clock.time += 2 * DAY
    back.conduct(done)
    assert Counter(back.states) == {SessionState.DONE: 6, SessionState.MISSED: 1}
    (gap,) = back.store.gaps(TEST)
    assert (gap.since, gap.until) == (began, began + 2 * DAY)
    assert any(
        "no conductor of the campaign was running" in text
        for kind, text in back.told
        if kind == "gap"
    )


def test_a_missed_session_has_a_reason(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was paused on the first day, and another session had the cloud on the second."""
    wait, store = stage.clock.wait, stage.store
    store.set_phase(TEST, CampaignPhase.PAUSED)
    other = "other boot 1 1"
    held: list[SessionRow] = []

    def waits(until: datetime | None, wake: threading.Event) -> None:
        wait(until, wake)
        if stage.clock.time >= START + DAY and not held:
            found = store.claim(stage.sessions[-1], other, stage.clock.time)
            assert isinstance(found, SessionRow)
            held.append(found)
            store.set_phase(TEST, CampaignPhase.ACTIVE, this_process())
        store.renew(TEST, other, stage.clock.time)
        if stage.clock.time >= START + DAY + 18 * HOUR and held[0].holder:
            store.finish(held[0], SessionState.DONE, stage.clock.time)

    stage.clock.time = START + 8 * HOUR
    monkeypatch.setattr(stage.clock, "wait", waits)
    context = ConductorContext(
        this_process(), stage.clock, AtOnce(), done, stage.tell, busy_poll=HOUR
    )
    Conductor(store, store.campaign("test"), stage.campaign_plan, context, stage.stop).run()
    first, second, *rest = stage.sessions
    assert (first.state, first.why) == (
        SessionState.MISSED,
        "the window was closed: the campaign was paused",
    )
    assert (second.state, second.why) == (
        SessionState.MISSED,
        "the window was closed: its cloud was measured by another session",
    )
    assert {one.state for one in rest} == {SessionState.DONE}


def test_a_pause_outlives_its_conductor(stage: Stage) -> None:
    """As on a reboot."""
    stage.store.set_phase(TEST, CampaignPhase.PAUSED)
    stage.clock.time = START + 9 * HOUR
    stage.stop.request("stopped by SIGTERM")
    assert stage.conduct(done) is CampaignPhase.STOPPED
    assert stage.store.campaign("test").phase is CampaignPhase.PAUSED
    executor, stage.stop = Held(), CancellationToken()
    again = conductor(stage, executor)
    again._register()
    again._step()
    assert stage.store.campaign("test").phase is CampaignPhase.PAUSED
    assert executor.works == {}


def test_a_session_taken_over_by_another_process_is_stopped_and_not_written(stage: Stage) -> None:
    """The machine sleeps past its lease; another one goes on with its session."""
    executor, halted = Held(), list[int]()
    mine = conductor(stage, executor, halted)
    stage.clock.time = START + 9 * HOUR
    mine._register()
    assert mine._step() is None
    ((future, work),) = executor.works.items()
    other, later = "other boot 1 1", stage.clock.time + 2 * LEASE
    (running,) = stage.store.sessions(TEST, [SessionState.RUNNING])
    stage.store.release_idle_claims(TEST, this_process(), [])
    (planned,) = [one for one in stage.sessions if one.id == running.id]
    theirs = stage.store.claim(planned, other, later)
    assert isinstance(theirs, SessionRow)
    stage.clock.time = later
    assert mine._step() is None
    assert halted == [work.session]
    future.set_exception(Interrupted("another process has taken the session over"))
    assert mine._step() is None
    assert stage.store.held(TEST, other) == {theirs.id: theirs.token}
    assert any("taken it over" in text for _, text in stage.told)


def test_a_session_returned_by_another_process_waits_for_our_cleanup(stage: Stage) -> None:
    executor, halted = Held(), list[int]()
    mine = conductor(stage, executor, halted)
    stage.clock.time = START + 9 * HOUR
    assert mine._step() is None
    stage.store.release_idle_claims(TEST, this_process(), [])
    theirs = stage.store.claim(stage.sessions[0], "other boot 1 1", stage.clock.time)
    assert isinstance(theirs, SessionRow)
    assert stage.store.finish(theirs, SessionState.PLANNED, stage.clock.time, ended_at=None)
    stage.clock.time += 2 * LEASE
    assert mine._step() is None
    ((future, work),) = executor.works.items()
    assert halted == [work.session]
    future.set_exception(Interrupted("another process has taken the session over"))
    assert mine._step() is None
    assert [one.session for one in executor.works.values()] == [work.session] * 2


def test_resources_left_by_another_machine_are_cleaned_up_by_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run directory is not here: the session begins anew, and is cleared when it is back."""
    monkeypatch.setitem(PROVIDERS.classes, "memory", MemoryCloud)
    monkeypatch.setattr(MemoryCloud, "sites", {"lab": Site()})
    now = stage.clock.time = START + 9 * HOUR
    theirs = stage.store.claim(stage.sessions[0], "other boot 1 1", now)
    assert isinstance(theirs, SessionRow)
    elsewhere = stage.directory / "elsewhere" / "run"
    assert stage.store.locate(theirs, elsewhere)
    stage.clock.time += 2 * LEASE
    measured = list[str]()

    def measure(work: SessionJob) -> SessionResult:
        measured.append(work.directory)
        return done(work)

    assert stage.conduct(measure) is CampaignPhase.ENDED
    assert (stage.states, len(measured)) == ([SessionState.DONE] * 7, 7)
    assert str(elsewhere) not in measured
    assert [one.uncleared for one in stage.sessions] == [str(elsewhere)] + [None] * 6

    with RunDirectory.create_at(elsewhere, "name: x\n", ".yaml") as directory:  # it is back
        vm = thing("vm", directory.id)
        MemoryCloud.sites["lab"].things["vm"] = vm
        Journal(directory.journal).intend(vm)
    stage.conduct(measure)
    assert MemoryCloud.sites["lab"].things == {}
    assert stage.sessions[0].uncleared is None


@pytest.mark.parametrize("set_by", [0, -600, 600])
def test_a_campaign_yields_a_released_cloud_to_another_one(tmp_path: Path, set_by: int) -> None:
    """Without that its second platform would begin first: the other one only asks at times."""
    stage = Stage(tmp_path, "providers: {one: local, two: local}\n")
    (tmp_path / "other").mkdir()
    other = Stage(tmp_path / "other", "jitter: 0s\n", stage.clock)
    rows = [
        replace(row, session=replace(row.session, due=START)) for row in other.campaign_plan.rows()
    ]
    about = {"file": "other.yaml", "text": "", "out": str(tmp_path / "other")}
    stage.store.register("other", about, rows, START)
    stage.clock.time = START + 9 * HOUR + timedelta(minutes=15)
    executor = Held()
    mine = conductor(stage, executor)
    mine._register()
    mine._step()
    (future,) = executor.works
    stage.store.renew(2, "other boot 1 1", stage.clock.time)
    future.set_result(SessionResult(SessionState.DONE, trials_ok=1))
    mine._step()
    stage.clock.set(timedelta(seconds=set_by))
    stage.store.renew(2, "other boot 1 1", stage.clock.time)
    mine._step()
    assert len(executor.works) == 1
    assert mine._next == stage.clock.time + timedelta(seconds=2)
    stage.clock.time += timedelta(seconds=10)  # nobody came
    mine._step()
    assert len(executor.works) == 2


def test_sessions_are_started_in_batches_so_that_a_stop_is_noticed(tmp_path: Path) -> None:
    """Each look begins some of them; what has ended, a stop and the lease come in between."""
    names = ", ".join(f"c{number}: local" for number in range(250))
    stage = Stage(tmp_path, f"providers: {{{names}}}\nexclusive: false\n")
    stage.clock.time = START + 9 * HOUR
    executor = Held(capacity=1000)
    mine = conductor(stage, executor)
    mine._register()
    counts = []
    for _ in range(4):
        mine._step()
        counts.append(len(executor.works))
    assert counts == [100, 200, 250, 250]
    assert mine._next > stage.clock.time


def test_a_session_never_runs_for_less_than_no_time(stage: Stage) -> None:
    """The page of a campaign whose clock was set back while a session runs."""
    begun = datetime.now(UTC) + timedelta(hours=1)
    assert not isinstance(stage.store.claim(stage.sessions[0], this_process(), begun), Refusal)
    page = CampaignPages(stage.store).campaign("test")
    assert "<td>0 ms</td>" in page
