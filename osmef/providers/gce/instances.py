"""VMs: what each is asked to be, and what is read back of it."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from google.cloud import compute_v1

from osmef.errors import BootError
from osmef.providers.base import EndpointRequest
from osmef.providers.cloud_init import cloud_config, user_data
from osmef.providers.gce.access import Project
from osmef.providers.gce.failures import is_late
from osmef.providers.gce.making import Maker
from osmef.providers.gce.names import Image, MachineType, region_of
from osmef.providers.gce.networks import Site
from osmef.providers.gce.placing import Place
from osmef.remote.keys import KeyPair
from osmef.scenario.clouds.gce import GceSettings, Nic

USER = "osmef"
"""The account that the guest agent makes where the settings name none."""
ENDED = {"DEPROVISIONING", "STOPPED", "STOPPING", "SUSPENDED", "SUSPENDING", "TERMINATED"}
"""States of a VM that ran and does so no more, or not for long."""
_GIB = 2**30
_LEAST_RUN_S, _LONGEST_RUN_S = 30, 120 * 24 * 3600
_NICS = {Nic.GVNIC: "GVNIC", Nic.VIRTIO: "VIRTIO_NET"}
_ONLY_HYPERDISK = {"c4", "c4a", "c4d", "h4d", "m4", "n4", "n4a", "n4d", "x4"}


@dataclass(frozen=True)
class VmOrder:
    """A VM to be made. ``name`` is the one in the cloud; ``host_key`` its own, if it is given."""

    request: EndpointRequest
    name: str
    site: Site
    zone: str
    type: MachineType
    image: Image
    place: Place
    login_key: KeyPair
    host_key: KeyPair | None


@dataclass(frozen=True)
class Vm:
    """A VM that runs, with its address in its network and that on the Internet."""

    order: VmOrder
    private: str
    public: str
    nics: tuple[str, ...] = ()
    """The Ethernet addresses of its further interfaces."""

    @property
    def project(self) -> Project:
        """The project it is in."""
        return self.order.site.tenant.project


def make_vm(maker: Maker, order: VmOrder, settings: GceSettings) -> Vm:
    """Make a VM, and wait until it runs. Raises ProviderError."""
    project = order.site.tenant.project
    body = body_of(maker, order, settings)
    maker.make(project, "instance", order.zone, order.name, body)
    end = time.monotonic() + settings.boot_timeout
    while True:
        doing = f"looking at the instance {order.name}"
        found = project.ask(
            doing, compute_v1.InstancesClient, "get", is_late, instance=order.name, zone=order.zone
        )
        private, public = addresses_of(found)
        if found.status == "RUNNING" and private and public:
            return Vm(order, private, public, macs_of(found))
        if found.status in ENDED or time.monotonic() > end:
            raise BootError(
                f"the VM is {found.status}",
                where=order.request.name,
                cure="was it taken back, as spot VMs may be? look at it: gcloud compute instances",
            )
        project.wait(1.0)


def addresses_of(instance: Any) -> tuple[str, str]:
    """Return the addresses of a VM in its network and on the Internet, empty where it has none."""
    for interface in instance.network_interfaces:
        outside = [config.nat_i_p for config in interface.access_configs if config.nat_i_p]
        return str(interface.network_i_p), str(outside[0]) if outside else ""
    return "", ""


def macs_of(instance: Any) -> tuple[str, ...]:
    """Return the Ethernet addresses of a VM's further interfaces.

    The API does not tell them: they are those of the IPv4 addresses in its network, after 42:01.
    """
    inside = [IPv4Address(one.network_i_p) for one in instance.network_interfaces[1:]]
    return tuple(bytes([0x42, 0x01, *address.packed]).hex(":") for address in inside)


def body_of(maker: Maker, order: VmOrder, settings: GceSettings) -> Any:
    """Return a VM as the API takes it."""
    policy = order.place.policy
    body = compute_v1.Instance(
        machine_type=f"zones/{order.zone}/machineTypes/{order.type.name}",
        labels=maker.mark.labels,
        disks=[_disk(maker, order, settings)],
        network_interfaces=_interfaces(order, settings),
        metadata=compute_v1.Metadata(
            items=[compute_v1.Items(key=k, value=v) for k, v in _metadata(order, settings).items()]
        ),
        scheduling=_scheduling(maker, order, settings),
        resource_policies=[policy] if policy else [],
    )
    if settings.tier_1:
        body.network_performance_config = compute_v1.NetworkPerformanceConfig(
            total_egress_bandwidth_tier="TIER_1"
        )
    return body


def _disk(maker: Maker, order: VmOrder, settings: GceSettings) -> Any:
    size = max(-(-int(settings.disk) // _GIB), order.image.disk_gib)
    return compute_v1.AttachedDisk(
        boot=True,
        auto_delete=True,
        initialize_params=compute_v1.AttachedDiskInitializeParams(
            disk_name=order.name,
            description=maker.mark.text,
            labels=maker.mark.labels,
            source_image=order.image.path,
            disk_size_gb=size,
            disk_type=f"zones/{order.zone}/diskTypes/{disk_type_of(settings, order.type.name)}",
        ),
    )


def disk_type_of(settings: GceSettings, machine_type: str) -> str:
    """Return the type of the boot disk of a VM of this machine type."""
    only_hyperdisk = series_of(machine_type) in _ONLY_HYPERDISK
    return settings.disk_type or ("hyperdisk-balanced" if only_hyperdisk else "pd-balanced")


def series_of(machine_type: str) -> str:
    """Return the series of a machine type: "n2" of "n2-standard-4"."""
    return machine_type.partition("-")[0]


def _interfaces(order: VmOrder, settings: GceSettings) -> list[Any]:
    """Return the usual interface with an address outside, and the further ones without."""
    networks = [order.site.network, *order.site.nics[: order.request.nics]]
    outside = compute_v1.AccessConfig(type_="ONE_TO_ONE_NAT", name="External NAT")
    return [
        compute_v1.NetworkInterface(
            network=network.path,
            subnetwork=network.subnets[region_of(order.zone)],
            nic_type=_NICS[settings.nic],
            access_configs=[] if number else [outside],
        )
        for number, network in enumerate(networks)
    ]


def _metadata(order: VmOrder, settings: GceSettings) -> Mapping[str, str]:
    user = settings.user or USER
    found = {
        # Else the project's own settings could keep our key out, or let others in.
        "block-project-ssh-keys": "TRUE",
        "enable-oslogin": "FALSE",
        "enable-guest-attributes": "TRUE",
        "ssh-keys": f"{user}:{order.login_key.public.strip()}",
    }
    if order.host_key is not None:
        config = cloud_config(user, order.login_key, order.host_key)
        found["user-data"] = base64.b64decode(user_data(config, None)).decode()
    return found


def _scheduling(maker: Maker, order: VmOrder, settings: GceSettings) -> Any:
    left = int(maker.mark.deadline - time.time())
    fields: dict[str, Any] = {
        "automatic_restart": False,
        "instance_termination_action": "DELETE",
        "max_run_duration": compute_v1.Duration(
            seconds=min(max(left, _LEAST_RUN_S), _LONGEST_RUN_S)
        ),
        **order.place.scheduling(),
    }
    if settings.spot:
        fields |= {"provisioning_model": "SPOT", "on_host_maintenance": "TERMINATE"}
    if settings.show_hosts:
        fields["expose_host_topology"] = True
    return compute_v1.Scheduling(**fields)
