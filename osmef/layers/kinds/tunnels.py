"""Tunnels: Geneve, GRE, IP in IP, IPsec, VXLAN and WireGuard.

Geneve (RFC 8926) and VXLAN (RFC 7348) carry Ethernet in UDP, GRE (RFC 2784, RFC 2890) packets of IP
in IP with a key, and IP in IP has nothing between the two headers (RFC 2003, RFC 2473). IPsec
encrypts packets by the kernel, as ESP in tunnel mode (RFC 4303, RFC 4106), and WireGuard in UDP
(Donenfeld, "WireGuard", NDSS 2017).
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from osmef.layers.base import LayerEnd, Underlay, UnderlayEnd, peers_of
from osmef.layers.host import LayerHost
from osmef.layers.namespaces import Tunnel, checksum_of
from osmef.layers.root import KernelError, in_namespace
from osmef.scenario.fields import Family
from osmef.scenario.layers import EVERYTHING, OWN_ADDRESSES, LayerSettings
from osmef.supply.program import Program

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey


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

    def numbers(self, underlay: Underlay) -> Mapping[str, int]:
        """Choose an identifier and a free port."""
        return {"id": secrets.randbelow(2**24 - 1) + 1, "port": underlay.free_port()}

    def link(self, end: UnderlayEnd, peer: str, numbers: Mapping[str, int], family: Family) -> str:
        """Return ip(8)'s arguments for it."""
        checksum = checksum_of(self.settings.checksum, end)
        return (
            f"type geneve id {numbers['id']} remote {end.peers[peer]} dstport {numbers['port']}"
            " ttl 64" + (f" {checksum}" if family is Family.IPV4 else "")
        )


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

    def numbers(self, underlay: Underlay) -> Mapping[str, int]:  # noqa: ARG002
        """Choose a key."""
        return {"key": secrets.randbelow(2**32 - 1) + 1}

    def link(self, end: UnderlayEnd, peer: str, numbers: Mapping[str, int], family: Family) -> str:
        """Return ip(8)'s arguments for it."""
        kind = "ip6gre" if family is Family.IPV6 else "gre"
        more = " encaplimit none" if family is Family.IPV6 else ""
        ends = f"local {end.own[peer]} remote {end.peers[peer]}"
        return f"type {kind} {ends} key {numbers['key']} ttl 64{more}"


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

    def numbers(self, underlay: Underlay) -> Mapping[str, int]:  # noqa: ARG002
        """Return nothing: it has no identifier."""
        return {}

    def link(self, end: UnderlayEnd, peer: str, numbers: Mapping[str, int], family: Family) -> str:
        """Return ip(8)'s arguments for it."""
        del numbers
        ends = f"local {end.own[peer]} remote {end.peers[peer]} ttl 64"
        if family is Family.IPV6:
            return f"type ip6tnl mode ip6ip6 {ends} encaplimit none"
        return f"type ipip {ends}"


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

    def numbers(self, underlay: Underlay) -> Mapping[str, int]:
        """Choose SPI and key for each direction of each pair, and the request id."""
        self._ways = {
            (one, other): (secrets.randbelow(2**32 - _FIRST_SPI) + _FIRST_SPI, self._fresh())
            for one in underlay.ends
            for other in underlay.ends
            if one != other
        }
        any_end = next(iter(underlay.ends.values()))
        return {"id": int(any_end.host.names.ipsec(secrets.randbelow(2**11)))}

    def link(self, end: UnderlayEnd, peer: str, numbers: Mapping[str, int], family: Family) -> str:
        """Return ip(8)'s arguments for it."""
        del family
        below, _ = end.host.way_to(end.space, end.peers[peer])
        return f"type xfrm dev {below} if_id {numbers['id']}"

    def configure(
        self,
        end: UnderlayEnd,
        space: str,
        device: str,
        underlay: Underlay,
        numbers: Mapping[str, int],
    ) -> None:
        """Create states and policies, by standard input."""
        del space, device
        host, number = end.host, str(numbers["id"])
        if end.space is None:
            host.note("xfrm", number)
        lines: list[str] = []
        for peer in peers_of(underlay, end):
            here, there = end.own[peer], end.peers[peer]
            mine, theirs = (f"{underlay.inner[one]}/{underlay.width}" for one in (end.name, peer))
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

    def facts(self, host: LayerHost, attached: LayerEnd) -> dict[str, Any]:
        """Return the cipher."""
        del host, attached
        return {"cipher": f"AES-{self.settings.key_bits}-GCM", "mode": "ESP in tunnel mode"}


