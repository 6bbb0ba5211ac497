"""What the controller adds: to each trial, and before the first one."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

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

SCENARIO = """
name: overhead
workload: {kind: btc, duration: 500ms, interval: 100ms}
sweep:
  placement: [same-host, different-host]
  tenancy: [same-tenant, different-tenant]
  connections: [1, 10]
repeat: 3
order: sequential
"""
PAIRS = """
name: four-vms
workload: {kind: btc, duration: 100ms, interval: 100ms}
sweep:
  placement: [same-host, different-host]
  tenancy: [same-tenant, different-tenant]
  exclude: [{placement: same-host, tenancy: different-tenant}]
repeat: 1
"""
LIGHT = """
name: light
workload: {kind: btc, duration: 100ms, interval: 100ms}
repeat: 1
"""
# The command line as it is run; it tells what it has used, without the local cloud's processes.
WATCHED = """
import atexit, resource, runpy, sys
def tell():
    use = resource.getrusage(resource.RUSAGE_SELF)
    print(use.ru_utime + use.ru_stime, use.ru_maxrss / 1024, file=sys.stderr)
atexit.register(tell)
sys.argv = ["osmef", *sys.argv[1:]]
runpy.run_module("osmef", run_name="__main__")
"""
PROVISIONINGS = 3
LIGHT_RUNS = 5


class _Clock(Observer):
    """Notes when provisioning began, when measuring did, and how long each trial took."""

    def __init__(self) -> None:
        self.provision_s = 0.0
        self.overheads_s: dict[int, list[float]] = {}
        self._began = time.monotonic()
        self._trial = 0.0

    @override
    def measuring(self, trials: int, planned: Span, measures: Sequence[Measure]) -> None:
        self.provision_s = time.monotonic() - self._began

    @override
    def trial_started(self, planned: PlannedTrial) -> None:
        self._trial = time.monotonic()

    @override
    def trial_ended(self, trial: Trial) -> None:
        if not trial.transfers:
            raise RuntimeError(f"a trial of the benchmark failed: {trial.failure}")
        wall = time.monotonic() - self._trial
        connections = len(trial.transfers[0].receiver.flows)
        self.overheads_s.setdefault(connections, []).append(
            wall - trial.transfers[0].receiver.elapsed_s
        )


def _run(text: str) -> _Clock:
    study = load_text(text, Path("bench.yaml"))
    plan = make_plan(study, seed=1)
    with (
        tempfile.TemporaryDirectory() as out,
        stop_on_signals(lambda _text: None) as stop,
        RunDirectory.create(Path(out), study.scenario.name, text, ".yaml") as directory,
    ):
        clock = _Clock()
        Run(plan, directory, clock, stop).execute()
    return clock


def _light() -> tuple[Spread, Spread]:
    """Return CPU time in seconds and memory in MB of runs of one short trial, without figures."""
    used = []
    for _ in range(LIGHT_RUNS):
        with tempfile.TemporaryDirectory() as folder:
            scenario = Path(folder) / "light.yaml"
            scenario.write_text(LIGHT)
            argv = ["run", str(scenario), "--no-figures", "--out", folder]
            command = [sys.executable, "-c", WATCHED, *argv]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        used.append([float(word) for word in done.stderr.splitlines()[-1].split()])
    cpu_s, memory_mb = zip(*used, strict=True)
    return Spread(cpu_s), Spread(memory_mb)


def _row(what: str, spread: Spread, unit: str, enough: float) -> tuple[str, str, str, str]:
    reached = "reached" if spread.median < enough else "**not reached**"
    return what, f"{spread} {unit}", f"under {enough:g} {unit}", reached


def bench(_bench: Bench) -> Section:
    """Measure what a trial and a provisioning cost beside the measuring itself."""
    rows = []
    for connections, values in sorted(_run(SCENARIO).overheads_s.items()):
        what = f"overhead of a trial, {connections} connections (n = {len(values)})"
        rows.append(_row(what, Spread(tuple(1000 * v for v in values)), "ms", 100))
    times = Spread(tuple(_run(PAIRS).provision_s for _ in range(PROVISIONINGS)))
    what = f"four VMs, from nothing to agents ready (n = {PROVISIONINGS})"
    rows.append(_row(what, times, "s", 3))
    cpu_s, memory_mb = _light()
    what = f"a run of one trial of 0.1 s without figures (n = {LIGHT_RUNS}): CPU"
    rows.append(_row(what, cpu_s, "s", 0.8))
    rows.append(_row("the same: memory", memory_mb, "MB", 120))
    return Section(
        "The controller",
        "With the local provider: what is not the transfer itself.",
        [Table("Times", ("", "median (min-max)", "wanted", "verdict"), rows)],
        repeated=False,
    )
