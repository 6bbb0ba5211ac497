"""VMs: their requests, and what is read back of them."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from typing import Any

from google.cloud import compute_v1

from osmef.errors import BootError, NotFoundError
from osmef.providers.cloud import build
from osmef.providers.cloud.account import Again
from osmef.providers.cloud.ssh_access import BootingGuest
from osmef.providers.cloud_init import cloud_config, keys_in, user_data
from osmef.providers.gce.access import ERRORS, last
from osmef.providers.gce.lookup import Image, disk_type_of, region_of
from osmef.providers.gce.network import TenantNet
from osmef.providers.gce.placement import VmPlacement
from osmef.providers.gce.resource_types import Maker
from osmef.remote.login import HostKeys
from osmef.scenario.clouds.gce import GceSettings, NicType
from osmef.units import whole_gib

USER = "osmef"
"""The account that the guest agent makes where the settings name none."""
ENDED = {"DEPROVISIONING", "STOPPED", "STOPPING", "SUSPENDED", "SUSPENDING", "TERMINATED"}
"""States of a VM that ran and does so no more, or not for long."""
_HOST_KEYS = "hostkeys/"
"""The namespace of guest attributes that the guest agent writes at a VM's first boot."""
_LEAST_RUN_S, _LONGEST_RUN_S = 30, 120 * 24 * 3600
_TIER_1 = {"total_egress_bandwidth_tier": "TIER_1"}
_NICS = {NicType.GVNIC: "GVNIC", NicType.VIRTIO: "VIRTIO_NET"}


@dataclass(frozen=True)
class VmSpec(build.VmSpec[TenantNet]):
    """A VM to create."""

    zone: str
    image: Image
    place: VmPlacement

    @property
    def image_name(self) -> str:
        """The name of its image."""
        return last(self.image.path)


@dataclass(frozen=True)
class Vm(build.Vm[VmSpec]):
    """A running VM."""

    shown_by = "serial port"

    def user(self, settings: GceSettings) -> str:
        """Return the account that SSH logs into."""
        return settings.user or USER

    def guest(self, settings: GceSettings) -> BootingGuest:
        """Return the same as a guest that boots, whose agent may write its host keys."""
        return replace(super().guest(settings), look_s=1.0, other_keys=self._guest_attributes)

    def _guest_attributes(self) -> HostKeys | None:
        """Return the host keys in its guest attributes, where its agent writes them."""
        doing, method = "reading guest attributes", "get_guest_attributes"
        try:
            reported = ask(self.spec, doing, method, query_path=_HOST_KEYS)
        except NotFoundError:  # until the guest agent has written some
            return None
        keys = keys_in("\n".join(f"{one.key} {one.value}" for one in reported.query_value.items))
        return HostKeys(accepted=tuple(keys), source="its guest attributes") if keys else None

    def console(self) -> str:
        """Return what it wrote on its first serial port, as far as the cloud keeps it."""
        answer = ask(self.spec, "reading a serial port", "get_serial_port_output")
        return str(answer.contents)


def ask(spec: VmSpec, doing: str, method: str, again: Again | None = None, **fields: Any) -> Any:
    """Make a call about a VM that changes nothing. Raises ProviderError."""
    named = {"instance": spec.name, "zone": spec.zone, **fields}
    return spec.account.ask(doing, compute_v1.InstancesClient, method, again, **named)


def look(spec: VmSpec, again: Again | None = None) -> Any:
    """Return a VM as the cloud shows it. Raises ProviderError, NotFoundError."""
    return ask(spec, f"looking at the instance {spec.name}", "get", again)


def make_vm(maker: Maker, spec: VmSpec, settings: GceSettings) -> Vm:
    """Create a VM, and wait until it runs. Raises ProviderError."""
    project = spec.net.account
    body = body_of(maker, spec, settings)
    maker.make(project, "instance", spec.name, where=spec.zone, body=body)

    def running(*, late: bool) -> Vm | None:
        found = look(spec, ERRORS.is_not_yet)
        private, public = addresses_of(found)
        if found.status == "RUNNING" and private and public:
            return Vm(spec, f"{spec.zone}/{spec.name}", private, public, macs_of(found))
        if not late and found.status not in ENDED:
            return None
        raise BootError(
            f"the VM is {found.status}",
            where=spec.request.name,
            cure="was it taken back, as spot VMs may be? look at it: gcloud compute instances",
        )

    return project.until(running, settings.boot_timeout)


