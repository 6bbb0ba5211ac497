"""macvlan: a second interface with a MAC address of its own on the same link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from osmef.layers.base import End, Ground
from osmef.layers.host import LayerHost
from osmef.layers.namespaces import Tunnel
from osmef.layers.root import KernelError
from osmef.scenario.fields import Family
from osmef.scenario.layers import LayerSettings


class MacvlanSettings(LayerSettings):
    """A second Ethernet address on the endpoint's interface, as containers get one: no bridge."""

    kind: Literal["macvlan"] = Field(default="macvlan", description="the kind of layer")

    carried_by: ClassVar[str] = "ethernet"


class Macvlan(Tunnel[MacvlanSettings]):
    """An interface on the one that leads to the peers, which need a common link."""

    Settings = MacvlanSettings
    module = "macvlan"
    to_each = False
    on_link = True
    overhead: ClassVar[Mapping[Family, int]] = {Family.IPV4: 0, Family.IPV6: 0}

    def numbers(self, ground: Ground) -> Mapping[str, int]:  # noqa: ARG002
        """Return nothing: it has no identifier."""
        return {}

    def probe(self, host: LayerHost, space: str, family: Family) -> None:  # noqa: ARG002
        """Try one on a temporary interface. Raises EndpointError."""
        try:
            below = host.new_link(space, "type veth")
            host.new_link(space, f"link {below} type macvlan mode bridge")
        except KernelError as error:
            raise self.lacking(error) from error

    def link(self, end: End, peer: str, numbers: Mapping[str, int], family: Family) -> str:
        """Return ip(8)'s arguments for it."""
        del numbers, family
        below, _ = end.host.way_to(end.space, end.peers[peer])
        return f"link {below} type macvlan mode bridge"
