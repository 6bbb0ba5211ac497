"""Neutron: its quotas, networks, subnets and ports; routers and groups are beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Network

from tests.openstack.settings import EXTERNAL
from tests.openstack.small.calls import Call, Login, RefusalError, Reply, Routes, UnknownError
from tests.openstack.small.routers import Routers
from tests.openstack.small.security import Security
from tests.openstack.small.tables import QUOTAS, Row, Tables, port_shown

_PROVIDER = ("provider:network_type", "provider:physical_network", "provider:segmentation_id")


@dataclass
class Network:
    """The service; ``owner`` is the project of the external network."""

    tables: Tables
    owner: str
    _routes: Routes = field(default_factory=Routes)

    def __post_init__(self) -> None:
        self.security = Security(self.tables)
        self._routes.add(
            {
                "GET ": self._versions,
                "GET /v2.0/quotas/{project}/details": self._quota_details,
                "GET /v2.0/quotas/[^/]+/default": self._usual_quota,
                "PUT /v2.0/quotas/{project}": self._set_quota,
                "DELETE /v2.0/quotas/{project}": self._reset_quota,
                "GET /v2.0/networks": lambda c: self.tables.listed(c, "network", network_shown),
                "POST /v2.0/networks": self._make_network,
                "GET /v2.0/networks/{key}": self._network,
                "DELETE /v2.0/networks/{key}": self._delete_network,
                "GET /v2.0/subnets": lambda c: self.tables.listed(c, "subnet", _as_it_is),
                "POST /v2.0/subnets": self._make_subnet,
                "GET /v2.0/ports": lambda c: self.tables.listed(c, "port", port_shown),
                "PUT /v2.0/ports/{key}": self._change_port,
                **self.security.routes,
                **Routers(self.tables).routes,
            }
        )
        outside = {"name": "ext", "router:external": True}
        made = self._network_row(self.owner, outside, mtu=1500)
        made |= dict(zip(_PROVIDER, ("flat", "physnet1", None), strict=True))
        self._subnet_row(made, {"name": "ext", "cidr": EXTERNAL, "enable_dhcp": False})

    def do(self, call: Call) -> Reply:
        """Answer a call. Raises RefusalError."""
        if call.who is None and call.path:
            raise RefusalError(401, "The request you have made requires authentication.")
        return self._routes.do(call)

    def refusal(self, error: RefusalError) -> Row:
        """Return what neutron says when it refuses, or what is before it."""
        if error.status == 401:
            return {"error": {"code": 401, "title": "Unauthorized", "message": error.message}}
        return {"NeutronError": {"type": error.kind, "message": error.message, "detail": ""}}

    def _versions(self, call: Call) -> Reply:
        links = [{"rel": "self", "href": f"{call.here}/v2.0/"}]
        return Reply({"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]})

    def _quota_details(self, _call: Call, project: str) -> Reply:
        tables = self.tables
        quota = {
            kind: {
                "limit": tables.limit(kind, project),
                "used": tables.used(kind, project),
                "reserved": 0,
            }
            for kind in QUOTAS
        }
        return Reply({"quota": quota})

    def _usual_quota(self, _call: Call) -> Reply:
        return Reply({"quota": QUOTAS})

    def _set_quota(self, call: Call, project: str) -> Reply:
        self._allow_quotas(call)
        self.tables.limits.setdefault(project, {}).update(call.body["quota"])
        return Reply({"quota": {kind: self.tables.limit(kind, project) for kind in QUOTAS}})

    def _reset_quota(self, call: Call, project: str) -> Reply:
        self._allow_quotas(call)
        self.tables.limits.pop(project, None)
        return Reply(status=204)

    def _allow_quotas(self, call: Call) -> None:
        if not call.login.admin:
            message = "rule:update_quota is disallowed by policy"
            raise RefusalError(403, message, "PolicyNotAuthorized")

    def _make_network(self, call: Call) -> Reply:
        who = call.login
        self.security.have_default(who.project)
        row = self._network_row(who.project, call.body["network"], mtu=1450)
        return Reply({"network": {**network_shown(row, who), "is_default": False}}, 201)

    def _network_row(self, project: str, wanted: Row, mtu: int) -> Row:
        outside = bool(wanted.get("router:external"))
        return self.tables.add(
            "network",
            project,
            wanted,
            admin_state_up=True,
            mtu=mtu,
            status="ACTIVE",
            subnets=[],
            shared=False,
            availability_zone_hints=[],
            availability_zones=[],
            ipv4_address_scope=None,
            ipv6_address_scope=None,
            port_security_enabled=True,
            **{"router:external": outside, **({"is_default": False} if outside else {})},
            **dict(zip(_PROVIDER, ("vxlan", None, self.tables.next_attribute()), strict=True)),
        )

    def _network(self, call: Call, key: str) -> Reply:
        row = self.tables.find("network", key, call.login)
        return Reply({"network": network_shown(row, call.login)})

    def _delete_network(self, call: Call, key: str) -> Reply:
        row = self.tables.own("network", key, call.login)
        if ports := self.tables.of("port", network_id=key):
            message = (
                f"Unable to complete operation on network {row['id']}. There are one or more ports"
                " still in use on the network, id for these ports is:"
                f" {','.join(port['id'] for port in ports)}."
            )
            raise RefusalError(409, message, "NetworkInUse")
        for subnet in row["subnets"]:
            del self.tables.rows["subnet"][subnet]
        del self.tables.rows["network"][key]
        self.tables.changed()
        return Reply(status=204)

    def _make_subnet(self, call: Call) -> Reply:
        wanted = call.body["subnet"]
        if wanted.get("ip_version") != 4:
            raise UnknownError("subnet that is not of IPv4")
        network = self.tables.find("network", wanted["network_id"], call.login)
        cidr = IPv4Network(wanted["cidr"])
        for other in network["subnets"]:
            if IPv4Network(self.tables.rows["subnet"][other]["cidr"]).overlaps(cidr):
                message = (
                    f"Invalid input for operation: Requested subnet with cidr: {cidr} for network:"
                    f" {network['id']} overlaps with another subnet."
                )
                raise RefusalError(400, message, "InvalidInput")
        return Reply({"subnet": self._subnet_row(network, wanted)}, 201)

    def _subnet_row(self, network: Row, wanted: Row) -> Row:
        cidr = IPv4Network(wanted["cidr"])
        made = self.tables.add(
            "subnet",
            network["project_id"],
            wanted,
            network_id=network["id"],
            ip_version=4,
            subnetpool_id=None,
            enable_dhcp=wanted.get("enable_dhcp", True),
            ipv6_ra_mode=None,
            ipv6_address_mode=None,
            gateway_ip=wanted.get("gateway_ip", str(cidr[1])),
            cidr=str(cidr),
            allocation_pools=[{"start": str(cidr[2]), "end": str(cidr[-2])}],
            host_routes=[],
            dns_nameservers=[],
            service_types=[],
            **{"router:external": network["router:external"]},
        )
        network["subnets"].append(made["id"])
        return made

    def _change_port(self, call: Call, key: str) -> Reply:
        row, wanted = self.tables.own("port", key, call.login), call.body["port"]
        if wanted != {"security_groups": [], "port_security_enabled": False}:
            raise UnknownError(f"change of a port to {wanted}")
        row |= wanted
        self.tables.changed()
        return Reply({"port": port_shown(row, call.login)})

    def plug(self, project: str, network: str, groups: list[str], device: tuple[str, str]) -> Row:
        """Give a server a port in a network. Raises RefusalError."""
        subnet = self.tables.rows["subnet"][self.tables.rows["network"][network]["subnets"][0]]
        found = groups or [self.security.have_default(project)["id"]]
        port = self.tables.add_port(project, subnet, self.tables.address(subnet), device, found)
        self.tables.changed()
        return port

    def unplug(self, device: str) -> None:
        """Take the ports of a server away, and the floating addresses from them."""
        for port in self.tables.of("port", device_id=device):
            for floating in self.tables.of("floatingip", port_id=port["id"]):
                nothing = dict.fromkeys(
                    ("port_id", "fixed_ip_address", "router_id", "port_details")
                )
                floating |= {**nothing, "status": "DOWN"}
            del self.tables.rows["port"][port["id"]]
        self.tables.changed()

    def group(self, project: str, name: str) -> Row | None:
        """Return a security group of a project by its id or name."""
        ours = self.tables.of("security_group", project_id=project)
        return next((row for row in ours if name in {row["id"], row["name"]}), None)


def network_shown(row: Row, who: Login) -> Row:
    """Return a network as somebody sees it."""
    return row if who.admin else {k: v for k, v in row.items() if k not in _PROVIDER}


def _as_it_is(row: Row, _who: Login) -> Row:
    return row
