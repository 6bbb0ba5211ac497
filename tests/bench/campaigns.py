"""What conducting costs: many sessions at once, simulated, by the real conductor and its database.

    python -m tests.bench.campaigns PAIRS

Each pair is a platform, all are due at one moment, and each session only waits in its thread until
all have begun and a while has passed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from osmef.campaigns.calendar import platforms
from osmef.campaigns.clock import RealClock
from osmef.campaigns.conduct import Conductor, Means
from osmef.campaigns.executor import Threads
from osmef.campaigns.holder import this_process
from osmef.campaigns.model import Campaign
from osmef.campaigns.rows import Phase, State
from osmef.campaigns.score import Part, Score
from osmef.campaigns.session import End, Measurer, Work
from osmef.campaigns.store import Store
from osmef.engine.cost import cost_of
from osmef.engine.plan import make_plan
from osmef.engine.stop import Stop
from osmef.scenario.load import load_text
from tests.bench.report import Bench, Section, Table

SIZES = (1, 10, 100, 1000, 10_000)
ENOUGH = 1000
ENOUGH_MB = 1024.0
PLATEAU_S = 5.0
SCENARIO = "name: pair\nworkload: {duration: 1s}\n"
START = date(2026, 3, 23)


class _Late(RealClock):
    """A clock that is right, but on the campaign's first day."""

    def __init__(self) -> None:
        begins = datetime.combine(START, datetime.min.time(), UTC)
        self._behind = datetime.now(UTC) - begins

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC) - self._behind


class _Pairs:
    """Sessions that wait for each other, then for the end of the plateau."""

    def __init__(self, count: int, due: datetime, clock: _Late) -> None:
        self._count, self._due, self._clock = count, due, clock
        self._lock = threading.Lock()
        self._over = threading.Event()
        self.delays_s: list[float] = []
        self.all_begun = threading.Event()

    def run(self, _work: Work, _stop: Stop) -> End:
        with self._lock:
            self.delays_s.append((self._clock.now() - self._due).total_seconds())
            if len(self.delays_s) == self._count:
                self.all_begun.set()
        self._over.wait()
        return End(State.DONE, trials_ok=1)

    def watch(self, found: dict[str, float]) -> None:
        """Measure the CPU while all run and nothing begins or ends, then let them end."""
        self.all_begun.wait()
        before = time.process_time()
        time.sleep(PLATEAU_S)
        found["busy_percent"] = 100 * (time.process_time() - before) / PLATEAU_S
        self._over.set()


def _score(count: int) -> Score:
    study = load_text(SCENARIO, Path("pair.yaml"))
    plan = make_plan(study, 0)
    campaign = Campaign.model_validate(
        {
            "name": "bench",
            "scenarios": ["pair.yaml"],
            "providers": {f"cloud-{number}": "local" for number in range(count)},
            "start": START,
            "weeks": 1,
            "windows": {"once": {"cron": f"0 0 {START.day} {START.month} *", "length": "12h"}},
            "exclusive": False,
        }
    )
    part = Part(study, plan.estimate_s, cost_of(plan))
    return Score(campaign, dict.fromkeys(platforms(campaign), part))


def _memory_mb(key: str) -> float:
    found = re.search(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def _conduct(count: int, place: Path) -> dict[str, float]:
    score, clock = _score(count), _Late()
    due = datetime.combine(START, datetime.min.time(), UTC)
    pairs = _Pairs(count, due, clock)
    store = Store(f"sqlite:///{place / 'state.sqlite'}")
    about = {"file": str(place / "bench.yaml"), "text": "", "out": str(place / "out")}
    store.enlist("bench", about, score.rows(), due - timedelta(seconds=1))
    standing, stop = store.campaign("bench"), Stop()
    executor, measurer = Threads(count), Measurer(stop, pairs.run)
    means = Means(this_process(), clock, executor, measurer.measure, lambda *_: None)
    found: dict[str, float] = {}
    watcher = threading.Thread(target=pairs.watch, args=(found,))
    watcher.start()
    pairs_begin_mb, before_s = _memory_mb("VmRSS"), time.process_time()
    phase = Conductor(store, standing, score, means, stop).run()
    spent_s = time.process_time() - before_s
    watcher.join()
    executor.close()
    if phase is not Phase.ENDED or store.counts(standing.id) != {State.DONE: count}:
        raise RuntimeError(f"the benchmark failed: {phase}, {store.counts(standing.id)}")
    store.close()
    peak_mb = _memory_mb("VmHWM")
    return found | {
        "cpu_ms": 1000 * spent_s / count,
        "peak_mb": peak_mb,
        "memory_kb": 1000 * (peak_mb - pairs_begin_mb) / count,
        "delay_median_s": median(pairs.delays_s),
        "delay_max_s": max(pairs.delays_s),
    }


def _measured(count: int) -> dict[str, Any]:
    """Conduct in a process of its own, whose memory is nobody else's."""
    command = [sys.executable, "-m", "tests.bench.campaigns", str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def _row(count: int, found: dict[str, Any]) -> tuple[str, ...]:
    verdict = "-"
    if count == ENOUGH:
        fine = found["peak_mb"] < ENOUGH_MB and found["busy_percent"] < 100
        verdict = "reached" if fine else "**not reached**"
    return (
        str(count),
        f"{found['cpu_ms']:.1f} ms",
        f"{found['memory_kb']:.0f} kB",
        f"{found['peak_mb']:.0f} MB",
        f"{found['busy_percent']:.1f} %",
        f"{found['delay_median_s']:.2f} s",
        f"{found['delay_max_s']:.2f} s",
        verdict,
    )


def bench(_bench: Bench) -> Section:
    """Measure what each session costs its conductor, from one to ten thousand at once."""
    header = ("pairs", "CPU a pair", "memory a pair", "peak", "CPU while all run")
    delays = ("delay, median", "delay, longest", "under 1 GiB and 1 core")
    rows = [_row(count, _measured(count)) for count in SIZES]
    return Section(
        "Campaigns",
        "Simulated sessions that are all due at one moment, in threads of one process, with the"
        " real conductor and SQLite. The delay is from when a session is due until it begins in its"
        " thread; with all due at once the last one waits for all others.",
        [Table("Sessions at once", (*header, *delays), rows)],
        repeated=False,
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        sys.stdout.write(json.dumps(_conduct(int(sys.argv[1]), Path(place))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
