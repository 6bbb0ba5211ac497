"""The Azure of the tests refuses what Microsoft's models of the API do not describe."""

from __future__ import annotations

from typing import Any

import pytest

from tests.azure.arm import REGION, SUBSCRIPTION, Answer, Arm
from tests.azure.description import operation

GROUP = f"/subscriptions/{SUBSCRIPTION}/resourcegroups/g"
ADDRESS = f"{GROUP.replace('groups', 'Groups')}/providers/Microsoft.Network/publicIPAddresses/a"
GUARD = f"{GROUP}/providers/Microsoft.Network/networkSecurityGroups/a"
SETS = f"{GROUP}/providers/Microsoft.Compute/availabilitySets/a"
RULE = {
    "priority": 100,
    "direction": "Inbound",
    "access": "Allow",
    "protocol": "Tcp",
    "destinationPortRange": "22",
    "sourceAddressPrefix": "*",
}


def put(arm: Arm, path: str, body: Any, **query: str) -> Answer:
    (one,) = (one for one, _ in arm.routes if one.method == "PUT" and one.path.fullmatch(path))
    return arm.handle("PUT", path, {"api-version": one.version, **query}, body)


@pytest.fixture
def arm() -> Arm:
    arm = Arm()
    assert put(arm, GROUP, {"location": REGION}).status == 201
    return arm


def rules(**changed: Any) -> Any:
    properties = {name: one for name, one in {**RULE, **changed}.items() if one is not None}
    rule = {"name": "x", "properties": properties}
    return {"location": REGION, "properties": {"securityRules": [rule]}}


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        (GUARD, rules(), None),
        (GUARD, rules(colour="red"), "InvalidRequestContent"),
        (GUARD, rules(provisioningState="Succeeded"), "PropertyChangeNotAllowed"),
        (GUARD, rules(priority="100"), "InvalidRequestFormat"),
        (GUARD, rules(priority=True), "InvalidRequestFormat"),
        (GUARD, rules(protocol="Sctp"), "InvalidRequestFormat"),
        (GUARD, rules(priority=None), "InvalidParameter"),
        (GUARD, {"location": REGION, "properties": {"securityRules": {}}}, "InvalidRequestFormat"),
        (SETS, {"location": REGION, "tags": {"a": "b"}}, None),
        (SETS, {"tags": {"a": "b"}}, "InvalidParameter"),
        (SETS, {"location": REGION, "tags": {"a": 1}}, "InvalidRequestFormat"),
        (ADDRESS, {"location": REGION, "sku": "Standard"}, "InvalidRequestFormat"),
        (ADDRESS, [], "InvalidRequestFormat"),
    ],
)
def test_a_request_body_is_validated_against_its_model(
    arm: Arm, path: str, body: Any, code: str | None
) -> None:
    answer = put(arm, path, body)
    if code is None:
        assert answer.status in {200, 201}
    else:
        assert (answer.status, answer.body["error"]["code"]) == (400, code)


def test_another_version_of_the_api_is_refused(arm: Arm) -> None:
    answer = put(arm, ADDRESS, {"location": REGION}, **{"api-version": "2015-01-01"})
    assert answer.body["error"]["code"] == "InvalidApiVersionParameter"


def test_a_reference_to_a_missing_resource_is_rejected(arm: Arm) -> None:
    subnet = {"name": "vms", "properties": {"networkSecurityGroup": {"id": f"{GUARD}-other"}}}
    block = {"addressSpace": {"addressPrefixes": ["10.0.0.0/20"]}, "subnets": [subnet]}
    path = f"{GROUP}/providers/Microsoft.Network/virtualNetworks/net"
    answer = put(arm, path, {"location": REGION, "properties": block})
    assert answer.body["error"]["code"] == "InvalidResourceReference"


def test_an_operation_is_known_by_path_method_and_version() -> None:
    found = operation("compute", "virtual_machines_get")
    assert (found.method, len(found.version)) == ("GET", len("2025-04-01"))
