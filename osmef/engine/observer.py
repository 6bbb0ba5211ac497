"""Observer of a run: the command line, a log, a test; and containment of its failures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

if TYPE_CHECKING:  # the models take a while to load, and every command can be stopped
    from osmef.engine.plan import PlannedTrial
    from osmef.results.measure import Measure
    from osmef.results.trial import Trial
    from osmef.workloads.base import Span

_LOG = logging.getLogger(__name__)

Told = ParamSpec("Told")


def contain_failures(tell: Callable[Told, None]) -> Callable[Told, None]:
    """Wrap a callback so that it raises no Exception: a failure is logged."""

    @wraps(tell)
    def told(*args: Told.args, **kwargs: Told.kwargs) -> None:
        try:
            tell(*args, **kwargs)
        except Exception:  # whatever it is, the work goes on
            _LOG.warning("progress could not be reported", exc_info=True)

    return told


class Observer:
    """Observer of a run, called from any thread; this one ignores all events. Never raises."""

    def __init_subclass__(cls) -> None:
        """Contain the failures of a subclass's methods."""
        super().__init_subclass__()
        for name in _TOLD & vars(cls).keys():
            setattr(cls, name, contain_failures(getattr(cls, name)))

    def step(self, text: str) -> None:
        """Note that the run begins its next step."""

    def warning(self, text: str) -> None:
        """Note a warning for the summary."""

    def measuring(self, trials: int, planned: Span, measures: Sequence[Measure]) -> None:
        """Note that the trials begin: their number, planned length, and measures.

        The leading one of ``measures`` that a trial has is its result in short.
        """

    def trial_started(self, planned: PlannedTrial) -> None:
        """Note that a trial begins."""

    def trial_spared(self, planned: PlannedTrial) -> None:
        """Note that a trial is skipped, as the stopping rule has ended its cell."""

    def rate(self, planned: PlannedTrial, bits_per_second: float) -> None:
        """Note the latest rate of a running trial."""

    def round_trip(self, planned: PlannedTrial, us: float) -> None:
        """Note the latest median round trip of a running trial, in microseconds."""

    def request_rate(self, planned: PlannedTrial, per_second: float) -> None:
        """Note the requests a second of a running trial so far."""

    def trial_ended(self, trial: Trial) -> None:
        """Note that a trial has ended, successfully or not."""


_TOLD = {name for name in vars(Observer) if not name.startswith("_")}
