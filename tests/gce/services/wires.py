"""What the networks and VMs of the cloud are to the data plane (tests/openstack's fabric)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network
from typing import Any

from tests.openstack.services.network import Floating, Port, Router, Rule, Told

OUTSIDE = "198.51.100.1"
EXTERNAL = "outside"
_PUBLIC = IPv4Network("198.51.100.0/24")
_ROUTERS = 200
"""The first address of the Internet that routers have; VMs have those below."""
Things = Iterable[Mapping[str, Any]]


def key(*words: str) -> str:
    """Return an id for the data plane, which looks at eleven characters of it."""
    return hashlib.sha256("/".join(words).encode()).hexdigest()[:32]


def public_address(taken: Iterable[str]) -> str:
    """Return a free address of the Internet."""
    used = set(taken)
    return next(str(a) for a in list(_PUBLIC.hosts())[9 : _ROUTERS - 1] if str(a) not in used)


def private_address(cidr: str, taken: Iterable[str]) -> str:
    """Return a free address of a subnet; Google's gateway is the first one."""
    used = set(taken)
    return next(str(a) for a in IPv4Network(cidr) if int(a) & 255 >= 2 and str(a) not in used)


def told(networks: Things, subnets: Things, firewalls: Things, vms: Things) -> Told:
    """Return all that the data plane is to know."""
    ports, routers, floating = [], [], []
    order = sorted(networks, key=lambda one: str(one["selfLink"]))
    for number, network in enumerate(order):
        router = key(network["selfLink"])
        routers.append(Router(id=router, gateway=OUTSIDE, snat=False))
        address = f"{_PUBLIC.network_address + _ROUTERS + number}/24"
        ports.append(_port(router, EXTERNAL, [address], router, "network:router_gateway"))
    for subnet in subnets:
        router, cidr = key(subnet["network"]), IPv4Network(subnet["ipCidrRange"])
        address = f"{cidr.network_address + 1}/{cidr.prefixlen}"
        wire = key(subnet["selfLink"])
        ports.append(_port(router, wire, [address], router, "network:router_interface"))
    for vm in vms:
        port = vm_port(vm, subnets)
        ports.append(port)
        interface = vm["networkInterfaces"][0]
        floating.append(
            Floating(
                address=interface["accessConfigs"][0]["natIP"],
                fixed=interface["networkIP"],
                router=key(interface["network"]),
            )
        )
    rules = [rule for firewall in firewalls for rule in _rules(firewall)]
    rules += [_rule(key(network["selfLink"]), "egress") for network in order]
    return Told(
        outside={EXTERNAL: f"{OUTSIDE}/24"},
        ports=ports,
        rules=rules,
        routers=routers,
        floating=floating,
    )


def vm_port(vm: Mapping[str, Any], subnets: Things) -> Port:
    """Return the port of a VM."""
    interface = vm["networkInterfaces"][0]
    prefix = next(
        s["ipCidrRange"].partition("/")[2]
        for s in subnets
        if s["selfLink"] == interface["subnetwork"]
    )
    addresses = [f"{interface['networkIP']}/{prefix}"]
    port = _port(vm["id"], key(interface["subnetwork"]), addresses, vm["id"], "compute")
    port["groups"] = [key(interface["network"])]
    return port


def guest(
    vm: Mapping[str, Any], network: Mapping[str, Any], subnets: Things, *, stuck: bool
) -> dict[str, Any]:
    """Return a VM as the data plane boots it."""
    items = vm["metadata"].get("items", [])
    metadata = {item["key"]: item["value"] for item in items}
    keys = [line.partition(":")[2] for line in metadata.get("ssh-keys", "").splitlines()]
    port = vm_port(vm, subnets)
    cidr = IPv4Network(port["ips"][0], strict=False)
    gateway = str(cidr.network_address + 1)
    return {
        "id": key(vm["id"]),
        "hostname": vm["name"],
        "keys": keys,
        "user_data": metadata.get("user-data", ""),
        "stuck": stuck,
        "ports": [
            {"id": port["id"], "mtu": network["mtu"], "gateway": gateway, "port": port},
        ],
    }


def host_keys(console: str) -> list[tuple[str, str]]:
    """Return the host keys that a guest told, by their kinds."""
    return re.findall(r"^(ssh-[a-z0-9]+|ecdsa-[a-z0-9-]+) (\S+)", console, re.MULTILINE)


def _port(owner_id: str, network: str, ips: list[str], device: str, owner: str) -> Port:
    id_ = key(owner_id, network)
    mac = ":".join(["02", *(id_[n : n + 2] for n in range(0, 10, 2))])
    return Port(
        id=id_,
        mac=mac,
        network=network,
        device=device,
        owner=owner,
        ips=ips,
        groups=[],
        secured=True,
    )


def _rules(firewall: Mapping[str, Any]) -> Iterable[Rule]:
    for source in firewall["sourceRanges"]:
        for allowed in firewall["allowed"]:
            for ports in allowed.get("ports", [""]):
                low, _, high = ports.partition("-")
                rule = _rule(key(firewall["network"]), "ingress")
                rule["protocol"], rule["prefix"] = allowed["IPProtocol"], source
                rule["low"] = int(low) if low else None
                rule["high"] = int(high or low) if low else None
                yield rule


def _rule(group: str, direction: str) -> Rule:
    return Rule(
        group=group,
        direction=direction,
        ethertype="IPv4",
        protocol=None,
        low=None,
        high=None,
        prefix=None,
        remote_group=None,
    )
