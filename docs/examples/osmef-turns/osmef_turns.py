"""Turns as a workload of OSMeF: how often two endpoints take turns on a TCP connection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from osmef.agent.messages import ExchangeResult
from osmef.errors import AgentError
from osmef.results.measure import Better, Measure, OverPairs
from osmef.results.observations import Purpose
from osmef.scenario.fields import Duration, Size
from osmef.scenario.workload import WorkloadSettings
from osmef.workloads.base import Outcome, Part, PartResult, Step, Workload
from pydantic import Field


class TurnsSettings(WorkloadSettings):
    """Turns: requests and answers, one after the other on one TCP connection."""

    kind: Literal["turns"] = Field(default="turns", description="the kind of workload")
    duration: Duration = Field(default=10.0, ge=0.1, le=86400, description="how long it runs")
    size: Size = Field(default=1, ge=1, le=2**30, description="of a request, and of its answer")


class Turns(Workload[TurnsSettings]):
    """The sender asks, and the receiver answers."""

    Settings = TurnsSettings
    measures = (
        Measure(
            name="turns_per_s", unit="1/s", better=Better.HIGHER, label="turns",
            head="turns\n/s", digits=".0f", over_pairs=OverPairs.SUM, leading=True,
            source="this package",
            help="answers divided by the time that they took, summed over the pairs",
        ),
    )  # fmt: skip

    def parts(self) -> tuple[Part, ...]:
        """Return the agents' exchange: the receiver listens, and the sender connects."""
        s = self._settings
        sizes = {"request_size": s.size, "response_size": s.size}
        parameters = {"duration_s": s.duration, **sizes}
        answer = Step("receiver", "exchange", parameters, connections=1, listens=True)
        ask = Step("sender", "exchange", parameters, connections=1)
        return (Part((answer, ask), duration_s=s.duration),)

    def outcome(
        self, trial: int, purpose: Purpose, pairs: Sequence[Sequence[PartResult]]
    ) -> Outcome:
        """Return the rate of all pairs."""
        rates = [_rate(ran) for (ran,) in pairs]
        return Outcome({"turns_per_s": math.fsum(rates)})


def _rate(ran: PartResult) -> float:
    """Return answers per second of one pair. Raises AgentError."""
    _, asked = ran.results
    if not isinstance(asked, ExchangeResult) or asked.elapsed_s <= 0:
        raise AgentError("the agent did not report how long it asked", where=ran.sender)
    return asked.count / asked.elapsed_s
