"""Settings that all public clouds have in common."""

from __future__ import annotations

from pydantic import Field, model_validator

from osmef.scenario.base import conflict
from osmef.scenario.clouds.api_url import HOSTS, Url
from osmef.scenario.clouds.base import Cidr, CloudSettings, HostKeySource, Text
from osmef.scenario.fields import Duration, Name, Size

ENDPOINT = (
    "address of the API, if it is not the cloud's usual one: another of its hosts, by https, this"
    f" machine, or a host that {HOSTS} names in the environment"
)


class PublicCloudSettings(CloudSettings):
    """A public cloud: VMs in networks that are made for the run."""

    region: Text = Field(description="region, by the cloud's name")
    zone: Text | None = Field(
        default=None,
        description="zone of endpoints that name none; by default the region's first that has room",
    )
    tenants: dict[Name, Text] | None = Field(
        default=None,
        description="the tenants, by credentials of their own; by default each tenant is a network"
        " of its own in the one account",
    )
    image: Text | None = Field(
        default=None, description="image, by family or id; by default the newest Debian 12"
    )
    user: Text | None = Field(
        default=None, description="account of the image that SSH logs into; by default the image's"
    )
    default_flavor: Text = Field(description="instance type of an endpoint that names none")
    disk: Size = Field(
        default=10 * 2**30, ge=2**30, description="size of the boot disk, in whole GiB"
    )
    spot: bool = Field(
        default=False, description="spare capacity for less, which the cloud may take back"
    )
    controller_cidr: Cidr | None = Field(
        default=None,
        description="from where SSH is let in; by default the address at which the cloud sees this"
        " machine",
    )
    host_keys: HostKeySource = Field(
        default=HostKeySource.GIVEN,
        description="given: with the VM's first data; console: read from what it writes there",
    )
    boot_timeout: Duration = Field(
        default=600.0, ge=5, le=7200, description="how long a VM may take until SSH answers"
    )
    endpoint_url: Url | None = Field(default=None, description=ENDPOINT)

    @model_validator(mode="after")
    def _a_zone(self) -> PublicCloudSettings:
        if self.zone is not None and (form := self.written_zone(self.zone)):
            raise conflict(f"there is no zone {self.zone!r} here", f"write it {form}", "zone")
        return self

    @model_validator(mode="after")
    def _different_tenants(self) -> PublicCloudSettings:
        named = list((self.tenants or {}).values())
        if len(set(named)) < len(named):
            raise conflict(
                "two tenants are one and the same",
                "name different ones, or leave tenants out: then each tenant is a network",
                "tenants",
            )
        return self

    @property
    def usual_flavor(self) -> str | None:
        """The default flavor."""
        return self.default_flavor

    @property
    def usual_zone(self) -> str | None:
        """The zone."""
        return self.zone

    def priced_region(self, zone: str | None) -> str | None:  # noqa: ARG002
        """Return the region: all its zones have one price list."""
        return self.region

    @property
    def on_demand(self) -> bool:
        """Whether capacity is on demand, not spot."""
        return not self.spot

    def lanes(self, parallel: int, kinds: int) -> int:  # noqa: ARG002
        """Return one lane for each kind of pairs: a placement group is for VMs of one kind."""
        return kinds
