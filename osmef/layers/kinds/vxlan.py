"""VXLAN: Ethernet in UDP (RFC 7348)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from osmef.layers.base import End, Ground, peers_of
from osmef.layers.namespaces import Tunnel, checksum_of
from osmef.scenario.fields import Family
from osmef.scenario.layers import LayerSettings

_ZERO_MAC = "00:00:00:00:00:00"


class VxlanSettings(LayerSettings):
    """Ethernet in UDP: what most overlays of clouds and of containers are made of."""

    kind: Literal["vxlan"] = Field(default="vxlan", description="the kind of layer")
    checksum: bool | None = Field(
        default=None,
        description="whether the outer datagrams have a checksum, over IPv4; by default they do,"
        " unless the layer below translates their addresses",
    )


class Vxlan(Tunnel[VxlanSettings]):
    """One interface to all peers, with head-end replication of unknown frames."""

    Settings = VxlanSettings
    module = "vxlan"
    example = "layer: vxlan"
    to_each = False
    # The inner frame's own header (14), VXLAN's (8), UDP's (8) and that of IP.
    overhead: ClassVar[Mapping[Family, int]] = {Family.IPV4: 50, Family.IPV6: 70}

    def numbers(self, ground: Ground) -> Mapping[str, int]:
        """Choose an identifier and a free port."""
        return {"id": secrets.randbelow(2**24 - 1) + 1, "port": ground.free_port()}

    def link(self, end: End, peer: str, numbers: Mapping[str, int], family: Family) -> str:
        """Return ip(8)'s arguments for it."""
        checksum = checksum_of(self.settings.checksum, end)
        way = f"local {end.own[peer]}"
        if len(end.peers) == 1:
            way += f" remote {end.peers[peer]}"
        return (
            f"type vxlan id {numbers['id']} {way} dstport {numbers['port']} ttl 64"
            + (f" {checksum}" if family is Family.IPV4 else "")
        )  # fmt: skip

    def settle(
        self, end: End, space: str, device: str, ground: Ground, numbers: Mapping[str, int]
    ) -> None:
        """Add its peers to the forwarding database, if there are several."""
        del numbers
        if len(end.peers) > 1:
            lines = [
                f"fdb append {_ZERO_MAC} dev {device} dst {end.peers[peer]}\n"
                for peer in peers_of(ground, end)
            ]
            end.host.root.do(["bridge", "-n", space, "-batch", "-"], "".join(lines).encode())
