"""What frames know of a run that was killed, and so has no summary."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import osmef
from osmef.engine.cancellation import CancellationToken
from osmef.engine.events import Observer
from osmef.engine.plan import make_plan
from osmef.engine.run import Run
from osmef.errors import Interrupted
from osmef.providers import sites
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Trial
from osmef.scenario.load import load_text
from tests.memory.cloud import MemoryProvider

TEXT = """\
name: until-known
workload: {kind: btc, duration: 200ms, interval: 100ms}
repeat: {until: 5 %, most: 8}
"""


class Reading(Observer):
    """Loads the trials so far whenever one has ended."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.frames: list[pd.DataFrame] = []

    def trial_ended(self, trial: Trial) -> None:  # noqa: ARG002
        self.frames.append(osmef.load(self.run))


@pytest.mark.usefixtures("world")
def test_a_run_without_a_summary_has_the_columns_of_one_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sites, "provider_for", MemoryProvider)
    plan = make_plan(load_text(TEXT, Path("until.yaml")))
    stop = CancellationToken()
    with RunDirectory.create(tmp_path, "until-known", TEXT, ".yaml") as directory:
        reading = Reading(directory.path)
        Run(plan, directory, reading, stop).execute()
    stop.close()
    whole = osmef.load(directory.path)
    assert whole["repeat_until"].tolist() == [0.05] * 8
    assert whole["sender_flavors"].notna().all()
    pd.testing.assert_frame_equal(reading.frames[-1], whole)


LAYERS = """\
name: layers
workload: {kind: btc, duration: 200ms, interval: 100ms}
endpoints: {sender: {kind: host}, receiver: {kind: host}}
sweep: {layer: [bare, overlay]}
repeat: 2
"""


class Stopping(Observer):
    """Interrupts a run once two trials have ended."""

    def __init__(self, stop: CancellationToken) -> None:
        self.stop = stop
        self.ended = 0

    def trial_ended(self, trial: Trial) -> None:  # noqa: ARG002
        self.ended += 1
        if self.ended == 2:
            self.stop.request("enough")


@pytest.mark.usefixtures("world")
def test_a_killed_run_is_resumed_though_what_it_declared_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sites, "provider_for", MemoryProvider)
    plan = make_plan(load_text(LAYERS, Path("layers.yaml")))
    stop = CancellationToken()
    with RunDirectory.create(tmp_path, "layers", LAYERS, ".yaml") as directory:
        with pytest.raises(Interrupted):
            Run(plan, directory, Stopping(stop), stop).execute()
        stop.close()
        directory.summary.unlink()  # which a killed run does not have
        directory.measures.write_text("{")
        summary = Run(plan, directory, Observer(), again := CancellationToken()).execute()
        again.close()
    assert sum(cell.n_ok for cell in summary.cells) == 4
