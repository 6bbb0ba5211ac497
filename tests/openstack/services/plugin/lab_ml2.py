"""A mechanism driver of neutron that binds every port at once: no agent is needed for it.

Where the cloud has a data plane (LAB_FABRIC is its socket), it is told all that neutron knows,
shortly after each change.
"""

from __future__ import annotations

import os
from typing import Any

import eventlet
from neutron_lib import constants, context
from neutron_lib.api.definitions import portbindings
from neutron_lib.callbacks import events, registry, resources
from neutron_lib.plugins import constants as plugins
from neutron_lib.plugins import directory
from neutron_lib.plugins.ml2 import api
from oslo_log import log

from tests.openstack.services import line

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
            floating = directory.get_plugin(plugins.L3).get_floatingips(admin)
            line.ask(str(FABRIC), {"do": "apply", "told": known(admin, floating)})
            if wait == WAITS_S[-1]:  # not while the request that changed it holds its row
                call_active(admin, floating)
        except Exception:
            LOG.exception("the data plane was not told")


def known(admin: Any, floating: list[dict[str, Any]]) -> dict[str, Any]:
    """Return all that neutron knows, as the data plane wants it."""
    core, router_plugin = directory.get_plugin(), directory.get_plugin(plugins.L3)
    subnets = {subnet["id"]: subnet for subnet in core.get_subnets(admin)}
    networks = {network["id"]: network for network in core.get_networks(admin)}
    outside = {
        subnet["network_id"]: f"{subnet['gateway_ip']}/{subnet['cidr'].split('/')[1]}"
        for subnet in subnets.values()
        if networks[subnet["network_id"]].get("router:external")
    }
    ports = [port(found, subnets) for found in core.get_ports(admin)]
    return {
        "outside": outside,
        "ports": ports,
        "rules": [rule(found) for found in core.get_security_group_rules(admin)],
        "routers": [router(found, outside) for found in router_plugin.get_routers(admin)],
        "floating": [
            {
                "address": found["floating_ip_address"],
                "fixed": found["fixed_ip_address"],
                "router": found["router_id"],
            }
            for found in floating
            if found["router_id"]
        ],
    }


def port(found: dict[str, Any], subnets: dict[str, Any]) -> dict[str, Any]:
    """Return a port with addresses that have their prefix's length."""
    ips = [(ip["ip_address"], subnets.get(ip["subnet_id"])) for ip in found["fixed_ips"]]
    return {
        "id": found["id"],
        "mac": found["mac_address"],
        "network": found["network_id"],
        "device": found["device_id"],
        "owner": found["device_owner"],
        "ips": [f"{ip}/{subnet['cidr'].split('/')[1]}" for ip, subnet in ips if subnet],
        "groups": found.get("security_groups", []),
        "secured": found.get("port_security_enabled", True),
    }


def rule(found: dict[str, Any]) -> dict[str, Any]:
    """Return a rule of a security group."""
    return {
        "group": found["security_group_id"],
        "direction": found["direction"],
        "ethertype": found["ethertype"],
        "protocol": found["protocol"],
        "low": found["port_range_min"],
        "high": found["port_range_max"],
        "prefix": found["remote_ip_prefix"],
        "remote_group": found["remote_group_id"],
    }


def router(found: dict[str, Any], outside: dict[str, str]) -> dict[str, Any]:
    """Return a router with its next hop."""
    gateway = found.get("external_gateway_info") or {}
    hop = outside.get(gateway.get("network_id", ""))
    return {
        "id": found["id"],
        "gateway": hop.split("/")[0] if hop else None,
        "snat": bool(gateway.get("enable_snat", True)),
    }


def call_active(admin: Any, floating: list[dict[str, Any]]) -> None:
    """Set the state of floating IPs to what it is."""
    for found in floating:
        state = "ACTIVE" if found["router_id"] else "DOWN"
        if found["status"] != state:
            plugin = directory.get_plugin(plugins.L3)
            plugin.update_floatingip_status(admin, found["id"], state)
