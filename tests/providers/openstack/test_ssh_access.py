"""When servers need floating addresses, and which rules."""

from __future__ import annotations

from typing import Any

import pytest

from osmef.providers.base import EndpointRequest, RunContext
from osmef.providers.cloud.account import Tenant
from osmef.providers.openstack.lookup import (
    FlavorInfo,
    ResolvedBootSource,
    ResolvedNames,
    needs_floating,
)
from osmef.providers.openstack.network import TenantNet
from osmef.providers.openstack.placement import VmPlacement
from osmef.providers.openstack.provider import Provisioner
from osmef.providers.openstack.resource_types import TYPES, Maker, Mark
from osmef.providers.openstack.servers import Server, ServerSpec
from osmef.remote.login import KeyPair
from osmef.scenario.clouds.openstack import OpenStackSettings
from osmef.scenario.fields import EndpointKind
from tests.providers.conftest import MemoryLedger

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


def test_security_groups_of_the_settings_get_no_rules_and_need_no_route() -> None:
    asked = {"boot": {"image": "i"}, **THERE, "security_groups": ["theirs"]}
    settings = OpenStackSettings.model_validate(asked)
    request = EndpointRequest("a", "sender", EndpointKind.VM, None, None, "tenant-1")
    account: Any = None
    names = ResolvedNames(ResolvedBootSource("image", "i"), {}, "net", None, ("theirs",), (), ())
    net = TenantNet(Tenant("tenant-1", 1, "one", account), names, "net", None, None, "key")
    key, ledger = KeyPair.generate("lab"), MemoryLedger()
    context = RunContext("lab-1", [request], key, ledger, 0)
    provisioner = Provisioner(
        settings, context, Maker(Mark.of(context), ledger, TYPES), [], lambda _some: None
    )
    flavor = FlavorInfo("small", 1, 512, 1, "1")
    wanted = ServerSpec(request, "osmef-a", net, key, None, flavor, VmPlacement())
    provisioner.nets = {"tenant-1": net}
    provisioner.register([Server(wanted, "s1", "not an address", "not an address")])
    assert provisioner.sources(net) == set()
