"""What EC2 knows, told to the data plane: VPCs as routers, subnets as networks, instances."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from ipaddress import IPv4Network
from typing import Any

from tests.openstack.services.network import Floating, Port, Router, Rule, Told

OUTSIDE = "54.214.0.1"
"""This machine, as the instances see it: moto's public addresses are of 54.214.0.0/16."""
_BITS = 16


def told_of(backends: Iterable[Any]) -> Told:
    """Return all that matters for the traffic of these accounts."""
    told = Told(
        outside={"outside": f"{OUTSIDE}/{_BITS}"}, ports=[], rules=[], routers=[], floating=[]
    )
    for backend in backends:
        _add_networks(backend, told)
        for instance in running(backend):
            told["ports"].append(port_of(instance))
            if public_of(instance):
                vpc = key_of(instance.vpc_id)
                told["floating"].append(
                    Floating(address=public_of(instance), fixed=instance.private_ip, router=vpc)
                )
        for groups in list(backend.groups.values()):
            for group in list(groups.values()):
                told["rules"] += rules_of(group)
    return told


def key_of(name: str) -> str:
    """Return the part of an id that tells it from others of its kind."""
    return name.partition("-")[2]


def running(backend: Any) -> list[Any]:
    """Return the instances that run."""
    return [one for one in backend.all_instances() if one.state == "running"]


def public_of(instance: Any) -> str:
    """Return the public address of an instance, empty without one."""
    return str(instance.nics[0].public_ip or "")


def _add_networks(backend: Any, told: Told) -> None:
    for vpc in (one for one in list(backend.vpcs.values()) if not one.is_default):
        key = key_of(vpc.id)
        joined = _is_joined(backend, vpc.id)
        told["routers"].append(Router(id=key, gateway=OUTSIDE if joined else None, snat=False))
        if joined:
            own = f"54.214.{255}.{len(told['routers'])}/{_BITS}"
            told["ports"].append(_router_port(f"o{key}", key, "outside", own))
        for subnet in backend.describe_subnets(filters={"vpc-id": vpc.id}):
            block = IPv4Network(subnet.cidr_block)
            own = f"{block[1]}/{block.prefixlen}"
            told["ports"].append(_router_port(f"s{key_of(subnet.id)}", key, subnet.id, own))


def _is_joined(backend: Any, vpc: str) -> bool:
    return any(
        route.destination_cidr_block == "0.0.0.0/0" and route.gateway is not None
        for table in list(backend.route_tables.values())
        if table.vpc_id == vpc
        for route in table.routes
    )


def _router_port(key: str, router: str, network: str, own: str) -> Port:
    return Port(
        id=key,
        mac=_mac(key),
        network=network.replace("subnet-", ""),
        device=router,
        owner="network:router_gateway" if network == "outside" else "network:router_interface",
        ips=[own],
        groups=[],
        secured=False,
    )


def _mac(key: str) -> str:
    digits = key.encode().hex()[:10]
    return "02:" + ":".join(digits[n : n + 2] for n in range(0, 10, 2))


def port_of(instance: Any) -> Port:
    """Return the only port of an instance."""
    nic = instance.nics[0]
    bits = IPv4Network(nic.subnet.cidr_block).prefixlen
    return Port(
        id=key_of(nic.id),
        mac=nic.mac_address,
        network=key_of(nic.subnet.id),
        device=instance.id,
        owner="compute",
        ips=[f"{instance.private_ip}/{bits}"],
        groups=[group.id for group in nic.group_set],
        secured=True,
    )


def guest_of(instance: Any, *, stuck: bool) -> dict[str, Any]:
    """Return what the data plane wants to know of an instance to boot it."""
    subnet = IPv4Network(instance.nics[0].subnet.cidr_block)
    port = port_of(instance)
    given = base64.b64decode(str(instance.user_data or "")).decode(errors="replace")
    return {
        "id": key_of(instance.id),
        "hostname": f"ip-{instance.private_ip.replace('.', '-')}",
        "keys": [],
        "user_data": given,
        "stuck": stuck,
        "ports": [{"id": port["id"], "mtu": 1500, "gateway": str(subnet[1]), "port": port}],
    }


def rules_of(group: Any) -> list[Rule]:
    """Return the rules of a security group; what goes out is never filtered here."""
    found = [
        Rule(
            group=group.id,
            direction="ingress",
            ethertype="IPv4",
            protocol=rule.ip_protocol if rule.ip_protocol != "-1" else None,
            low=rule.from_port,
            high=rule.to_port,
            prefix=(rule.ip_range or {}).get("CidrIp"),
            remote_group=(rule.source_group or {}).get("GroupId"),
        )
        for rule in list(group.ingress_rules)
    ]
    everything = Rule(
        group=group.id,
        direction="egress",
        ethertype="IPv4",
        protocol=None,
        low=None,
        high=None,
        prefix=None,
        remote_group=None,
    )
    return [*found, everything]
