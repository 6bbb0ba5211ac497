"""The part of the tour that is neutron's."""

from __future__ import annotations

from typing import Any

from tests.openstack.small.talk import Talk

NOWHERE = "00000000-0000-4000-8000-000000000000"
NETWORKS, SUBNETS = "network /v2.0/networks", "network /v2.0/subnets"
PORTS, ROUTERS = "network /v2.0/ports", "network /v2.0/routers"
ADDRESSES = "network /v2.0/floatingips"
GROUPS, RULES = "network /v2.0/security-groups", "network /v2.0/security-group-rules"
Body = dict[str, Any]


class Networks:
    """Networks, groups and routers; their ids are kept with those of the talk."""

    def __init__(self, talk: Talk) -> None:
        self.talk, self.ids = talk, talk.ids

    def go(self) -> None:
        talk, ids = self.talk, self.ids
        talk("network: versions", None, "GET", "network /")
        there = talk("network: networks", "alice", "GET", NETWORKS)["networks"]
        ids["ext"] = next(one["id"] for one in there if one["router:external"])
        talk("network: networks for an administrator", "admin", "GET", NETWORKS)
        outside = f"{NETWORKS}/{ids['ext']}"
        talk("network: a network", "alice", "GET", outside)
        talk("network: subnets", "alice", "GET", f"{SUBNETS}?ip_version=4")
        quotas = f"network /v2.0/quotas/{ids['project alice']}"
        talk("network: quotas", "alice", "GET", f"{quotas}/details")
        talk("network: usual quotas", "alice", "GET", f"{quotas}/default")
        talk("network: no token", None, "GET", NETWORKS)
        body: Body = {"network": {"name": "tour", "description": "d"}}
        made = talk("network: making a network", "alice", "POST", NETWORKS, body)
        ids["net"] = made["network"]["id"]
        subnet: Body = {
            "network_id": ids["net"],
            "name": "tour",
            "ip_version": 4,
            "cidr": "10.9.0.0/24",
        }
        body = {"subnet": {**subnet, "description": "d"}}
        made = talk("network: making a subnet", "alice", "POST", SUBNETS, body)
        ids["subnet"] = made["subnet"]["id"]
        talk("network: a subnet that overlaps", "alice", "POST", SUBNETS, body)
        body = {"subnet": {**subnet, "network_id": NOWHERE}}
        talk("network: a subnet of nothing", "alice", "POST", SUBNETS, body)
        ours = f"project_id={ids['project alice']}"
        talk("network: our networks", "alice", "GET", f"{NETWORKS}?{ours}")
        some = f"{SUBNETS}?fields=id&fields=cidr&name=tour"
        talk("network: some of a subnet", "alice", "GET", some)
        named = f"{NETWORKS}?name=tour"
        talk("network: one a page", "alice", "GET", f"{named}&limit=1")
        after = f"{named}&marker={ids['net']}&limit=5"
        talk("network: the next page", "alice", "GET", after)
        talk("network: not for others", "bob", "GET", f"{NETWORKS}/{ids['net']}")
        self.security()
        self.router()

    def security(self) -> None:
        talk, ids = self.talk, self.ids
        ours = f"{GROUPS}?project_id={ids['project alice']}"
        talk("network: groups", "alice", "GET", ours)
        body: Body = {"security_group": {"name": "tour", "description": "d"}}
        made = talk("network: making a group", "alice", "POST", GROUPS, body)
        ids["security"] = made["security_group"]["id"]
        some = "fields=id&fields=name&fields=description"
        talk("network: some of the groups", "alice", "GET", f"{ours}&{some}")
        rule: Body = {
            "direction": "ingress",
            "ethertype": "IPv4",
            "security_group_id": ids["security"],
        }
        ssh = {**rule, "protocol": "tcp", "port_range_min": 22, "port_range_max": 22}
        inner = {**ssh, "remote_group_id": ids["security"], "protocol": "udp"}
        both = {"security_group_rules": [{**ssh, "remote_ip_prefix": "198.51.100.1/32"}, inner]}
        made = talk("network: making rules", "alice", "POST", RULES, both)
        talk("network: making rules twice", "alice", "POST", RULES, both)
        body = {"security_group_rule": {**ssh, "remote_ip_prefix": "198.51.100.0/24"}}
        talk("network: making a rule", "alice", "POST", RULES, body)
        none = {"security_group_rule": {**ssh, "security_group_id": NOWHERE}}
        talk("network: a rule of nothing", "alice", "POST", RULES, none)
        talk("network: rules", "alice", "GET", f"{RULES}?security_group_id={ids['security']}")
        path = f"{RULES}/{made['security_group_rules'][1]['id']}"
        talk("network: deleting a rule", "alice", "DELETE", path)
        talk("network: deleting no rule", "alice", "DELETE", path)

    def router(self) -> None:
        talk, ids = self.talk, self.ids
        gateway = {"network_id": ids["ext"]}
        body: Body = {
            "router": {"name": "tour", "description": "d", "external_gateway_info": gateway}
        }
        made = talk("network: making a router", "alice", "POST", ROUTERS, body)
        ids["router"] = made["router"]["id"]
        body = {"router": {"name": "bad", "external_gateway_info": {"network_id": ids["net"]}}}
        talk("network: a router to the inside", "alice", "POST", ROUTERS, body)
        path, subnet = f"{ROUTERS}/{ids['router']}", {"subnet_id": ids["subnet"]}
        made = talk("network: joining", "alice", "PUT", f"{path}/add_router_interface", subnet)
        ids["interface"] = made["port_id"]
        talk("network: joining twice", "alice", "PUT", f"{path}/add_router_interface", subnet)
        talk("network: our routers", "alice", "GET", f"{ROUTERS}?project_id={ids['project alice']}")
        talk("network: a router in use", "alice", "DELETE", path)
        some = "fields=id&fields=device_owner&fields=fixed_ips"
        ports = f"{PORTS}?device_id={ids['router']}"
        talk("network: ports of a router", "alice", "GET", ports)
        talk("network: some of the ports", "alice", "GET", f"{ports}&{some}")
        talk("network: ports of a router for an administrator", "admin", "GET", ports)
        talk("network: deleting no router", "alice", "DELETE", f"{ROUTERS}/{NOWHERE}")
        talk("network: a network in use", "alice", "DELETE", f"{NETWORKS}/{ids['net']}")

    def quotas(self) -> None:
        """Have the quotas of the network stand in the way."""
        talk, project = self.talk, self.ids["project alice"]
        quotas = f"network /v2.0/quotas/{project}"
        body: Body = {"quota": {"network": 1, "floatingip": 0, "security_group_rule": 7}}
        talk("network: setting quotas as a member", "alice", "PUT", quotas, body)
        talk("network: setting quotas", "admin", "PUT", quotas, body)
        talk("network: quotas that were set", "alice", "GET", f"{quotas}/details")
        network = {"network": {"name": "more"}}
        talk("network: one too many", "alice", "POST", NETWORKS, network)
        ip = {"floatingip": {"floating_network_id": self.ids["ext"]}}
        talk("network: an address too many", "alice", "POST", ADDRESSES, ip)
        rule = {"direction": "ingress", "security_group_id": self.ids["security"]}
        rules = [
            {**rule, "protocol": name, "ethertype": "IPv4"} for name in ("gre", "icmp", "sctp")
        ]
        body = {"security_group_rules": rules}
        talk("network: rules too many", "alice", "POST", RULES, body)
        talk("network: quotas that are usual again", "admin", "DELETE", quotas)

    def clear(self) -> None:
        """Delete all, and what is gone by then."""
        talk, ids = self.talk, self.ids
        router, leave = f"{ROUTERS}/{ids['router']}", {"port_id": ids["interface"]}
        talk("network: leaving", "alice", "PUT", f"{router}/remove_router_interface", leave)
        talk("network: leaving twice", "alice", "PUT", f"{router}/remove_router_interface", leave)
        talk("network: deleting a router", "alice", "DELETE", router)
        talk("network: deleting a group", "alice", "DELETE", f"{GROUPS}/{ids['security']}")
        talk("network: deleting no group", "alice", "DELETE", f"{GROUPS}/{NOWHERE}")
        talk("network: deleting a network", "alice", "DELETE", f"{NETWORKS}/{ids['net']}")
        talk("network: deleting no network", "alice", "DELETE", f"{NETWORKS}/{ids['net']}")
        net = f"{NETWORKS}/{ids['admin-net']}"
        talk("network: deleting a network as admin", "admin", "DELETE", net)
        talk("network: no subnet is left", "alice", "GET", f"{SUBNETS}?network_id={ids['net']}")
