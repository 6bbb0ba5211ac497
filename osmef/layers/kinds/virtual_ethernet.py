"""Virtual Ethernet: a bridge, macvlan, and a veth pair with NAT.

The bridge has a veth pair into a namespace, with routes between the endpoints and no NAT; with NAT,
such a pair is the usual network of container engines. macvlan is a second interface with a MAC
address of its own on the same link.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from osmef.layers.base import LayerEnd, Underlay, UnderlayEnd, peers_of
from osmef.layers.host import LayerHost, is_ipv6
from osmef.layers.namespaces import Routed, Tunnel, nft
from osmef.layers.root import KernelError
from osmef.layers.traces import ROUTES
from osmef.scenario.fields import Family
from osmef.scenario.layers import OWN_ADDRESSES, LayerSettings
from osmef.supply.program import Program


class BridgeSettings(LayerSettings):
    """A veth pair into a bridge, routed: the network of containers with addresses of their own."""

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
        near = host.new_link(space, "type veth")
        host.root.ip(space, f"link set dev {near} master {bridge}")

    def join(self, end: UnderlayEnd, outer: str, underlay: Underlay) -> str:
        """Attach the veth pair to a bridge of its own."""
        return into_bridge(end, outer, self.mtu(end, 0, underlay))

    def add_routes(self, end: UnderlayEnd, underlay: Underlay, attached: LayerEnd) -> LayerEnd:
        """Add routes to the others' namespaces on the endpoint."""
        host = end.host
        for peer in peers_of(underlay, end):
            inner, via = underlay.inner[peer], end.peers[peer]
            below, _ = host.way_to(end.space, via)
            line = f"route add {inner}/{underlay.width} via {via} dev {below} proto {ROUTES}"
            if end.space is None:
                host.note("route", f"{inner}@{below}")
            host.root.ip(end.space, line)
        return attached


def into_bridge(end: UnderlayEnd, outer: str, mtu: int) -> str:
    """Attach a veth pair to a bridge of its own; return the bridge."""
    host, bridge = end.host, end.host.new_link(end.space, "type bridge")
    host.root.ip(
        end.space,
        f"link set dev {outer} master {bridge}",
        f"link set dev {bridge} mtu {mtu} up",
    )
    return bridge


class MacvlanSettings(LayerSettings):
    """A second MAC address on the endpoint's interface, as containers get one: no bridge."""

    kind: Literal["macvlan"] = Field(default="macvlan", description="the kind of layer")

    carried_by: ClassVar[str] = "ethernet"


class Macvlan(Tunnel[MacvlanSettings]):
    """An interface on the one that leads to the peers, which need a common link."""

    Settings = MacvlanSettings
    module = "macvlan"
    to_each = False
    on_link = True
    overhead: ClassVar[Mapping[Family, int]] = {Family.IPV4: 0, Family.IPV6: 0}

    def numbers(self, underlay: Underlay) -> Mapping[str, int]:  # noqa: ARG002
        """Return nothing: it has no identifier."""
        return {}

    def probe(self, host: LayerHost, space: str, family: Family) -> None:  # noqa: ARG002
        """Try one on a temporary interface. Raises EndpointError."""
        try:
            below = host.new_link(space, "type veth")
            host.new_link(space, f"link {below} type macvlan mode bridge")
        except KernelError as error:
            raise self.lacking(error) from error

    def link(self, end: UnderlayEnd, peer: str, numbers: Mapping[str, int], family: Family) -> str:
        """Return ip(8)'s arguments for it."""
        del numbers, family
        below, _ = end.host.way_to(end.space, end.peers[peer])
        return f"link {below} type macvlan mode bridge"


NFT = Program("nft", package="nftables")


class VethNatSettings(LayerSettings):
    """A veth pair with forwarding and NAT: the usual network of a container engine."""

    kind: Literal["veth-nat"] = Field(default="veth-nat", description="the kind of layer")
    ports: int = Field(
        default=64,
        ge=8,
        le=500,
        description="how many of the data ports lead to the namespace; a trial takes one for each"
        " of its servers",
    )

    carries = frozenset({"tcp", "udp"})


_EXAMPLES = {
    Family.IPV4: (["192.0.2.1"], "192.0.2.2"),
    Family.IPV6: (["2001:db8::1"], "2001:db8::2"),
}


class VethNat(Routed[VethNatSettings]):
    """Masquerade for outgoing packets, and DNAT of some ports for incoming ones."""

    Settings = VethNatSettings
    module = "nft_nat"
    programs = (NFT,)

    def __init__(self, settings: VethNatSettings) -> None:
        super().__init__(settings)
        self._ports = range(0)

    def try_out(self, host: LayerHost, space: str, family: Family) -> None:
        """Try a veth pair and the rules in a namespace. Raises EndpointError."""
        near = host.new_link(space, "type veth")
        nft(
            host,
            space,
            rules("osmef_probe", *_EXAMPLES[family], range(20000, 20008), near),
        )

    def join(self, end: UnderlayEnd, outer: str, underlay: Underlay) -> str:
        """Do nothing: the veth pair is complete."""
        del end, underlay
        return outer

    def up(self, underlay: Underlay) -> Mapping[str, LayerEnd]:
        """Raise it at all ends. Raises EndpointError."""
        self._ports = underlay.free_ports(self.settings.ports)
        return super().up(underlay)

    def add_routes(self, end: UnderlayEnd, underlay: Underlay, attached: LayerEnd) -> LayerEnd:
        """Add masquerade and DNAT."""
        host, own = end.host, sorted(set(end.own.values()))
        near = host.root.ask(end.space, "route", "get", attached.bind)[0]["dev"]

        def make(table: str) -> None:
            nft(host, end.space, rules(table, own, attached.bind, self._ports, str(near)))

        if end.space is None:
            host.make("nft", host.names.table, make)
        else:
            make(host.names.table(0))
        peer = peers_of(underlay, end)[0]
        return replace(attached, address=underlay.ends[peer].peers[end.name], ports=self._ports)

    def facts(self, host: LayerHost, attached: LayerEnd) -> dict[str, Any]:  # noqa: ARG002
        """Return the version of nft, and the number of forwarded ports."""
        return {"nft": host.root.do(["nft", "--version"]).strip(), "ports": len(self._ports)}


def rules(table: str, own: list[str], inner: str, ports: range, near: str) -> str:
    """Return the rules for an endpoint with these addresses, in nft(8)'s syntax."""
    to, ip = f"{{ {', '.join(own)} }}", "ip6" if is_ipv6(inner) else "ip"
    lead = f"dport {ports.start}-{ports.stop - 1} dnat to {inner}"
    return f"""
create table {ip} {table}
add chain {ip} {table} in {{ type nat hook prerouting priority dstnat; }}
add chain {ip} {table} out {{ type nat hook postrouting priority srcnat; }}
add rule {ip} {table} in {ip} daddr {to} tcp {lead}
add rule {ip} {table} in {ip} daddr {to} udp {lead}
add rule {ip} {table} out {ip} saddr {inner} oifname != "{near}" masquerade
"""
