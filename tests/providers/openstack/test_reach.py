"""When servers need floating addresses."""

from __future__ import annotations

from typing import Any

import pytest

from osmef.providers.base import EndpointRequest
from osmef.providers.openstack.reach import needs_floating
from osmef.scenario.clouds.openstack import OpenStackSettings
from osmef.scenario.fields import EndpointKind

JUMP = {"jump": "gate", "controller_cidr": "198.51.100.7/32"}
THERE = {"network": "lan"}


@pytest.mark.parametrize(
    ("settings", "tenants", "needed"),
    [
        ({}, ["tenant-1"], True),
        (THERE, ["tenant-1", "tenant-2"], False),
        (THERE | {"reach": "floating"}, ["tenant-1"], True),
        (JUMP, ["tenant-1", "tenant-1"], False),
        (JUMP, ["tenant-1", "tenant-2"], True),
        (JUMP, ["tenant-1", None], True),
        (JUMP | THERE, ["tenant-1", None], False),
    ],
)
def test_floating_addresses_are_for_ssh_other_tenants_and_physical_hosts(
    settings: dict[str, Any], tenants: list[str | None], needed: bool
) -> None:
    wanted = OpenStackSettings.model_validate({"boot": {"image": "i"}, **settings})
    requests = [
        EndpointRequest(
            str(number),
            "sender",
            EndpointKind.HOST if tenant is None else EndpointKind.VM,
            None,
            None,
            tenant,
        )
        for number, tenant in enumerate(tenants)
    ]
    assert needs_floating(wanted, requests) is needed
