"""Bases of layers with a network namespace of their own: tunnels, and veth pairs that are routed.

The socket or the packets of a tunnel stay in the namespace where it was made (the kernel's own
design, see ip-netns(8) and the documentation of WireGuard on namespaces), and only what it carries
is in the other one. So its addresses meet nothing of the endpoint's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, TypeVar

from osmef.errors import EndpointError
from osmef.layers.base import Layer, LayerEnd, Underlay, UnderlayEnd, peers_of, retry_while_in_use
from osmef.layers.host import LayerHost, take_address
from osmef.layers.root import KernelError, in_namespace
from osmef.layers.traces import IPV6, IPV6_KEYS, forwarding_file, ipv6_file
from osmef.scenario.fields import Family
from osmef.scenario.layers import LayerSettings

S = TypeVar("S", bound=LayerSettings)


class Tunnel(Layer[S]):
    """A tunnel by ip(8): one interface to all peers, or one to each.

    ``overhead`` is what it takes of each packet, in bytes, by the family of the network below.
    """

    overhead: ClassVar[Mapping[Family, int]]
    to_each = True
    """Whether each peer has an interface of its own."""
    on_link = False
    """Whether its addresses are seen on the link below, where strangers may have them."""

    @abstractmethod
    def numbers(self, underlay: Underlay) -> Mapping[str, int]:
        """Choose the common identifiers of all ends, such as a VNI and a port."""

    @abstractmethod
    def link(self, end: UnderlayEnd, peer: str, numbers: Mapping[str, int], family: Family) -> str:
        """Return ip(8)'s arguments for an interface to a peer, after its name."""

    def make(self, host: LayerHost, space: str | None, words: str) -> str:
        """Create an interface in a namespace by ip(8)'s arguments; return its name.

        Raises EndpointError.
        """
        return host.new_link(space, words)

    def configure(
        self,
        end: UnderlayEnd,
        space: str,
        device: str,
        underlay: Underlay,
        numbers: Mapping[str, int],
    ) -> None:
        """Configure an interface in its namespace before it is up."""

    def probe(self, host: LayerHost, space: str, family: Family) -> None:
        """Try one in a namespace of its own. Raises EndpointError."""
        here, there = ("127.0.0.2", "127.0.0.3") if family is Family.IPV4 else ("::1", "::2")
        names = dict.fromkeys(("port", "id", "key"), 4321)
        end = UnderlayEnd(host, {"peer": here}, {"peer": there}, 65535)
        try:
            self.make(host, space, self.link(end, "peer", names, family))
        except KernelError as error:
            raise self.lacking(error) from error

    def up(self, underlay: Underlay) -> Mapping[str, LayerEnd]:
        """Raise it between all ends. Raises EndpointError."""

        def attempt() -> Mapping[str, LayerEnd]:
            numbers = self.numbers(underlay)
            return underlay.each(lambda end: self._raise(end, underlay, numbers))

        return retry_while_in_use(underlay, attempt)

    def _raise(self, end: UnderlayEnd, underlay: Underlay, numbers: Mapping[str, int]) -> LayerEnd:
        host, peers = end.host, peers_of(underlay, end)
        mtu = self.mtu(end, self.overhead[underlay.family], underlay)
        own = underlay.inner[end.name]
        space = host.new_space()
        ways = [[peer] for peer in peers] if self.to_each else [peers]
        devices = []
        for way in ways:
            device = self.make(host, end.space, self.link(end, way[0], numbers, underlay.family))
            host.root.ip(end.space, f"link set dev {device} netns {space}")
            host.moved(device)
            self.configure(end, space, device, underlay, numbers)
            lines = [f"link set dev {device} mtu {mtu} up"]
            if self.on_link:
                host.root.ip(space, *lines)
                take_address(host.root, space, device, own, underlay.width)
                lines = []
            else:
                no_check = " nodad" if underlay.family is Family.IPV6 else ""
                lines.append(f"address add {own}/{underlay.width} dev {device}{no_check}")
            routes = (
                f"route add {underlay.inner[one]}/{underlay.width} dev {device}" for one in way
            )
            host.root.ip(space, *lines, *(f"{route} src {own}" for route in routes))
            devices.append(device)
        return LayerEnd(own, own, space, mtu, tuple(devices))


def checksum_of(wanted: bool | None, end: UnderlayEnd) -> str:
    """Return ip(8)'s argument for UDP checksums of a tunnel over IPv4.

    Where addresses are translated below, one that is left to be computed for both headers at once
    comes out wrong (local checksum offload, Documentation/networking/checksum-offloads).
    """
    translated = end.below is not None and end.below.address != end.below.bind
    return "udpcsum" if (not translated if wanted is None else wanted) else "noudpcsum"


