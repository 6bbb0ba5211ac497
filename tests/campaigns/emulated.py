"""A campaign over four emulated clouds in simulated time, as a program that can be killed anywhere.

    python -m tests.campaigns.emulated CAMPAIGN_FILE DATABASE OUT

The database is a file of SQLite's, or a URL.

Each session leaves what a real one does: a run directory with journal, trials and summary. What it
"makes" is a file, noted in the journal like a resource.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from osmef.campaigns.conductor.cleanup import ConductorContext
from osmef.campaigns.conductor.conductor import Conductor
from osmef.campaigns.executors.session import (
    Measure,
    SessionJob,
    SessionResult,
    _directory,
    _end,
    _plan,
    _vms,
    clear,
)
from osmef.campaigns.process_identity import this_process
from osmef.campaigns.schedule.load import read_campaign
from osmef.campaigns.schedule.plan import plan_campaign
from osmef.campaigns.state.rows import CampaignPhase, SessionState
from osmef.campaigns.state.store import Store
from osmef.campaigns.vm_pool import VmPool
from osmef.engine.cancellation import CancellationToken
from osmef.engine.events import Observer
from osmef.engine.held_endpoints import User
from osmef.engine.journal import Journal
from osmef.engine.plan import Plan, PlannedTrial
from osmef.engine.summarise import summarise
from osmef.kinds import PROVIDERS
from osmef.providers.base import Resource
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Status, Trial
from osmef.scenario.fields import Placement, Tenancy
from tests.campaigns import kept_files
from tests.journals import write_note

Result = TypeVar("Result")
LENGTH = timedelta(minutes=20)
_USUAL = {"weekday-peak": 0.9e9}
_SPREAD = {"connections=8": 2e8}


class SimulatedClock:
    """Time that passes only when somebody waits."""

    def __init__(self, start: datetime) -> None:
        self.time = start
        self.set_by = timedelta(0)

    def now(self) -> datetime:
        return self.time

    def steady(self) -> float:
        return self.time.timestamp() - self.set_by.total_seconds()

    def set(self, by: timedelta) -> None:
        """Set the clock, as somebody else does while nobody waits."""
        self.time += by
        self.set_by += by

    def wait(self, until: datetime | None, wake: threading.Event) -> None:
        if until is not None and not wake.is_set():
            self.time = max(self.time, until)


class AtOnce:
    """Does everything where it is submitted."""

    capacity = 1

    def submit(self, measure: Measure, work: SessionJob) -> Future[SessionResult]:
        return _done(partial(measure, work))

    def clear(self, directory: Path, _provider: str) -> Future[None]:
        return _done(partial(clear, directory))

    def close(self) -> None:
        pass


def _done(job: Callable[[], Result]) -> Future[Result]:
    future: Future[Result] = Future()
    try:
        future.set_result(job())
    except Exception as error:
        future.set_exception(error)
    return future


Numbers = Callable[[SessionJob, PlannedTrial], dict[str, float | None]]


def usual(work: SessionJob, planned: PlannedTrial) -> dict[str, float | None]:
    """Return a rate that comes from the session's seed and nothing else."""
    draw = random.Random(f"{work.seed} {planned.index}")  # noqa: S311 - numbers
    spread = _SPREAD.get(planned.cell.cell.key, 1e7)
    return {"aggregate_btc_bps": draw.gauss(_USUAL.get(work.window, 1e9), spread)}


