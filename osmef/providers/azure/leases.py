"""Have Azure end VMs by the run's deadline, or within a day of when their controller was lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from osmef.errors import Interrupted, OsmefError, ProviderError
from osmef.providers.azure import failures, schedules
from osmef.providers.azure.kinds import KINDS
from osmef.providers.azure.making import Maker
from osmef.providers.azure.vms import Vm
from osmef.providers.base import Order
from osmef.providers.parallel import side_by_side

_KIND = "schedule"
RENEWED_S = 2 * 3600.0
"""How often schedules are moved on: a few times that this may fail in a row."""


class Leases:
    """The schedules of a run's VMs. Safe to use from several threads.

    A schedule can't be more than a day away. Where the deadline is, they are moved on as long as
    the controller lives, each time after ``renewed_s`` seconds.
    """

    def __init__(self, maker: Maker, order: Order, region: str, renewed_s: float) -> None:
        self._maker = maker
        self._order = order
        self._region = region
        self._renewed_s = renewed_s
        self._vms: list[Vm] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def add(self, vm: Vm) -> None:
        """Have Azure end a VM in time, where its region has that. Raises ProviderError."""
        subscription, name = vm.order.site.subscription, schedules.schedule_of(vm.order.path)
        body = schedules.body_of(vm.id, self._region, self._ends(time.time()))
        try:
            self._maker.make(subscription, _KIND, name, body)
        except ProviderError as error:
            if not failures.is_not_in_region(error.__cause__):
                raise
            self._order.progress(
                f"Azure has no schedule in {self._region} to end {vm.order.name} by"
            )
        else:
            self._vms.append(vm)

    def start(self) -> None:
        """Move them on from time to time, if the deadline is too far away for them."""
        if self._ends(time.time()) < self._order.deadline:
            self._thread.start()

    def stop(self) -> None:
        """Move them on no more."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def renew(self, now: float) -> None:
        """Move the schedules on that stand, as at a UNIX time. Raises ProviderError."""
        side_by_side(lambda vm: self._renew(vm, now), self._standing())

    def _standing(self) -> Sequence[Vm]:
        there = {one.name for one, _ in list(self._maker.made) if one.kind == _KIND}
        return [vm for vm in list(self._vms) if schedules.schedule_of(vm.order.path) in there]

    def _renew(self, vm: Vm, now: float) -> None:
        subscription, name = vm.order.site.subscription, schedules.schedule_of(vm.order.path)
        body = schedules.body_of(vm.id, self._region, self._ends(now))
        marked = {**body, "tags": self._maker.mark.tags}
        subscription.do(
            f"moving the {_KIND} {name} on",
            lambda: KINDS[_KIND].put(subscription, name, marked),
        )

    def _ends(self, now: float) -> float:
        return min(self._order.deadline, now + schedules.FARTHEST_S)

    def _keep(self) -> None:
        while not self._stopped.wait(self._renewed_s):
            try:
                self.renew(time.time())
            except Interrupted:
                return
            except OsmefError as error:
                self._order.progress(f"Azure may end VMs within a day: {error.message}")
