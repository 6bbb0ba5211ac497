"""What a conductor does when things go wrong, in simulated time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from osmef.campaigns.conductor.cleanup import ConductorContext
from osmef.campaigns.conductor.conductor import Conductor
from osmef.campaigns.executors.session import SessionJob, SessionResult
from osmef.campaigns.process_identity import this_process
from osmef.campaigns.schedule.calendar import late_before
from osmef.campaigns.schedule.load import read_campaign
from osmef.campaigns.schedule.plan import CampaignPlan, plan_campaign
from osmef.campaigns.state.rows import CampaignPhase, CampaignRow, SessionRow, SessionState
from osmef.campaigns.state.store import Store
from osmef.engine.cancellation import CancellationToken
from osmef.engine.journal import Journal
from osmef.engine.recovery import reopen
from osmef.errors import ApiError, InputError, Interrupted, StorageError
from osmef.kinds import PROVIDERS
from osmef.results.rundir import RunDirectory
from tests.campaigns.emulated import AtOnce, EmulatedClouds, SimulatedClock
from tests.engine.memory_cloud import MemoryCloud, Site, thing

START = datetime(2026, 3, 23, tzinfo=UTC)
SCENARIO = """\
name: pair
workload: {duration: 1s}
repeat: 1
prices:
  - {provider: local, flavor: small, per_hour: 0.10 USD, date: 2026-03-01, source: contract}
