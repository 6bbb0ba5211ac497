"""GRE: packets of IP in IP, with a key (RFC 2784, RFC 2890)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from osmef.layers.base import End, Ground
from osmef.layers.namespaces import Tunnel
from osmef.scenario.fields import Family
from osmef.scenario.layers import EVERYTHING, LayerSettings


class GreSettings(LayerSettings):
    """Packets in packets with a header between them: routers' and older overlays' tunnel."""

    kind: Literal["gre"] = Field(default="gre", description="the kind of layer")

    carried_by: ClassVar[str] = "gre"
    carries = EVERYTHING - {"ethernet"}


class Gre(Tunnel[GreSettings]):
    """One interface to each peer, distinguished by its key."""

    Settings = GreSettings
    module = "ip_gre"
    # GRE's header with its key (8), and that of IP.
    overhead: ClassVar[Mapping[Family, int]] = {Family.IPV4: 28, Family.IPV6: 48}

    def numbers(self, ground: Ground) -> Mapping[str, int]:  # noqa: ARG002
        """Choose a key."""
        return {"key": secrets.randbelow(2**32 - 1) + 1}

    def link(self, end: End, peer: str, numbers: Mapping[str, int], family: Family) -> str:
        """Return ip(8)'s arguments for it."""
        kind = "ip6gre" if family is Family.IPV6 else "gre"
        more = " encaplimit none" if family is Family.IPV6 else ""
        ends = f"local {end.own[peer]} remote {end.peers[peer]}"
        return f"type {kind} {ends} key {numbers['key']} ttl 64{more}"
