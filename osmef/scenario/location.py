"""Where an endpoint stands, and how far two of them are apart."""

from __future__ import annotations

from pydantic import Field

from osmef.scenario.base import Model


class Location(Model):
    """A place in a cloud. What is not known is None, and never assumed."""

    host: str | None = Field(default=None, description="name of the physical host")
    zone: str | None = Field(default=None, description="availability zone")
    tenant: str | None = Field(default=None, description="tenant, project, account or VPC")


def distance(sender: Location, receiver: Location) -> int | None:
    """Return 0, 2 or 4: edges between two endpoints in the tree of the cloud.

    The tree is router - tenant network - (tenant, host): 0 for one tenant on one host, 2 for one
    tenant on two hosts, 4 for two tenants, on one host too, as their traffic goes through the
    router. None where the locations do not tell. Source: Venzano and Michiardi, "A Measurement
    Study of Data-intensive Network Traffic Patterns in a Private Cloud", section IV-D and figure 1.

    Physical hosts have no tenant: two of them are one tenant's, and so is a host with a VM.
    """
    if None not in {sender.tenant, receiver.tenant} and sender.tenant != receiver.tenant:
        return 4
    if sender.host is None or receiver.host is None:
        return None
    return 0 if sender.host == receiver.host else 2
