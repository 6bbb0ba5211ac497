"""The VMs of the cloud: guests of the data plane with a real sshd, on hosts that are made up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.gce.services import contents, wires
from tests.gce.services.description import Call, RefusalError, invalid
from tests.gce.services.faults import Faults
from tests.openstack.services import data_plane_client

if TYPE_CHECKING:
    from tests.gce.services.cloud import Cloud

_NODE = "compute.googleapis.com/node-name"
_HOSTS = 4


class Machines:
    """Places, boots and ends VMs."""

    def __init__(self, state: Path, faults: Faults) -> None:
        self._guests = state / "guests"
        self._fabric = str(state / "fabric.sock")
        self._faults = faults
        self._placed = 0

    def prepare(self, cloud: Cloud, call: Call, vm: dict[str, Any]) -> dict[str, Any]:
        """Return a new VM as the API shows it. Raises RefusalError."""
        zone = call["zone"]
        machine_type = vm["machineType"].rpartition("/")[2]
        if not contents.has_type(zone, machine_type):
            raise RefusalError(404, "notFound", f"The resource '{vm['machineType']}' was not found")
        source = vm["disks"][0]["initializeParams"]["sourceImage"].rpartition("/")[2]
        if source not in contents.IMAGES.values():
            raise RefusalError(404, "notFound", f"The resource '{source}' was not found")
        self._plug(cloud, vm)
        vm |= {"status": "PROVISIONING", "resourceStatus": self._place(cloud, call, vm)}
        return vm

    def _plug(self, cloud: Cloud, vm: dict[str, Any]) -> None:
        others = [nic for one in cloud.of("instances") for nic in one["networkInterfaces"]]
        public = [config["natIP"] for one in others for config in one.get("accessConfigs", [])]
        vcpus = contents.TYPES[vm["machineType"].rpartition("/")[2]][0]
        if len(vm["networkInterfaces"]) > max(2, min(vcpus, 8)):
            raise invalid("Number of network interfaces is more than the machine type allows")
        networks = set()
        for number, interface in enumerate(vm["networkInterfaces"]):
            subnet = cloud.known(interface["subnetwork"])
            network = cloud.known(interface["network"])
            if subnet["network"] != network["selfLink"]:
                raise invalid("the subnetwork is of another network")
            interface["network"], interface["subnetwork"] = network["selfLink"], subnet["selfLink"]
            here = [one["networkIP"] for one in others if one["subnetwork"] == subnet["selfLink"]]
            interface["networkIP"] = wires.private_address(subnet["ipCidrRange"], here)
            interface["name"] = f"nic{number}"
            for config in interface.get("accessConfigs", []):
                config["natIP"] = wires.public_address(public)
            networks.add(network["selfLink"])
        if len(networks) < len(vm["networkInterfaces"]):
            raise invalid("Networks must be distinct for NICs attached to a VM.")

    def _place(self, cloud: Cloud, call: Call, vm: dict[str, Any]) -> dict[str, Any]:
        scheduling = vm["scheduling"]
        domain = scheduling.get("availabilityDomain")
        for path in vm.get("resourcePolicies", []):
            policy = cloud.known(path)["groupPlacementPolicy"]
            if domain is not None and domain > policy.get("availabilityDomainCount", 0):
                raise invalid("Invalid value for field 'scheduling.availabilityDomain'")
        if domain is not None and not vm.get("resourcePolicies"):
            raise invalid("an availability domain needs a spread policy")
        self._placed += 1
        host = self._faults.host(vm["selfLink"]) or f"host-{domain or self._placed % _HOSTS}"
        status: dict[str, Any] = {"scheduling": {}}
        if domain is not None:
            status["scheduling"]["availabilityDomain"] = domain
        if scheduling.get("exposeHostTopology"):
            status["physicalHost"] = f"/{call['zone']}/sub-1/{host}"
            status["physicalHostTopology"] = {
                "cluster": call["zone"],
                "block": "block-1",
                "subblock": "sub-1",
                "host": host,
            }
        return status

    def node_of(self, vm: dict[str, Any]) -> str | None:
        """Return the sole-tenant node that a VM asked for."""
        for affinity in vm["scheduling"].get("nodeAffinities", []):
            if affinity["key"] == _NODE:
                return str(affinity["values"][0])
        return None

    def tell(self, cloud: Cloud) -> None:
        """Have the data plane know of all networks. Raises OSError."""
        with cloud.lock:
            told = wires.told(
                *(cloud.of(name) for name in ("networks", "subnetworks", "firewalls", "instances"))
            )
            data_plane_client.ask(self._fabric, {"do": "apply", "told": told})

    def boot(self, cloud: Cloud, path: str, vm: dict[str, Any]) -> None:
        """Have a VM run. Raises OSError."""
        with cloud.lock:
            network = cloud.known(vm["networkInterfaces"][0]["network"])
            stuck = self._faults.stuck(path)
            guest = wires.guest(vm, network, cloud.of("subnetworks"), stuck=stuck)
            self.tell(cloud)
        data_plane_client.ask(self._fabric, {"do": "boot", "guest": guest})
        vm["status"] = "RUNNING"

    def end(self, vm: dict[str, Any]) -> None:
        """Switch a VM off. Raises OSError."""
        data_plane_client.ask(self._fabric, {"do": "end", "id": wires.key(vm["id"])})

    def console(self, vm: dict[str, Any]) -> str:
        """Return what a VM wrote on its serial port."""
        path = self._guests / wires.key(vm["id"]) / "console"
        return path.read_text(errors="replace") if path.exists() else ""

    def host_keys(self, vm: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the host keys that the guest agent told, if the VM lets it."""
        metadata = {one["key"]: one["value"] for one in vm["metadata"]["items"]}
        if metadata.get("enable-guest-attributes") != "TRUE":
            raise RefusalError(403, "forbidden", "Guest attributes are not enabled")
        return wires.host_keys(self.console(vm))
