"""Progress of a run: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
)
from rich.table import Column
from rich.text import Text
from typing_extensions import override

from osmef.engine.observer import Observer
from osmef.engine.plan import PlannedTrial
from osmef.report.series import short_cells
from osmef.results.measure import Measure
from osmef.results.trial import Status, Trial
from osmef.scenario.study import ALONE
from osmef.units import format_duration, format_rate

Clock = Callable[[], float]
"""Returns seconds since some moment."""


def _trial_line(trial: Trial, measures: Sequence[Measure]) -> str:
    cell = "" if trial.cell == ALONE else f" {trial.cell}"
    if trial.status is Status.FAILED and trial.failure is not None:
        return f"trial {trial.index}{cell}: failed: {trial.failure.shown}"
    shown = _result(trial, measures)
    return f"trial {trial.index}{cell}{': ' if shown else ''}{shown}"


def _result(trial: Trial, measures: Sequence[Measure]) -> str:
    """Return the first leading number that a trial has, with its unit; "" without any."""
    told = (
        measure.with_unit(value)
        for measure in measures
        if measure.leading and (value := trial.metrics.get(measure.name)) is not None
    )
    return next(told, "")


class _Watch(Observer):
    """Counts trials and estimates the time left from the pace of those that have ended."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._lock = threading.Lock()
        self._total = 0
        self._ended = 0
        self._since = clock()
        self._expected_s = 0.0
        self._measures: Sequence[Measure] = ()

    @override
    def warning(self, text: str) -> None:
        self._console.print(f"[yellow]note[/]: {escape(text)}")

    @override
    def measuring(self, trials: int, planned_s: float, measures: Sequence[Measure]) -> None:
        self._total, self._expected_s, self._measures = trials, planned_s, measures
        self._since = self._clock()

    @override
    def trial_spared(self, planned: PlannedTrial) -> None:
        with self._lock:
            self._total -= 1

    def _count(self) -> int:
        with self._lock:
            self._ended += 1
            self._expected_s = self._elapsed_s() / self._ended * self._total
            return self._ended

    def _elapsed_s(self) -> float:
        return self._clock() - self._since

    def _left(self) -> str:
        """Return the time left; what was planned until some trials have told the real pace."""
        if self._ended == self._total > 0:
            return "done"
        return f"{format_duration(max(0.0, self._expected_s - self._elapsed_s()))} left"


class PlainProgress(_Watch):
    """One line for each thing that happens."""

    @override
    def step(self, text: str) -> None:
        self._console.print(escape(text))

    @override
    def measuring(self, trials: int, planned_s: float, measures: Sequence[Measure]) -> None:
        super().measuring(trials, planned_s, measures)
        plural = "" if trials == 1 else "s"
        self.step(f"measuring: {trials} trial{plural}, about {self._left()}")

    @override
    def trial_ended(self, trial: Trial) -> None:
        count = self._count()
        line = f"[{count}/{self._total}] {_trial_line(trial, self._measures)}, {self._left()}"
        self._console.print(escape(line))


class LiveProgress(_Watch):
    """A bar with the current trial, its rate, the last result and the time left.

    Failures stay as lines.
    """

    def __init__(self, console: Console, progress: Progress, clock: Clock) -> None:
        super().__init__(console, clock)
        self._progress = progress
        self._task = progress.add_task("", total=None, rate="", last="", left="")

    @override
    def step(self, text: str) -> None:
        self._progress.update(self._task, description=escape(text), rate="", left="")

    @override
    def measuring(self, trials: int, planned_s: float, measures: Sequence[Measure]) -> None:
        super().measuring(trials, planned_s, measures)
        self._progress.update(self._task, total=trials, completed=0)

    @override
    def trial_spared(self, planned: PlannedTrial) -> None:
        super().trial_spared(planned)
        self._progress.update(self._task, total=self._total)

    @override
    def trial_started(self, planned: PlannedTrial) -> None:
        cell = planned.cell.cell
        values, _shared = short_cells([cell.key])
        # The rate of the trial before is no longer true.
        self._progress.update(
            self._task, description=escape(values[cell.key]), rate="", left=self._left()
        )

    @override
    def rate(self, planned: PlannedTrial, bits_per_second: float) -> None:
        rate = format_rate(bits_per_second)
        self._progress.update(self._task, rate=rate, left=self._left())

    @override
    def trial_ended(self, trial: Trial) -> None:
        last = _result(trial, self._measures)
        self._progress.update(
            self._task,
            completed=self._count(),
            left=self._left(),
            last=f"last: {last}" if last else "",
        )
        if trial.status is Status.FAILED:
            self._console.print(f"[red]failed[/] {escape(_trial_line(trial, self._measures))}")


class _Elastic(TextColumn):
    """Text that gives way to all other columns where the terminal is narrow."""

    @override
    def get_table_column(self) -> Column:
        return Column(no_wrap=False)  # such columns shrink first

    @override
    def render(self, task: Task) -> Text:
        text = super().render(task)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


@contextmanager
def progress_for(
    console: Console, verbose: bool, quiet: bool, clock: Clock = time.monotonic
) -> Iterator[Observer]:
    """Return the observer that fits the console: live, plain, or silent for machines."""
    if quiet:
        yield Observer()
    elif verbose or not console.is_terminal:
        yield PlainProgress(console, clock)
    else:
        columns = (
            SpinnerColumn(),
            MofNCompleteColumn(),
            BarColumn(bar_width=10),
            _Elastic("{task.description}"),
            TextColumn("[bold]{task.fields[rate]}[/]"),
            TextColumn("[dim]{task.fields[last]}[/]"),
            TextColumn("{task.fields[left]}"),
        )
        with Progress(*columns, console=console, transient=True) as progress:
            yield LiveProgress(console, progress, clock)
