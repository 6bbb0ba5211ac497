"""Dependencies that are injected into a conductor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from osmef.campaigns.executors.threads import Executor, Measure
from osmef.campaigns.schedule.clock import Clock
from osmef.campaigns.vm_pool.pool import VmPool
from osmef.campaigns.watching.log import Tell


@dataclass(frozen=True)
class ConductorContext:
    """Dependencies of a conductor. ``holder`` names it; ``measure`` runs a session.

    ``halt`` ends a session that is ours no more, by its number, where that can be done. With
    ``until_idle`` the conductor leaves while no window is open or opens soon. ``vm_pool`` has the
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
    vm_pool: VmPool | None = None
    again: timedelta = timedelta(seconds=2)