def addresses_of(instance: Any) -> tuple[str, str]:
    """Return the private and the public address of a VM, empty where it has none."""
    for interface in instance.network_interfaces:
        outside = [config.nat_i_p for config in interface.access_configs if config.nat_i_p]
        return str(interface.network_i_p), str(outside[0]) if outside else ""
    return "", ""


def macs_of(instance: Any) -> tuple[str, ...]:
    """Return the MAC addresses of a VM's further interfaces.

    The API does not report them: each is 42:01 and the IPv4 address in its network.
    """
    inside = [IPv4Address(one.network_i_p) for one in instance.network_interfaces[1:]]
    return tuple(bytes([0x42, 0x01, *address.packed]).hex(":") for address in inside)


def body_of(maker: Maker, spec: VmSpec, settings: GceSettings) -> Any:
    """Return a VM as the API's request body."""
    policy = spec.place.policy
    return compute_v1.Instance(
        machine_type=f"zones/{spec.zone}/machineTypes/{spec.flavor.name}",
        labels=maker.mark.labels,
        disks=[_disk(maker, spec, settings)],
        network_interfaces=_interfaces(spec, settings),
        metadata={"items": [{"key": k, "value": v} for k, v in _metadata(spec, settings).items()]},
        scheduling=_scheduling(maker, spec, settings),
        resource_policies=[policy] if policy else [],
        network_performance_config=_TIER_1 if settings.tier_1 else None,
    )


def _disk(maker: Maker, spec: VmSpec, settings: GceSettings) -> Any:
    size = max(whole_gib(settings.disk), spec.image.disk_gib)
    kind = disk_type_of(settings, spec.flavor.name)
    return compute_v1.AttachedDisk(
        boot=True,
        auto_delete=True,
        initialize_params={
            "disk_name": spec.name,
            "description": maker.mark.text,
            "labels": maker.mark.labels,
            "source_image": spec.image.path,
            "disk_size_gb": size,
            "disk_type": f"zones/{spec.zone}/diskTypes/{kind}",
        },
    )


def _interfaces(spec: VmSpec, settings: GceSettings) -> list[Any]:
    """Return the first interface with a public address, and further ones without."""
    networks = [spec.net.network, *spec.net.nics[: spec.request.nics]]
    outside = compute_v1.AccessConfig(type_="ONE_TO_ONE_NAT", name="External NAT")
    return [
        compute_v1.NetworkInterface(
            network=network.path,
            subnetwork=network.subnets[region_of(spec.zone)],
            nic_type=_NICS[settings.nic],
            access_configs=[] if number else [outside],
        )
        for number, network in enumerate(networks)
    ]


def _metadata(spec: VmSpec, settings: GceSettings) -> Mapping[str, str]:
    user = settings.user or USER
    found = {
        # Else the project's own settings could keep our key out, or let others in.
        "block-project-ssh-keys": "TRUE",
        "enable-oslogin": "FALSE",
        "enable-guest-attributes": "TRUE",
        "ssh-keys": f"{user}:{spec.login_key.public.strip()}",
    }
    if spec.host_key is not None:
        config = cloud_config(user, spec.login_key, spec.host_key)
        found["user-data"] = base64.b64decode(user_data(config, None)).decode()
    return found


def _scheduling(maker: Maker, spec: VmSpec, settings: GceSettings) -> Any:
    left = int(maker.mark.deadline - time.time())
    fields: dict[str, Any] = {
        "automatic_restart": False,
        "instance_termination_action": "DELETE",
        "max_run_duration": {"seconds": min(max(left, _LEAST_RUN_S), _LONGEST_RUN_S)},
        **spec.place.scheduling(),
    }
    if settings.spot:
        fields |= {"provisioning_model": "SPOT", "on_host_maintenance": "TERMINATE"}
    if settings.show_hosts:
        fields["expose_host_topology"] = True
    return compute_v1.Scheduling(**fields)
