"""What conducting so many sessions at once costs, by the real conductor and its database.

    python -m tests.bench.campaigns_pairs threads|dask PAIRS

Each pair is a platform, all are due at one moment, and none ends until all have begun and a while
has passed. What is measured is the conductor's process, as a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import wait
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median

from osmef.campaigns.conductor.cleanup import ConductorContext
from osmef.campaigns.conductor.conductor import Conductor
from osmef.campaigns.executors.dask.executor import DaskExecutor
from osmef.campaigns.executors.session import Executor, SessionJob, ThreadExecutor
from osmef.campaigns.process_identity import this_process
from osmef.campaigns.schedule.calendar import RealClock, platforms
from osmef.campaigns.schedule.model import Campaign
from osmef.campaigns.schedule.plan import CampaignPlan, PlatformPlan
from osmef.campaigns.state.rows import CampaignPhase, SessionState
from osmef.campaigns.state.store import Store
from osmef.engine.cancellation import CancellationToken
from osmef.engine.cost import cost_of
from osmef.engine.plan import make_plan
from osmef.scenario.load import load_text
from tests.bench.campaigns_hold import hold
from tests.bench.process import memory_mb
from tests.campaigns.dask_cluster import Workers, scheduler

PLATEAU_S = 5.0
WORKERS = 2
# A campaign names up to a thousand scenarios; each on so many clouds makes a platform.
CLOUDS = 10
SCENARIO = "name: pair\nworkload: {duration: 1s}\n"
START = date(2026, 3, 23)
DUE = datetime.combine(START, datetime.min.time(), UTC)


class _Late(RealClock):
    """A clock that is right, but on the campaign's first day, which begins now."""

    def __init__(self) -> None:
        self.due_s = time.time()

    def now(self) -> datetime:
        """Return the time in UTC."""
        return DUE + timedelta(seconds=time.time() - self.due_s)


def _cloud(number: int) -> str:
    return f"cloud-{number}"


def _plan(count: int) -> CampaignPlan:
    study = load_text(SCENARIO, Path("pair.yaml"))
    plan = make_plan(study, 0)
    clouds = min(count, CLOUDS)
    campaign = Campaign.model_validate(
        {
            "name": "bench",
            "scenarios": [f"pair-{number}.yaml" for number in range(count // clouds)],
            "providers": {_cloud(number): "local" for number in range(clouds)},
            "start": START,
            "weeks": 1,
            "windows": {"once": {"cron": f"0 0 {START.day} {START.month} *", "length": "12h"}},
            "exclusive": False,
        }
    )
    part = PlatformPlan(study, plan.estimate_s, cost_of(plan))
    return CampaignPlan(campaign, dict.fromkeys(platforms(campaign), part))


def _threads(count: int, _place: Path, _stack: ExitStack) -> Executor:
    return ThreadExecutor(count)


def _dask(count: int, place: Path, stack: ExitStack) -> Executor:
    """Two workers, which have loaded what they need."""
    address, _ = stack.enter_context(scheduler(place))
    slots = -(-count // WORKERS) + 1
    tags = " ".join(f"{tag}={slots}" for tag in ("osmef", *map(_cloud, range(CLOUDS))))
    Workers(address, place, stack, threads=slots).start(*[tags] * WORKERS)
    dask = DaskExecutor(address, CancellationToken(), lambda *_: None)
    warm = place / "warm"
    warm.mkdir()
    (warm / "over").touch()
    work = SessionJob(0, "once", "once", "pair", SCENARIO, "pair.yaml", "", 0)
    works = [replace(work, directory=str(warm / f"pair-{n}")) for n in range(2 * WORKERS)]
    wait([dask.submit(partial(hold, warm), one) for one in works])
    return dask


EXECUTORS = {"threads": _threads, "dask": _dask}


def _watch(count: int, place: Path, found: dict[str, float]) -> None:
    """Measure the CPU while all run and nothing begins or ends, then let them end."""
    with (place / "begun").open("r+b", buffering=0) as begun:  # "+": it never ends
        left = count
        while left > 0:
            left -= len(begun.read(left) or b"")
    before_s = time.process_time()
    time.sleep(PLATEAU_S)
    found["busy_percent"] = 100 * (time.process_time() - before_s) / PLATEAU_S
    (place / "over").touch()


def conduct(kind: str, count: int, place: Path) -> dict[str, float]:
    campaign_plan, found = _plan(count), dict[str, float]()
    store = Store(f"sqlite:///{place / 'state.sqlite'}")
    about = {"file": str(place / "bench.yaml"), "text": "", "out": str(place / "out")}
    store.register("bench", about, campaign_plan.rows(), DUE - timedelta(seconds=1))
    os.mkfifo(place / "begun")
    with ExitStack() as stack:
        executor = EXECUTORS[kind](count, place, stack)
        stack.callback(executor.close)
        watcher = threading.Thread(target=_watch, args=(count, place, found), daemon=True)
        watcher.start()
        before_mb, before_s, clock = memory_mb("VmRSS"), time.process_time(), _Late()
        measure = partial(hold, place)
        context = ConductorContext(this_process(), clock, executor, measure, lambda *_: None)
        row = store.campaign("bench")
        phase = Conductor(store, row, campaign_plan, context, CancellationToken()).run()
        spent_s, peak_mb = time.process_time() - before_s, memory_mb("VmHWM")
        watcher.join()
    sessions = store.sessions(row.id)
    store.close()
    if phase is not CampaignPhase.ENDED or any(
        (one.state, one.token) != (SessionState.DONE, 1) for one in sessions
    ):
        told = {one.why for one in sessions}
        raise RuntimeError(f"not every session was done at its first attempt: {phase}, {told}")
    delays_s = [(one.cost or 0.0) - clock.due_s for one in sessions]
    return found | {
        "cpu_ms": 1000 * spent_s / count,
        "peak_mb": peak_mb,
        "memory_kb": 1000 * (peak_mb - before_mb) / count,
        "delay_median_s": median(delays_s),
        "delay_max_s": max(delays_s),
    }


def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        found = conduct(sys.argv[1], int(sys.argv[2]), Path(place))
    sys.stdout.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
