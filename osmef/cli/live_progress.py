"""Progress of a run as a bar on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

from osmef.cli.progress import Clock, ProgressObserver, shown_result, trial_line
from osmef.engine.events import Observer
from osmef.engine.plan import PlannedTrial
from osmef.report.summary import short_cells
from osmef.results.measure import Measure
from osmef.results.trial import Status, Trial
from osmef.units import format_rate, format_time
from osmef.workloads.base import Span


class LiveProgress(ProgressObserver):
    """Progress bar with the current trial, its rate or round trip, and the remaining time.

    Failures stay as lines.
    """

    def __init__(self, console: Console, progress: Progress, clock: Clock) -> None:
        super().__init__(console, clock)
        self._progress = progress
        self._task = progress.add_task("", total=None, rate="", last="", left="")

    @override
    def activity(self, text: str) -> None:
        self._progress.update(self._task, description=escape(text), rate="", left="")

    @override
    def measuring(self, trials: int, planned: Span, measures: Sequence[Measure]) -> None:
        super().measuring(trials, planned, measures)
        self._progress.update(self._task, total=trials, completed=0)

    @override
    def trial_skipped(self, planned: PlannedTrial) -> None:
        super().trial_skipped(planned)
        self._progress.update(self._task, total=self.total)

    @override
    def trial_started(self, planned: PlannedTrial) -> None:
        cell = planned.cell.cell
        values, _shared = short_cells([cell.key])
        # The rate of the trial before is no longer true.
        self._progress.update(
            self._task, description=escape(values[cell.key]), rate="", left=self.left()
        )

    @override
    def rate(self, planned: PlannedTrial, bits_per_second: float) -> None:
        self._update_value(format_rate(bits_per_second))

    @override
    def round_trip(self, planned: PlannedTrial, us: float) -> None:
        self._update_value(f"RTT {format_time(us / 1e6)}")

    @override
    def request_rate(self, planned: PlannedTrial, per_second: float) -> None:
        self._update_value(f"{per_second:,.0f} requests/s")

    def _update_value(self, text: str) -> None:
        self._progress.update(self._task, rate=text, left=self.left())

    @override
    def trial_ended(self, trial: Trial) -> None:
        last = shown_result(trial, self._measures)
        self._progress.update(
            self._task,
            completed=self.count(),
            left=self.left(),
            last=f"last: {last}" if last else "",
        )
        if trial.status is Status.FAILED:
            self.console.print(f"[red]failed[/] {escape(trial_line(trial, self._measures))}")


class _Count(MofNCompleteColumn):
    """How many trials have ended, of how many, once that is known."""

    @override
    def render(self, task: Task) -> Text:
        return Text() if task.total is None else super().render(task)


class _Elastic(TextColumn):
    """Text column that shrinks first on a narrow terminal."""

    @override
    def get_table_column(self) -> Column:
        return Column(no_wrap=False)  # such columns shrink first

    @override
    def render(self, task: Task) -> Text:
        text = super().render(task)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


@contextmanager
def live(console: Console, clock: Clock) -> Iterator[Observer]:
    """Return the observer that shows a bar until it is left."""
    columns = (
        SpinnerColumn(),
        _Count(),
        BarColumn(bar_width=max(10, console.width // 8)),
        _Elastic("{task.description}"),
        TextColumn("[bold]{task.fields[rate]}[/]"),
        TextColumn("[dim]{task.fields[last]}[/]"),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield LiveProgress(console, progress, clock)
