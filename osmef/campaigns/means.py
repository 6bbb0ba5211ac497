"""What a conductor works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from osmef.campaigns.clock import Clock
from osmef.campaigns.executor import Executor, Measure
from osmef.campaigns.keeper import Keeper

Tell = Callable[[str, str], None]
"""Told what happens: a kind (start, end, failure, gap, missed, budget, note) and a line."""


@dataclass(frozen=True)
class Means:
    """What a conductor works with. ``holder`` names it; ``measure`` runs a session.

    ``halt`` ends a session that is ours no more, by its number, where that can be done. With
    ``until_idle`` the conductor leaves while no window is open or opens soon. ``keeper`` has the
    VMs that are kept, where that can be done. A cloud that others measure is looked at again after
    ``again``.
    """

    holder: str
    clock: Clock
    executor: Executor
    measure: Measure
    tell: Tell
    halt: Callable[[int], None] = lambda _session: None
    until_idle: bool = False
    keeper: Keeper | None = None
    again: timedelta = timedelta(seconds=2)
