"""Sequential stopping rule of ``repeat: {until: ...}``: cells that need no more trials."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from osmef.analysis.quantiles import is_known
from osmef.engine.plan import Plan, PlannedTrial
from osmef.results.trial import Status, Trial
from osmef.scenario.repeat import UntilKnown
from osmef.workloads import TrialWorkload


class StoppingRule:
    """Evaluates finished trials; further trials of cells that it has ended are skipped.

    It holds the values of the one metric that the rule is about, so that a run that goes on, and
    the summary, come to the same from the trials that are recorded.
    """

    def __init__(self, plan: Plan, trials: Iterable[Trial] = ()) -> None:
        rule = plan.study.scenario.repeat
        self._rule = rule if isinstance(rule, UntilKnown) else None
        self._metrics = {
            planned.cell.key: rule.metric or TrialWorkload(planned.cell.scenario).measures[0].name
            for planned in plan.cells
            if isinstance(rule, UntilKnown)
        }
        self._values: dict[str, dict[int, float]] = defaultdict(dict)
        self._known: dict[str, bool] = {}
        for trial in trials:
            self.add(trial)

    def add(self, trial: Trial) -> None:
        """Add a trial; the latest of an index counts."""
        if self._rule is None:
            return
        value = trial.metrics.get(self._metrics.get(trial.cell, ""))
        if trial.status is Status.OK and value is not None:
            self._values[trial.cell][trial.index] = value
            self._known.pop(trial.cell, None)

    def spares(self, planned: PlannedTrial) -> bool:
        """Return whether a trial is skipped, as its cell has ended."""
        key = planned.cell.cell.key
        if self._rule is None:
            return False
        if key not in self._known:
            values = list(self._values[key].values())
            enough = len(values) >= self._rule.least
            self._known[key] = enough and is_known(values, 2 * self._rule.until)
        return self._known[key]
