"""How soon many pairs are ready, how far apart they begin, and what that costs the controller."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override

from osmef.engine.cancellation import stop_on_signals
from osmef.engine.events import Observer
from osmef.engine.plan import PlannedTrial, make_plan
from osmef.engine.run import Run
from osmef.results.measure import Measure
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Trial
from osmef.scenario.load import load_text
from osmef.workloads.base import Span
from tests.bench.contest import Spread
from tests.bench.report import Bench, Section, Table

# Names of shapes, and what they are in a scenario.
SHAPES = {
    "10 pairs": "pairs: {count: 10, at: once}",
    "25 pairs": "pairs: {count: 25, at: once}",
    "50 pairs": "pairs: {count: 50, at: once}",
    "20 x 20 (400 pairs)": "endpoints: {sender: {count: 20}, receiver: {count: 20}}",
}
SCENARIO = """
name: starts
workload: {{kind: btc, duration: 1s, interval: 1s}}
repeat: 4
{shape}
"""
READY_S = 5.0
SPREAD_MS = 20.0


class _Starts(Observer):
    """Notes how long the pairs of each trial took to be ready, and their spread."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {"ready_s": [], "spread_s": [], "failed": []}
        self._began = 0.0

    @override
    def measuring(self, trials: int, planned: Span, measures: Sequence[Measure]) -> None:
        self._began = time.time()

    @override
    def trial_started(self, planned: PlannedTrial) -> None:
        self._began = time.time()

    @override
    def trial_ended(self, trial: Trial) -> None:
        if trial.failure is not None:
            self.told["failed"].append(trial.failure.message)
            return
        starts = [one.sender.start_realtime_ns / 1e9 for one in trial.transfers]
        self.told["ready_s"].append(min(starts) - self._began)
        self.told["spread_s"].append(max(starts) - min(starts))


def _measure(shape: str) -> dict[str, Any]:
    """Run a scenario of a shape in this process, and return what it took."""
    text, began = SCENARIO.format(shape=SHAPES[shape]), time.monotonic()
    study = load_text(text, Path("bench.yaml"))
    starts = _Starts()
    with (
        tempfile.TemporaryDirectory() as out,
        stop_on_signals(lambda _text: None) as stop,
        RunDirectory.create(Path(out), study.scenario.name, text, ".yaml") as directory,
    ):
        Run(make_plan(study, seed=1), directory, starts, stop).execute()
    use = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s, wall_s = use.ru_utime + use.ru_stime, time.monotonic() - began
    return {**starts.told, "cpu_s": cpu_s, "wall_s": wall_s, "memory_mb": use.ru_maxrss / 1024}


def _row(shape: str, told: dict[str, Any]) -> tuple[str, ...]:
    if told["failed"]:
        raise RuntimeError(f"a trial of the benchmark failed: {told['failed'][0]}")
    first_s, *later_s = told["ready_s"]
    spread = Spread(tuple(1000 * one for one in told["spread_s"]))
    reached = first_s < READY_S and spread.median <= SPREAD_MS
    return (
        shape,
        f"{first_s:.2f} s",
        f"{Spread(tuple(later_s))} s",
        f"{spread} ms",
        f"{told['wall_s']:.1f} s",
        f"{told['cpu_s']:.1f} s",
        f"{told['memory_mb']:.0f} MB",
        "reached" if reached else "**not reached**",
    )


def bench(_bench: Bench) -> Section:
    """Measure runs of four trials of a second, each in a process of its own."""
    rows = []
    for shape in SHAPES:
        command = [sys.executable, "-m", "tests.bench.starts", shape]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(_row(shape, json.loads(done.stdout.splitlines()[-1])))
    header = ("", "ready, first trial", "ready, later trials", "spread of starts")
    more = ("whole run", "CPU of the controller", "its memory", "verdict")
    return Section(
        "Many pairs at once",
        "Four trials of one second with the local provider, all pairs on this machine's CPUs."
        " Ready: from the beginning of a trial to the first start; the first trial starts the"
        " agents. The spread is of true starts, by this machine's one clock."
        f" Wanted are {READY_S:g} s until ready, and a spread of {SPREAD_MS:g} ms at most.",
        [Table("Starts", (*header, *more), rows)],
        repeated=False,
    )


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(_measure(sys.argv[1]))}\n")
