"""What the settings ask of VMs, and machine types and images that can't do it.

Sources: Google's "Configure per VM Tier_1 networking performance", "Placement policies overview"
and "Use Google Virtual NIC".
"""

from __future__ import annotations

from collections.abc import Iterable

from osmef.errors import ProviderError
from osmef.providers.gce.instances import series_of
from osmef.providers.gce.names import Image, MachineType
from osmef.scenario.clouds.gce import GceSettings, Nic

_LEAST_TIER_1_VCPUS = 30
"""Of the smallest machine types that have it; some series begin at more."""
_NEVER_COMPACT = {"e2", "f1", "g1", "n1", "t2a", "t2d"}


def check_fits(
    settings: GceSettings, types: Iterable[MachineType], images: Iterable[Image]
) -> None:
    """Raise ProviderError for what the cloud would refuse only when networks are made."""
    for one in types:
        if settings.tier_1 and one.vcpus < _LEAST_TIER_1_VCPUS:
            raise ProviderError(
                f"{one.name} has no Tier 1 bandwidth",
                where="provider.tier_1",
                cure=f"use a type of at least {_LEAST_TIER_1_VCPUS} vCPUs, or leave tier_1 out",
            )
        if settings.compact and series_of(one.name) in _NEVER_COMPACT:
            raise ProviderError(
                f"{one.name} takes no compact placement policy",
                where="provider.compact",
                cure="use another series, such as n2 or c3, or leave compact out",
            )
    for image in images:
        if settings.nic is Nic.GVNIC and not image.gvnic:
            raise ProviderError(
                f"the image {image.path} has no driver for gVNIC",
                where="provider.image",
                cure="use another image, or write nic: virtio",
            )