"""
FILE = """\
name: test
scenarios: [pair.yaml]
start: 2026-03-23
weeks: 1
windows: {day: {opens: '09:00', closes: '17:00'}}
"""
Measure = Callable[[SessionJob], SessionResult]


@dataclass
class Stage:
    """A campaign of some weeks with one session a day, and everything that conducts it."""

    directory: Path
    more: str = ""
    clock: SimulatedClock = field(default_factory=lambda: SimulatedClock(START))
    told: list[tuple[str, str]] = field(default_factory=list)
    until_idle: bool = False
    url: str = ""
    scenarios: str = "pair.yaml"
    weeks: int = 1

    def __post_init__(self) -> None:
        (self.directory / "pair.yaml").write_text(SCENARIO)
        file = self.directory / "campaign.yaml"
        text = FILE.replace("pair.yaml", self.scenarios).replace("weeks: 1", f"weeks: {self.weeks}")
        file.write_text(text + self.more)
        loaded = read_campaign(file)
        self.campaign_plan: CampaignPlan = plan_campaign(loaded)
        self.store = Store(self.url or f"sqlite:///{self.directory / 'state.sqlite'}")
        about = {"file": str(file), "text": loaded.text, "out": str(self.directory / "out")}
        late = late_before(self.campaign_plan.campaign.missed, self.clock.time)
        self.store.register("test", about, self.campaign_plan.rows(), self.clock.time, late)
        self.stop = CancellationToken()

    def conduct(self, measure: Measure) -> CampaignPhase:
        context = ConductorContext(this_process(), self.clock, AtOnce(), measure, self.tell)
        context = replace(context, until_idle=self.until_idle)
        row = self.store.campaign("test")
        return Conductor(self.store, row, self.campaign_plan, context, self.stop).run()

    def tell(self, kind: str, text: str) -> None:
        self.told.append((kind, text))

    @property
    def sessions(self) -> list[SessionRow]:
        return self.store.sessions(self.store.campaign("test").id)

    @property
    def states(self) -> list[SessionState]:
        return [one.state for one in self.sessions]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def done(_work: SessionJob) -> SessionResult:
    return SessionResult(SessionState.DONE, trials_ok=1)


def test_each_session_runs_once_and_at_its_time(stage: Stage) -> None:
    begun: list[datetime] = []

    def measure(work: SessionJob) -> SessionResult:
        begun.append(stage.clock.time)
        return done(work)

    assert stage.conduct(measure) is CampaignPhase.ENDED
    assert begun == [START + timedelta(days=day, hours=9) for day in range(7)]
    assert stage.states == [SessionState.DONE] * 7
    assert stage.conduct(measure) is CampaignPhase.ENDED
    assert len(begun) == 7


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("run", {SessionState.DONE: 5, SessionState.MISSED: 2}),
        ("skip", {SessionState.DONE: 4, SessionState.MISSED: 3}),
    ],
)
def test_sessions_due_while_no_conductor_ran_follow_the_missed_policy(
    tmp_path: Path, policy: str, expected: dict[SessionState, int]
) -> None:
    """Back on the third day at noon: its window is still open."""
    stage = Stage(tmp_path, f"missed: {policy}\n")
    stage.clock.time = START + timedelta(days=2, hours=12)
    stage.conduct(done)
    assert Counter(stage.states) == expected
    assert [kind for kind, _ in stage.told].count("missed") == len(expected) - 1 + (
        policy == "skip"
    )


def test_an_outage_is_waited_out_inside_the_window(stage: Stage) -> None:
    asked: list[datetime] = []

    def measure(work: SessionJob) -> SessionResult:
        asked.append(stage.clock.time)
        if len(asked) < 3:
            raise ApiError("503 Service Unavailable")
        return done(work)

    stage.conduct(measure)
    nine = START + timedelta(hours=9)
    assert asked[:3] == [nine, nine + timedelta(minutes=10), nine + timedelta(minutes=30)]
    assert stage.states == [SessionState.DONE] * 7


def test_each_failure_is_notified_once(stage: Stage) -> None:
    """Also of one that does not count as an attempt, such as a full disk."""
    errors = [StorageError("full")] * 2 + [ApiError("503")] * 2 + [StorageError("full")]

    def measure(work: SessionJob) -> SessionResult:
        if errors:
            raise errors.pop()
        return done(work)

    assert stage.conduct(measure) is CampaignPhase.ENDED
    assert stage.states == [SessionState.DONE] * 7
    told = [text.rpartition(": ")[2] for kind, text in stage.told if kind == "failure"]
    assert told == ["full", "503", "full"]


def test_an_outage_that_lasts_is_a_failure_with_its_reason(stage: Stage) -> None:
    def measure(_work: SessionJob) -> SessionResult:
        raise ApiError("503 Service Unavailable")

    assert stage.conduct(measure) is CampaignPhase.ENDED
    assert stage.states == [SessionState.FAILED] * 7
    assert stage.sessions[0].attempts == 3
    assert "503" in (stage.sessions[0].why or "")


def test_an_unexpected_exception_fails_its_session_only(stage: Stage) -> None:
    def measure(work: SessionJob) -> SessionResult:
        return (
            done(work)
            if work.slot > "2026-03-24"
            else SessionResult(SessionState.DONE, trials_ok=1 // 0)
        )

    stage.conduct(measure)
    assert stage.states == [SessionState.FAILED] + [SessionState.DONE] * 6
    assert "ZeroDivisionError" in (stage.sessions[0].why or "")


def test_a_stop_keeps_what_was_interrupted_for_later(stage: Stage) -> None:
    directories: list[str] = []

    def interrupted(work: SessionJob) -> SessionResult:
        directories.append(work.directory)
        Path(work.directory).mkdir(parents=True)
        stage.stop.request("stopped by SIGINT")
        raise Interrupted("stopped by SIGINT")

    assert stage.conduct(interrupted) is CampaignPhase.STOPPED
    assert stage.states == [SessionState.PLANNED] * 7
    stage.stop = CancellationToken()

    def again(work: SessionJob) -> SessionResult:
        directories.append(work.directory)
        return done(work)

    assert stage.conduct(again) is CampaignPhase.ENDED
    assert directories[0] == directories[1]
    assert len(set(directories)) == 7


def test_a_stop_by_another_process_ends_it_after_the_session(stage: Stage) -> None:
    def measure(work: SessionJob) -> SessionResult:
        stage.store.set_phase(stage.store.campaign("test").id, CampaignPhase.STOPPED)
        return done(work)

    assert stage.conduct(measure) is CampaignPhase.STOPPED
    assert Counter(stage.states) == {SessionState.DONE: 1, SessionState.PLANNED: 6}


def test_a_budget_ends_it_before_it_is_spent(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "budget: 1 USD\n")

    def measure(_work: SessionJob) -> SessionResult:
        return SessionResult(SessionState.DONE, trials_ok=1, cost=0.4, currency="USD")

    stage.conduct(measure)
    assert Counter(stage.states) == {SessionState.DONE: 2, SessionState.CANCELLED: 5}
    assert any(kind == "budget" for kind, _ in stage.told)


def test_a_budget_that_is_too_small_for_one_platform_is_spent_on_the_others(
    tmp_path: Path,
) -> None:
    """Whichever is due first: seven sessions of the cheap one fit, and one of the dear one."""
    stage = Stage(tmp_path, "providers: {dear: local, cheap: local}\nbudget: 1 USD\n")

    def measure(work: SessionJob) -> SessionResult:
        cost = 0.6 if work.provider == "dear" else 0.05
        return SessionResult(SessionState.DONE, trials_ok=1, cost=cost, currency="USD")

    assert stage.conduct(measure) is CampaignPhase.ENDED
    by_provider = {
        name: Counter(one.state for one in stage.sessions if one.provider == name)
        for name in ("dear", "cheap")
    }
    assert by_provider["dear"] == {SessionState.DONE: 1, SessionState.CANCELLED: 6}
    assert by_provider["cheap"] == {SessionState.DONE: 7}
    (told,) = [text for kind, text in stage.told if kind == "budget"]
    assert told == "pair dear: the budget of 1 USD does not pay for another session"


def test_a_platform_that_is_known_is_left_alone(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "stop: {width_percent: 8, minimum: 6}\n", weeks=2)
    clouds = EmulatedClouds(stage.clock, tmp_path / "things")
    stage.conduct(clouds.measure)
    assert stage.states == [SessionState.DONE] * 8 + [SessionState.CONVERGED] * 6
    assert stage.sessions[-1].why == "the interval of aggregate_btc_bps is at most 8 % wide"


def test_a_platform_without_a_precise_result_continues_to_be_measured(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "stop: {width_percent: 0.001, minimum: 6}\n", weeks=2)
    clouds = EmulatedClouds(stage.clock, tmp_path / "things")
    stage.conduct(clouds.measure)
    assert stage.states == [SessionState.DONE] * 14


SWEEP = SCENARIO + "sweep: {connections: [1, 8]}\n"
RULE = "stop: {width_percent: 8, minimum: 6}\n"


def test_a_cell_that_is_known_is_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    """One connection gives always the same, eight don't."""
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    stage = Stage(tmp_path, RULE, scenarios="sweep.yaml", weeks=2)
    stage.conduct(EmulatedClouds(stage.clock, tmp_path / "things").measure)
    before, last = stage.sessions[:8], stage.sessions[8]
    assert [(one.trials_ok, one.cells_left_out) for one in before] == [(2, ())] * 8
    assert (last.state, last.trials_ok, last.cells_left_out) == (
        SessionState.DONE,
        1,
        ("connections=1",),
    )
    assert ("start", f"{last.slot} sweep, without 1 known cell") in stage.told
    whole, part = (RunDirectory(Path(one.directory or "")) for one in (before[0], last))
    found = part.read_summary()
    assert [cell.key for cell in found.cells] == ["connections=8"]
    assert found.run.complete
    assert found.run.scenario_digest == whole.read_summary().run.scenario_digest
    (warning,) = [one for one in found.run.warnings if "stopping rule" in one]
    assert warning.endswith(": connections=1")
    assert reopen(part).left_out == ("connections=1",)
    assert reopen(whole).left_out == ()


