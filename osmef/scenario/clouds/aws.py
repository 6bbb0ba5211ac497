"""The settings of Amazon's EC2."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Literal

from pydantic import Field, model_validator

from osmef.scenario.base import conflict
from osmef.scenario.clouds.base import (
    ENDPOINT,
    AwsUrl,
    CloudAccess,
    NicSettings,
    PublicCloudSettings,
)
from osmef.scenario.fields import Text


class AwsPlacedBy(StrEnum):
    """Means by which the placement of instances is controlled."""

    PARTITION = "partition"
    SPREAD = "spread"
    CLUSTER = "cluster"
    DEDICATED_HOST = "dedicated-host"


class AwsSettings(NicSettings, PublicCloudSettings):
    """Amazon EC2: instances in VPCs of one region, of one account or several."""

    kind: Literal["aws"] = Field(default="aws", description="the kind of cloud")
    endpoint_url: AwsUrl | None = Field(default=None, description=ENDPOINT)
    profile: Text | None = Field(
        default=None,
        description="profile of your AWS configuration; by default what the SDK's chain of"
        " credentials finds. Under `tenants` each tenant is a profile, too",
    )
    placement_by: AwsPlacedBy = Field(
        default=AwsPlacedBy.PARTITION,
        description="what places instances: a placement group of partitions, one a host; of racks"
        " (spread), or of neighbours (cluster); or dedicated hosts, which are charged as a whole",
    )
    dedicated: bool = Field(
        default=False, description="hardware that runs no other account's instances, for more"
    )

    def written_zone(self, zone: str) -> str | None:
        """Return the syntax of zones if this is neither a name in the region nor an id."""
        known = re.fullmatch(rf"{re.escape(self.region)}[a-z]|[a-z]+[0-9]+-az[0-9]+", zone)
        return None if known else f"like {self.region}a, or by an id such as use1-az1"

    @model_validator(mode="after")
    def _one_zone(self) -> AwsSettings:
        if self.is_ambiguous(self.zone):
            raise conflict(
                "the name of a zone is another physical zone in each account",
                "write its id, such as use1-az1: the same in all of them",
                *("zone", "tenants"),
            )
        return self

    def is_ambiguous(self, zone: str | None) -> bool:
        """Return whether a zone's name is mapped differently in the tenants' accounts."""
        return zone is not None and len(self.tenants or ()) > 1 and zone.startswith(self.region)

    @model_validator(mode="after")
    def _one_price(self) -> AwsSettings:
        hosts = self.placement_by is AwsPlacedBy.DEDICATED_HOST
        if hosts and self.spot:
            raise conflict(
                "a dedicated host is no spare capacity",
                "remove spot, or write placement_by: partition",
                *("spot", "placement_by"),
            )
        if hosts and self.dedicated:
            raise conflict(
                "a dedicated host is yours alone anyway", "remove dedicated", "dedicated"
            )
        if self.dedicated and self.placement_by is AwsPlacedBy.SPREAD:
            raise conflict(
                "EC2 makes no spread groups of dedicated instances",
                "remove dedicated, or write placement_by: partition",
                *("dedicated", "placement_by"),
            )
        return self

    @property
    def priced_by_flavor(self) -> bool:
        """Whether instances are on shared hardware: dedicated one costs more."""
        return not (self.dedicated or self.placement_by is AwsPlacedBy.DEDICATED_HOST)

    def lanes(self, parallel: int, kinds: int) -> int:
        """Return one lane for each kind of pairs with racks or neighbours, whose groups hold one.

        Partitions and hosts are shared by all kinds, two of them for each trial at once.
        """
        if self.placement_by in {AwsPlacedBy.SPREAD, AwsPlacedBy.CLUSTER}:
            return kinds
        return max(1, min(parallel, kinds))


class AwsAccess(CloudAccess):
    """An account; ``cloud`` is a profile."""

    uri: AwsUrl | None = None
