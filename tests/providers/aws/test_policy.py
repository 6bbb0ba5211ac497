"""The policy of the documentation against the calls that the code makes.

What the tests' cloud sees called is compared with it in the teardown of each test that runs there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import botocore.session
from botocore import xform_name

import osmef.providers.aws
from osmef.providers.aws.resource_types import TYPES
from tests.aws.policy import PATH, allowed, statements

SERVICES = {"ec2": "ec2", "ssm": "ssm", "sts": "sts", "service-quotas": "servicequotas"}
"""The services that are used, and what policies call them."""
IMPLIED = {"ec2:CreateTags", "iam:CreateServiceLinkedRole"}
"""What Amazon asks for beside the calls: to mark what is made, and for an account's first spot."""
MOST_CHARACTERS = 6144
"""Of a managed policy, white space not counted."""


def strings() -> Iterator[str]:
    """Return each string of the provider's code."""
    for path in Path(*osmef.providers.aws.__path__).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def actions() -> Iterator[str]:
    """Return the actions on resource types, whose names the code derives from those of types."""
    for one in TYPES.values():
        yield from (one.creates, one.lists, one.deletes)


def permissions() -> set[str]:
    """Return what the actions of the code need, as policies name it."""
    session = botocore.session.get_session()
    known = {
        xform_name(action): f"{prefix}:{action}"
        for service, prefix in SERVICES.items()
        for action in session.get_service_model(service).operation_names
    }
    return {known[text] for text in (*strings(), *actions()) if text in known}


def test_the_policy_allows_what_the_code_calls_and_nothing_else() -> None:
    assert allowed() == permissions() | IMPLIED
    assert {"ec2:RunInstances", "sts:GetCallerIdentity"} <= allowed()


def test_only_what_is_marked_can_be_deleted() -> None:
    verbs = ("Delete", "Terminate", "Release", "Detach")
    deleting = [
        one for one in statements() if any(a.split(":")[1].startswith(verbs) for a in one["Action"])
    ]
    assert deleting
    for statement in deleting:
        assert statement["Condition"] == {"StringLike": {"aws:ResourceTag/osmef_run": "*"}}


def test_the_policy_is_small_enough_to_be_applied() -> None:
    assert len("".join(PATH.read_text().split())) <= MOST_CHARACTERS
