"""What neutron knows, told to the data plane."""

from __future__ import annotations

from ipaddress import IPv4Network

from tests.openstack.services.network import Floating, Port, Router, Rule, Told
from tests.openstack.small.tables import Row, Tables


def told_of(tables: Tables) -> Told:
    """Return all that matters for traffic."""
    prefixes = {
        key: IPv4Network(row["cidr"]).prefixlen for key, row in tables.rows["subnet"].items()
    }
    outside = {
        row["network_id"]: f"{row['gateway_ip']}/{prefixes[key]}"
        for key, row in tables.rows["subnet"].items()
        if row["router:external"]
    }
    return Told(
        outside=outside,
        ports=[
            port_of(row, prefixes[row["fixed_ips"][0]["subnet_id"]])
            for row in tables.rows["port"].values()
        ],
        rules=[_rule(row) for row in tables.rows["security_group_rule"].values()],
        routers=[_router(row, outside) for row in tables.rows["router"].values()],
        floating=[
            Floating(
                address=row["floating_ip_address"],
                fixed=row["fixed_ip_address"],
                router=row["router_id"],
            )
            for row in tables.rows["floatingip"].values()
            if row["router_id"]
        ],
    )


def port_of(row: Row, prefix: int) -> Port:
    """Return a port."""
    return Port(
        id=row["id"],
        mac=row["mac_address"],
        network=row["network_id"],
        device=row["device_id"],
        owner=row["device_owner"],
        ips=[f"{ip['ip_address']}/{prefix}" for ip in row["fixed_ips"]],
        groups=row["security_groups"],
        secured=row["port_security_enabled"],
    )


def _router(row: Row, outside: dict[str, str]) -> Router:
    network = (row["external_gateway_info"] or {}).get("network_id")
    hop = outside[network].partition("/")[0] if network else None
    return Router(id=row["id"], gateway=hop, snat=bool(hop))


def _rule(row: Row) -> Rule:
    return Rule(
        group=row["security_group_id"],
        direction=row["direction"],
        ethertype=row["ethertype"],
        protocol=row["protocol"],
        low=row["port_range_min"],
        high=row["port_range_max"],
        prefix=row["remote_ip_prefix"],
        remote_group=row["remote_group_id"],
    )
