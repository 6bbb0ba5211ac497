"""What the controller adds: to each trial, and before the first one."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from typing_extensions import override

from osmef.engine.observer import Observer
from osmef.engine.plan import PlannedTrial, make_plan
from osmef.engine.run import Run
from osmef.engine.stop import stop_on_signals
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Trial
from osmef.scenario.load import load_text

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


class _Clock(Observer):
    """Notes when provisioning began, when measuring did, and how long each trial took."""

    def __init__(self) -> None:
        self.provision_s = 0.0
        self.overheads_s: dict[int, list[float]] = {}
        self._began = time.monotonic()
        self._trial = 0.0

    @override
    def measuring(self, trials: int, planned_s: float) -> None:
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


def bench_controller(console: Console) -> None:
    """Measure and print what a trial and a provisioning cost beside the measuring itself."""
    clock = _run(SCENARIO)
    table = Table("what", "median (min-max)", "wanted", title="the controller, local provider")
    for connections, values in sorted(clock.overheads_s.items()):
        low, middle, high = min(values), statistics.median(values), max(values)
        table.add_row(
            f"overhead of a trial, {connections} connections (n = {len(values)})",
            f"{1000 * middle:.0f} ms ({1000 * low:.0f}-{1000 * high:.0f})",
            "under 100 ms",
        )
    times = [_run(PAIRS).provision_s for _ in range(3)]
    table.add_row(
        "four VMs, from nothing to agents ready (n = 3)",
        f"{statistics.median(times):.2f} s ({min(times):.2f}-{max(times):.2f})",
        "under 3 s",
    )
    console.print(table)
