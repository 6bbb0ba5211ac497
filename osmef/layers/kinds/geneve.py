"""Geneve: Ethernet in UDP with options (RFC 8926)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from osmef.layers.base import End, Ground
from osmef.layers.namespaces import Tunnel, checksum_of
from osmef.scenario.fields import Family
from osmef.scenario.layers import LayerSettings


class GeneveSettings(LayerSettings):
    """Ethernet in UDP with room for options: what OVN's overlays are made of."""

    kind: Literal["geneve"] = Field(default="geneve", description="the kind of layer")
    checksum: bool | None = Field(
        default=None,
        description="whether the outer datagrams have a checksum, over IPv4; by default they do,"
        " unless the layer below translates their addresses",
    )


class Geneve(Tunnel[GeneveSettings]):
    """One interface to each peer."""

    Settings = GeneveSettings
    module = "geneve"
    # The inner frame's own header (14), Geneve's without options (8), UDP's (8) and that of IP.
    overhead: ClassVar[Mapping[Family, int]] = {Family.IPV4: 50, Family.IPV6: 70}

    def numbers(self, ground: Ground) -> Mapping[str, int]:
        """Choose an identifier and a free port."""
        return {"id": secrets.randbelow(2**24 - 1) + 1, "port": ground.free_port()}

    def link(self, end: End, peer: str, numbers: Mapping[str, int], family: Family) -> str:
        """Return ip(8)'s arguments for it."""
        checksum = checksum_of(self.settings.checksum, end)
        return (
            f"type geneve id {numbers['id']} remote {end.peers[peer]} dstport {numbers['port']}"
            " ttl 64" + (f" {checksum}" if family is Family.IPV4 else "")
        )
