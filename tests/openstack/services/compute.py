"""nova-compute with nova's own fake hypervisor, of a fixed size and restartable.

FakeDriver gives its node a new id at every start, which nova refuses the second time; the one
without fake nodes keeps it in state_path. Where the cloud has a data plane (LAB_FABRIC is its
socket), a server is a guest there: namespaces with an sshd.
"""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path
from typing import Any

from nova.cmd import compute  # first: it patches the standard library
from nova.virt import fake

from tests.openstack.services import data_plane_client
from tests.openstack.services.fault_injection import wanted
from tests.openstack.settings import HOST_SIZE

FABRIC = os.environ.get("LAB_FABRIC")
STATE = Path(os.environ["LAB_STATE"])


class LabDriver(fake.FakeDriverWithoutFakeNodes):
    """One host with room for a hundred small servers and more."""

    vcpus = HOST_SIZE["vcpus"]
    memory_mb = HOST_SIZE["ram"]
    local_gb = 1000

    def spawn(
        self, context: Any, instance: Any, *args: Any, network_info: Any = None, **more: Any
    ) -> None:
        """Boot, unless a fault is wanted."""
        if wished("spawn", instance):
            raise RuntimeError("the test wants this server to fail")
        super().spawn(context, instance, *args, network_info=network_info, **more)
        if FABRIC:
            data_plane_client.ask(
                FABRIC, {"do": "boot", "guest": guest(instance, network_info or [])}
            )

    def destroy(self, context: Any, instance: Any, *args: Any, **more: Any) -> None:
        """End the guest."""
        if FABRIC:
            data_plane_client.ask(FABRIC, {"do": "end", "id": instance.uuid})
        super().destroy(context, instance, *args, **more)

    def power_off(self, instance: Any, *args: Any, **more: Any) -> None:
        """End the guest; its console stays."""
        if FABRIC:
            data_plane_client.ask(FABRIC, {"do": "end", "id": instance.uuid})
        super().power_off(instance, *args, **more)

    def power_on(self, context: Any, instance: Any, network_info: Any, *args: Any) -> None:
        """Boot anew."""
        super().power_on(context, instance, network_info, *args)
        if FABRIC:
            data_plane_client.ask(FABRIC, {"do": "boot", "guest": guest(instance, network_info)})

    def get_console_output(self, context: Any, instance: Any) -> str:
        """Return what the guest printed while it booted."""
        console: Path = STATE / "guests" / instance.uuid / "console"
        if console.exists():
            return console.read_text(errors="replace")
        canned: str = super().get_console_output(context, instance)
        return canned


def wished(fault: str, instance: Any) -> bool:
    """Tell whether a test wants this fault for this server."""
    server = f"{instance.host} {instance.flavor.name} {instance.display_name}"
    return wanted(STATE, fault, server)


def guest(instance: Any, network_info: Any) -> dict[str, Any]:
    """Return what the fabric wants to know of a server."""
    user_data = base64.b64decode(instance.user_data or "").decode(errors="replace")
    return {
        "id": instance.uuid,
        "hostname": instance.hostname,
        "keys": [instance.key_data] if instance.key_data else [],
        "user_data": user_data,
        "stuck": wished("boot", instance),
        "ports": [port(interface) for interface in network_info],
    }


def port(interface: Any) -> dict[str, Any]:
    """Return a port with the addresses that it has."""
    subnets = [s for s in interface["network"]["subnets"] if s["ips"]]
    gateways = [s["gateway"]["address"] for s in subnets if (s["gateway"] or {}).get("address")]
    return {
        "id": interface["id"],
        "mtu": interface["network"]["meta"].get("mtu") or 1500,
        "gateway": gateways[0] if gateways else None,
        "port": {
            "id": interface["id"],
            "mac": interface["address"],
            "network": interface["network"]["id"],
            "device": "",
            "owner": "compute",
            "ips": [f"{i['address']}/{s['cidr'].split('/')[1]}" for s in subnets for i in s["ips"]],
            "groups": [],
            "secured": True,
        },
    }


fake.LabDriver = LabDriver  # where nova looks for it
sys.argv[0] = "nova-compute"
compute.main()
