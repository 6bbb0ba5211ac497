"""What the Azure of the tests tells its data plane: networks, addresses, rules and guests."""

from __future__ import annotations

import base64
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any
from uuid import uuid4

Body = dict[str, Any]
PUBLIC = IPv4Network("198.51.100.0/24")


class Plumbing:
    """Tells the data plane of the things that are there, by their ids in lower case."""

    def __init__(self, tell: Callable[[Body], None]) -> None:
        self.tell = tell
        self.things: dict[str, Body] = {}

    def _of(self, type_: str) -> list[Body]:
        return [one for one in self.things.values() if one["type"] == type_]

    def plug(self) -> None:
        """Tell the data plane all that there is."""
        networks = self._of("Microsoft.Network/virtualNetworks")
        ports, routers = [], []
        for number, one in enumerate(networks):
            router, block = (
                f"{one['key'][:11]}r",
                IPv4Network(one["properties"]["addressSpace"]["addressPrefixes"][0]),
            )
            outside = f"{PUBLIC[number + 2]}/24"
            routers.append({"id": router, "gateway": str(PUBLIC[1]), "snat": True})
            ports += [
                _port(
                    f"{number}o{one['key']}", "public", router, "network:router_gateway", outside
                ),
                _port(
                    f"{number}i{one['key']}",
                    one["key"],
                    router,
                    "network:router_interface",
                    f"{block[1]}/{block.prefixlen}",
                ),
            ]
        floating = []
        for nic in self._of("Microsoft.Network/networkInterfaces"):
            network, _ = self._way(nic)
            ports.append(self.port_of(nic))
            address = self.things[
                nic["properties"]["ipConfigurations"][0]["properties"]["publicIPAddress"][
                    "id"
                ].lower()
            ]
            fixed = nic["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"]
            floating.append(
                {
                    "address": address["properties"]["ipAddress"],
                    "fixed": fixed,
                    "router": f"{network['key'][:11]}r",
                }
            )
        rules = [
            rule
            for guard in self._of("Microsoft.Network/networkSecurityGroups")
            for rule in _rules(guard)
        ]
        outside_of = {"public": f"{PUBLIC[1]}/24"}
        self.tell(
            {
                "do": "apply",
                "told": {
                    "outside": outside_of,
                    "ports": ports,
                    "rules": rules,
                    "routers": routers,
                    "floating": floating,
                },
            }
        )

    def _way(self, nic: Body) -> tuple[Body, str]:
        subnet = nic["properties"]["ipConfigurations"][0]["properties"]["subnet"]["id"].lower()
        network = self.things[subnet.rpartition("/subnets/")[0]]
        return network, str(
            network["properties"]["subnets"][0]["properties"]["networkSecurityGroup"]["id"]
        ).lower()

    def port_of(self, nic: Body) -> Body:
        """Return an interface as the data plane knows it."""
        network, guard = self._way(nic)
        block = IPv4Network(network["properties"]["addressSpace"]["addressPrefixes"][0])
        fixed = nic["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"]
        port = _port(nic["key"], network["key"], "", "compute", f"{fixed}/{block.prefixlen}")
        return port | {"groups": [guard]}

    def boot(self, _key: str, vm: Body) -> None:
        """Boot a VM as a guest of the data plane."""
        nic = self.things[vm["properties"]["networkProfile"]["networkInterfaces"][0]["id"].lower()]
        network, _ = self._way(nic)
        block = IPv4Network(network["properties"]["addressSpace"]["addressPrefixes"][0])
        profile = vm["properties"]["osProfile"]
        ssh = profile["linuxConfiguration"]["ssh"]["publicKeys"]
        guest = {
            "id": vm["key"],
            "hostname": profile["computerName"],
            "keys": [one["keyData"] for one in ssh],
            "user_data": base64.b64decode(profile["customData"]).decode(),
            "stuck": False,
            "ports": [
                {"id": nic["key"], "mtu": 1500, "gateway": str(block[1]), "port": self.port_of(nic)}
            ],
        }
        self.tell({"do": "boot", "guest": guest})


def _port(key: str, network: str, device: str, owner: str, ip: str) -> Body:
    digits = uuid4().hex
    mac = ":".join(["fa", *(digits[n : n + 2] for n in range(0, 10, 2))])
    _MACS.setdefault(key, mac)
    return {
        "id": key,
        "mac": _MACS[key],
        "network": network,
        "device": device,
        "owner": owner,
        "ips": [ip],
        "groups": [],
        "secured": owner == "compute",
    }


_MACS: dict[str, str] = {}


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
        found += [
            _rule(key, "ingress", told["protocol"].lower(), (int(low), int(high or low)), source)
            for source in sources
        ]
    return found


def _rule(
    group: str, way: str, protocol: str | None, ports: tuple[int, int] | None, prefix: str | None
) -> Body:
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
