"""Whole runs in memory: what `osmef run` and `osmef resume` do, and the commands themselves."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from osmef.engine.cancellation import CancellationToken
from osmef.engine.check import check_provider, check_study
from osmef.engine.events import Observer
from osmef.engine.journal import Journal
from osmef.engine.plan import PlannedTrial, make_plan
from osmef.engine.reap import destroy, leftovers
from osmef.engine.recovery import note_plan, reopen
from osmef.engine.run import Run
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Trial
from osmef.scenario.load import load_text
from tests.invoked import invoke
from tests.memory.cloud import World


class Watcher(Observer):
    """Keeps what it is told, and can stop the run."""

    def __init__(self) -> None:
        self.stop = CancellationToken()
        self.steps: list[str] = []
        self.warnings: list[str] = []
        self.started: list[int] = []
        self.beginning: Callable[[PlannedTrial], None] = lambda _planned: None

    def activity(self, text: str) -> None:
        self.steps.append(text)

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    def trial_started(self, planned: PlannedTrial) -> None:
        self.started.append(planned.index)
        self.beginning(planned)


@dataclass
class Lab:
    """Makes runs in a folder. The newest one is ``directory``."""

    world: World
    folder: Path
    watcher: Watcher = field(default_factory=Watcher)
    directory: RunDirectory | None = None
    went: bool = False

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self.directory is not None:
            self.directory.close()
        logging.captureWarnings(capture=False)  # a command has wanted that for its process

    def begin(self, text: str) -> None:
        """Make the directory of a run, as `osmef run` does before anything is made."""
        study = load_text(text, Path("run.yaml"))
        check_study(study)
        plan = make_plan(study)
        check_provider(plan)
        self.directory = RunDirectory.create(self.folder, study.scenario.name, text, ".yaml")
        note_plan(self.directory, plan)

    def renew(self) -> None:
        """Let somebody else watch, whom nobody has asked to stop yet."""
        self.watcher, self.went = Watcher(), False

    def measure(self, **more: Any) -> None:
        """Measure what lacks, as `osmef run` and `osmef resume` do. Raises what they do."""
        assert self.directory is not None
        if self.went:
            self.renew()
        self.went = True
        watcher = self.watcher
        for left in destroy(leftovers(self.directory)):
            raise left.error
        with closing(watcher.stop):
            Run(reopen(self.directory), self.directory, watcher, watcher.stop, **more).execute()

    def run(self, text: str) -> dict[str, Any]:
        """Measure a scenario, and return its summary as it is on the disk."""
        self.begin(text)
        self.measure()
        return self.summary

    @property
    def summary(self) -> dict[str, Any]:
        """The summary as it is on the disk."""
        assert self.directory is not None
        found: dict[str, Any] = json.loads(self.directory.summary.read_text())
        return found

    @property
    def trials(self) -> list[Trial]:
        """The trials that were recorded."""
        assert self.directory is not None
        return self.directory.read_trials().trials

    @property
    def journal(self) -> Journal:
        """The journal of the run."""
        assert self.directory is not None
        return Journal(self.directory.journal)

    def command(self, *words: str) -> tuple[int, str]:
        """Run a command in the folder; return its exit code, and what it printed."""
        done = invoke(*words)
        return done.exit_code, done.output

    def osmef_run(self, text: str) -> tuple[int, str]:
        """Run ``osmef run`` on a scenario."""
        file = self.folder / "scenario.yaml"
        file.write_text(text)
        code, said = self.command("run", str(file), "--out", str(self.folder), "--no-figures")
        (path,) = (one.parent for one in self.folder.glob("*/journal.jsonl"))
        self.directory = RunDirectory(path)
        return code, said
