"""What the settings ask of VMs, and machine types and images that can't do it.

Sources: Google's "Configure per VM Tier_1 networking performance", "Placement policies overview",
"Use Google Virtual NIC" and "Multiple network interfaces".
"""

from __future__ import annotations

from collections.abc import Iterable

from osmef.errors import ProviderError
from osmef.providers.base import EndpointRequest
from osmef.providers.cards import check_cards
from osmef.providers.gce.instances import series_of
from osmef.providers.gce.names import Image, MachineType
from osmef.scenario.clouds.gce import GceSettings, Nic

_LEAST_TIER_1_VCPUS = 30
"""Of the smallest machine types that have it; some series begin at more."""
_NEVER_TIER_1 = {"e2", "f1", "g1", "h3", "n1", "n4", "t2a", "t2d"}
_ONLY_GVNIC = {"c3", "c3d", "c4", "c4a", "c4d", "h3", "h4d", "n4", "n4a", "n4d", "t2a", "z3"}
_LEAST_NICS, _MOST_NICS = 2, 8
"""Of interfaces: one for each vCPU, and as many at least and at most."""
_NEVER_COMPACT = {"e2", "f1", "g1", "n1", "t2a", "t2d"}


def check_fits(
    settings: GceSettings, types: Iterable[MachineType], images: Iterable[Image]
) -> None:
    """Raise ProviderError for what the cloud would refuse only when networks are made."""
    for one in types:
        _check_type(settings, one)
    for image in images:
        if settings.nic is Nic.GVNIC and not image.gvnic:
            raise ProviderError(
                f"the image {image.path} has no driver for gVNIC",
                where="provider.image",
                cure="use another image, or write nic: virtio",
            )


def check_nics(request: EndpointRequest, one: MachineType) -> None:
    """Raise CapacityError where a machine type has too few interfaces for a request."""
    check_cards(request, one.name, max(_LEAST_NICS, min(one.vcpus, _MOST_NICS)))


def _check_type(settings: GceSettings, one: MachineType) -> None:
    series = series_of(one.name)
    if settings.tier_1 and (series in _NEVER_TIER_1 or one.vcpus < _LEAST_TIER_1_VCPUS):
        raise ProviderError(
            f"{one.name} has no Tier 1 bandwidth",
            where="provider.tier_1",
            cure=f"use a type of at least {_LEAST_TIER_1_VCPUS} vCPUs of a series that has it, such"
            " as n2, c2 or c3, or leave tier_1 out",
        )
    if settings.nic is Nic.VIRTIO and series in _ONLY_GVNIC:
        raise ProviderError(
            f"{one.name} takes no interface but gVNIC",
            where="provider.nic",
            cure="leave nic out, or use another series, such as n2",
        )
    if settings.compact and series in _NEVER_COMPACT:
        raise ProviderError(
            f"{one.name} takes no compact placement policy",
            where="provider.compact",
            cure="use another series, such as n2 or c3, or leave compact out",
        )
