"""The local cloud's settings."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from osmef.scenario.base import Model, conflict
from osmef.scenario.clouds.base import NicSettings, check_default_flavor
from osmef.scenario.fields import Name, Rate, Size
from osmef.units import format_rate, format_size

_LONGEST_BUCKET_S = 270
"""tc-tbf counts what a bucket holds as a time, in 32 bits of 64 ns."""


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
    burst: Size | None = Field(
        default=None,
        ge=10**6,
        description="bytes that leave each host at `link_rate` before `sustained_rate` holds them,"
        " which also fills the bucket again; headers count. By default links have no bucket",
    )
    sustained_rate: Rate | None = Field(
        default=None,
        ge=1e6,
        description="with `burst`: the rate at which the bucket fills; by default a tenth of"
        " `link_rate`",
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
        check_default_flavor(self.default_flavor, self.flavors)
        return self

    @model_validator(mode="after")
    def _bucket_is_one(self) -> LocalSettings:
        if self.burst is None:
            if self.sustained_rate is not None:
                raise conflict(
                    "there is a rate at which a bucket fills, and no bucket",
                    "write its size, such as burst: 300MB, or remove sustained_rate",
                    *("sustained_rate", "burst"),
                )
            return self
        if self.filling_bps >= self.link_rate:
            raise conflict(
                "the bucket fills as fast as the link can empty it",
                f"give a sustained_rate below {format_rate(self.link_rate)}",
                *("sustained_rate", "link_rate"),
            )
        most = int(self.filling_bps / 8 * _LONGEST_BUCKET_S)
        if self.burst > most:
            raise conflict(
                f"a bucket of the kernel holds {_LONGEST_BUCKET_S} s of its rate at most",
                f"write a burst of at most {format_size(most)}, or a higher sustained_rate",
                *("burst", "sustained_rate"),
            )
        return self

    @property
    def filling_bps(self) -> float:
        """The refill rate of links' token buckets, bits per second; by default the link's rate."""
        if self.burst is None:
            return self.link_rate
        return self.sustained_rate or self.link_rate / 10

    def switch(self, card: int) -> str:
        """Return the switch of a further network card, counted from 0."""
        return f"switch{self.nic_network(card) + 1}"

    @property
    def usual_flavor(self) -> str | None:
        """The default flavor, or the first one."""
        return self.default_flavor or next(iter(self.flavors))

    def lanes(self, parallel: int, kinds: int) -> int:  # noqa: ARG002
        """Return one lane for each concurrent trial, of two hosts each."""
        return max(1, min(parallel, self.hosts // 2))
