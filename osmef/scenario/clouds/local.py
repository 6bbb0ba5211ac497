"""The local cloud's settings."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from osmef.scenario.base import Model, conflict
from osmef.scenario.clouds.base import NicSettings
from osmef.scenario.fields import Name, Rate


class LocalFlavor(Model):
    """An instance size of the local cloud."""

    vcpus: int = Field(ge=1, le=1024, description="CPUs that the VM may run on")


def _default_flavors() -> dict[Name, LocalFlavor]:
    sizes = {"small": 1, "medium": 2, "large": 4, "xlarge": 8, "xxlarge": 16}
    return {name: LocalFlavor(vcpus=vcpus) for name, vcpus in sizes.items()}


class LocalSettings(NicSettings):
    """The local cloud: hosts, tenants and VMs as namespaces of this Linux machine."""

    kind: Literal["local"] = Field(default="local", description="the kind of cloud")
    hosts: int = Field(default=2, ge=1, le=64, description="physical hosts of the emulated cloud")
    tenants: int = Field(default=2, ge=1, le=64, description="tenants, each with its own network")
    link_rate: Rate = Field(
        default=1e9,
        ge=1e6,
        le=1e11,
        description="rate of each host's link to the physical network, per direction",
    )
    flavors: dict[Name, LocalFlavor] = Field(
        default_factory=_default_flavors, min_length=1, description="instance sizes by name"
    )
    default_flavor: Name | None = Field(
        default=None, description="flavor of a VM that names none; by default the first one"
    )
    cpu_overcommit: bool = Field(
        default=False,
        description="let a flavor ask for more CPUs than this machine has; it then shares them all,"
        " and the summary says how many it got",
    )

    @model_validator(mode="after")
    def _default_flavor_exists(self) -> LocalSettings:
        if self.default_flavor is not None and self.default_flavor not in self.flavors:
            raise conflict(
                f"there is no flavor {self.default_flavor!r} that could be the default",
                f"name one of: {', '.join(self.flavors)}",
                "default_flavor",
            )
        return self

    def switch(self, card: int) -> str:
        """Return the switch that a further network card is joined to, counted from 0."""
        return f"switch{self.nic_network(card) + 1}"

    @property
    def usual_flavor(self) -> str | None:
        """The default flavor, or the first one."""
        return self.default_flavor or next(iter(self.flavors))

    def lanes(self, parallel: int, kinds: int) -> int:  # noqa: ARG002
        """Return one lane for each trial that may run at once, of two hosts each."""
        return max(1, min(parallel, self.hosts // 2))
