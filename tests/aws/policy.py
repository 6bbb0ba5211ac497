"""The policy that the documentation tells to apply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PATH = Path(__file__).parents[2] / "docs" / "policies" / "aws.json"


def statements() -> list[dict[str, Any]]:
    """Return the statements of the policy, each with a list of actions."""
    policy = json.loads(PATH.read_text())
    return [{**one, "Action": _list(one["Action"])} for one in policy["Statement"]]


def _list(actions: str | list[str]) -> list[str]:
    return [actions] if isinstance(actions, str) else actions


def allowed() -> set[str]:
    """Return the actions that it allows."""
    return {action for one in statements() for action in one["Action"]}
