"""What the Azure of the tests tells its data plane: networks, addresses, rules and guests."""

from __future__ import annotations

import base64
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any
from uuid import uuid4

from tests.azure.kinds import Body

PUBLIC = IPv4Network("198.51.100.0/24")


class Plumbing:
    """Tells the data plane of the things that are there, by their ids in lower case."""

    def __init__(self, tell: Callable[[Body], None]) -> None:
        self.tell = tell
        self.things: dict[str, Body] = {}
        self._inner: dict[str, Body] = {}
        self._macs: dict[str, str] = {}

    def inner(self, thing: Body) -> Body:
        """Return what Azure knows of a thing and does not show."""
        return self._inner.setdefault(str(thing["id"]).lower(), {})

    def _of(self, type_: str) -> list[Body]:
        return [one for one in self.things.values() if one["type"] == type_]

    def plug(self) -> None:
        """Tell the data plane all that there is."""
        ports, routers = [], []
        for number, network in enumerate(self._of("Microsoft.Network/virtualNetworks")):
            key, block = self.inner(network)["key"], _block(network)
            router = _router(key)
            routers.append({"id": router, "gateway": str(PUBLIC[1]), "snat": True})
            outside, inside = f"{PUBLIC[number + 2]}/24", f"{block[1]}/{block.prefixlen}"
            gateway, interface = "network:router_gateway", "network:router_interface"
            ports.append(self._port(f"{number}o{key}", "public", router, gateway, outside))
            ports.append(self._port(f"{number}i{key}", key, router, interface, inside))
        nics = self._of("Microsoft.Network/networkInterfaces")
        guards = self._of("Microsoft.Network/networkSecurityGroups")
        told = {
            "outside": {"public": f"{PUBLIC[1]}/24"},
            "ports": ports + [self._port_of(nic) for nic in nics if _has_outside(nic)],
            "rules": [rule for guard in guards for rule in _rules(guard)],
            "routers": routers,
            "floating": [self._floating(nic) for nic in nics if _has_outside(nic)],
        }
        self.tell({"do": "apply", "told": told})

    def _network(self, nic: Body) -> Body:
        subnet = str(_configuration(nic)["subnet"]["id"]).lower()
        return self.things[subnet.rpartition("/subnets/")[0]]

    def _floating(self, nic: Body) -> Body:
        own = _configuration(nic)
        address = self.things[own["publicIPAddress"]["id"].lower()]
        return {
            "address": address["properties"]["ipAddress"],
            "fixed": own["privateIPAddress"],
            "router": _router(self.inner(self._network(nic))["key"]),
        }

    def _port_of(self, nic: Body) -> Body:
        """Return an interface as the data plane knows it."""
        network, fixed = self._network(nic), _configuration(nic)["privateIPAddress"]
        subnet = network["properties"]["subnets"][0]["properties"]
        guard = str(subnet["networkSecurityGroup"]["id"]).lower()
        key, ip = self.inner(network)["key"], f"{fixed}/{_block(network).prefixlen}"
        return self._port(self.inner(nic)["key"], key, "", "compute", ip) | {"groups": [guard]}

    def boot(self, vm: Body) -> None:
        """Boot a VM as a guest of the data plane."""
        nic = self.things[vm["properties"]["networkProfile"]["networkInterfaces"][0]["id"].lower()]
        profile, port = vm["properties"]["osProfile"], self._port_of(nic)
        gateway = str(_block(self._network(nic))[1])
        guest = {
            "id": self.inner(vm)["key"],
            "hostname": profile["computerName"],
            "keys": [one["keyData"] for one in profile["linuxConfiguration"]["ssh"]["publicKeys"]],
            "user_data": base64.b64decode(profile["customData"]).decode(),
            "stuck": False,
            "ports": [{"id": port["id"], "mtu": 1500, "gateway": gateway, "port": port}],
        }
        self.tell({"do": "boot", "guest": guest})

    def _port(self, key: str, network: str, device: str, owner: str, ip: str) -> Body:
        digits = uuid4().hex
        mac = ":".join(["fa", *(digits[n : n + 2] for n in range(0, 10, 2))])
        return {
            "id": key,
            "mac": self._macs.setdefault(key, mac),
            "network": network,
            "device": device,
            "owner": owner,
            "ips": [ip],
            "groups": [],
            "secured": owner == "compute",
        }


def _configuration(nic: Body) -> Body:
    properties: Body = nic["properties"]["ipConfigurations"][0]["properties"]
    return properties


def _has_outside(nic: Body) -> bool:
    return "publicIPAddress" in _configuration(nic)


def block_of(network: Body, subnet: str) -> IPv4Network:
    """Return the addresses of a subnet."""
    subnets = {one["name"]: one["properties"] for one in network["properties"]["subnets"]}
    return IPv4Network(subnets[subnet]["addressPrefix"])


def _block(network: Body) -> IPv4Network:
    return block_of(network, network["properties"]["subnets"][0]["name"])


def _router(network: str) -> str:
    return f"{network[:11]}r"


def _rules(guard: Body) -> list[Body]:
    """Return the rules of a group as the data plane knows them; what is not let in is dropped."""
    key = str(guard["id"]).lower()
    found = [_rule(key, "egress", None, None, None)]
    for rule in guard["properties"]["securityRules"]:
        told = rule["properties"]
        if told["access"] != "Allow":
            continue
        low, _, high = told["destinationPortRange"].partition("-")
        sources = told.get("sourceAddressPrefixes") or [told["sourceAddressPrefix"]]
        ports = (int(low), int(high or low))
        protocol = told["protocol"].lower()
        found += [_rule(key, "ingress", protocol, ports, source) for source in sources]
    return found


def _rule(
    group: str, way: str, protocol: str | None, ports: tuple[int, int] | None, prefix: str | None
) -> dict[str, Any]:
    low, high = ports or (None, None)
    return {
        "group": group,
        "direction": way,
        "ethertype": "IPv4",
        "protocol": protocol,
        "low": low,
        "high": high,
        "prefix": prefix,
        "remote_group": None,
    }
