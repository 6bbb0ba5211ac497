"""IP in IP, with nothing between the two headers (RFC 2003, RFC 2473)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from osmef.layers.base import End, Ground
from osmef.layers.namespaces import Tunnel
from osmef.scenario.fields import Family
from osmef.scenario.layers import EVERYTHING, LayerSettings


class IpipSettings(LayerSettings):
    """Packets in packets: the least that a tunnel can add. Two endpoints can have one of them."""

    kind: Literal["ipip"] = Field(default="ipip", description="the kind of layer")

    carried_by: ClassVar[str] = "ipip"
    carries = EVERYTHING - {"ethernet"}


class Ipip(Tunnel[IpipSettings]):
    """One interface to each peer; a pair of addresses can have only one."""

    Settings = IpipSettings
    module = "ipip"
    overhead: ClassVar[Mapping[Family, int]] = {Family.IPV4: 20, Family.IPV6: 40}

    def numbers(self, ground: Ground) -> Mapping[str, int]:  # noqa: ARG002
        """Return nothing: it has no identifier."""
        return {}

    def link(self, end: End, peer: str, numbers: Mapping[str, int], family: Family) -> str:
        """Return ip(8)'s arguments for it."""
        del numbers
        ends = f"local {end.own[peer]} remote {end.peers[peer]} ttl 64"
        if family is Family.IPV6:
            return f"type ip6tnl mode ip6ip6 {ends} encaplimit none"
        return f"type ipip {ends}"