class EmulatedClouds:
    """Measures without a network."""

    def __init__(
        self,
        clock: SimulatedClock,
        things: Path,
        vm_pool: VmPool | None = None,
        numbers: Numbers = usual,
        length: timedelta = LENGTH,
    ) -> None:
        self._clock, self._things, self._vm_pool = clock, things, vm_pool
        self._numbers, self._length = numbers, length
        things.mkdir(parents=True, exist_ok=True)

    def measure(self, work: SessionJob) -> SessionResult:
        begun = self._clock.time
        with _directory(work) as directory:
            journal = Journal(directory.journal)
            for left in journal.existing():
                (self._things / left.name).unlink(missing_ok=True)
                journal.destroyed(left)
            plan = _plan(work, directory)
            done = {trial.index for trial in directory.read_trials().trials}
            write_note(journal, "start", seed=plan.seed, missing=len(plan.trials) - len(done))
            with self._vms(work, plan, journal, directory):
                for planned in plan.trials:
                    if planned.index not in done:
                        self._trial(work, planned, directory, begun)
                told = {"trials": [planned.index for planned in plan.trials], "places": {}}
                write_note(journal, "looked", group=1, **told, error=None)
            write_note(journal, "end")
            directory.finish()
            summary = summarise(plan, directory)
            directory.write_summary(summary)
        self._clock.time = begun + self._length
        return _end(summary)

    @contextmanager
    def _vms(
        self, work: SessionJob, plan: Plan, journal: Journal, directory: RunDirectory
    ) -> Iterator[None]:
        if work.keep_until is not None:
            user = User(CancellationToken(), Observer())
            with _vms(work, plan, directory, self._vm_pool, user) as held:
                assert held is not None
                write_note(journal, "held", by=held.id, since=held.since.isoformat())
                yield
            return
        thing = Resource("local", "thing", f"thing-{work.session}", directory.id, access={})
        journal.intend(thing)
        (self._things / thing.name).touch()
        yield
        (self._things / thing.name).unlink()
        journal.destroyed(thing)

    def _trial(
        self, work: SessionJob, planned: PlannedTrial, directory: RunDirectory, at: datetime
    ) -> None:
        directory.append_trial(
            Trial(
                index=planned.index,
                cell=planned.cell.cell.key,
                repetition=planned.repetition,
                group=planned.group,
                values=dict(planned.cell.cell.values),
                senders=[end.name for end in planned.cell.senders],
                receivers=[end.name for end in planned.cell.receivers],
                placement=Placement.ANY,
                tenancy=Tenancy.SAME_TENANT,
                achieved_placement=None,
                achieved_tenancy=None,
                distance=None,
                workload=planned.cell.cell.scenario.workload.kind,
                started_at=at,
                wall_s=1.0,
                session=work.slot,
                window=work.window,
                platform=work.platform,
                status=Status.OK,
                failure=None,
                metrics=self._numbers(work, planned),
            )
        )


def _tell(kind: str, text: str) -> None:
    sys.stdout.write(f"{kind} {text}\n")
    sys.stdout.flush()


def conduct(
    file: Path,
    database: Path | str,
    out: Path,
    missed: Sequence[int] = (),
    *,
    numbers: Numbers = usual,
    length: timedelta = LENGTH,
) -> CampaignPhase:
    """Conduct, or go on: simulated time begins where the last log line stands.

    Sessions that are to be ``missed`` are so from the start.
    """
    loaded = read_campaign(file)
    campaign_plan = plan_campaign(loaded)
    name = loaded.campaign.name
    store = Store(str(database) if "://" in str(database) else f"sqlite:///{database}")
    start = datetime.combine(loaded.campaign.start, datetime.min.time(), UTC)
    clock = SimulatedClock(start - timedelta(days=1))
    about = {"file": str(file), "text": loaded.text, "out": str(out)}
    store.register(name, about, campaign_plan.rows(), clock.now())
    store.skip(missed, SessionState.MISSED, "the window was closed", clock.now())
    row = store.campaign(name)
    log = store.log(row.id, 1)
    clock.time = max([clock.time, *(at for at, _, _ in log)])
    vm_pool = VmPool(clock, kept_files.Guests.begin)
    clouds = EmulatedClouds(clock, out / "things", vm_pool, numbers, length)
    context = ConductorContext(
        this_process(), clock, AtOnce(), clouds.measure, _tell, vm_pool=vm_pool
    )
    phase = Conductor(store, row, campaign_plan, context, CancellationToken()).run()
    store.close()
    return phase


if __name__ == "__main__":
    PROVIDERS.classes[kept_files.KIND] = kept_files.FileCloud
    conduct(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
