"""``python -m tests.bench.openstack``: making and deleting pairs on an OpenStack.

The provider against the plain loop of the SDK, which makes the same things with the same calls one
after the other. It needs a cloud of the tests (``make openstack-cloud``) and its clouds.yaml as
OS_CLIENT_CONFIG_FILE.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openstack

from osmef.providers.base import EndpointRequest, Order, Resource
from osmef.providers.openstack.access import open_cloud
from osmef.providers.openstack.building import Build
from osmef.providers.openstack.making import Maker
from osmef.providers.openstack.marks import Mark
from osmef.providers.openstack.networks import rules_for, source_address
from osmef.providers.openstack.removal import remove
from osmef.providers.openstack.tenants import Tenant
from osmef.remote.keys import KeyPair
from osmef.scenario.clouds.openstack import BootSource, OpenStackSettings
from osmef.scenario.fields import EndpointKind
from tests.openstack.calls import recorded
from tests.openstack.cloud import Cloud

CLOUD, FLAVOR, IMAGE, OUTSIDE, CIDR = "alice", "m1.tiny", "guest", "ext", "10.99.0.0/24"
RUN = "bench-20260101T000000Z-0000"


class NoLedger:
    """The disk is not what is measured."""

    def intend(self, resource: Resource) -> None: ...

    def created(self, resource: Resource) -> None: ...

    def destroyed(self, resource: Resource) -> None: ...


@dataclass(frozen=True)
class Times:
    """Wall time, and calls to the APIs by method."""

    make_s: float
    delete_s: float
    calls: Counter[str]


def requests_of(pairs: int) -> list[EndpointRequest]:
    """Return the servers of so many pairs, each of which stands on one host."""
    return [
        EndpointRequest(
            f"{end}-{n}", end, EndpointKind.VM, FLAVOR, f"host-{2 * n}", "tenant-1", lane=n
        )
        for n in range(1, pairs + 1)
        for end in ("sender", "receiver")
    ]


def with_provider(pairs: int) -> None:
    """Make and delete pairs as a run does, all but SSH."""
    key = KeyPair.generate("bench")
    order = Order(RUN, requests_of(pairs), key, NoLedger(), time.time() + 3600)
    maker = Maker(Mark.of(order), order.ledger)
    tenant = Tenant("tenant-1", 1, "bench", open_cloud({"cloud": CLOUD}))
    boot = BootSource(image=IMAGE)
    settings = OpenStackSettings.model_validate(
        {"cloud": CLOUD, "boot": boot, "boot_timeout": "1h"}
    )
    build = Build(settings, order, maker, [tenant])
    try:
        build.prepare()
        build.stand_up(order.requests)
        MADE.append(time.monotonic())
    finally:
        remove(list(maker.made), lambda _resource: None)


def with_sdk(pairs: int) -> None:
    """Make and delete the same as a plain program does that asks for one thing after the other."""
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
                made = compute.create_server(
                    name=f"bench-{pair}-{end}",
                    flavor_id=flavor.id,
                    image_id=image.id,
                    networks=[{"uuid": lan.id}],
                    security_groups=[{"name": group.id}],
                    key_name=keypair.name,
                    scheduler_hints={"group": groups[-1].id},
                )
                servers.append(compute.wait_for_server(made, interval=1, wait=600))
                port = next(iter(network.ports(device_id=made.id)))
                floating.append(network.create_ip(floating_network_id=outside.id, port_id=port.id))
        address = source_address(str(floating[0].floating_ip_address))
        for rule in rules_for({f"{address}/32"}, []):
            network.create_security_group_rule(**rule.attributes(group.id))
        MADE.append(time.monotonic())
        for ip in floating:
            network.delete_ip(ip)
        for server in servers:
            compute.delete_server(server)
            compute.wait_for_delete(server, interval=1, wait=600)
        for server_group in groups:
            compute.delete_server_group(server_group)
        network.remove_interface_from_router(router, subnet.id)
        network.delete_router(router)
        network.delete_network(lan)
        network.delete_security_group(group)
        compute.delete_keypair(keypair)


MADE: list[float] = []


def measure(cloud: Cloud, work: Any, pairs: int) -> Times:
    """Run one of them, and count its calls."""
    with recorded(cloud) as calls:
        began = time.monotonic()
        work(pairs)
        ended = time.monotonic()
    made = MADE.pop()
    return Times(made - began, ended - made, Counter(call.method for call in calls))


def raise_quotas(pairs: int) -> None:
    """Let the project have so many pairs."""
    with openstack.connect(cloud="admin") as admin:
        project = admin.identity.find_project("alpha", ignore_missing=False)  # type: ignore[union-attr]
        room = 2 * pairs + 10
        admin.compute.update_quota_set(
            project, instances=room, cores=room, ram=-1, server_groups=room
        )
        admin.network.update_quota(project.id, floatingip=room, port=2 * room)


def main() -> int:
    """Measure both, and print what came out as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.openstack", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="state folder of the cloud")
    parser.add_argument("--pairs", type=int, default=50)
    arguments = parser.parse_args()
    cloud, pairs = Cloud(arguments.state), arguments.pairs
    raise_quotas(pairs)
    found = {w.__name__: measure(cloud, w, pairs) for w in (with_provider, with_sdk)}
    total = {name: times.make_s + times.delete_s for name, times in found.items()}
    told: dict[str, Any] = {
        name: {
            "make_s": round(times.make_s, 1),
            "delete_s": round(times.delete_s, 1),
            "calls": dict(times.calls),
            "calls_per_pair": round(times.calls.total() / pairs, 1),
        }
        for name, times in found.items()
    }
    ratio = total["with_provider"] / total["with_sdk"]
    told |= {"pairs": pairs, "ratio": round(ratio, 3)}
    sys.stdout.write(json.dumps(told, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
