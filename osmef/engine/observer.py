"""The observer of a run: the command line, a log, a test; and callbacks that may fail."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec

from osmef.engine.plan import PlannedTrial
from osmef.results.measure import Measure
from osmef.results.trial import Trial

_LOG = logging.getLogger(__name__)

Told = ParamSpec("Told")


def contain_failures(tell: Callable[Told, None]) -> Callable[Told, None]:
    """Wrap a callback such that it raises no Exception: a failure is logged."""

    @wraps(tell)
    def told(*args: Told.args, **kwargs: Told.kwargs) -> None:
        try:
            tell(*args, **kwargs)
        except Exception:  # whatever it is, the work goes on
            _LOG.warning("progress could not be reported", exc_info=True)

    return told


class Observer:
    """Told what happens, from any thread. This one does nothing, and none ever raises."""

    def __init_subclass__(cls) -> None:
        """Contain whatever a subclass does when it is told something."""
        super().__init_subclass__()
        for name in _TOLD & vars(cls).keys():
            setattr(cls, name, contain_failures(getattr(cls, name)))

    def step(self, text: str) -> None:
        """Tell that the run turns to something else."""

    def warning(self, text: str) -> None:
        """Tell what a reader of the numbers has to know."""

    def measuring(self, trials: int, planned_s: float, measures: Sequence[Measure]) -> None:
        """Tell that so many trials begin now, how long they will take by plan, and what they give.

        The leading one of ``measures`` that a trial has is its result in short.
        """

    def trial_started(self, planned: PlannedTrial) -> None:
        """Tell that a trial begins."""

    def trial_spared(self, planned: PlannedTrial) -> None:
        """Tell that a trial is not run, for its cell is known."""

    def rate(self, planned: PlannedTrial, bits_per_second: float) -> None:
        """Tell the latest rate of a trial that runs."""

    def round_trip(self, planned: PlannedTrial, us: float) -> None:
        """Tell the latest median round trip of a trial that runs, in microseconds."""

    def trial_ended(self, trial: Trial) -> None:
        """Tell that a trial has ended, well or not."""


_TOLD = {name for name in vars(Observer) if not name.startswith("_")}
