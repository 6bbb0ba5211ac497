"""Progress of a run: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from typing_extensions import override

from osmef.engine.observer import Observer
from osmef.engine.plan import PlannedTrial
from osmef.results.trial import Status, Trial
from osmef.units import format_duration, format_rate


def _trial_line(trial: Trial) -> str:
    if trial.status is Status.FAILED and trial.failure is not None:
        where = f"{trial.failure.where}: " if trial.failure.where else ""
        cure = f" (cure: {trial.failure.cure})" if trial.failure.cure else ""
        return f"trial {trial.index} {trial.cell}: failed: {where}{trial.failure.message}{cure}"
    rate = trial.metrics.get("aggregate_btc_bps")
    shown = "" if rate is None else f": {format_rate(rate)}"
    return f"trial {trial.index} {trial.cell}{shown}"


class _Watch(Observer):
    """Counts trials and estimates the time left from the pace of those that have ended."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._total = 0
        self._ended = 0
        self._since = time.monotonic()
        self._planned_s = 0.0

    @override
    def warning(self, text: str) -> None:
        self._console.print(f"[yellow]note[/]: {escape(text)}")

    @override
    def measuring(self, trials: int, planned_s: float) -> None:
        self._total, self._planned_s = trials, planned_s
        self._since = time.monotonic()

    def _count(self) -> int:
        with self._lock:
            self._ended += 1
            return self._ended

    def _left(self) -> str:
        """Return the time left; what was planned until some trials have told the real pace."""
        left = self._planned_s
        if self._ended:
            pace = (time.monotonic() - self._since) / self._ended
            left = pace * (self._total - self._ended)
        return f"{format_duration(left)} left"


class PlainProgress(_Watch):
    """One line for each thing that happens."""

    @override
    def step(self, text: str) -> None:
        self._console.print(escape(text))

    @override
    def measuring(self, trials: int, planned_s: float) -> None:
        super().measuring(trials, planned_s)
        self.step(f"measuring: {trials} trials, about {self._left()}")

    @override
    def trial_ended(self, trial: Trial) -> None:
        count = self._count()
        line = f"[{count}/{self._total}] {_trial_line(trial)}, {self._left()}"
        self._console.print(escape(line))


class LiveProgress(_Watch):
    """A bar with the current trial, its rate and the time left; failures stay as lines."""

    def __init__(self, console: Console, progress: Progress) -> None:
        super().__init__(console)
        self._progress = progress
        self._task = progress.add_task("", total=None, rate="", left="")

    @override
    def step(self, text: str) -> None:
        self._progress.update(self._task, description=escape(text), rate="", left="")

    @override
    def measuring(self, trials: int, planned_s: float) -> None:
        super().measuring(trials, planned_s)
        self._progress.update(self._task, total=trials, completed=0)

    @override
    def trial_started(self, planned: PlannedTrial) -> None:
        self._progress.update(
            self._task, description=escape(planned.cell.cell.key), left=self._left()
        )

    @override
    def rate(self, planned: PlannedTrial, bits_per_second: float) -> None:
        self._progress.update(self._task, rate=format_rate(bits_per_second))

    @override
    def trial_ended(self, trial: Trial) -> None:
        self._progress.update(self._task, completed=self._count(), left=self._left())
        if trial.status is Status.FAILED:
            self._console.print(f"[red]failed[/] {escape(_trial_line(trial))}")


@contextmanager
def progress_for(console: Console, verbose: bool, quiet: bool) -> Iterator[Observer]:
    """Return the observer that fits the console: live, plain, or silent for machines."""
    if quiet:
        yield Observer()
    elif verbose or not console.is_terminal:
        yield PlainProgress(console)
    else:
        columns = (
            SpinnerColumn(),
            MofNCompleteColumn(),
            BarColumn(bar_width=20),
            TextColumn("{task.description}"),
            TextColumn("[bold]{task.fields[rate]}[/]"),
            TextColumn("{task.fields[left]}"),
        )
        with Progress(*columns, console=console, transient=True) as progress:
            yield LiveProgress(console, progress)
