"""Execute a plan in its run directory and show the result: shared by several commands."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer
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

from osmef.cli.console import err, print_json, stopping
from osmef.cli.shown import draw, show
from osmef.engine.check import check_provider, check_study
from osmef.engine.cost import check_budget, cost_of
from osmef.engine.observer import Observer
from osmef.engine.plan import Plan, PlannedTrial, make_plan
from osmef.engine.resume import note_plan
from osmef.engine.run import Run
from osmef.errors import OsmefError
from osmef.report.series import short_cells
from osmef.results.measure import Measure
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary, Verdict
from osmef.results.trial import Status, Trial
from osmef.scenario.study import ALONE, Study
from osmef.units import format_duration, format_rate, format_time

Clock = Callable[[], float]
"""Returns seconds since some moment."""


def _trial_line(trial: Trial, measures: Sequence[Measure]) -> str:
    cell = "" if trial.cell == ALONE else f" {trial.cell}"
    if trial.status is Status.FAILED and trial.failure is not None:
        return f"trial {trial.index}{cell}: failed: {trial.failure.shown}"
    shown = _result(trial, measures)
    return f"trial {trial.index}{cell}{': ' if shown else ''}{shown}"


def _result(trial: Trial, measures: Sequence[Measure]) -> str:
    """Return the first leading metric of a trial, with its unit; "" without any."""
    told = (
        _with_unit(measure, value)
        for measure in measures
        if measure.leading and (value := trial.metrics.get(measure.name)) is not None
    )
    return next(told, "")


def _with_unit(measure: Measure, value: float) -> str:
    """Return a number with its unit; what is no rate with its name, too."""
    if measure.has_prefix:
        return format_rate(value)
    shown = format_time(value / 1e6) if measure.unit == "us" else measure.with_unit(value)
    return f"{measure.words} {shown}"


class _Watch(Observer):
    """Counts trials and estimates the remaining time by the pace of those that have ended."""

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
        """Return the remaining time; the planned one until some trials have ended."""
        if self._ended == self._total > 0:
            return "done"
        left = self._expected_s - self._elapsed_s()
        return f"{format_duration(left)} left" if left >= 1 else "< 1 s left"


class PlainProgress(_Watch):
    """Progress as lines of text."""

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
    """Progress bar with the current trial, its rate or round trip, and the remaining time.

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
        self._update_value(format_rate(bits_per_second))

    @override
    def round_trip(self, planned: PlannedTrial, us: float) -> None:
        self._update_value(f"RTT {format_time(us / 1e6)}")

    @override
    def request_rate(self, planned: PlannedTrial, per_second: float) -> None:
        self._update_value(f"{per_second:,.0f} requests/s")

    def _update_value(self, text: str) -> None:
        self._progress.update(self._task, rate=text, left=self._left())

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
def progress_for(
    console: Console, verbose: int, quiet: bool, clock: Clock = time.monotonic
) -> Iterator[Observer]:
    """Return the observer for a console: live, plain, or silent for JSON."""
    if quiet:
        yield Observer()
    elif verbose or not console.is_terminal:
        yield PlainProgress(console, clock)
    else:
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


MISSED = 5
"""The exit code where a median misses what the scenario expects of it."""


def begin(study: Study, out: Path, *, verbose: int, as_json: bool, figures: bool) -> None:
    """Check and plan a study, and execute it in a new run directory under ``out``.

    Raises InputError, ProviderError and what ``execute`` does.
    """
    check_study(study)
    plan = make_plan(study)
    check_budget(plan, cost_of(plan))
    check_provider(plan)
    name, suffix = study.scenario.name, study.path.suffix
    with RunDirectory.create(out, name, study.text, suffix) as directory:
        note_plan(directory, plan)
        execute(plan, directory, verbose=verbose, as_json=as_json, figures=figures)


def execute(  # noqa: PLR0913 - what the user asks for
    plan: Plan,
    directory: RunDirectory,
    *,
    verbose: int,
    as_json: bool,
    figures: bool,
    again: bool = False,
) -> None:
    """Execute the missing trials of the plan, draw the figures if wanted, print the table.

    With ``again`` trials that have failed are run, too. Raises what ``Run.execute`` does; exits
    as ``exit_as_judged`` does.
    """
    summary, drawn = measure(
        plan, directory, verbose=verbose, as_json=as_json, figures=figures, again=again
    )
    if as_json:
        print_json({"directory": str(directory.path), "summary": summary.model_dump(mode="json")})
    else:
        show(summary, directory.path, drawn, ended=True)
    exit_as_judged(summary)


def measure(  # noqa: PLR0913
    plan: Plan,
    directory: RunDirectory,
    *,
    verbose: int,
    as_json: bool,
    figures: bool,
    again: bool = False,
) -> tuple[Summary, list[Path]]:
    """Run as ``execute`` does; return the summary and the figures that were drawn."""
    with stopping() as stop:
        try:
            with progress_for(err, verbose, as_json) as observer:
                summary = Run(plan, directory, observer, stop, again=again).execute()
        except OsmefError as error:
            words = "osmef resume --again failed" if again else "osmef resume"
            resume = f"{words} {directory.path} goes on with the run"
            error.cure = f"{error.cure}; {resume}" if error.cure else resume
            raise
        # A signal now has nothing left to stop, and the figures take a second.
        return summary, draw(directory) if figures else []


def exit_as_judged(summary: Summary) -> None:
    """Exit with 5 when a median misses its expected bound, with 1 when trials have failed."""
    verdicts = {one.verdict for cell in summary.cells for one in cell.expectations}
    if Verdict.MISSED in verdicts:
        raise typer.Exit(MISSED)
    if any(cell.n_failed for cell in summary.cells):
        raise typer.Exit(1)
