"""WireGuard: encrypted packets in UDP (Donenfeld, "WireGuard", NDSS 2017)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from osmef.layers.base import Attached, End, Ground
from osmef.layers.host import LayerHost
from osmef.layers.namespaces import Tunnel
from osmef.layers.root import KernelError, within
from osmef.scenario.fields import Family
from osmef.scenario.layers import OWN_ADDRESSES, LayerSettings
from osmef.supply.program import Program

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

_PROGRAM = "wireguard-go"
_STDIN = "/proc/self/fd/0"
"""Where a program that takes files only reads its standard input, also without /dev/stdin."""


class WireguardSettings(LayerSettings):
    """Encrypted and authenticated packets in UDP, with keys made for the run.

    By the kernel, or where that can't by wireguard-go, if the endpoint has it.
    """

    kind: Literal["wireguard"] = Field(default="wireguard", description="the kind of layer")

    carries = OWN_ADDRESSES


class Wireguard(Tunnel[WireguardSettings]):
    """One interface to all peers. Keys are in no command line, log or journal."""

    Settings = WireguardSettings
    module = "wireguard"
    programs = (Program("wg", package="wireguard-tools"),)
    to_each = False
    # Padded to 16 bytes: WireGuard's header and tag (32), UDP's (8) and that of IP.
    overhead: ClassVar[Mapping[Family, int]] = {Family.IPV4: 60, Family.IPV6: 80}

    def __init__(self, settings: WireguardSettings) -> None:
        super().__init__(settings)
        self._keys: dict[str, X25519PrivateKey] = {}
        self._by_program: set[str] = set()

    def probe(self, host: LayerHost, space: str, family: Family) -> None:
        """Try one, and look for wg. Raises EndpointError."""
        super().probe(host, space, family)
        host.root.do(["wg", "--version"])

    def make(self, host: LayerHost, space: str | None, words: str) -> str:
        """Create one by the kernel, or else by wireguard-go. Raises EndpointError, KernelError."""
        try:
            return super().make(host, space, words)
        except KernelError:
            if host.root.run([_PROGRAM, "--version"]).status:
                raise
        self._by_program.add(host.name)
        return host.new_link_of(space, lambda name: [_PROGRAM, name])

    def numbers(self, ground: Ground) -> Mapping[str, int]:
        """Choose a free port, and make a key for each end."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import (  # noqa: PLC0415 - slow to load
            X25519PrivateKey,
        )

        self._keys = {name: X25519PrivateKey.generate() for name in ground.ends}
        return {"port": ground.free_port()}

    def link(self, end: End, peer: str, numbers: Mapping[str, int], family: Family) -> str:
        """Return ip(8)'s arguments for it."""
        del end, peer, numbers, family
        return "type wireguard"

    def settle(
        self, end: End, space: str, device: str, ground: Ground, numbers: Mapping[str, int]
    ) -> None:
        """Set its key and its peers, by standard input."""
        text = self._configuration(end, ground, numbers["port"]).encode()
        end.host.root.do(within(space, ["wg", "setconf", device, _STDIN]), text)

    def _configuration(self, end: End, ground: Ground, port: int) -> str:
        """Return a configuration in wg(8)'s syntax."""
        lines = ["[Interface]", f"PrivateKey = {_private(self._keys[end.name])}"]
        lines.append(f"ListenPort = {port}")
        for peer, address in end.peers.items():
            at = f"[{address}]" if ":" in address else address
            lines += ["[Peer]", f"PublicKey = {_public(self._keys[peer])}"]
            lines += [f"AllowedIPs = {ground.inner[peer]}/{ground.width}"]
            lines += [f"Endpoint = {at}:{port}"]
        return "\n".join(lines) + "\n"

    def facts(self, host: LayerHost, attached: Attached) -> dict[str, Any]:
        """Return the cipher, the version of the tools, and the implementation."""
        version = host.root.do(["wg", "--version"]).split("-")[0].strip()
        by = "kernel"
        if host.name in self._by_program:
            by = host.root.do([_PROGRAM, "--version"]).partition("\n")[0].strip()[:80]
        del attached
        return {"cipher": "ChaCha20-Poly1305", "tools": version, "by": by}


def _private(key: X25519PrivateKey) -> str:
    return base64.b64encode(key.private_bytes_raw()).decode()


def _public(key: X25519PrivateKey) -> str:
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()
