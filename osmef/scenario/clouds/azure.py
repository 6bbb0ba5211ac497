"""The settings of Microsoft Azure."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, model_validator

from osmef.scenario.base import conflict
from osmef.scenario.clouds.base import (
    ENDPOINT,
    AzureUrl,
    Cidr,
    CloudAccess,
    NicSettings,
    PublicCloudSettings,
)
from osmef.scenario.fields import Name, Size, Text


class AzureSettings(NicSettings, PublicCloudSettings):
    """Azure: VMs of one or several subscriptions in one region."""

    kind: Literal["azure"] = Field(default="azure", description="the kind of cloud")
    endpoint_url: AzureUrl | None = Field(default=None, description=ENDPOINT)
    zone: Text | None = Field(
        default=None,
        description="availability zone of endpoints that name none, such as 1; by default none is"
        " asked for, and the region places them",
    )
    tenants: dict[Name, Text] | None = Field(
        default=None,
        description="the tenants: for each the id of a subscription; by default each tenant is a"
        " network of its own in the subscription of AZURE_SUBSCRIPTION_ID",
    )
    image: Text | None = Field(
        default=None,
        description="image: publisher:offer:sku for the newest, publisher:offer:sku:version, or the"
        " resource id of one of yours; by default the newest Debian 12",
    )
    user: Text = Field(default="osmef", description="account that is made for SSH")
    disk: Size = Field(
        default=30 * 2**30,
        ge=2**30,
        description="size of the boot disk, in whole GiB, not less than the image's",
    )
    controller_cidr: Cidr | None = Field(
        default=None,
        description="from where SSH is allowed; has to be written, as Azure does not report the"
        " address at which it sees this machine",
    )
    accelerated: bool | None = Field(
        default=None,
        description="accelerated networking (SR-IOV); by default wherever the size has it",
    )
    proximity: bool = Field(
        default=False,
        description="keep the VMs of each kind of pair near each other, by a proximity placement"
        " group; that is not one host",
    )
    dedicated_host: Text | None = Field(
        default=None,
        description="type of dedicated hosts, such as DSv5-Type1, to make for the run and to place"
        " VMs on: the only way to one host",
    )

    def written_zone(self, zone: str) -> str | None:
        """Return the syntax of zones if this is neither a number nor a physical name."""
        known = re.fullmatch(rf"[0-9]+|{re.escape(self.region)}-az[0-9]+", zone)
        return None if known else f"like '1', or {self.region}-az1"

    @property
    def priced_by_flavor(self) -> bool:
        """Whether hosts are shared: dedicated ones are charged as a whole."""
        return self.dedicated_host is None

    @model_validator(mode="after")
    def _complete(self) -> AzureSettings:
        if self.controller_cidr is None:
            raise conflict(
                "Azure does not report from which address this machine reaches it",
                "write controller_cidr: ADDRESS/32, the address that the Internet sees",
                "controller_cidr",
            )
        if self.dedicated_host is not None and self.spot:
            raise conflict(
                "there is no spare capacity on dedicated hosts",
                "remove spot, or dedicated_host",
                *("spot", "dedicated_host"),
            )
        return self

    def lanes(self, parallel: int, kinds: int) -> int:
        """Return one lane on dedicated hosts, which are expensive; else one a kind of pairs."""
        return 1 if self.dedicated_host is not None else super().lanes(parallel, kinds)


class AzureAccess(CloudAccess):
    """A subscription; ``cloud`` is its id."""

    uri: AzureUrl | None = None
