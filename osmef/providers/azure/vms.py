"""VMs: what each is asked to be, and making it with its address and its interface."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

from osmef.providers.azure.making import Maker
from osmef.providers.azure.names import Size
from osmef.providers.azure.networks import Body, interface
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


@dataclass(frozen=True)
class Vm:
    """A VM that runs, with its address in its network and that on the Internet."""

    order: VmOrder
    id: str
    private: str
    public: str


def vm_name(number: int, request: EndpointRequest) -> str:
    """Return the name of a VM in its group, also fit to be a host name."""
    return f"{number}-{_NOT_IN_NAMES.sub('-', request.name)[:40]}".rstrip("-")


def is_vm_name(name: str) -> bool:
    """Tell whether a VM of ours may be called so."""
    return re.fullmatch(r"\d+-[A-Za-z0-9-]+", name) is not None


def make_nic(
    maker: Maker, order: VmOrder, settings: AzureSettings, subnet: str, public: Any
) -> Any:
    """Make the interface of a VM, at a public address that is there. Raises ProviderError."""
    fast = order.size.accelerated if settings.accelerated is None else settings.accelerated
    body = interface(settings.region, subnet, str(public.id), accelerated=fast)
    return maker.make(order.site.subscription, "network-interface", order.path, body)


def make_vm(maker: Maker, order: VmOrder, settings: AzureSettings, nic: Any, public: Any) -> Vm:
    """Make a VM with its interface and address, and wait until it runs. Raises ProviderError."""
    body = body_of(order, settings, str(nic.id))
    made = maker.make(order.site.subscription, "vm", order.path, body)
    private = str(nic.properties.ip_configurations[0].properties.private_ip_address)
    return Vm(order, str(made.id), private, str(public.properties.ip_address))


def body_of(order: VmOrder, settings: AzureSettings, nic: str) -> Body:
    """Return a VM as the API takes it, with its interface, given by id."""
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
        "networkProfile": {"networkInterfaces": [{"id": nic, "properties": {"primary": True}}]},
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
