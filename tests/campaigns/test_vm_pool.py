"""VMs that a campaign keeps from session to session, in simulated time and for real."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from osmef.campaigns.conductor.cleanup import ConductorContext
from osmef.campaigns.conductor.conductor import Conductor
from osmef.campaigns.executors.session import SessionJob, SessionResult, measure
from osmef.campaigns.process_identity import this_process
from osmef.campaigns.report import planned_table
from osmef.campaigns.schedule.calendar import RealClock
from osmef.campaigns.schedule.plan import preview
from osmef.campaigns.state.rows import CampaignPhase, SessionState
from osmef.campaigns.state.store import Store
from osmef.campaigns.vm_pool import VmPool, destroy_orphan, orphaned_pools
from osmef.engine.cancellation import CancellationToken
from osmef.engine.events import Observer
from osmef.engine.held_endpoints import PREFIX
from osmef.engine.journal import Journal
from osmef.engine.reap import Search, find_orphans, reap
from osmef.errors import ApiError
from osmef.kinds import PROVIDERS
from osmef.providers.local.provider import LocalProvider
from osmef.results.rundir import RunDirectory
from osmef.results.summary import RunInfo
from tests.campaigns import kept_files
from tests.campaigns.emulated import LENGTH, AtOnce, EmulatedClouds, conduct
from tests.campaigns.kept_files import Guests
from tests.campaigns.test_conductor import START, Stage
from tests.campaigns.test_kills import FILE, SCENARIO
from tests.journals import read_notes

Measure = Callable[[SessionJob], SessionResult]


class Kept:
    """A campaign of seven days, one session a day, on a pair of 0.20 USD an hour that is kept."""

    def __init__(self, directory: Path, more: str = "") -> None:
        self.stage = Stage(directory, "vms: kept\n" + more)
        self.out = directory / "out"
        self.vm_pool = VmPool(self.stage.clock, Guests.begin)
        self.clouds = EmulatedClouds(self.stage.clock, self.out / "things", self.vm_pool)

    def conduct(self, measure: Measure | None = None) -> CampaignPhase:
        stage = self.stage
        context = ConductorContext(
            this_process(),
            stage.clock,
            AtOnce(),
            measure or self.clouds.measure,
            stage.tell,
            vm_pool=self.vm_pool,
            until_idle=stage.until_idle,
        )
        row = stage.store.campaign("test")
        return Conductor(stage.store, row, stage.campaign_plan, context, stage.stop).run()

    @property
    def held(self) -> list[Path]:
        return sorted(self.out.glob(f"{PREFIX}*"))

    @property
    def things(self) -> list[Path]:
        return sorted((self.out / "things").iterdir())

    def said(self, part: str) -> list[str]:
        return [text for _, text in self.stage.told if part in text]


@pytest.fixture(autouse=True)
def _files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROVIDERS.classes, kept_files.KIND, kept_files.FileCloud)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_one_vm_pair_is_used_by_all_sessions_and_deleted_after_the_last(kept: Kept) -> None:
    assert kept.conduct() is CampaignPhase.ENDED
    assert kept.stage.states == [SessionState.DONE] * 7
    (only,) = kept.held
    assert len(read_notes(Journal(only / "journal.jsonl"), "back")) == 7
    assert kept.things == []
    assert kept.said("its last session is over")
    for one in kept.stage.sessions:
        run = RunDirectory(Path(one.directory or "")).read_summary().run
        assert run.vms_held_by == only.name
        assert run.vms_since is not None


def test_the_cost_of_vms_kept_between_sessions_is_counted(kept: Kept) -> None:
    kept.conduct()
    store = kept.stage.store
    stood = 0.20 * (6 * 24 + LENGTH / timedelta(hours=1))  # the emulated sessions cost nothing
    assert store.spent(1) == pytest.approx(stood, rel=1e-3)
    whole = sum(one.whole_cost or 0.0 for one in kept.stage.sessions)
    assert whole == pytest.approx(store.spent(1))
    measured = {(one.slot, one.platform) for one in kept.stage.sessions}
    table = planned_table(kept.stage.campaign_plan.campaign, kept.stage.sessions, measured)
    assert table["cost"].sum() == pytest.approx(whole)


def test_a_clock_that_is_set_costs_nothing(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    wait, jumps = kept.stage.clock.wait, [timedelta(hours=2)]

    def waits(until: datetime | None, wake: threading.Event) -> None:
        if jumps and SessionState.DONE in kept.stage.states:
            kept.stage.clock.set(jumps.pop())
        else:
            wait(until, wake)

    monkeypatch.setattr(kept.stage.clock, "wait", waits)
    kept.conduct()
    stood = 0.20 * (6 * 24 - 2 + LENGTH / timedelta(hours=1))
    assert kept.stage.store.spent(1) == pytest.approx(stood, rel=1e-3)


def test_the_plan_counts_from_the_first_session_to_the_last(kept: Kept) -> None:
    found = preview(kept.stage.campaign_plan)
    (paid,) = found.kept
    assert paid.since == START + timedelta(hours=9)
    assert timedelta(days=6) < paid.until - paid.since < timedelta(days=6, minutes=1)
    assert found.amounts["USD"] == pytest.approx(0.20 * 6 * 24, rel=1e-3)
    assert found.record()["kept_vms"][0]["platform"] == "pair"


def test_static_hosts_are_not_held_between_sessions(tmp_path: Path) -> None:
    host = "{{ssh: {0}, kind: vm, location: {{host: {0}, tenant: t}}}}"
    hosts = f"{{a: {host.format('a')}, b: {host.format('b')}}}"
    clouds = f"providers: {{rack: {{kind: static, hosts: {hosts}}}, here: local}}\n"
    stage = Stage(tmp_path, "vms: kept\n" + clouds)
    kept = {platform.provider: part.kept for platform, part in stage.campaign_plan.parts.items()}
    assert kept == {"rack": False, "here": True}
    assert [one.name for one in preview(stage.campaign_plan).kept] == ["pair here"]


def test_an_unusable_vm_pair_is_recreated(kept: Kept) -> None:
    def dies_once(work: SessionJob) -> SessionResult:
        end = kept.clouds.measure(work)
        if len(kept.said("done")) == 2:
            kept.things[0].unlink()
        return end

    assert kept.conduct(dies_once) is CampaignPhase.ENDED
    assert kept.stage.states == [SessionState.DONE] * 7
    assert len(kept.held) == 2
    (why,) = kept.said("and were recreated")
    assert "no route to host" in why
    assert any("recreated" in text for _, _, text in kept.stage.store.log(1))
    told = [
        one.slot
        for one in kept.stage.sessions
        if any(
            "recreated" in text
            for text in RunDirectory(Path(one.directory or "")).read_summary().run.warnings
        )
    ]
    assert told == [kept.stage.sessions[3].slot]
    assert kept.things == []


def test_a_stop_leaves_nothing_and_a_new_start_makes_a_new_pair(kept: Kept) -> None:
    def stops(work: SessionJob) -> SessionResult:
        kept.stage.stop.request("stopped by SIGINT")
        return kept.clouds.measure(work)

    assert kept.conduct(stops) is CampaignPhase.STOPPED
    assert kept.things == []
    kept.stage.stop = CancellationToken()
    assert kept.conduct() is CampaignPhase.ENDED
    assert len(kept.held) == 2
    assert kept.things == []


def test_a_pause_deletes_the_kept_vms(kept: Kept) -> None:
    def pauses(work: SessionJob) -> SessionResult:
        kept.stage.store.set_phase(1, CampaignPhase.PAUSED, this_process())
        return kept.clouds.measure(work)

    kept.conduct(pauses)
    assert kept.said("no longer exist: the campaign is paused")
    assert kept.things == []


def test_an_until_idle_conductor_stays_while_it_keeps_vms(kept: Kept) -> None:
    kept.stage.until_idle = True
    kept.stage.clock.time = START + timedelta(hours=9)
    assert kept.conduct() is CampaignPhase.ENDED
    assert len(kept.held) == 1


def test_the_budget_is_not_spent_on_idle_vms(tmp_path: Path) -> None:
    """A day and a night cost 4.80 USD: three of them are more than 12."""
    kept = Kept(tmp_path, "budget: 12 USD\n")
    assert kept.conduct() is CampaignPhase.ENDED
    assert kept.stage.store.spent(1) <= 12
    assert kept.said("does not pay for them until the next session")
    assert kept.stage.states[:3] == [SessionState.DONE] * 3
    assert kept.things == []


def test_deletion_of_kept_vms_is_retried(kept: Kept) -> None:
    def sticks(work: SessionJob) -> SessionResult:
        end = kept.clouds.measure(work)
        kept.things[0].with_suffix(".stuck").touch()
        return end

    def tell(kind: str, text: str) -> None:
        kept.stage.told.append((kind, text))
        if "not destroyed" in text:
            for stuck in (kept.out / "things").glob("*.stuck"):
                stuck.unlink()

    kept.stage.store.skip(
        [one.id for one in kept.stage.sessions[1:]], SessionState.MISSED, "", START
    )
    kept.stage.tell = tell  # type: ignore[method-assign]
    assert kept.conduct(sticks) is CampaignPhase.ENDED
    assert len(kept.said("kept VMs not destroyed")) == 1
    assert kept.said("no longer exist: its last session is over")
    assert kept.things == []


def test_a_pair_that_can_not_be_made_is_an_outage(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_self: Guests) -> None:
        raise ApiError("503 Service Unavailable")

    monkeypatch.setattr(Guests, "make", fails)
    assert kept.conduct() is CampaignPhase.ENDED
    assert kept.stage.states == [SessionState.FAILED] * 7
    assert kept.things == []


@pytest.fixture
def four(tmp_path: Path) -> Path:
    """Four clouds for a week, with a pair on each."""
    (tmp_path / "pair.yaml").write_text(SCENARIO)
    file = tmp_path / "campaign.yaml"
    file.write_text(FILE.replace("weeks: 4", "weeks: 1") + "vms: kept\n")
    return file


@pytest.mark.timeout(600)
def test_vms_kept_by_a_killed_conductor_are_deleted_at_the_next_start(four: Path) -> None:
    out, database = four.parent / "out", four.parent / "state.sqlite"
    things = out / "things"
    command = [sys.executable, "-m", "tests.campaigns.emulated", str(four), str(database), str(out)]
    for _ in range(2):
        _kill_with(command, things, 4)
    orphans = find_orphans(Search(out.parent)).orphans
    assert len(orphans) == 4
    assert reap(orphans[:2]) == []
    assert len(list(things.iterdir())) == 2
    assert conduct(four, database, out) is CampaignPhase.ENDED
    assert list(things.iterdir()) == []
    store = Store(f"sqlite:///{database}")
    assert {one.state for one in store.sessions(1)} == {SessionState.DONE}
    log = [text for _, _, text in store.log(1, 10_000)]
    store.close()
    assert sum("VMs that were kept no longer exist, nor do their keys" in text for text in log) == 8
    assert len(list(out.glob(f"{PREFIX}*"))) == 12


@pytest.mark.parametrize(
    ("hours", "usd"),
    [((3, 2), 2 * 2 * 0.1), ((-1, -2), 0)],
    ids=["made three hours ago and lent two hours ago", "the clock was set back since then"],
)
def test_the_cost_of_vms_left_by_a_kill_is_counted_until_their_deletion(
    hours: tuple[int, int], usd: float, tmp_path: Path
) -> None:
    price = {"amount": 0.1, "currency": "USD", "region": None, "date": "2026-03-01", "source": "x"}
    made, lent = hours
    notes: list[tuple[int, dict[str, object]]] = [
        (made, {"event": "wanted", "session": 5}),
        (made, {"event": "provision", "prices": {}, "most": {"a": price, "b": price}}),
        (lent, {"event": "lent", "session": 6}),
    ]
    now = datetime.now(UTC)
    path = tmp_path / f"{PREFIX}pair" / "journal.jsonl"
    path.parent.mkdir()
    with path.open("w") as file:
        for ago, note in notes:
            at = (now - timedelta(hours=ago)).isoformat()
            file.write(json.dumps({"at": at, **note}) + "\n")
    ((directory, controller),) = orphaned_pools(tmp_path)
    assert not controller.may_live
    bill = destroy_orphan(directory)
    assert bill.session == 6
    assert bill.cost is not None
    assert bill.cost.amount == pytest.approx(usd, rel=0.01)
    assert orphaned_pools(tmp_path) == []


def _kill_with(command: list[str], things: Path, count: int) -> None:
    """Kill a conductor at a moment when it keeps so many pairs, all of them its own."""
    old = set(things.iterdir()) if things.exists() else set()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while not things.exists() or len(set(things.iterdir()) - old) < count:
            assert process.stdout.readline()
        process.kill()
    assert len(set(things.iterdir()) - old) == count
    assert not old & set(things.iterdir())


SMALL = "name: pair\nworkload: {duration: 200ms, interval: 100ms}\nrepeat: 1\n"


@pytest.mark.skipif(sys.platform != "linux", reason="needs namespaces")
def test_sessions_on_the_local_cloud_share_a_pair_until_it_is_lost(tmp_path: Path) -> None:
    vm_pool, stop = VmPool(RealClock()), CancellationToken()
    until = time.time() + 600

    def session(number: int) -> RunInfo:
        path = tmp_path / f"pair-{number}"
        work = SessionJob(number, "monday", "peak", "pair", SMALL, "pair.yaml", str(path), 1)
        end = measure(replace(work, keep_until=until), stop, Observer(), vm_pool)
        assert (end.state, end.trials_failed) == (SessionState.DONE, 0)
        return RunDirectory(path).read_summary().run

    try:
        first, second = session(1), session(2)
        assert first.vms_held_by == second.vms_held_by
        assert first.vms_since == second.vms_since
        run = str(first.vms_held_by)
        (sandbox,) = LocalProvider.owned({}, run)
        LocalProvider.destroy([sandbox], lambda _: None)
        (pair,) = vm_pool.all_vms
        assert pair.holding is not None
        pair.holding.reach_s = 0.2
        third = session(3)
        assert third.vms_held_by != run
        assert any("recreated" in text for text in third.warnings)
        assert LocalProvider.owned({}, run) == []
    finally:
        assert vm_pool.close() == []
    assert LocalProvider.owned({}, str(third.vms_held_by)) == []