def test_a_stopped_cell_is_measured_again_under_a_stricter_stop_rule(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    stage = Stage(tmp_path, RULE, scenarios="sweep.yaml", weeks=2)
    clouds = EmulatedClouds(stage.clock, tmp_path / "things")

    def measure(work: SessionJob) -> SessionResult:
        if work.left_out:
            stage.stop.request("stopped by SIGINT")
            raise Interrupted("stopped by SIGINT")
        return clouds.measure(work)

    stage.conduct(measure)
    assert stage.sessions[8].cells_left_out == ("connections=1",)
    finer = Stage(tmp_path, RULE.replace("8", "0.01"), stage.clock, scenarios="sweep.yaml", weeks=2)
    finer.conduct(clouds.measure)
    assert [(one.trials_ok, one.cells_left_out) for one in finer.sessions] == [(2, ())] * 14


def test_a_changed_file_keeps_what_was_measured(stage: Stage, tmp_path: Path) -> None:
    stage.clock.time = START + timedelta(hours=9)
    ended = 0

    def measure(work: SessionJob) -> SessionResult:
        nonlocal ended
        ended += 1
        if ended == 3:
            stage.stop.request("enough for now")
        return done(work)

    stage.conduct(measure)
    longer = Stage(tmp_path, "weeks: 2\n".replace("weeks: 2", "jitter: 0s"), stage.clock)
    longer.conduct(done)
    assert longer.states == [SessionState.DONE] * 7
    assert longer.sessions[0].ended_at == START + timedelta(hours=9)


def test_a_notification_is_sent_on_failure_and_at_the_end(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    command = f"[sh, -c, 'cat >> {heard}']"
    stage = Stage(tmp_path, f"notify: {{command: {command}}}\n")
    stage.conduct(
        lambda work: (
            SessionResult(SessionState.FAILED, why="no") if "-24" in work.slot else done(work)
        )
    )
    lines = heard.read_text().splitlines()
    assert len(lines) == 2
    assert '"kind": "failure"' in lines[0]
    assert "6 done, 1 failed" in lines[1]


def test_a_notification_that_fails_is_noted(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "notify: {command: [/no/such/program]}\n")
    assert stage.conduct(done) is CampaignPhase.ENDED
    assert any("/no/such/program" in text for kind, text in stage.told if kind == "note")


@pytest.mark.parametrize("url", ["http://[::1", "http://127.0.0.1:1/x"])
def test_a_webhook_that_is_none_is_noted(tmp_path: Path, url: str) -> None:
    stage = Stage(tmp_path, f"notify: {{webhook: '{url}'}}\n")
    assert stage.conduct(done) is CampaignPhase.ENDED
    assert any("the webhook" in text for kind, text in stage.told if kind == "note")


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Site:
    """The cloud in which ``leave`` makes VMs."""
    monkeypatch.setitem(PROVIDERS.classes, "memory", MemoryCloud)
    monkeypatch.setattr(MemoryCloud, "sites", {"lab": Site()})
    return MemoryCloud.sites["lab"]


def leave(work: SessionJob) -> None:
    """Leave a VM, as a session that is interrupted or whose cloud fails."""
    if not Path(work.directory).exists():
        with RunDirectory.create_at(Path(work.directory), work.text, ".yaml") as directory:
            vm = thing(work.slot, directory.id)
            MemoryCloud.sites["lab"].things[vm.name] = vm
            Journal(directory.journal).intend(vm)


def test_resources_of_an_interrupted_session_are_deleted_after_its_window_closes(
    stage: Stage, cloud: Site
) -> None:
    def interrupted(work: SessionJob) -> SessionResult:
        leave(work)
        stage.stop.request("stopped by SIGINT")
        raise Interrupted("stopped by SIGINT")

    stage.conduct(interrupted)
    assert cloud.things
    stage.stop, stage.clock.time = CancellationToken(), START + timedelta(days=1)
    assert stage.conduct(done) is CampaignPhase.ENDED
    assert stage.states == [SessionState.FAILED] + [SessionState.DONE] * 6
    assert cloud.things == {}


@pytest.mark.parametrize("error", [ApiError("503"), InputError("no"), ZeroDivisionError()])
def test_resources_of_a_failed_session_are_deleted_when_the_cloud_permits(
    stage: Stage, cloud: Site, error: Exception
) -> None:
    def fails(work: SessionJob) -> SessionResult:
        if work.slot < "2026-03-29":
            return done(work)
        leave(work)
        raise error

    stage.until_idle = True  # it stays until that is done
    stage.clock.time = START + timedelta(days=6, hours=8, minutes=55)
    assert stage.conduct(fails) is CampaignPhase.ENDED
    assert stage.states[-1] is SessionState.FAILED
    assert cloud.things == {}
    (told,) = [text for kind, text in stage.told if "not destroyed" in text]
    assert f"osmef reap --out {stage.directory / 'out'}" in told
    assert any("nothing is left" in text for kind, text in stage.told)


def test_failed_deletions_are_reported_once_and_retried_by_the_next_conductor(
    stage: Stage, cloud: Site
) -> None:
    def fails(work: SessionJob) -> SessionResult:
        leave(work)
        cloud.stuck.add(work.slot)
        raise InputError("no")

    stage.until_idle = True
    stage.clock.time = START + timedelta(hours=9)
    assert stage.conduct(fails) is CampaignPhase.ACTIVE  # gives up for now
    assert stage.clock.time < START + timedelta(hours=11)
    assert len([text for _, text in stage.told if "not destroyed" in text]) == 1
    cloud.stuck.clear()
    mended = Stage(stage.directory, "pause: 1s\n", stage.clock)
    assert mended.conduct(done) is CampaignPhase.ENDED
    assert mended.states == [SessionState.DONE] * 7
    assert cloud.things == {}


def test_a_database_that_fails_while_a_session_begins_loses_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    locate, calls = stage.store.locate, 0

    def failing(session: SessionRow, directory: Path) -> bool:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise StorageError("database or disk is full")
        return locate(session, directory)

    monkeypatch.setattr(stage.store, "locate", failing)
    assert stage.conduct(done) is CampaignPhase.ENDED
    assert stage.states == [SessionState.DONE] * 7
    assert any("disk is full" in text for _, text in stage.told)


def test_a_database_that_is_away_at_the_start_is_waited_for(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a boot: it comes up later than the conductor."""
    renew, calls = stage.store.renew, 0

    def failing(campaign: int, holder: str, now: datetime) -> None:
        nonlocal calls
        calls += 1
        if calls < 4:
            raise StorageError("no connection")
        renew(campaign, holder, now)

    monkeypatch.setattr(stage.store, "renew", failing)
    assert stage.conduct(done) is CampaignPhase.ENDED
    assert stage.states == [SessionState.DONE] * 7
    assert [text for kind, text in stage.told if kind == "failure"] == ["no connection"]


def test_a_stop_ends_it_also_while_the_database_is_away(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def failing(_name: str) -> CampaignRow:
        nonlocal looks
        looks += 1
        if looks == 20:
            stage.stop.request("stopped by SIGINT")
        raise StorageError("no connection")

    row = stage.store.campaign("test")
    context = ConductorContext(this_process(), stage.clock, AtOnce(), done, stage.tell)
    conductor = Conductor(stage.store, row, stage.campaign_plan, context, stage.stop)
    monkeypatch.setattr(stage.store, "campaign", failing)
    assert conductor.run() is CampaignPhase.STOPPED
    assert stage.clock.time == START + timedelta(seconds=19 * 5)
    assert [text for _, text in stage.told] == ["no connection"]  # once


def test_a_platform_that_left_the_file_is_left_out(tmp_path: Path) -> None:
    """Also where it was begun already, and is to be tried again."""
    both = "providers: {here: local, there: {kind: local, hosts: 4}}\n"
    stage = Stage(tmp_path, both)

    def outage(_work: SessionJob) -> SessionResult:
        stage.stop.request("stopped by SIGINT")
        raise ApiError("503 Service Unavailable")

    stage.conduct(outage)
    rest = Stage(tmp_path, "providers: {here: local}\n", stage.clock)
    assert rest.conduct(done) is CampaignPhase.ENDED
    kept = [one.state for one in rest.sessions if one.provider == "here"]
    assert kept == [SessionState.DONE] * 7
    others = {one.state for one in rest.sessions if one.provider == "there"}
    assert others <= {SessionState.CANCELLED}
