"""IPsec: encrypted packets of ESP in tunnel mode, by the kernel (RFC 4303, RFC 4106)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from osmef.layers.base import Attached, End, Ground, peers_of
from osmef.layers.host import LayerHost
from osmef.layers.namespaces import Tunnel
from osmef.layers.root import KernelError
from osmef.scenario.fields import Family
from osmef.scenario.layers import OWN_ADDRESSES, LayerSettings

_CIPHER = "rfc4106(gcm(aes))"
_SALT_BYTES = 4  # of the nonce, behind the key (RFC 4106, section 8.1)
_FIRST_SPI = 256  # those below are reserved (RFC 4303, section 2.1)


class IpsecSettings(LayerSettings):
    """Encrypted and authenticated packets of ESP, AES-GCM, by the kernel, with keys of the run."""

    kind: Literal["ipsec"] = Field(default="ipsec", description="the kind of layer")
    key_bits: Literal[128, 192, 256] = Field(default=128, description="length of the AES keys")

    carried_by: ClassVar[str] = "esp"
    carries = OWN_ADDRESSES


class Ipsec(Tunnel[IpsecSettings]):
    """An xfrm interface, with states and policies in the endpoint's own namespace.

    States and policies have one number that is the run's: as identifier of the interface, as that
    of the request, and as priority. Keys are in no command line, log or journal.
    """

    Settings = IpsecSettings
    module = "xfrm_interface"
    to_each = False
    # IP (20 or 40), ESP's header (8), initialisation vector (8), padding with its two bytes (up to
    # 5), tag (16); rounded up to be whole with any padding.
    overhead: ClassVar[Mapping[Family, int]] = {Family.IPV4: 60, Family.IPV6: 80}

    def __init__(self, settings: IpsecSettings) -> None:
        super().__init__(settings)
        self._ways: dict[tuple[str, str], tuple[int, str]] = {}

    def probe(self, host: LayerHost, space: str, family: Family) -> None:
        """Try an interface and a state in a namespace of its own. Raises EndpointError."""
        del family
        try:
            host.new_link(space, "type xfrm dev lo if_id 4321")
            host.root.ip(space, self._state("127.0.0.2", "127.0.0.3", 4321, self._fresh(), "4321"))
        except KernelError as error:
            raise self.lacking(error) from error

    def _fresh(self) -> str:
        return secrets.token_hex(self.settings.key_bits // 8 + _SALT_BYTES)

    def numbers(self, ground: Ground) -> Mapping[str, int]:
        """Choose SPI and key for each direction of each pair, and the request id."""
        self._ways = {
            (one, other): (secrets.randbelow(2**32 - _FIRST_SPI) + _FIRST_SPI, self._fresh())
            for one in ground.ends
            for other in ground.ends
            if one != other
        }
        any_end = next(iter(ground.ends.values()))
        return {"id": int(any_end.host.names.ipsec(secrets.randbelow(2**11)))}

    def link(self, end: End, peer: str, numbers: Mapping[str, int], family: Family) -> str:
        """Return ip(8)'s arguments for it."""
        del family
        below, _ = end.host.way_to(end.space, end.peers[peer])
        return f"type xfrm dev {below} if_id {numbers['id']}"

    def settle(
        self, end: End, space: str, device: str, ground: Ground, numbers: Mapping[str, int]
    ) -> None:
        """Create states and policies, by standard input."""
        del space, device
        host, number = end.host, str(numbers["id"])
        if end.space is None:
            host.note("xfrm", number)
        lines: list[str] = []
        for peer in peers_of(ground, end):
            here, there = end.own[peer], end.peers[peer]
            mine, theirs = (f"{ground.inner[one]}/{ground.width}" for one in (end.name, peer))
            lines += [
                self._state(here, there, *self._ways[end.name, peer], number),
                self._state(there, here, *self._ways[peer, end.name], number),
                _policy((mine, theirs), "out", (here, there), number),
                _policy((theirs, mine), "in", (there, here), number),
                _policy((theirs, mine), "fwd", (there, here), number),
            ]
        host.root.ip(end.space, *lines)

    def _state(self, source: str, target: str, spi: int, key: str, number: str) -> str:
        ends = f"src {source} dst {target} proto esp spi {spi:#x} reqid {number} mode tunnel"
        return f"xfrm state add {ends} aead {_CIPHER} 0x{key} 128 if_id {number}"

    def facts(self, host: LayerHost, attached: Attached) -> dict[str, Any]:
        """Return the cipher."""
        del host, attached
        return {"cipher": f"AES-{self.settings.key_bits}-GCM", "mode": "ESP in tunnel mode"}


def _policy(inner: tuple[str, str], way: str, outer: tuple[str, str], number: str) -> str:
    (source, target), (here, there) = inner, outer
    return (
        f"xfrm policy add src {source} dst {target} dir {way} priority {number} if_id {number}"
        f" tmpl src {here} dst {there} proto esp reqid {number} mode tunnel"
    )
