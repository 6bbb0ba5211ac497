"""Settings of static hosts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from osmef.scenario.base import conflict
from osmef.scenario.clouds.base import CloudAccess
from osmef.scenario.clouds.inventory import CloudWithHosts, Destination, Destinations
from osmef.scenario.fields import HomePath, Text


class StaticSettings(CloudWithHosts):
    """Static hosts: machines of an inventory, reached by SSH. Nothing is made."""

    kind: Literal["static"] = Field(default="static", description="the kind of cloud")

    @model_validator(mode="after")
    def _some_hosts(self) -> StaticSettings:
        if not self.hosts and self.inventory is None:
            raise conflict(
                "static hosts need an inventory",
                "write hosts: {my-host: {ssh: user@address}}, or inventory: FILE",
                *("hosts", "inventory"),
            )
        return self

    def lanes(self, parallel: int, kinds: int) -> int:  # noqa: ARG002
        """Return one lane for each concurrent trial, of two physical hosts each."""
        places = {host.location.host or name for name, host in self.hosts.items()}
        return max(1, min(parallel, len(places) // 2))


class StaticAccess(CloudAccess):
    """A machine of an inventory; ``uri`` is its ssh destination for reap."""

    uri: Destination | None = None
    host: Text
    ssh: Destination
    identity: HomePath | None = None
    jump: Destinations | None = None
    known_hosts: HomePath | None = None
