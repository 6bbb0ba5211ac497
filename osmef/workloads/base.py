"""What a workload is: it runs once between two agents and returns what was measured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from osmef.agent.client import AgentClient
from osmef.results.trial import Interval, Transfer


@dataclass(frozen=True)
class Job:
    """One trial, as a workload sees it.

    ``address`` is where the receiver is measured from the sender. ``progress`` is called with the
    latest rate in bits per second; ``check`` is called often and raises when the run has to stop.
    """

    trial: int
    sender: AgentClient
    receiver: AgentClient
    address: str
    progress: Callable[[float], None] = field(default=lambda _bps: None)
    check: Callable[[], None] = field(default=lambda: None)


@dataclass(frozen=True)
class Outcome:
    """What a trial gave: its metrics by name, what both ends saw, and the time series."""

    metrics: dict[str, float | None]
    transfer: Transfer | None = None
    intervals: list[Interval] = field(default_factory=list)


class Workload(ABC):
    """What is run between two endpoints, with its settings.

    ``metrics`` names the numbers that every trial of it gives, with their units.
    """

    metrics: tuple[str, ...]

    @property
    @abstractmethod
    def duration_s(self) -> float:
        """How long one trial measures, in seconds."""

    @abstractmethod
    def run(self, job: Job) -> Outcome:
        """Run once. Raises AgentError; the agents are ready for the next job then, or gone."""
