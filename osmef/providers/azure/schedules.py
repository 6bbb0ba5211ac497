"""The schedules by which Azure itself takes VMs off their hosts when nobody needs them any more.

A VM that powers itself off is billed as before; one that its schedule ends is deallocated, also
where no guest ever booted. A schedule has a time of the day and no day, so it ends a VM when that
time comes next. Source: Microsoft's "Auto-shutdown a virtual machine", and "Global
Schedules" of the REST API of DevTest Labs.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from osmef.providers.azure.access import Subscription

TYPE = "microsoft.devtestlab/schedules"
_VERSION = "2018-09-15"
_PREFIX = "shutdown-computevm-"
"""Azure takes a schedule of a VM by this name alone."""
FARTHEST_S = 23 * 3600.0
"""The time of the day of a later end might come before it; an hour is for making the schedule."""


def schedule_of(vm: str) -> str:
    """Return the name of a VM's schedule, with the group's, by that of the VM."""
    group, name = vm.split("/")
    return f"{group}/{_PREFIX}{name}"


def body_of(vm: str, region: str, ends: float) -> dict[str, Any]:
    """Return the schedule of a VM, given by its resource id, that ends it at a UNIX time."""
    minute = math.ceil(ends / 60) * 60
    time_of_day = datetime.datetime.fromtimestamp(minute, datetime.UTC)
    return {
        "location": region,
        "properties": {
            "status": "Enabled",
            "taskType": "ComputeVmShutdownTask",
            "dailyRecurrence": {"time": f"{time_of_day:%H%M}"},
            "timeZoneId": "UTC",
            "notificationSettings": {"status": "Disabled"},
            "targetResourceId": vm,
        },
    }


@dataclass(frozen=True)
class Schedules:
    """The operations on them, by the SDK's on things of any kind."""

    subscription: Subscription

    def begin_create_or_update(self, group: str, name: str, body: Mapping[str, Any]) -> Any:
        """Make one, or make it so."""
        return self.subscription.resources.resources.begin_create_or_update_by_id(
            resource_id=self._id(group, name), parameters=dict(body), api_version=_VERSION
        )

    def begin_delete(self, group: str, name: str) -> Any:
        """Delete one."""
        return self.subscription.resources.resources.begin_delete_by_id(
            resource_id=self._id(group, name), api_version=_VERSION
        )

    def _id(self, group: str, name: str) -> str:
        start = f"/subscriptions/{self.subscription.id}/resourceGroups/{group}"
        return f"{start}/providers/Microsoft.DevTestLab/schedules/{name}"