def _policy(inner: tuple[str, str], way: str, outer: tuple[str, str], number: str) -> str:
    (source, target), (here, there) = inner, outer
    return (
        f"xfrm policy add src {source} dst {target} dir {way} priority {number} if_id {number}"
        f" tmpl src {here} dst {there} proto esp reqid {number} mode tunnel"
    )


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

    def numbers(self, underlay: Underlay) -> Mapping[str, int]:
        """Choose an identifier and a free port."""
        return {"id": secrets.randbelow(2**24 - 1) + 1, "port": underlay.free_port()}

    def link(self, end: UnderlayEnd, peer: str, numbers: Mapping[str, int], family: Family) -> str:
        """Return ip(8)'s arguments for it."""
        checksum = checksum_of(self.settings.checksum, end)
        way = f"local {end.own[peer]}"
        if len(end.peers) == 1:
            way += f" remote {end.peers[peer]}"
        return (
            f"type vxlan id {numbers['id']} {way} dstport {numbers['port']} ttl 64"
            + (f" {checksum}" if family is Family.IPV4 else "")
        )  # fmt: skip

    def configure(
        self,
        end: UnderlayEnd,
        space: str,
        device: str,
        underlay: Underlay,
        numbers: Mapping[str, int],
    ) -> None:
        """Add its peers to the forwarding database, if there are several."""
        del numbers
        if len(end.peers) > 1:
            lines = [
                f"fdb append {_ZERO_MAC} dev {device} dst {end.peers[peer]}\n"
                for peer in peers_of(underlay, end)
            ]
            end.host.root.do(["bridge", "-n", space, "-batch", "-"], "".join(lines).encode())


_PROGRAM = "wireguard-go"
_STDIN = "/proc/self/fd/0"
"""Where a program that takes files only reads its standard input, also without /dev/stdin."""


class WireguardSettings(LayerSettings):
    """Encrypted and authenticated packets in UDP, with keys made for the run.

    By the kernel, else by wireguard-go, if the endpoint has it.
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

    def numbers(self, underlay: Underlay) -> Mapping[str, int]:
        """Choose a free port, and make a key for each end."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import (  # noqa: PLC0415 - slow to load
            X25519PrivateKey,
        )

        self._keys = {name: X25519PrivateKey.generate() for name in underlay.ends}
        return {"port": underlay.free_port()}

    def link(self, end: UnderlayEnd, peer: str, numbers: Mapping[str, int], family: Family) -> str:
        """Return ip(8)'s arguments for it."""
        del end, peer, numbers, family
        return "type wireguard"

    def configure(
        self,
        end: UnderlayEnd,
        space: str,
        device: str,
        underlay: Underlay,
        numbers: Mapping[str, int],
    ) -> None:
        """Set its key and its peers, by standard input."""
        text = self._configuration(end, underlay, numbers["port"]).encode()
        end.host.root.do(in_namespace(space, ["wg", "setconf", device, _STDIN]), text)

    def _configuration(self, end: UnderlayEnd, underlay: Underlay, port: int) -> str:
        """Return a configuration in wg(8)'s syntax."""
        lines = ["[Interface]", f"PrivateKey = {_private(self._keys[end.name])}"]
        lines.append(f"ListenPort = {port}")
        for peer, address in end.peers.items():
            at = f"[{address}]" if ":" in address else address
            lines += ["[Peer]", f"PublicKey = {_public(self._keys[peer])}"]
            lines += [f"AllowedIPs = {underlay.inner[peer]}/{underlay.width}"]
            lines += [f"Endpoint = {at}:{port}"]
        return "\n".join(lines) + "\n"

    def facts(self, host: LayerHost, attached: LayerEnd) -> dict[str, Any]:
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
