"""What one trial runs: the workload and its background, with the metrics of both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from osmef.analysis.throughput import contention
from osmef.errors import AgentError
from osmef.kinds import LAYERS, WORKLOADS
from osmef.results.measure import Measure, merge_measures, of_background
from osmef.results.observations import Purpose
from osmef.scenario.model import Scenario
from osmef.scenario.workload import WorkloadSettings
from osmef.supply.program import Program
from osmef.workloads.base import End, Outcome, Part, PartResult, Span, Workload
from osmef.workloads.trial_runner import TrialJob, TrialResults, pause_between, run_parts

OTHERS = Measure(
    name="cpu_others_percent", unit="%", better="neither", label="CPU of others",
    over_pairs="worst",
    help="CPU time in user mode of programs that are not of the trial, in percent of all CPUs of"
    " the endpoint where it was most; what they used within the kernel is not in it",
    source="proc(5), `/proc/stat`",
)  # fmt: skip
STEAL = Measure(
    name="cpu_steal_percent", unit="%", better="neither", label="CPU steal", over_pairs="worst",
    help="CPU time that the hypervisor gave to others, in percent of all CPUs of the endpoint where"
    " it was most; `null` where the kernel does not report",
    source="proc(5), `/proc/stat`",
)  # fmt: skip
OF_MACHINES = (OTHERS, STEAL)
"""What every trial reports besides the metrics of its workload."""


def machine_metrics(ran: Iterable[PartResult]) -> dict[str, float | None]:
    """Return the metrics of the endpoints' machines in a trial."""
    results = [result for one in ran for result in one.results]
    own_s = sum(result.process.cpu_user_s for result in results)
    found = contention([result.endpoint for result in results], own_s)
    return {OTHERS.name: found.others, STEAL.name: found.steal}


def workload_for(settings: WorkloadSettings, *, background: bool) -> Workload[Any]:
    """Return the workload for settings, beside a background or without."""
    made: Workload[Any] = WORKLOADS.get(settings.kind)(settings, background=background)
    return made


def usual_measures(kind: str) -> tuple[Measure, ...]:
    """Return the measures of a kind with its default settings, without a background.

    If a setting has no default, they are those that the class declares. If settings select the
    measures, they are all that can be selected. Raises KindError.
    """
    made: type[Workload[Any]] = WORKLOADS.get(kind)
    if (every := made.every_measure()) is not None:
        return every
    try:
        usual: WorkloadSettings = WORKLOADS.settings(kind)()
    except ValidationError:
        declared: object = made.measures
        return declared if isinstance(declared, tuple) else ()  # it may be a property
    return workload_for(usual, background=False).measures


def measures_of(scenarios: Iterable[Scenario]) -> tuple[Measure, ...]:
    """Return the measures of all these scenarios, each once.

    Raises InputError where one name has two meanings.
    """
    lists: list[tuple[str, tuple[Measure, ...]]] = []
    for one in scenarios:
        lists.append((one.workload.kind, TrialWorkload(one).measures))
        lists += [(layer.kind, LAYERS.get(layer.kind).measures) for layer in one.stack]
    return tuple(merge_measures(lists).values())


