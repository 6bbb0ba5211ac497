"""Sessions on a real Dask cluster of a scheduler and workers in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from distributed import Client

import osmef
from osmef.campaigns.conductor.cleanup import ConductorContext
from osmef.campaigns.conductor.conductor import Conductor
from osmef.campaigns.executors.dask import worker
from osmef.campaigns.executors.dask.executor import ClusterTimeouts, DaskExecutor
from osmef.campaigns.executors.session import (
    Executor,
    Measure,
    SessionJob,
    SessionResult,
    ThreadExecutor,
)
from osmef.campaigns.process_identity import this_process
from osmef.campaigns.schedule.load import read_campaign
from osmef.campaigns.schedule.plan import plan_campaign
from osmef.campaigns.state.rows import CampaignPhase, SessionRow, SessionState
from osmef.campaigns.state.store import Store
from osmef.engine.cancellation import CancellationToken
from osmef.engine.journal import Journal
from osmef.engine.plan import PlannedTrial
from osmef.errors import InputError, Interrupted
from osmef.providers.base import Resource
from osmef.results.rundir import RunDirectory
from tests.campaigns.dask_cluster import ROOT, Workers, scheduler
from tests.campaigns.emulated import EmulatedClouds, SimulatedClock
from tests.journals import read_notes, write_note

START = datetime(2026, 3, 16, tzinfo=UTC)
FILE = """
name: two-clouds
scenarios: [pair.yaml]
providers: {north: local, south: local}
exclusive: false
start: 2026-03-16
weeks: 1
windows: {once: {cron: "0 9 16 3 *", length: 8h}}
"""
SCENARIO = "name: pair\nworkload: {duration: 1s}\nrepeat: 3\n"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with scheduler(tmp_path_factory.mktemp("scheduler")) as (address, _):
        yield address


@pytest.fixture
def workers(address: str, tmp_path: Path) -> Iterator[Workers]:
    with ExitStack() as stack:
        yield Workers(address, tmp_path, stack)
    with Client(address, timeout="60s", set_as_default=False) as client:
        while client.scheduler_info(n_workers=-1)["workers"]:  # it asks each time
            pass


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "pair.yaml").write_text(SCENARIO)
    file = tmp_path / "campaign.yaml"
    file.write_text(FILE)
    return file


class Watched:
    """An executor, and whether anything runs in it."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.running: set[Future[SessionResult]] = set()

    @property
    def capacity(self) -> int:
        return self._executor.capacity

    def submit(self, measure: Measure, work: SessionJob) -> Future[SessionResult]:
        future = self._executor.submit(measure, work)
        self.running.add(future)
        future.add_done_callback(self.running.discard)
        return future

    def clear(self, directory: Path, provider: str) -> Future[None]:
        return self._executor.clear(directory, provider)

    def close(self) -> None:
        self._executor.close()


class PatientClock(SimulatedClock):
    """Its time stands still while something runs."""

    def __init__(self, watched: Watched) -> None:
        super().__init__(START)
        self._watched = watched

    def wait(self, until: datetime | None, wake: threading.Event) -> None:
        if self._watched.running:
            wake.wait(1)
        else:
            super().wait(until, wake)


def conduct(
    file: Path, out: Path, executor: Executor, measure: Measure, stop: CancellationToken
) -> tuple[CampaignPhase, list[SessionRow]]:
    loaded = read_campaign(file)
    campaign_plan = plan_campaign(loaded)
    store = Store(f"sqlite:///{out}.sqlite")
    about = {"file": str(file), "text": loaded.text, "out": str(out)}
    store.register("two-clouds", about, campaign_plan.rows(), START)
    row = store.campaign("two-clouds")
    watched = Watched(executor)
    clock = PatientClock(watched)
    context = ConductorContext(this_process(), clock, watched, measure, lambda *_: None)
    if isinstance(executor, DaskExecutor):
        context = replace(context, halt=executor.halt)
    phase = Conductor(store, row, campaign_plan, context, stop).run()
    executor.close()
    found = store.sessions(row.id)
    store.close()
    return phase, found


def numbers(sessions: list[SessionRow]) -> dict[tuple[str, int], float]:
    """Return what each trial measured, and see that none is there twice."""
    found: dict[tuple[str, int], float] = {}
    for one in sessions:
        assert one.directory is not None
        for trial in RunDirectory(Path(one.directory)).read_trials().trials:
            assert (one.platform, trial.index) not in found
            found[one.platform, trial.index] = trial.metrics["aggregate_btc_bps"] or 0
    return found


