"""Progress of a run as lines, and what the live display of a terminal has in common with them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape
from typing_extensions import override

from osmef.cli.console import print_note
from osmef.engine.events import Observer
from osmef.engine.plan import PlannedTrial
from osmef.results.measure import BIT_RATE, Measure
from osmef.results.trial import Status, Trial
from osmef.scenario.study import ALONE
from osmef.units import counted, format_duration
from osmef.workloads.base import Span

Clock = Callable[[], float]
"""Returns seconds since some moment."""


def trial_line(trial: Trial, measures: Sequence[Measure]) -> str:
    """Return the line of a trial that has ended: its first leading metric, or its failure."""
    cell = "" if trial.cell == ALONE else f" {trial.cell}"
    if trial.status is Status.FAILED and trial.failure is not None:
        return f"trial {trial.index}{cell}: failed: {trial.failure.shown}"
    shown = shown_result(trial, measures)
    return f"trial {trial.index}{cell}{': ' if shown else ''}{shown}"


def shown_result(trial: Trial, measures: Sequence[Measure]) -> str:
    """Return the first leading metric of a trial, with its unit; "" without any."""
    reported = (
        _with_unit(measure, value)
        for measure in measures
        if measure.leading and (value := trial.metrics.get(measure.name)) is not None
    )
    return next(reported, "")


def _with_unit(measure: Measure, value: float) -> str:
    """Return a number with its unit; what is no rate in a network with its name, too."""
    shown = measure.with_unit(value)
    return shown if measure.unit == BIT_RATE else f"{measure.words} {shown}"


def length_of(span: Span) -> str:
    """Describe a length: usual, at most, or both, where trials may end early."""
    if span.most_s < 1:
        return "less than a second"
    most = format_duration(span.most_s)
    if span.usual_s is None:
        return f"at most {most}"
    usual = format_duration(span.usual_s)
    return f"about {usual}" + ("" if usual == most else f", at most {most}")


class ProgressObserver(Observer):
    """Counts trials and estimates the remaining time by the pace of those that have ended."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self.console = console
        self._clock = clock
        self._lock = threading.Lock()
        self.total = 0
        self._ended = 0
        self._since = clock()
        self._expected_s = 0.0
        self._bound = ""
        self._measures: Sequence[Measure] = ()

    @override
    def warning(self, text: str) -> None:
        print_note(self.console, text)

    @override
    def measuring(self, trials: int, planned: Span, measures: Sequence[Measure]) -> None:
        self.total, self._measures = trials, measures
        self._expected_s = planned.most_s if planned.usual_s is None else planned.usual_s
        self._bound = "at most " if planned.usual_s is None else ""
        self._since = self._clock()

    @override
    def trial_skipped(self, planned: PlannedTrial) -> None:
        with self._lock:
            self.total -= 1

    def count(self) -> int:
        """Count one more trial that has ended."""
        with self._lock:
            self._ended += 1
            self._expected_s = self._elapsed_s() / self._ended * self.total
            self._bound = ""
            return self._ended

    def _elapsed_s(self) -> float:
        return self._clock() - self._since

    def left(self) -> str:
        """Return the remaining time; the planned one until some trials have ended."""
        if self._ended == self.total > 0:
            return "done"
        left = self._expected_s - self._elapsed_s()
        return f"{self._bound}{format_duration(left)} left" if left >= 1 else "< 1 s left"


class PlainProgress(ProgressObserver):
    """Progress as lines of text."""

    @override
    def activity(self, text: str) -> None:
        self.console.print(escape(text))

    @override
    def measuring(self, trials: int, planned: Span, measures: Sequence[Measure]) -> None:
        super().measuring(trials, planned, measures)
        self.activity(f"measuring: {counted(trials, 'trial')}, {length_of(planned)}")

    @override
    def trial_ended(self, trial: Trial) -> None:
        count = self.count()
        line = f"[{count}/{self.total}] {trial_line(trial, self._measures)}, {self.left()}"
        self.console.print(escape(line))
