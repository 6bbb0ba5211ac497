"""The schedules that end VMs, as Microsoft's reference describes them.

No package of the SDK that is used here has them: "Global Schedules" of the REST API of DevTest
Labs, version 2018-09-15, and its list of what a schedule of a VM must be.
"""

from __future__ import annotations

import re
from typing import Any

VERSION = "2018-09-15"
PATH = (
    "/subscriptions/{subscriptionId}/resourceGroups/{resourceGroupName}"
    "/providers/Microsoft.DevTestLab/schedules/{name}"
)
OPERATIONS = {
    "schedules_create_or_update": ("PUT", (200, 201)),
    "schedules_get": ("GET", (200,)),
    "schedules_delete": ("DELETE", (200, 204)),
}
FIELDS: dict[str, Any] = {
    "location": str,
    "tags": dict,
    "properties": {
        "status": re.compile("Enabled|Disabled"),
        "taskType": re.compile("ComputeVmShutdownTask"),
        "dailyRecurrence": {"time": re.compile("([01][0-9]|2[0-3])[0-5][0-9]")},
        "timeZoneId": re.compile("UTC"),
        "targetResourceId": re.compile("/subscriptions/.*/virtualMachines/[^/]+", re.IGNORECASE),
        "notificationSettings": {"status": re.compile("Enabled|Disabled"), "timeInMinutes": int},
    },
}
REQUIRED = {"status", "taskType", "dailyRecurrence", "timeZoneId", "targetResourceId", "time"}


def wrong(value: Any, fields: Any = FIELDS, where: str = "schedule") -> str | None:
    """Return where a body is not as the reference says, None if it is."""
    if isinstance(fields, re.Pattern):
        return None if isinstance(value, str) and fields.fullmatch(value) else where
    if isinstance(fields, type):
        return None if isinstance(value, fields) else where
    if not isinstance(value, dict):
        return where
    missing = [name for name in fields if name in REQUIRED and name not in value]
    unknown = [name for name in value if name not in fields]
    told = (wrong(one, fields[n], f"{where}.{n}") for n, one in value.items() if n in fields)
    return next((f"{where}.{n}" for n in missing + unknown), next(filter(None, told), None))
