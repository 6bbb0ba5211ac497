"""The programme of a trial: what is measured, and the background beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from osmef.errors import AgentError
from osmef.results.exchange import Purpose
from osmef.scenario.model import Scenario
from osmef.scenario.pingpong import PingPongSettings
from osmef.scenario.workload import (
    BtcSettings,
    LatencySettings,
    SizeSweepSettings,
    UdpSettings,
    WorkloadSettings,
)
from osmef.workloads.base import Outcome, Part, Ran, Workload
from osmef.workloads.btc import BulkTransfer
from osmef.workloads.ensemble import Job, perform
from osmef.workloads.latency import Latency
from osmef.workloads.pingpong import PingPong
from osmef.workloads.sizes import SizeSweep
from osmef.workloads.udp import UdpFlows

BACKGROUND = "background_"
"""What the names of a background's metrics begin with."""


def workload_for(settings: WorkloadSettings, *, background: bool) -> Workload:
    """Return the workload that the settings describe, to run beside a background or without."""
    match settings:
        case BtcSettings():
            return BulkTransfer(settings)
        case LatencySettings():
            return Latency(settings, background=background)
        case SizeSweepSettings():
            return SizeSweep(settings)
        case UdpSettings():
            return UdpFlows(settings)
        case PingPongSettings():
            return PingPong(settings)
        case _:
            assert_never(settings)


class Programme:
    """All that runs between every pair in one trial of a scenario.

    First the measured parts that want no background, if there is one; then the background, and
    ``lead`` later the other measured parts. The background goes on for as long after them.
    """

    def __init__(self, scenario: Scenario) -> None:
        beside = scenario.background
        self._measured = workload_for(scenario.workload, background=beside is not None)
        self._parts = [(self._measured, part) for part in self._measured.parts()]
        self._background: Workload | None = None
        if beside is not None:
            alone = [_end(part) for _, part in self._parts if not part.loaded]
            begin = max(alone, default=0.0)
            loaded = max((_end(part) for _, part in self._parts if part.loaded), default=0.0)
            self._parts = [
                (workload, _later(part, begin + scenario.lead) if part.loaded else part)
                for workload, part in self._parts
            ]
            lasting = beside.model_copy(update={"duration": loaded + 2 * scenario.lead})
            self._background = workload_for(lasting, background=False)
            self._parts += [
                (self._background, replace(_later(part, begin), purpose=Purpose.BACKGROUND))
                for part in self._background.parts()
            ]

    @property
    def duration_s(self) -> float:
        """How long one trial runs from its start, in seconds."""
        return max(_end(part) for _, part in self._parts)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The numbers that every trial gives, those of the background with its prefix."""
        beside = self._background.metrics if self._background else ()
        return (*self._measured.metrics, *(f"{BACKGROUND}{name}" for name in beside))

    def run(self, job: Job) -> Outcome:
        """Run once. Raises AgentError, ReachError; every agent is idle then, or gone."""
        done = perform(job, [part for _, part in self._parts])
        outcome = self._outcome(self._measured, job.trial, Purpose.MEASURED, done.ran)
        intervals = [i for pair in done.ran for ran in pair for i in ran.intervals]
        outcome = replace(outcome, intervals=intervals, start_spread_s=done.start_spread_s)
        if self._background is None:
            return outcome
        beside = self._outcome(self._background, job.trial, Purpose.BACKGROUND, done.ran)
        named = {f"{BACKGROUND}{name}": value for name, value in beside.metrics.items()}
        return replace(
            outcome,
            metrics={**outcome.metrics, **named},
            transfers=outcome.transfers + beside.transfers,
            exchanges=outcome.exchanges + beside.exchanges,
            sizes=outcome.sizes + beside.sizes,
            requests=outcome.requests + beside.requests,
            datagrams=outcome.datagrams + beside.datagrams,
        )

    def _outcome(
        self, workload: Workload, trial: int, purpose: Purpose, ran: Sequence[Sequence[Ran]]
    ) -> Outcome:
        its_own = [
            [one for (owner, _), one in zip(self._parts, pair, strict=True) if owner is workload]
            for pair in ran
        ]
        try:
            outcome = workload.outcome(trial, purpose, its_own)
            _check_finite(outcome)
        except (ArithmeticError, LookupError, ValueError) as error:
            names = {name for pair in ran for one in pair for name in (one.sender, one.receiver)}
            raise AgentError(
                f"no numbers can be made of what the agents told: {error!r:.200}",
                where=" and ".join(sorted(names)),
                cure="use the agent that belongs to this version of osmef",
            ) from error
        return outcome


def _check_finite(outcome: Outcome) -> None:
    for name, value in outcome.metrics.items():
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{name} is {value}")


def _end(part: Part) -> float:
    return part.delay_s + part.duration_s


def _later(part: Part, seconds: float) -> Part:
    return replace(part, delay_s=part.delay_s + seconds)
