"""veth pair into a namespace with NAT: the usual network of container engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from osmef.layers.base import Attached, End, Ground, peers_of
from osmef.layers.host import LayerHost, is_ipv6
from osmef.layers.namespaces import Routed, nft
from osmef.scenario.fields import Family
from osmef.scenario.layers import LayerSettings
from osmef.supply.program import Program

NFT = Program("nft", package="nftables")


class VethNatSettings(LayerSettings):
    """A cable, forwarding, and translated addresses: the usual network of a container engine."""

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
        cable = host.new_link(space, "type veth")
        nft(
            host,
            space,
            rules("osmef_probe", *_EXAMPLES[family], range(20000, 20008), cable),
        )

    def join(self, end: End, outer: str, ground: Ground) -> str:
        """Do nothing: the veth pair is complete."""
        del end, ground
        return outer

    def up(self, ground: Ground) -> Mapping[str, Attached]:
        """Raise it at all ends. Raises EndpointError."""
        self._ports = ground.free_ports(self.settings.ports)
        return super().up(ground)

    def lead(self, end: End, ground: Ground, attached: Attached) -> Attached:
        """Add masquerade and DNAT."""
        host, own = end.host, sorted(set(end.own.values()))
        near = host.root.ask(end.space, "route", "get", attached.bind)[0]["dev"]

        def make(table: str) -> None:
            nft(host, end.space, rules(table, own, attached.bind, self._ports, str(near)))

        if end.space is None:
            host.make("nft", host.names.table, make)
        else:
            make(host.names.table(0))
        peer = peers_of(ground, end)[0]
        return replace(attached, address=ground.ends[peer].peers[end.name], ports=self._ports)

    def facts(self, host: LayerHost, attached: Attached) -> dict[str, Any]:  # noqa: ARG002
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
