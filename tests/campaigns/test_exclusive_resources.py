"""Which settings name the same thing to measure."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from osmef.campaigns.schedule.plan import exclusive_resources
from osmef.scenario.clouds.base import CloudSettings
from osmef.scenario.model import AnyProvider

AWS = {"kind": "aws", "region": "eu-central-1", "default_flavor": "c5.large"}
GCE = {"kind": "gce", "region": "europe-west3", "controller_cidr": "192.0.2.1/32"}
STACK = {"kind": "openstack", "boot": {"image": "debian"}}


def settings(value: dict[str, Any]) -> CloudSettings:
    found: CloudSettings = TypeAdapter(AnyProvider).validate_python(value)
    return found


def static(*destinations: str) -> dict[str, Any]:
    hosts = {f"h{n}": {"ssh": destination} for n, destination in enumerate(destinations)}
    return {"kind": "static", "hosts": hosts}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"kind": "local"}, {"kind": "local", "hosts": 4}),
        ({"kind": "local"}, {"kind": "libvirt", "uri": "qemu:///system"}),
        ({"kind": "libvirt", "uri": "qemu+ssh://me@lab/system"}, static("you@LAB:2222")),
        (static("a", "b"), static("me@b", "c")),
        (static("me@[2001:db8::7]"), static("[2001:db8::7]:22")),
        (AWS, {**AWS, "profile": "other", "zone": "eu-central-1a"}),
        (GCE, {**GCE, "project": "other", "zone": "europe-west3-a"}),
        ({**STACK, "cloud": "lab"}, {**STACK, "default_flavor": "small"}),  # by OS_CLOUD
    ],
)
def test_settings_of_the_same_resources_exclude_each_other(
    one: dict[str, Any], other: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_CLOUD", "lab")
    assert exclusive_resources(settings(one)) & exclusive_resources(settings(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"kind": "local"}, AWS),
        (AWS, {**AWS, "region": "eu-west-1"}),
        (AWS, {**AWS, "endpoint_url": "http://127.0.0.1:5000"}),
        (AWS, {**GCE, "region": "eu-central-1"}),
        ({**STACK, "cloud": "lab"}, {**STACK, "cloud": "other"}),
        ({**STACK, "cloud": "lab"}, {**STACK, "cloud": "lab", "region": "two"}),
        (static("a", "b"), static("c")),
        ({"kind": "local"}, {"kind": "libvirt", "uri": "qemu+ssh://me@lab/system"}),
    ],
)
def test_settings_of_other_resources_do_not_exclude_each_other(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert not exclusive_resources(settings(one)) & exclusive_resources(settings(other))


def test_a_name_of_any_length_has_room_in_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL takes no more than its column says."""
    monkeypatch.delenv("OS_CLOUD", raising=False)
    names = set()
    for end in "ab":
        monkeypatch.setenv("OS_AUTH_URL", f"https://{'x' * 3000}{end}")
        (name,) = exclusive_resources(settings(STACK))
        assert name.startswith("openstack https://x")
        assert len(name) <= 500
        names.add(name)
    assert len(names) == 2