class Deadly(EmulatedClouds):
    """In the second trial of a session on the cloud "north" its worker tells its id, and hangs."""

    def _trial(
        self, work: SessionJob, planned: PlannedTrial, directory: RunDirectory, at: datetime
    ) -> None:
        began = self._things / "began"
        if work.provider == "north" and planned.index == 1 and began.exists():
            began.write_text(str(os.getpid()))  # a pipe: it waits for a reader
            threading.Event().wait()
        super()._trial(work, planned, directory, at)


def kill_when_told(began: Path) -> None:
    """Kill the process that writes its id into a pipe."""
    number = int(began.read_text())
    began.unlink()
    os.kill(number, signal.SIGKILL)


@pytest.mark.timeout(600)
def test_a_worker_killed_in_a_trial_changes_nothing(
    file: Path, tmp_path: Path, workers: Workers
) -> None:
    clouds = EmulatedClouds(SimulatedClock(START), tmp_path / "calm-things")
    phase, calm = conduct(
        file, tmp_path / "calm", ThreadExecutor(2), clouds.measure, CancellationToken()
    )
    assert phase is CampaignPhase.ENDED
    workers.start("osmef=2 north=2 south=2", "osmef=2 north=2 south=2")
    told: list[tuple[str, str]] = []
    stop = CancellationToken()
    dask = DaskExecutor(workers.address, stop, lambda kind, text: told.append((kind, text)))
    assert dask.capacity == 4
    deadly = Deadly(SimulatedClock(START), tmp_path / "things")
    began = tmp_path / "things" / "began"
    os.mkfifo(began)
    killer = threading.Thread(target=kill_when_told, args=(began,))
    killer.start()
    phase, found = conduct(file, tmp_path / "rough", dask, deadly.measure, stop)
    killer.join()
    assert [(one.slot, one.platform, one.state, one.trials_ok) for one in found] == [
        (one.slot, one.platform, one.state, one.trials_ok) for one in calm
    ]
    assert {one.state for one in found} == {SessionState.DONE}
    assert numbers(found) == numbers(calm)
    assert not list((tmp_path / "things").iterdir())
    (north,) = (one for one in found if one.provider == "north")
    assert (north.token, north.attempts) == (1, 0)  # one claim, no outage
    journal = Journal(Path(north.directory or "") / "journal.jsonl")
    assert len({note["worker"] for note in read_notes(journal, "worker")}) == 2
    assert len(read_notes(journal, "lost")) == 1
    assert journal.existing() == []
    assert [kind for kind, _ in told] == ["gap"]
    names = {path.name for path in Path(north.directory or "").iterdir()}
    assert names == {"scenario.yaml", "journal.jsonl", "trials.jsonl", "summary.json", "lock"}


def wait_for_stop(work: SessionJob) -> SessionResult:
    session = worker._session.get()
    Path(work.text).write_text(str(os.getpid()))
    session.stop.wait(120)
    raise AssertionError("nobody asked for a stop")


def session(place: Path, provider: str, text: str = SCENARIO) -> SessionJob:
    """A session of the emulated clouds that has not begun."""
    directory = str(place / "out" / f"pair-{provider}")
    return SessionJob(
        session=1,
        slot="monday",
        window="monday",
        platform=f"pair {provider}",
        text=text,
        file="pair.yaml",
        directory=directory,
        seed=7,
        provider=provider,
    )


@pytest.fixture
def join(address: str) -> Iterator[Callable[[CancellationToken], DaskExecutor]]:
    """Make executors on the cluster, and close them."""
    with ExitStack() as stack:

        def make(stop: CancellationToken) -> DaskExecutor:
            dask = DaskExecutor(address, stop, lambda *_: None)
            stack.callback(dask.close)
            return dask

        yield make


def test_each_session_runs_on_a_worker_with_its_tags(
    tmp_path: Path, workers: Workers, join: Callable[[CancellationToken], DaskExecutor]
) -> None:
    clouds = EmulatedClouds(SimulatedClock(START), tmp_path / "things")
    workers.start("osmef=1 north=1")
    dask = join(CancellationToken())
    south = dask.submit(clouds.measure, session(tmp_path, "south"))
    north = dask.submit(clouds.measure, session(tmp_path, "north"))
    assert north.result(60).state is SessionState.DONE
    assert not south.done()
    workers.start("osmef=1 south=1")
    assert south.result(60).state is SessionState.DONE
    used = [
        note["worker"]
        for name in ("north", "south")
        for note in read_notes(
            Journal(tmp_path / "out" / f"pair-{name}" / "journal.jsonl"), "worker"
        )
    ]
    assert len(set(used)) == 2


