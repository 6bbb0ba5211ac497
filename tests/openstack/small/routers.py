"""The routers of neutron, and floating addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.openstack.small.calls import Call, Do, Login, RefusalError, Reply, UnknownError
from tests.openstack.small.tables import Row, Tables

GATEWAY, INTERFACE = "network:router_gateway", "network:router_interface"


@dataclass
class Routers:
    """Routers and floating addresses."""

    tables: Tables

    @property
    def routes(self) -> Mapping[str, Do]:
        """What is answered here."""
        routers, ips = "/v2.0/routers", "/v2.0/floatingips"
        return {
            f"GET {routers}": lambda c: self.tables.listed(c, "router", _as_it_is),
            f"POST {routers}": self._make,
            f"DELETE {routers}/{{key}}": self._delete,
            f"PUT {routers}/{{key}}/add_router_interface": self._join,
            f"PUT {routers}/{{key}}/remove_router_interface": self._leave,
            f"GET {ips}": lambda c: self.tables.listed(c, "floatingip", _as_it_is),
            f"POST {ips}": self._give,
            f"GET {ips}/{{key}}": self._address,
            f"DELETE {ips}/{{key}}": self._take_back,
        }

    def _outside(self, key: str, who: Login, what: str, not_one: str) -> Row:
        """Return the subnet of an external network. Raises RefusalError."""
        network = self.tables.find("network", key, who)
        if not network["router:external"]:
            message = f"Bad {what} request: Network {key} is not {not_one} network."
            raise RefusalError(400, message, "BadRequest")
        return self.tables.rows["subnet"][network["subnets"][0]]

    def _make(self, call: Call) -> Reply:
        wanted, who = call.body["router"], call.login
        gateway = wanted.get("external_gateway_info")
        subnet = (
            self._outside(gateway["network_id"], who, "router", "an external") if gateway else None
        )
        made = self.tables.add(
            "router",
            who.project,
            wanted,
            admin_state_up=True,
            status="ACTIVE",
            external_gateway_info=None,
            availability_zones=[],
            availability_zone_hints=[],
            routes=[],
            flavor_id=None,
        )
        if subnet is not None:
            address = self.tables.address(subnet)
            # Nobody's, so that no member sees it.
            self.tables.add_port("", subnet, address, (made["id"], GATEWAY), [])
            made["external_gateway_info"] = {
                "network_id": subnet["network_id"],
                "external_fixed_ips": [{"subnet_id": subnet["id"], "ip_address": address}],
                "enable_snat": True,
            }
        self.tables.changed()
        return Reply({"router": made}, 201)

    def _ports(self, router: str, owner: str) -> list[Row]:
        return self.tables.of("port", device_id=router, device_owner=owner)

    def _delete(self, call: Call, key: str) -> Reply:
        self.tables.own("router", key, call.login)
        if ports := self._ports(key, INTERFACE):
            attached = ",".join(port["id"] for port in ports)
            message = f"Router {key} has ports still attached: {attached}"
            raise RefusalError(409, message, "RouterInUse")
        for port in self._ports(key, GATEWAY):
            del self.tables.rows["port"][port["id"]]
        del self.tables.rows["router"][key]
        self.tables.changed()
        return Reply(status=204)

    def _join(self, call: Call, key: str) -> Reply:
        router = self.tables.own("router", key, call.login)
        if "subnet_id" not in call.body:
            raise UnknownError("interface of a router by its port")
        subnet = self.tables.find("subnet", call.body["subnet_id"], call.login)
        ports = self._ports(key, INTERFACE)
        if any(ip["subnet_id"] == subnet["id"] for port in ports for ip in port["fixed_ips"]):
            message = f"Bad router request: Router already has a port on subnet {subnet['id']}."
            raise RefusalError(400, message, "BadRequest")
        made = self.tables.add_port(
            router["project_id"], subnet, subnet["gateway_ip"], (key, INTERFACE), []
        )
        self.tables.changed()
        return Reply(_interface(router, made))

    def _leave(self, call: Call, key: str) -> Reply:
        router = self.tables.own("router", key, call.login)
        if "port_id" not in call.body:
            raise UnknownError("interface of a router by its subnet")
        found = [p for p in self._ports(key, INTERFACE) if p["id"] == call.body["port_id"]]
        if not found:
            message = f"Router {key} does not have an interface with id {call.body['port_id']}"
            raise RefusalError(404, message, "RouterInterfaceNotFound")
        subnet = found[0]["fixed_ips"][0]["subnet_id"]
        for floating in self.tables.of("floatingip", router_id=key):
            port = self.tables.rows["port"][floating["port_id"]]
            if port["fixed_ips"][0]["subnet_id"] == subnet:
                message = (
                    f"Router interface for subnet {subnet} on router {key} cannot be deleted, as it"
                    " is required by one or more floating IPs."
                )
                raise RefusalError(409, message, "RouterInterfaceInUseByFloatingIP")
        del self.tables.rows["port"][found[0]["id"]]
        self.tables.changed()
        return Reply(_interface(router, found[0]))

    def _give(self, call: Call) -> Reply:
        wanted, who = call.body["floatingip"], call.login
        subnet = self._outside(wanted["floating_network_id"], who, "floatingip", "a valid external")
        port = self.tables.find("port", wanted["port_id"], who) if wanted.get("port_id") else None
        self.tables.allow("floatingip", who.project)
        address, more = self.tables.address(subnet), {}
        if port is not None:
            router = self._way(port, subnet["network_id"])
            more = {
                "router_id": router,
                "port_id": port["id"],
                "fixed_ip_address": port["fixed_ips"][0]["ip_address"],
                "port_details": {key: port[key] for key in _DETAILS},
            }
        made = self.tables.add(
            "floatingip",
            who.project,
            wanted,
            floating_ip_address=address,
            floating_network_id=subnet["network_id"],
            status="DOWN",
            **{
                **dict.fromkeys(("router_id", "port_id", "fixed_ip_address", "port_details")),
                **more,
            },
        )
        del made["name"]
        if port is not None:
            self._refuse_second(made, port)
        answer = dict(made)  # at first it is down, and then the data plane has it
        made["status"] = "ACTIVE" if port else "DOWN"
        self.tables.changed()
        return Reply({"floatingip": answer}, 201)

    def _refuse_second(self, made: Row, port: Row) -> None:
        others = self.tables.of("floatingip", port_id=port["id"])
        if len(others) > 1:
            del self.tables.rows["floatingip"][made["id"]]
            message = (
                f"Cannot associate floating IP {made['floating_ip_address']} ({made['id']}) with"
                f" port {port['id']} using fixed IP {made['fixed_ip_address']}, as that fixed IP"
                f" already has a floating IP on external network {made['floating_network_id']}."
            )
            raise RefusalError(409, message, "FloatingIPPortAlreadyAssociated")

    def _way(self, port: Row, external: str) -> str:
        """Return the router between a port and an external network. Raises RefusalError."""
        subnet = port["fixed_ips"][0]["subnet_id"]
        for router in self.tables.rows["router"].values():
            outside = (router["external_gateway_info"] or {}).get("network_id") == external
            ports = self._ports(router["id"], INTERFACE)
            if outside and any(p["fixed_ips"][0]["subnet_id"] == subnet for p in ports):
                return str(router["id"])
        message = (
            f"External network {external} is not reachable from subnet {subnet}.  Therefore, cannot"
            f" associate Port {port['id']} with a Floating IP."
        )
        raise RefusalError(404, message, "ExternalGatewayForFloatingIPNotFound")

    def _address(self, call: Call, key: str) -> Reply:
        return Reply({"floatingip": self.tables.find("floatingip", key, call.login)})

    def _take_back(self, call: Call, key: str) -> Reply:
        self.tables.own("floatingip", key, call.login)
        del self.tables.rows["floatingip"][key]
        self.tables.changed()
        return Reply(status=204)


_DETAILS = (
    *("name", "network_id", "mac_address", "admin_state_up"),
    *("status", "device_id", "device_owner"),
)


def _interface(router: Row, port: Row) -> Row:
    subnet = port["fixed_ips"][0]["subnet_id"]
    return {
        "id": router["id"],
        "tenant_id": router["project_id"],
        "port_id": port["id"],
        "network_id": port["network_id"],
        "subnet_id": subnet,
        "subnet_ids": [subnet],
    }


def _as_it_is(row: Row, _who: Login) -> Row:
    return row
