"""Bridge with a veth pair into a namespace, and routes between the endpoints: no NAT."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from osmef.layers.base import Attached, End, Ground, peers_of
from osmef.layers.host import LayerHost
from osmef.layers.namespaces import Routed
from osmef.layers.traces import ROUTES
from osmef.scenario.fields import Family
from osmef.scenario.layers import OWN_ADDRESSES, LayerSettings


class BridgeSettings(LayerSettings):
    """A cable into a bridge, routed: a container's network where each has an address of its own."""

    kind: Literal["bridge"] = Field(default="bridge", description="the kind of layer")

    carried_by: ClassVar[str] = "ip"
    carries = OWN_ADDRESSES


class Bridge(Routed[BridgeSettings]):
    """Endpoints route between their namespaces; they need a common link."""

    Settings = BridgeSettings
    module = "bridge"

    def try_out(self, host: LayerHost, space: str, family: Family) -> None:  # noqa: ARG002
        """Try a bridge and a veth pair in a namespace. Raises EndpointError."""
        bridge = host.new_link(space, "type bridge")
        cable = host.new_link(space, "type veth")
        host.root.ip(space, f"link set dev {cable} master {bridge}")

    def join(self, end: End, outer: str, ground: Ground) -> str:
        """Attach the veth pair to a bridge of its own."""
        return into_bridge(end, outer, self.mtu(end, 0, ground))

    def lead(self, end: End, ground: Ground, attached: Attached) -> Attached:
        """Add routes to the others' namespaces on the endpoint."""
        host = end.host
        for peer in peers_of(ground, end):
            inner, via = ground.inner[peer], end.peers[peer]
            below, _ = host.way_to(end.space, via)
            line = f"route add {inner}/{ground.width} via {via} dev {below} proto {ROUTES}"
            if end.space is None:
                host.note("route", f"{inner}@{below}")
            host.root.ip(end.space, line)
        return attached


def into_bridge(end: End, outer: str, mtu: int) -> str:
    """Attach a cable to a bridge of its own; return the bridge."""
    host, bridge = end.host, end.host.new_link(end.space, "type bridge")
    host.root.ip(
        end.space,
        f"link set dev {outer} master {bridge}",
        f"link set dev {bridge} mtu {mtu} up",
    )
    return bridge
