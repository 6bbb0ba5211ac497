"""VMs: what each is asked to be, and making it with its address and its interface."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osmef.providers.azure.kinds import KINDS
from osmef.providers.azure.making import Maker
from osmef.providers.azure.names import Size
from osmef.providers.azure.networks import SUBNET, Body, interface, nic_subnet
from osmef.providers.azure.placing import Place
from osmef.providers.azure.sites import Site
from osmef.providers.base import EndpointRequest
from osmef.providers.cloud_init import cloud_config, user_data
from osmef.remote.keys import KeyPair
from osmef.scenario.clouds.azure import AzureSettings

_GIB = 2**30
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9-]+")


@dataclass(frozen=True)
class VmOrder:
    """A VM to be made.

    ``name`` is that in its group, ``host_key`` its own, if it is given, ``ends`` the UNIX time at
    which it powers itself off.
    """

    request: EndpointRequest
    name: str
    site: Site
    size: Size
    place: Place
    login_key: KeyPair
    host_key: KeyPair | None
    ends: float

    @property
    def path(self) -> str:
        """The name of the VM, its interface and its address, with the group's."""
        return self.site.path(self.name)

    @property
    def nic_paths(self) -> list[str]:
        """The names of its further interfaces, with the group's."""
        return [f"{self.path}-nic-{number}" for number in range(1, self.request.nics + 1)]


@dataclass(frozen=True)
class Vm:
    """A VM that runs, with its address in its network and that on the Internet."""

    order: VmOrder
    id: str
    private: str
    public: str
    nics: tuple[str, ...] = ()
    """The Ethernet addresses of its further interfaces."""


def vm_name(number: int, request: EndpointRequest) -> str:
    """Return the name of a VM in its group, also fit to be a host name."""
    return f"{number}-{_NOT_IN_NAMES.sub('-', request.name)[:40]}".rstrip("-")


def is_vm_name(name: str) -> bool:
    """Tell whether a VM of ours may be called so."""
    return re.fullmatch(r"\d+-[A-Za-z0-9-]+", name) is not None


def make_nics(
    maker: Maker, order: VmOrder, settings: AzureSettings, subnets: Mapping[str, str], public: Any
) -> list[Any]:
    """Make the interfaces of a VM, the first one at a public address that is there.

    ``subnets`` are ids of subnets by their names. Raises ProviderError.
    """
    fast = order.size.accelerated if settings.accelerated is None else settings.accelerated

    def make(path: str, subnet: str, address: str | None) -> Any:
        body = interface(settings.region, subnets[subnet], address, accelerated=fast)
        return maker.make(order.site.subscription, "network-interface", path, body)

    further = [
        make(path, nic_subnet(settings.nic_network(card)), None)
        for card, path in enumerate(order.nic_paths)
    ]
    return [make(order.path, SUBNET, str(public.id)), *further]


def make_vm(
    maker: Maker, order: VmOrder, settings: AzureSettings, nics: Sequence[Any], public: Any
) -> Vm:
    """Make a VM with its interfaces and address, and wait until it runs. Raises ProviderError."""
    body = body_of(order, settings, [str(nic.id) for nic in nics])
    made = maker.make(order.site.subscription, "vm", order.path, body)
    private = str(nics[0].properties.ip_configurations[0].properties.private_ip_address)
    macs = tuple(_mac_of(order, path) for path in order.nic_paths)
    return Vm(order, str(made.id), private, str(public.properties.ip_address), macs)


def _mac_of(order: VmOrder, path: str) -> str:
    """Return the Ethernet address of an interface, which it has once its VM runs."""
    subscription = order.site.subscription
    nic = subscription.do(
        f"looking at the interface {path}",
        lambda: KINDS["network-interface"].get(subscription, path),
    )
    return str(nic.properties.mac_address).replace("-", ":").lower()


def body_of(order: VmOrder, settings: AzureSettings, nics: Sequence[str]) -> Body:
    """Return a VM as the API takes it, with its interfaces, given by id."""
    image = order.site.names.image_for(order.size)
    properties: Body = {
        "hardwareProfile": {"vmSize": order.size.name},
        "storageProfile": {
            "imageReference": dict(image.reference),
            "osDisk": {
                "name": order.name,
                "createOption": "FromImage",
                "deleteOption": "Delete",
                "diskSizeGB": -(-int(settings.disk) // _GIB),
            },
        },
        "osProfile": _os_profile(order, settings),
        "networkProfile": {
            "networkInterfaces": [
                {"id": nic, "properties": {"primary": number == 0}}
                for number, nic in enumerate(nics)
            ]
        },
        # Without an account of storage, Azure keeps what the serial port tells.
        "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
        **order.place.properties,
    }
    if settings.spot:
        properties |= {
            "priority": "Spot",
            "evictionPolicy": "Delete",
            "billingProfile": {"maxPrice": -1.0},  # never evicted for its price
        }
    body: Body = {"location": settings.region, "properties": properties}
    if order.place.zone is not None:
        body["zones"] = [order.place.zone]
    if image.plan is not None:
        body["plan"] = dict(image.plan)
    return body


def _os_profile(order: VmOrder, settings: AzureSettings) -> Body:
    user = settings.user
    config = cloud_config(user, order.login_key, order.host_key, order.ends - time.time())
    key = {"path": f"/home/{user}/.ssh/authorized_keys", "keyData": order.login_key.public.strip()}
    return {
        "computerName": order.name,
        "adminUsername": user,
        "customData": user_data(config, None),
        "linuxConfiguration": {
            "disablePasswordAuthentication": True,
            "ssh": {"publicKeys": [key]},
        },
    }