def test_a_tag_that_no_worker_has_is_an_error(tmp_path: Path, address: str) -> None:
    clouds = EmulatedClouds(SimulatedClock(START), tmp_path / "things")
    waits = ClusterTimeouts(worker_s=0.1, look_s=0.1)
    with closing(DaskExecutor(address, CancellationToken(), lambda *_: None, waits)) as dask:
        error = dask.submit(clouds.measure, session(tmp_path, "west")).exception(60)
    assert "no worker has osmef west" in str(error)
    assert "--resources 'osmef=8 west=8'" in str(error)


@pytest.mark.parametrize("alone", [False, True])
def test_a_stop_reaches_the_worker(
    tmp_path: Path,
    workers: Workers,
    join: Callable[[CancellationToken], DaskExecutor],
    *,
    alone: bool,
) -> None:
    """The campaign's, and that of one session which another process has taken over."""
    workers.start("osmef=1 north=1")
    began, stop = tmp_path / "began", CancellationToken()
    os.mkfifo(began)
    dask = join(stop)
    future = dask.submit(wait_for_stop, session(tmp_path, "north", str(began)))
    assert int(began.read_text()) > 0
    if alone:
        dask.halt(1)
    else:
        stop.request("enough for today")
    assert isinstance(error := future.exception(60), Interrupted)
    told = "another process has taken the session over" if alone else "enough for today"
    assert error.message == told
    assert not RunDirectory(tmp_path / "out" / "pair-north").is_live()


def test_the_scheduler_is_gone(tmp_path: Path) -> None:
    began = tmp_path / "began"
    os.mkfifo(began)
    with ExitStack() as stack:
        address, process = stack.enter_context(scheduler(tmp_path))
        Workers(address, tmp_path, stack).start("osmef=1 north=1")
        dask = DaskExecutor(address, CancellationToken(), lambda *_: None)
        stack.callback(dask.close)
        future = dask.submit(wait_for_stop, session(tmp_path, "north", str(began)))
        assert int(began.read_text()) > 0
        process.kill()
        assert "the Dask cluster is gone" in str(future.exception(60))
        assert dask.capacity == 0


def test_leftover_resources_are_deleted_by_a_worker(
    tmp_path: Path, workers: Workers, join: Callable[[CancellationToken], DaskExecutor]
) -> None:
    work = session(tmp_path, "north")
    with RunDirectory.create_at(Path(work.directory), SCENARIO, ".yaml") as directory:
        journal = Journal(directory.journal)
        write_note(journal, "worker", worker="tcp://127.0.0.1:1", host="127.0.0.1")
        journal.created(Resource("local", "sandbox", "pair", directory.id, "pid:1:1"))
    workers.start("osmef=1 north=1")
    join(CancellationToken()).clear(Path(work.directory), "north").result(60)
    assert journal.existing() == []


def test_no_cluster_there() -> None:
    with pytest.raises(InputError, match="no Dask scheduler answers"):
        DaskExecutor(
            "tcp://127.0.0.1:1",
            CancellationToken(),
            lambda *_: None,
            ClusterTimeouts(connect_s=0.5),
        )


@pytest.mark.skipif(sys.platform != "linux", reason="needs namespaces")
def test_a_campaign_on_the_local_cloud_of_a_worker(tmp_path: Path, workers: Workers) -> None:
    workers.start("osmef=1 here=1")
    (tmp_path / "pair.yaml").write_text(
        "name: pair\nworkload: {duration: 300ms, interval: 100ms}\nrepeat: 2\n"
    )
    now = datetime.now(UTC)
    campaign = {
        "name": "now",
        "scenarios": ["pair.yaml"],
        "providers": {"here": "local"},
        "start": f"{now - timedelta(days=1):%Y-%m-%d}",
        "weeks": 1,
        "windows": {"once": {"cron": f"{now:%M %H %d %m} *", "length": "1h"}},
    }
    (tmp_path / "now.json").write_text(json.dumps(campaign))
    command = ["campaign", "run", "now.json", "--executor", "dask", "--scheduler", workers.address]
    ended = subprocess.run(
        [sys.executable, "-m", "osmef", *command],
        cwd=tmp_path,
        env={**os.environ, "OSMEF_STATE": "sqlite:///state.sqlite", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "1 done" in ended.stdout
    frame = osmef.load(tmp_path / "results" / "now")
    assert len(frame) == 2
    assert frame["aggregate_btc_bps"].gt(0).all()
    assert len(osmef.load_intervals(tmp_path / "results" / "now")) > 0
