"""Settings that all clouds have in common."""

from __future__ import annotations

from abc import abstractmethod
from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from osmef.scenario.base import Model

Text = Annotated[str, Field(min_length=1, max_length=255)]


def _cidr(value: str) -> str:
    example = "write it like 198.51.100.7/32 or 198.51.100.0/24"
    try:
        block = IPv4Network(value)
    except ValueError:
        raise ValueError(f"{value[:60]!r} is no block of IPv4 addresses; {example}") from None
    if block.prefixlen == 0:
        raise ValueError(f"{block} is everybody; {example}")
    return str(block)


Cidr = Annotated[
    str,
    AfterValidator(_cidr),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+){3}(/[0-9]{1,2})?$"}),
]
"""A block of IPv4 addresses."""


class HostKeySource(StrEnum):
    """Source of a VM's SSH host key before the first connection."""

    GIVEN = "given"
    CONSOLE = "console"


class NicNetworks(StrEnum):
    """Networks of the further network cards of endpoints."""

    OWN = "own"
    ONE = "one"


class CloudAccess(BaseModel):
    """The ``access`` of a journal: a place in a cloud. Keys of newer versions are ignored.

    A run directory is untrusted. What it says is used only as far as a scenario could say it as
    well: each cloud has a subclass whose values are validated as its settings are.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    cloud: Text | None = None
    region: Text | None = None


class CloudSettings(Model):
    """Settings of a cloud. Each kind of cloud has a subclass with its own keys."""

    kind: str = Field(description="the kind of cloud")

    @property
    def usual_flavor(self) -> str | None:
        """Name of the default flavor; None where it is unknown."""
        return None

    @property
    def nics_apart(self) -> bool:
        """Whether an endpoint's further network cards are on different networks for certain."""
        return False

    @property
    def usual_zone(self) -> str | None:
        """Name of the default zone; None where the cloud chooses, or has no zones."""
        return None

    def written_zone(self, zone: str) -> str | None:  # noqa: ARG002
        """Return the syntax of zones if this name is invalid; None otherwise."""
        return None

    def priced_region(self, zone: str | None) -> str | None:  # noqa: ARG002
        """Return the region whose prices apply in this zone, None for the default zone.

        None for a cloud that has but one price list.
        """
        return None

    @property
    def priced_by_flavor(self) -> bool:
        """Whether the price of its flavor is the whole cost of a VM."""
        return True

    @property
    def on_demand(self) -> bool:
        """Whether VMs cost their on-demand price, and not less."""
        return True

    @abstractmethod
    def lanes(self, parallel: int, kinds: int) -> int:
        """Return over how many sets of hosts, at least 1, the plan spreads the kinds of pairs.

        ``kinds`` is how many kinds of pairs the scenario has (placement, tenancy, flavors, layer),
        ``parallel`` how many trials it lets run at once. With 1 lane all kinds use the same two
        hosts, so that their numbers compare; trials of different lanes can run at once.
        """


class NicSettings(CloudSettings):
    """Settings of a cloud that creates networks for further network cards."""

    nic_networks: NicNetworks = Field(
        default=NicNetworks.OWN,
        description="the networks of further network cards (`endpoints.*.nics`), made for the run:"
        " each card's `own`, or `one` for all",
    )

    @property
    def nics_apart(self) -> bool:
        """Whether an endpoint's further network cards are on different networks for certain."""
        return self.nic_networks is NicNetworks.OWN

    def nic_network(self, card: int) -> int:
        """Return the number of a further card's network, both from 0."""
        return card if self.nics_apart else 0
