"""The settings of Google Compute Engine."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from osmef.scenario.base import conflict
from osmef.scenario.clouds.base import (
    ENDPOINT,
    Cidr,
    CloudAccess,
    GoogleUrl,
    HostKeySource,
    PublicCloudSettings,
)
from osmef.scenario.fields import Name, Text


class NicType(StrEnum):
    """The type of a VM's network interface."""

    GVNIC = "gvnic"
    VIRTIO = "virtio"


class GceSettings(PublicCloudSettings):
    """Google Compute Engine: VMs in one or several projects."""

    kind: Literal["gce"] = Field(default="gce", description="the kind of cloud")
    endpoint_url: GoogleUrl | None = Field(default=None, description=ENDPOINT)
    project: Text | None = Field(
        default=None, description="project; by default that of the credentials"
    )
    tenants: dict[Name, Text] | None = Field(
        default=None,
        description="the tenants: a project each, all of the same credentials; by default each"
        " tenant is a network of its own in one project",
    )
    controller_cidr: Cidr = Field(
        description="from where SSH is allowed: this machine's address on the Internet, as /32"
    )
    default_flavor: Text = Field(
        default="n2-standard-4", description="machine type of an endpoint that names none"
    )
    host_keys: HostKeySource = Field(
        default=HostKeySource.CONSOLE,
        description="console: as the guest agent reports in guest attributes, or cloud-init on the"
        " serial port; given: with the VM's first data, for images with cloud-init",
    )
    nic: NicType = Field(default=NicType.GVNIC, description="kind of the network interface")
    tier_1: bool = Field(
        default=False,
        description="the higher bandwidth that large machine types have for a price, with gvnic",
    )
    mtu: int = Field(default=1460, ge=1300, le=8896, description="largest packet, in bytes")
    disk_type: Text | None = Field(
        default=None,
        description="type of the boot disk; by default pd-balanced, or hyperdisk-balanced for the"
        " series that have no other",
    )
    compact: bool = Field(
        default=False,
        description="put VMs on different hosts near each other, by a compact placement policy; by"
        " default a spread policy keeps them apart",
    )
    show_hosts: bool = Field(
        default=False,
        description="ask for the id of each VM's physical host; not every machine type reports it",
    )
    node_group: Text | None = Field(
        default=None, description="group of sole-tenant nodes that is there, to put all VMs on"
    )

    def written_zone(self, zone: str) -> str | None:
        """Return the syntax of zones if this is invalid in any region."""
        known = re.fullmatch(r"[a-z0-9-]+-[a-z]", zone)
        return None if known else f"like {self.region}-a"

    def priced_region(self, zone: str | None) -> str | None:
        """Return the region of the zone, which may differ."""
        return self.region if zone is None else zone.rpartition("-")[0] or None

    @property
    def nics_apart(self) -> bool:
        """Whether further network cards are on different networks: a VM's always are."""
        return True

    priced_apart: ClassVar[str] = "sole-tenant nodes or Tier 1"

    @property
    def priced_by_flavor(self) -> bool:
        """Whether the flavor is the whole cost: sole-tenant nodes and Tier 1 cost extra."""
        return self.node_group is None and not self.tier_1

    @model_validator(mode="after")
    def _fits(self) -> GceSettings:
        if self.tier_1 and self.nic is not NicType.GVNIC:
            raise conflict("Tier 1 needs gvnic", "write nic: gvnic", *("tier_1", "nic"))
        if self.zone is not None and not self.zone.startswith(f"{self.region}-"):
            raise conflict(
                f"the zone {self.zone} is not in the region {self.region}",
                "write one of them differently",
                *("zone", "region"),
            )
        if self.node_group is not None and self.zone is None:
            raise conflict(
                "a group of sole-tenant nodes is in one zone",
                "write the zone",
                *("node_group", "zone"),
            )
        if self.node_group is not None and self.compact:
            raise conflict(
                "VMs on sole-tenant nodes take no compact placement policy",
                "write one of node_group and compact",
                *("node_group", "compact"),
            )
        if self.node_group is not None and self.spot:
            raise conflict(
                "sole-tenant nodes have no spot VMs", "leave spot out", *("node_group", "spot")
            )
        return self


class GceAccess(CloudAccess):
    """A project; ``cloud`` is its id."""

    uri: GoogleUrl | None = None
