"""Pairs of servers on an OpenStack, made and deleted in two ways."""

from __future__ import annotations

import time
from collections.abc import Callable

import openstack

from osmef.providers.base import EndpointRequest, Resource, RunContext
from osmef.providers.cloud.account import Tenant
from osmef.providers.openstack.access import open_cloud
from osmef.providers.openstack.network import source_address
from osmef.providers.openstack.provider import OpenStackProvider, Provisioner
from osmef.providers.openstack.resource_types import TYPES, Maker, Mark, rules_for
from osmef.remote.login import KeyPair
from osmef.scenario.clouds.openstack import BootSource, OpenStackSettings
from osmef.scenario.fields import EndpointKind

CLOUD, FLAVOR, IMAGE, OUTSIDE, CIDR = "alice", "m1.tiny", "guest", "ext", "10.99.0.0/24"
RUN = "bench-20260101T000000Z-0000"
TIMEOUT_S = 600
Made = Callable[[], None]


class NoLedger:
    """The disk is not what is measured."""

    def intend(self, resource: Resource) -> None: ...

    def created(self, resource: Resource) -> None: ...

    def destroyed(self, resource: Resource) -> None: ...


def requests_of(pairs: int) -> list[EndpointRequest]:
    """Return the servers of so many pairs, each of which stands on one host."""
    return [
        EndpointRequest(
            f"{end}-{n}", end, EndpointKind.VM, FLAVOR, f"host-{2 * n}", "tenant-1", lane=n
        )
        for n in range(1, pairs + 1)
        for end in ("sender", "receiver")
    ]


def with_provider(pairs: int, made: Made) -> None:
    """Make and delete pairs as a run does, all but SSH."""
    key = KeyPair.generate("bench")
    context = RunContext(RUN, requests_of(pairs), key, NoLedger(), time.time() + 3600)
    maker = Maker(Mark.of(context), context.ledger, TYPES)
    tenant = Tenant("tenant-1", 1, "bench", open_cloud({"cloud": CLOUD}))
    boot = BootSource(image=IMAGE)
    settings = OpenStackSettings.model_validate(
        {"cloud": CLOUD, "boot": boot, "boot_timeout": "1h"}
    )
    provisioner = Provisioner(settings, context, maker, [tenant], lambda _some: None)
    try:
        provisioner.create_all()
        made()
    finally:
        OpenStackProvider.tear_down(list(maker.made), lambda _resource: None)


def with_sdk(pairs: int, made: Made) -> None:
    """Make and delete the same as a plain program does, one thing after the other.

    It waits for each server as the SDK does unless it is told otherwise: a look every two seconds.
    """
    with openstack.connect(cloud=CLOUD) as api:
        network, compute = api.network, api.compute
        flavor = compute.find_flavor(FLAVOR, ignore_missing=False)
        image = api.image.find_image(IMAGE, ignore_missing=False)
        outside = network.find_network(OUTSIDE, ignore_missing=False)
        keypair = compute.create_keypair(name="bench", public_key=KeyPair.generate("b").public)
        group = network.create_security_group(name="bench")
        lan = network.create_network(name="bench")
        subnet = network.create_subnet(network_id=lan.id, ip_version=4, cidr=CIDR)
        gateway = {"network_id": outside.id}
        router = network.create_router(name="bench", external_gateway_info=gateway)
        network.add_interface_to_router(router, subnet.id)
        groups, servers, floating = [], [], []
        for pair in range(pairs):
            groups.append(compute.create_server_group(name=f"b{pair}", policy="affinity"))
            for end in range(2):
                server = compute.create_server(
                    name=f"bench-{pair}-{end}",
                    flavor_id=flavor.id,
                    image_id=image.id,
                    networks=[{"uuid": lan.id}],
                    security_groups=[{"name": group.id}],
                    key_name=keypair.name,
                    scheduler_hints={"group": groups[-1].id},
                )
                servers.append(compute.wait_for_server(server, wait=TIMEOUT_S))
                port = next(iter(network.ports(device_id=server.id)))
                floating.append(network.create_ip(floating_network_id=outside.id, port_id=port.id))
        address = source_address(str(floating[0].floating_ip_address))
        for rule in rules_for({f"{address}/32"}, []):
            network.create_security_group_rule(**rule.attributes(group.id))
        made()
        for ip in floating:
            network.delete_ip(ip)
        for server in servers:
            compute.delete_server(server)
            compute.wait_for_delete(server, wait=TIMEOUT_S)
        for server_group in groups:
            compute.delete_server_group(server_group)
        network.remove_interface_from_router(router, subnet.id)
        network.delete_router(router)
        network.delete_network(lan)
        network.delete_security_group(group)
        compute.delete_keypair(keypair)
