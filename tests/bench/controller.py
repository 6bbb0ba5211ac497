"""What the controller adds: to each trial, and before the first one."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from typing_extensions import override

from osmef.engine.observer import Observer
from osmef.engine.plan import PlannedTrial, make_plan
from osmef.engine.run import Run
from osmef.engine.stop import stop_on_signals
from osmef.results.measure import Measure
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Trial
from osmef.scenario.load import load_text
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
PROVISIONINGS = 3


class _Clock(Observer):
    """Notes when provisioning began, when measuring did, and how long each trial took."""

    def __init__(self) -> None:
        self.provision_s = 0.0
        self.overheads_s: dict[int, list[float]] = {}
        self._began = time.monotonic()
        self._trial = 0.0

    @override
    def measuring(self, trials: int, planned_s: float, measures: Sequence[Measure]) -> None:
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
    return Section(
        "The controller",
        "With the local provider: what is not the transfer itself.",
        [Table("Times", ("", "median (min-max)", "wanted", "verdict"), rows)],
        repeated=False,
    )
