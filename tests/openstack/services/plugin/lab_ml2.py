"""A mechanism driver of neutron that binds every port at once: no agent is needed for it.

Where the cloud has a data plane (LAB_FABRIC is its socket), it is told all that neutron knows,
shortly after each change.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

import eventlet
from neutron_lib import constants, context
from neutron_lib.api.definitions import portbindings
from neutron_lib.callbacks import events, registry, resources
from neutron_lib.db import api as db
from neutron_lib.plugins import constants as plugins
from neutron_lib.plugins import directory
from neutron_lib.plugins.ml2 import api
from oslo_log import log
from sqlalchemy import text

from tests.openstack.services import data_plane_client

FABRIC = os.environ.get("LAB_FABRIC")
LOG = log.getLogger(__name__)
WATCHED = (
    resources.PORT,
    resources.ROUTER,
    resources.ROUTER_GATEWAY,
    resources.ROUTER_INTERFACE,
    resources.FLOATING_IP,
    resources.SECURITY_GROUP,
    resources.SECURITY_GROUP_RULE,
    resources.SUBNET,
)
# A change is told at once, and again when the transaction around it has surely ended.
WAITS_S = (0.05, 0.5)


class LabMechanismDriver(api.MechanismDriver):
    """Has any host reach any network."""

    def initialize(self) -> None:
        """Listen to what changes."""
        self.pending: set[float] = set()
        if FABRIC:
            for resource in WATCHED:
                for event in (events.AFTER_CREATE, events.AFTER_UPDATE, events.AFTER_DELETE):
                    registry.subscribe(self.changed, resource, event)

    def bind_port(self, context: api.PortContext) -> None:
        """Bind to the first segment, and call it active."""
        segment = context.segments_to_bind[0]
        context.set_binding(
            segment[api.ID],
            portbindings.VIF_TYPE_OVS,
            {portbindings.CAP_PORT_FILTER: True},
            status=constants.PORT_STATUS_ACTIVE,
        )

    def changed(self, *_: Any, **__: Any) -> None:
        """Tell it soon, once for many changes."""
        for wait in WAITS_S:
            if wait not in self.pending:
                self.pending.add(wait)
                eventlet.spawn_after(wait, self.tell, wait)

    def tell(self, wait: float) -> None:
        """Tell the data plane all, and call the floating IPs active that it has."""
        self.pending.discard(wait)
        try:
            admin = context.get_admin_context()
            with db.CONTEXT_READER.using(admin):
                tables = {name: admin.session.execute(text(sql)) for name, sql in TABLES.items()}
                rows = {
                    name: [dict(row) for row in all_.mappings()] for name, all_ in tables.items()
                }
            data_plane_client.ask(str(FABRIC), {"do": "apply", "told": known(rows)})
            if wait == WAITS_S[-1]:  # not while the request that changed it holds its row
                call_active(admin, rows["floating"])
        except Exception:
            LOG.exception("the data plane was not told")


# As neutron's tables have it: to load all its objects at each change took more than any test did.
TABLES = {
    "subnets": "select id, network_id, cidr, gateway_ip from subnets",
    "outside": "select network_id from externalnetworks",
    "ports": "select id, mac_address as mac, network_id as network, device_id as device,"
    " device_owner as owner, coalesce(port_security_enabled, 1) as secured"
    " from ports left join portsecuritybindings on port_id = id",
    "ips": "select port_id, ip_address, subnet_id from ipallocations",
    "groups": "select port_id, security_group_id from securitygroupportbindings",
    "rules": "select security_group_id as `group`, direction, ethertype, protocol,"
    " port_range_min as low, port_range_max as high, remote_ip_prefix as prefix,"
    " remote_group_id as remote_group from securitygrouprules",
    "routers": "select routers.id as id, enable_snat as snat, network_id from routers"
    " left join ports on ports.id = gw_port_id",
    "floating": "select id, floating_ip_address as address, fixed_ip_address as fixed,"
    " router_id as router, status from floatingips",
}
Rows = list[dict[str, Any]]


def known(rows: dict[str, Rows]) -> dict[str, Any]:
    """Return all that neutron knows, as the data plane wants it."""
    subnets = {subnet["id"]: subnet for subnet in rows["subnets"]}
    external = {row["network_id"] for row in rows["outside"]}
    outside = {
        subnet["network_id"]: f"{subnet['gateway_ip']}/{length(subnet)}"
        for subnet in subnets.values()
        if subnet["network_id"] in external
    }
    ips: dict[str, list[str]] = defaultdict(list)
    groups: dict[str, list[str]] = defaultdict(list)
    for ip in rows["ips"]:
        ips[ip["port_id"]].append(f"{ip['ip_address']}/{length(subnets[ip['subnet_id']])}")
    for row in rows["groups"]:
        groups[row["port_id"]].append(row["security_group_id"])
    return {
        "outside": outside,
        "ports": [
            {
                **port,
                "secured": bool(port["secured"]),
                "ips": ips[port["id"]],
                "groups": groups[port["id"]],
            }
            for port in rows["ports"]
        ],
        "rules": rows["rules"],
        "routers": [router(row, outside) for row in rows["routers"]],
        "floating": [
            {key: row[key] for key in ("address", "fixed", "router")}
            for row in rows["floating"]
            if row["router"]
        ],
    }


def length(subnet: dict[str, Any]) -> str:
    """Return the length of a subnet's prefix."""
    return str(subnet["cidr"]).split("/")[1]


def router(row: dict[str, Any], outside: dict[str, str]) -> dict[str, Any]:
    """Return a router with its next hop."""
    hop = outside.get(row["network_id"])
    return {
        "id": row["id"],
        "gateway": hop.split("/")[0] if hop else None,
        "snat": bool(row["snat"]),
    }


def call_active(admin: Any, floating: Rows) -> None:
    """Set the state of floating IPs to what it is."""
    for found in floating:
        state = "ACTIVE" if found["router"] else "DOWN"
        if found["status"] != state:
            plugin = directory.get_plugin(plugins.L3)
            plugin.update_floatingip_status(admin, found["id"], state)
