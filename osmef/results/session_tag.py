"""In which session of which campaign something was measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SessionTag:
    """A session of a campaign: its time slot, the window that was open, and what was measured.

    All are None without a campaign.
    """

    session: str | None = None
    window: str | None = None
    platform: str | None = None