class Routed(Layer[S]):
    """A namespace behind the endpoint, which is its router."""

    def probe(self, host: LayerHost, space: str, family: Family) -> None:
        """Try it in a namespace of its own. Raises EndpointError."""
        try:
            self.try_out(host, space, family)
        except KernelError as error:
            raise self.lacking(error) from error

    @abstractmethod
    def try_out(self, host: LayerHost, space: str, family: Family) -> None:
        """Try it in a namespace. Raises EndpointError."""

    @abstractmethod
    def join(self, end: UnderlayEnd, outer: str, underlay: Underlay) -> str:
        """Attach the near end of the veth pair to the endpoint; return the addressed interface."""

    def up(self, underlay: Underlay) -> Mapping[str, LayerEnd]:
        """Raise it at all ends. Raises EndpointError."""
        return retry_while_in_use(
            underlay, lambda: underlay.each(lambda end: self._raise(end, underlay))
        )

    def _raise(self, end: UnderlayEnd, underlay: Underlay) -> LayerEnd:
        host, own, gateway = end.host, underlay.inner[end.name], underlay.gateway
        space, mtu = host.new_space(), self.mtu(end, 0, underlay)
        inner = "eth0"
        outer = host.new_link(end.space, f"mtu {mtu} type veth peer name {inner} netns {space}")
        near = self.join(end, outer, underlay)
        no_check = ""
        if underlay.family is Family.IPV6:
            no_check = " nodad"
            _enable_ipv6(end, near)
        host.root.ip(
            end.space,
            f"link set dev {outer} up",
            f"address add {gateway}/{underlay.width} dev {near}{no_check}",
            f"route add {own}/{underlay.width} dev {near}",
        )
        host.root.ip(
            space,
            f"link set dev {inner} mtu {mtu} up",
            f"address add {own}/{underlay.width} dev {inner}{no_check}",
            f"route add {gateway}/{underlay.width} dev {inner}",
            f"route add default via {gateway} dev {inner} src {own}",
        )
        if underlay.family is Family.IPV6:
            enable_ipv6_forwarding(end)
        else:
            ways = [host.way_to(end.space, end.peers[one])[0] for one in peers_of(underlay, end)]
            for interface in (near, *ways):
                enable_forwarding(end, interface)
        return self.add_routes(end, underlay, LayerEnd(own, own, space, mtu, (inner,)))

    @abstractmethod
    def add_routes(self, end: UnderlayEnd, underlay: Underlay, attached: LayerEnd) -> LayerEnd:
        """Route peers to an end; return it as they see it. Raises EndpointError."""


def enable_forwarding(end: UnderlayEnd, interface: str) -> None:
    """Enable forwarding on an interface; the endpoint's setting is restored at teardown.

    Raises EndpointError.
    """
    host, path = end.host, forwarding_file(interface, 4)
    before = host.root.do(in_namespace(end.space, ["cat", path])).strip()
    if before == "1":
        return
    if before != "0":
        raise EndpointError(f"{path} is {before[:20]!r}", where=host.name)
    if end.space is None and not interface.startswith(host.names.link(0)[:-1]):
        host.note("forwarding", f"{interface}={before}")
        host.forwards.add(interface)
    host.root.do(in_namespace(end.space, ["tee", path]), b"1")


def _enable_ipv6(end: UnderlayEnd, interface: str) -> None:
    """Enable IPv6 on an interface of ours: an endpoint may disable it for all new ones.

    Raises EndpointError.
    """
    path = ipv6_file(interface, "disable_ipv6")
    end.host.root.do(in_namespace(end.space, ["tee", path]), b"0")


def enable_ipv6_forwarding(end: UnderlayEnd) -> None:
    """Enable IPv6 forwarding on an endpoint, which is one switch for all interfaces.

    A host that forwards ignores router advertisements unless ``accept_ra`` is 2 (ip-sysctl), so
    that is set first: otherwise it would lose an advertised default route. All values are restored
    when the layer is removed. Raises EndpointError.
    """
    host, switch = end.host, ipv6_file("all", "forwarding")
    if host.root.do(in_namespace(end.space, ["cat", switch])).strip() == "1":
        return
    before = _ipv6_settings(end)
    changed = [(name, "accept_ra") for name, values in before.items() if values["accept_ra"] == "1"]
    # To switch all off again also switches off what was on for one interface alone.
    alone = [(name, "forwarding") for name, values in before.items() if values["forwarding"] == "1"]
    if end.space is None:
        for name, key in (*alone, *changed, ("all", "forwarding")):
            value = "0" if name == "all" and key == "forwarding" else before[name][key]
            host.note("ipv6", f"{name}/{key}={value}")
    for name, key in changed:
        host.root.do(in_namespace(end.space, ["tee", ipv6_file(name, key)]), b"2")
    host.root.do(in_namespace(end.space, ["tee", switch]), b"1")


def _ipv6_settings(end: UnderlayEnd) -> dict[str, dict[str, str]]:
    """Return the IPv6 settings of interfaces that are not ours, with all and default."""
    found: dict[str, dict[str, str]] = {}
    names = [f"--include={key}" for key in IPV6_KEYS]
    text = end.host.root.do(in_namespace(end.space, ["grep", "-rs", *names, ".", IPV6]))
    for line in text.splitlines():
        path, _, value = line.partition(":")
        name, key = path.removeprefix(f"{IPV6}/").split("/")
        found.setdefault(name, dict.fromkeys(IPV6_KEYS, ""))[key] = value
    ours = end.host.names.link(0)[:-1]
    return {name: values for name, values in found.items() if not name.startswith(ours)}


def nft(host: LayerHost, space: str | None, text: str) -> None:
    """Apply rules of nftables atomically. Raises EndpointError."""
    host.root.do(in_namespace(space, ["nft", "-f", "-"]), text.encode())
