"""Which parts of a trial have shown enough, and are to be stopped before their time is over."""

from __future__ import annotations

from collections.abc import Sequence

from osmef.agent.messages import IntervalEvent
from osmef.workloads.tasks import Task

_LOOK_EVERY_S = 0.5
"""Of what is measured: a look takes the longer, the longer that is."""


class Proofs:
    """Told each interval; tells once which tasks are to be stopped: when all pairs have enough."""

    def __init__(self, groups: Sequence[Sequence[Sequence[Task]]]) -> None:
        self._pair = {
            task: number
            for number, pair in enumerate(groups)
            for group in pair
            for task in group
            if task.part.enough is not None
        }
        self._senders: dict[Task, None] = {}
        self._lengths: dict[Task, list[float]] = {}
        self._sizes: dict[Task, list[int]] = {}
        self._looked: dict[Task, float] = {}
        self._missing = set(self._pair.values())
        self._stopped = False

    def take(self, task: Task, event: IntervalEvent) -> list[Task]:
        """Take an interval in, and return the sending tasks that are to be stopped now."""
        if task not in self._pair or self._stopped:
            return []
        if event.role == "sender":
            self._senders[task] = None
        else:
            self._keep(task, event)
        if self._missing or not self._senders:
            return []
        self._stopped = True
        return list(self._senders)

    def _keep(self, task: Task, event: IntervalEvent) -> None:
        lengths, sizes = self._lengths.setdefault(task, []), self._sizes.setdefault(task, [])
        lengths.append(event.length_s)
        sizes.append(sum(event.bytes))
        end_s, pair = event.start_s + event.length_s, self._pair[task]
        due_s = self._looked.get(task, 0.0) + _LOOK_EVERY_S * (1 - 1e-3)
        enough = task.part.enough
        if pair not in self._missing or end_s < due_s or enough is None:
            return
        self._looked[task] = end_s
        if enough(pair, lengths, sizes):
            self._missing.discard(pair)
