"""Rows of the campaigns' database: campaigns, sessions and gaps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from osmef.campaigns.process_identity import is_gone
from osmef.campaigns.schedule.calendar import platform_name

# A holder on another machine counts as gone when it has not said for so long that it lives.
LEASE = timedelta(minutes=10)


class SessionState(StrEnum):
    """State of a session."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    MISSED = "missed"
    CONVERGED = "enough"
    CANCELLED = "cancelled"


class CampaignPhase(StrEnum):
    """Phase of a campaign."""

    ACTIVE = "active"
    PAUSED = "paused"
    STOPPED = "stopped"
    ENDED = "ended"


class Refusal(StrEnum):
    """Reason for refusing a claim: session or resource claimed by another, or over budget."""

    TAKEN = "taken"
    BUSY = "busy"
    BUDGET = "budget"


@dataclass(frozen=True)
class SessionRow:
    """A row of the table of sessions. Times are in UTC.

    ``token`` counts its claims: its holder writes with that token, and is refused when another has
    begun it since. ``paid`` is the cost of its abandoned attempts, and of kept VMs while they were
    idle. ``uncleared`` names run directories that may have orphaned resources, one a line.
    ``left_out`` are the keys of the cells that were known well enough when it began, one a line.
    """

    id: int
    slot: str
    window: str
    opens: datetime
    closes: datetime
    due: datetime
    place: int
    scenario: str
    provider: str
    instance_class: str
    cloud: str
    state: SessionState
    attempts: int
    directory: str | None
    holder: str | None
    started_at: datetime | None
    ended_at: datetime | None
    trials_ok: int
    trials_failed: int
    cost: float | None
    currency: str | None
    why: str | None
    campaign: int = 0
    token: int = 0
    paid: float = 0.0
    uncleared: str | None = None
    left_out: str | None = None

    @property
    def cells_left_out(self) -> tuple[str, ...]:
        """The keys of the cells that the session skips."""
        return tuple(self.left_out.split("\n")) if self.left_out else ()

    @property
    def platform_key(self) -> tuple[str, str, str]:
        """The key of its platform, the same in every slot."""
        return (self.scenario, self.provider, self.instance_class)

    @property
    def platform(self) -> str:
        """The display name of its platform."""
        return platform_name(*self.platform_key)

    @property
    def whole_cost(self) -> float | None:
        """Its cost, with leftover resources and VMs that were kept until the next session.

        None where prices are unknown.
        """
        return None if self.cost is None and not self.paid else (self.cost or 0.0) + self.paid

    @property
    def is_retried_late(self) -> bool:
        """Whether its retry is due only once its window has closed, so that it never begins."""
        return self.due >= self.closes

    @property
    def exclusive_resources(self) -> list[str]:
        """The names of its exclusive resources, in order."""
        return self.cloud.split("\n")


@dataclass(frozen=True)
class CampaignRow:
    """A row of the table of campaigns. ``seen_at`` is the last activity of a conductor.

    ``held_until`` is the end of its holder's lease, by ``Store.time``.
    """

    id: int
    name: str
    file: str
    text: str
    out: str
    phase: CampaignPhase
    created_at: datetime
    holder: str | None
    seen_at: datetime | None = None
    held_until: datetime | None = None


def is_conducted(row: CampaignRow, now: datetime) -> bool:
    """Return whether a campaign has a living conductor; one elsewhere renews its lease.

    ``now`` is that of ``Store.time``: two machines' clocks may differ.
    """
    gone = True if row.holder is None else is_gone(row.holder)
    if gone is None:
        return row.held_until is not None and now < row.held_until
    return not gone


@dataclass(frozen=True)
class Gap:
    """A period with due sessions and no conductor."""

    since: datetime
    until: datetime
    why: str


@dataclass(frozen=True)
class ClaimTerms:
    """Terms of a claim: exclusive resources, and a budget.

    ``expected`` is what it costs by plan, in the budget's currency.
    """

    exclusive: bool = True
    budget: float | None = None
    expected: float = 0.0


@dataclass(frozen=True)
class LogLine:
    """A line of a campaign's log: its kind and text."""

    kind: str
    text: str
