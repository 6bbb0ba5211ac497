"""The API of the tests refuses what Google's own description does not allow."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gce.services.description import Description, RefusalError

INSTANCES = "/compute/v1/projects/alpha-1/zones/here-1-a/instances"
GOOD: dict[str, Any] = {
    "name": "vm-1",
    "machineType": "zones/here-1-a/machineTypes/n2-standard-4",
    "disks": [{"boot": True, "initializeParams": {"diskSizeGb": "10"}}],
    "networkInterfaces": [{"nicType": "GVNIC"}],
    "scheduling": {"maxRunDuration": {"seconds": "3600"}, "availabilityDomain": 1},
    "metadata": {"items": [{"key": "a", "value": "b"}]},
    "labels": {"osmef_run": "x"},
}


@pytest.fixture(scope="module")
def description() -> Description:
    return Description()


def test_a_valid_request_is_parsed(description: Description) -> None:
    call = description.read("POST", INSTANCES, {"requestId": "x", "$alt": "json"}, GOOD)
    assert call.id == "compute.instances.insert"
    assert (call["project"], call["zone"], call["requestId"]) == ("alpha-1", "here-1-a", "x")
    assert call.body == GOOD


@pytest.mark.parametrize(
    ("change", "reason", "said"),
    [
        ({"nmae": "x"}, "invalid", "nmae"),
        ({"scheduling": {"maxRunTime": "1"}}, "invalid", "maxRunTime"),
        ({"disks": {"boot": True}}, "invalid", "TYPE_ARRAY"),
        ({"disks": [{"boot": "yes"}]}, "invalid", "TYPE_BOOLEAN"),
        ({"disks": [{"initializeParams": {"diskSizeGb": "ten"}}]}, "invalid", "TYPE_INT64"),
        ({"scheduling": {"availabilityDomain": "1"}}, "invalid", "TYPE_INTEGER"),
        ({"networkInterfaces": [{"nicType": "FASTNIC"}]}, "invalid", "TYPE_ENUM"),
        ({"labels": {"a": 1}}, "invalid", "TYPE_STRING"),
        ({"name": "VM 1"}, "invalid", "Must be a match of regex"),
        ({"lastStartTimestamp": "now", "satisfiesPzs": True}, "invalid", "output only"),
        ({"name": None}, "required", "resource.name"),
        ({"metadata": {"items": [{"key": "a"}]}}, "required", "value"),
    ],
)
def test_a_body_that_does_not_conform_is_refused(
    description: Description, change: dict[str, Any], reason: str, said: str
) -> None:
    body = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(RefusalError) as caught:
        description.read("POST", INSTANCES, {}, body)
    assert (caught.value.status, caught.value.reason) == (400, reason)
    assert said in caught.value.message
    assert caught.value.body["error"]["errors"][0]["reason"] == reason


@pytest.mark.parametrize(
    ("verb", "path", "query", "status"),
    [
        ("PUT", INSTANCES, {}, 404),
        ("GET", "/compute/v1/projects/alpha-1/zones/here-1-a/machines", {}, 404),
        ("GET", "/compute/v2/projects/alpha-1/zones", {}, 404),
        ("GET", INSTANCES, {"page": "2"}, 400),
        ("GET", INSTANCES, {"maxResults": "all"}, 400),
        ("GET", INSTANCES, {"returnPartialSuccess": "maybe"}, 400),
        ("GET", INSTANCES, {"project": "beta-2"}, 400),
    ],
)
def test_a_call_that_does_not_conform_is_refused(
    description: Description, verb: str, path: str, query: dict[str, str], status: int
) -> None:
    with pytest.raises(RefusalError) as caught:
        description.read(verb, path, query, None)
    assert caught.value.status == status


def test_a_missing_parameter_and_a_body_too_many_are_refused(description: Description) -> None:
    node = "/compute/v1/projects/a/zones/z-1-a/nodeGroups"
    with pytest.raises(RefusalError, match="initialNodeCount"):
        description.read("POST", node, {}, {"name": "n"})
    with pytest.raises(RefusalError, match="no body"):
        description.read("DELETE", f"{INSTANCES}/vm-1", {}, {"a": 1})


def test_answers_are_compared_too(description: Description) -> None:
    description.check("Instance", {"name": "a", "satisfiesPzs": True}, "answer")
    with pytest.raises(RefusalError, match="color"):
        description.check("Instance", {"name": "a", "color": "red"}, "answer")
