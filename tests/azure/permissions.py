"""What a request needs to be allowed, by the names of Azure's role-based access control.

Source: Microsoft's "Azure permissions" (its list of actions), and the error
LinkedAuthorizationFailed for what is only referred to.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROLE = Path(__file__).parents[2] / "docs" / "policies" / "azure-role.json"
_VERBS = {"GET": "read", "PUT": "write", "DELETE": "delete"}
_LINKED = {
    "microsoft.network/virtualnetworks/subnets": "join/action",
    "microsoft.network/networksecuritygroups": "join/action",
    "microsoft.network/publicipaddresses": "join/action",
    "microsoft.network/networkinterfaces": "join/action",
    "microsoft.compute/images": "read",
    "microsoft.compute/galleries/images/versions": "read",
}


def granted() -> set[str]:
    """Return the actions that the role of the manual allows, in lower case."""
    return {action.lower() for action in json.loads(ROLE.read_text())["Actions"]}


def action_of(method: str, path: str) -> str:
    """Return the action of a request, in lower case."""
    parts = path.strip("/").split("/")
    action = [_VERBS[method]] if method in _VERBS else [parts.pop(), "action"]
    return "/".join([type_of("/".join(parts)), *action]).lower()


def type_of(path: str) -> str:
    """Return the type of what a path leads to, in lower case."""
    parts = path.strip("/").lower().split("/")
    if "providers" not in parts:
        return "/".join(["microsoft.resources", *parts[::2]])
    provider, *rest = parts[parts.index("providers") + 1 :]
    if not rest:  # what Azure tells of a provider of resources itself
        return "microsoft.resources/subscriptions/providers"
    return "/".join([provider, *rest[::2]])


def linked_actions(path: str, body: Any) -> set[str]:
    """Return the actions that a body needs on what it refers to, in lower case."""
    found = {
        f"{kind}/{_LINKED[kind]}" for kind in map(type_of, _references(body)) if kind in _LINKED
    }
    if type_of(path) == "microsoft.compute/virtualmachines":
        found.add("microsoft.compute/disks/write")
    return found


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [one for each in value for one in _references(each)]
    if not isinstance(value, dict):
        return []
    own = [value["id"]] if str(value.get("id", "")).startswith("/") else []
    return own + _references(list(value.values()))