class TrialWorkload:
    """The workload and the background of a scenario's trials.

    First the measured parts that run without the background, if there is one; then the background,
    and ``lead`` later the other measured parts. The background continues for ``lead`` after them.
    """

    def __init__(self, scenario: Scenario) -> None:
        beside = scenario.background
        self._measured = workload_for(scenario.workload, background=beside is not None)
        self._parts = [(self._measured, part) for part in self._measured.parts()]
        self._background: Workload[Any] | None = None
        if beside is not None:
            alone = [_end(part) for _, part in self._parts if not part.loaded]
            begin = max(alone, default=0.0)
            loaded = max((_end(part) for _, part in self._parts if part.loaded), default=0.0)
            self._parts = [
                (workload, _later(part, begin + scenario.lead) if part.loaded else part)
                for workload, part in self._parts
            ]
            lasting = beside.for_background(loaded + 2 * scenario.lead)
            self._background = workload_for(lasting, background=False)
            self._parts += [
                (self._background, replace(_later(part, begin), purpose=Purpose.BACKGROUND))
                for part in self._background.parts()
            ]

    @property
    def duration_s(self) -> float:
        """The upper bound of a trial's duration from its start, in seconds."""
        return self.span_s.most_s

    @property
    def span_s(self) -> Span:
        """The duration of a trial from its start."""
        once, further = max(_end(part) for _, part in self._parts), self._measured.further_s
        usual_s = None if further.usual_s is None else once + further.usual_s
        return Span(usual_s, once + further.most_s)

    @property
    def most_bytes(self) -> int | None:
        """The upper bound of a pair's payload in one trial; None without one."""
        beside = self._background.most_bytes if self._background else 0
        own = self._measured.most_bytes
        return None if own is None or beside is None else own + beside

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures of every trial, those of the machines last."""
        beside = self._background.measures if self._background else ()
        return (*self._measured.measures, *map(of_background, beside), *OF_MACHINES)

    def needs(self, end: End) -> tuple[Program, ...]:
        """Return the external programs of the endpoints at an end, each once."""
        beside = self._background.needs(end) if self._background else ()
        return tuple(dict.fromkeys((*self._measured.needs(end), *beside)))

    def directories(self, end: End) -> tuple[str, ...]:
        """Return the parents of programs' directories at an end, each once."""
        steps = (step for _, part in self._parts for step in part.steps if step.end == end)
        return tuple(dict.fromkeys(step.directory for step in steps if step.directory is not None))

    def run(self, job: TrialJob) -> Outcome:
        """Run a trial; every agent is idle or ended then. Raises as ``run_parts``."""
        done = self._perform(job)
        outcome = self._outcome(self._measured, job.trial, Purpose.MEASURED, done.ran)
        intervals = [i for pair in done.ran for ran in pair for i in ran.intervals]
        machines = machine_metrics(ran for pair in done.ran for ran in pair)
        outcome = replace(
            outcome,
            intervals=intervals,
            start_spread_s=done.start_spread_s,
            start_uncertainty_s=done.start_uncertainty_s,
        )
        if self._background is None:
            return replace(outcome, metrics={**outcome.metrics, **machines})
        beside = self._outcome(self._background, job.trial, Purpose.BACKGROUND, done.ran)
        names = [of_background(one).name for one in self._background.measures]
        return replace(
            outcome,
            metrics={
                **outcome.metrics,
                **dict(zip(names, beside.metrics.values(), strict=True)),
                **machines,
            },
            transfers=outcome.transfers + beside.transfers,
            exchanges=outcome.exchanges + beside.exchanges,
            sizes=outcome.sizes + beside.sizes,
            requests=outcome.requests + beside.requests,
            datagrams=outcome.datagrams + beside.datagrams,
            interfaces=outcome.interfaces or beside.interfaces,
        )

    def _owners(self, count: int) -> list[Workload[Any]]:
        """Return the workload of each part; after pauses it is the measured one."""
        owners = [owner for owner, _ in self._parts]
        return owners + [self._measured] * (count - len(owners))

    def _perform(self, job: TrialJob) -> TrialResults:
        """Run all parts, and those after pauses."""
        done = run_parts(job, [part for _, part in self._parts])
        for rest_s in self._measured.pauses:
            again = self._measured.again(done.ran)
            if not again:
                break
            pause_between(job, rest_s)
            done = done.then(run_parts(job, again))
        return done

    def _outcome(
        self,
        workload: Workload[Any],
        trial: int,
        purpose: Purpose,
        ran: Sequence[Sequence[PartResult]],
    ) -> Outcome:
        its_own = [
            [
                one
                for owner, one in zip(self._owners(len(pair)), pair, strict=True)
                if owner is workload
            ]
            for pair in ran
        ]
        try:
            outcome = _in_order(workload, workload.outcome(trial, purpose, its_own))
            _check_finite(outcome)
        except (ArithmeticError, LookupError, ValueError) as error:
            names = {name for pair in ran for one in pair for name in (one.sender, one.receiver)}
            raise AgentError(
                f"no numbers can be computed from what the agents reported: {error!r:.200}",
                where=" and ".join(sorted(names)),
                cure=WORKLOADS.cure(type(workload))
                or "use the agent that belongs to this version of osmef",
            ) from error
        return outcome


def _in_order(workload: Workload[Any], outcome: Outcome) -> Outcome:
    """Return an outcome with its metrics in the order of their measures."""
    names = [measure.name for measure in workload.measures]
    if outcome.metrics.keys() != set(names):
        odd = sorted(outcome.metrics.keys() ^ set(names))
        raise ValueError(f"declared and returned metrics differ by {', '.join(odd)}")
    return replace(outcome, metrics={name: outcome.metrics[name] for name in names})


def _check_finite(outcome: Outcome) -> None:
    for name, value in outcome.metrics.items():
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{name} is {value}")


def _end(part: Part) -> float:
    return part.delay_s + part.duration_s


def _later(part: Part, seconds: float) -> Part:
    return replace(part, delay_s=part.delay_s + seconds)
