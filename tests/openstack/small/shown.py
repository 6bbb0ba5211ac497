"""A server as nova shows it, to its owner and to an administrator."""

from __future__ import annotations

import hashlib
from typing import Any

from tests.openstack.settings import HOSTS
from tests.openstack.small.calls import Call
from tests.openstack.small.compute import links_of
from tests.openstack.small.machines import Server
from tests.openstack.small.tables import Tables

_STATES = {"BUILD": ("building", 0), "ACTIVE": ("active", 1), "ERROR": ("error", 0)}


def server_shown(
    call: Call, server: Server, tables: Tables, images: dict[str, Any]
) -> dict[str, Any]:
    """Return what a call is told about a server."""
    state, power = _STATES[server.status]
    shown: dict[str, Any] = {
        "id": server.id,
        "name": server.name,
        "status": server.status,
        "tenant_id": server.project,
        "user_id": server.user,
        "metadata": server.metadata,
        "hostId": _host_id(server),
        "image": {
            "id": server.image,
            "links": links_of(call, "images", server.image)[1:],
        },
        "flavor": {
            "vcpus": server.flavor["vcpus"],
            "ram": server.flavor["ram"],
            "disk": server.flavor["disk"],
            "ephemeral": 0,
            "swap": 0,
            "original_name": server.flavor["name"],
            "extra_specs": {},
        },
        "created": server.created,
        "updated": server.updated,
        "addresses": _addresses(server, tables),
        "accessIPv4": "",
        "accessIPv6": "",
        "links": links_of(call, "servers", server.id),
        "OS-DCF:diskConfig": "MANUAL",
        "OS-EXT-AZ:availability_zone": HOSTS.get(server.host or "", ""),
        "pinned_availability_zone": server.zone,
        "config_drive": "True" if server.config_drive else "",
        "key_name": server.key["name"] if server.key else None,
        "OS-SRV-USG:launched_at": server.launched,
        "OS-SRV-USG:terminated_at": None,
        "OS-EXT-SRV-ATTR:hostname": server.hostname,
        "OS-EXT-STS:task_state": server.task,
        "OS-EXT-STS:vm_state": state,
        "OS-EXT-STS:power_state": power,
        "os-extended-volumes:volumes_attached": [],
        "locked": False,
        "locked_reason": None,
        "description": None,
        "tags": [],
        "trusted_image_certificates": None,
    }
    if server.status == "ERROR":
        shown["fault"] = server.fault
    else:
        shown["progress"] = 0
    if ports := tables.of("port", device_id=server.id):
        groups = tables.rows["security_group"]
        shown["security_groups"] = [
            {"name": groups[key]["name"]} for port in ports for key in port["security_groups"]
        ]
    return {**shown, **_inner(server, shown)} if call.login.admin else shown


def _inner(server: Server, shown: dict[str, Any]) -> dict[str, Any]:
    """Return what only an administrator sees."""
    inner: dict[str, Any] = {
        "OS-EXT-SRV-ATTR:host": server.host,
        "OS-EXT-SRV-ATTR:instance_name": f"instance-{server.number:08x}",
        "OS-EXT-SRV-ATTR:hypervisor_hostname": server.host,
        "OS-EXT-SRV-ATTR:reservation_id": f"r-{server.id[:8]}",
        "OS-EXT-SRV-ATTR:launch_index": 0,
        "OS-EXT-SRV-ATTR:kernel_id": "",
        "OS-EXT-SRV-ATTR:ramdisk_id": "",
        "OS-EXT-SRV-ATTR:root_device_name": "/dev/sda" if server.host else None,
        "OS-EXT-SRV-ATTR:user_data": server.user_data,
        "host_status": "UP" if server.host else "",
    }
    if "fault" in shown:
        inner["fault"] = {**shown["fault"], "details": "Traceback (most recent call last):"}
    return inner


def _host_id(server: Server) -> str:
    """Return how a project sees a host (nova.utils.generate_hostid)."""
    if server.host is None:
        return ""
    return hashlib.sha224((server.project + server.host).encode()).hexdigest()


def _addresses(server: Server, tables: Tables) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for port in tables.of("port", device_id=server.id):
        mac = {"OS-EXT-IPS-MAC:mac_addr": port["mac_address"]}
        floating = tables.of("floatingip", port_id=port["id"])
        addresses = [("fixed", ip["ip_address"]) for ip in port["fixed_ips"]]
        addresses += [("floating", row["floating_ip_address"]) for row in floating]
        network = tables.rows["network"][port["network_id"]]["name"]
        found.setdefault(network, []).extend(
            {"version": 4, "addr": address, "OS-EXT-IPS:type": kind, **mac}
            for kind, address in addresses
        )
    return found
