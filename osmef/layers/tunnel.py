"""Tunnels: an interface in the endpoint's own namespace, moved into one of the layer's.

The socket or the packets of a tunnel stay in the namespace where it was made (the kernel's own
design, see ip-netns(8) and the documentation of WireGuard on namespaces), and only what it carries
is in the other one. So its addresses meet nothing of the endpoint's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, TypeVar

from osmef.layers.base import Attached, End, Ground, Layer, peers_of, several_times
from osmef.layers.duplicates import take_address
from osmef.layers.host import LayerHost
from osmef.layers.root import KernelError
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
    def numbers(self, ground: Ground) -> Mapping[str, int]:
        """Choose the common identifiers of all ends, such as a VNI and a port."""

    @abstractmethod
    def link(self, end: End, peer: str, numbers: Mapping[str, int], family: Family) -> str:
        """Return ip(8)'s arguments for an interface to a peer, after its name."""

    def make(self, host: LayerHost, space: str | None, words: str) -> str:
        """Create an interface in a namespace by ip(8)'s arguments; return its name.

        Raises EndpointError.
        """
        return host.new_link(space, words)

    def settle(
        self, end: End, space: str, device: str, ground: Ground, numbers: Mapping[str, int]
    ) -> None:
        """Configure an interface in its namespace before it is up."""

    def probe(self, host: LayerHost, space: str, family: Family) -> None:
        """Try one in a namespace of its own. Raises EndpointError."""
        here, there = ("127.0.0.2", "127.0.0.3") if family is Family.IPV4 else ("::1", "::2")
        names = dict.fromkeys(("port", "id", "key"), 4321)
        end = End(host, {"peer": here}, {"peer": there}, 65535)
        try:
            self.make(host, space, self.link(end, "peer", names, family))
        except KernelError as error:
            raise self.lacking(error) from error

    def up(self, ground: Ground) -> Mapping[str, Attached]:
        """Raise it between all ends. Raises EndpointError."""

        def attempt() -> Mapping[str, Attached]:
            numbers = self.numbers(ground)
            return ground.each(lambda end: self._raise(end, ground, numbers))

        return several_times(ground, attempt)

    def _raise(self, end: End, ground: Ground, numbers: Mapping[str, int]) -> Attached:
        host, peers = end.host, peers_of(ground, end)
        mtu = self.mtu(end, self.overhead[ground.family], ground)
        own = ground.inner[end.name]
        space = host.new_space()
        ways = [[peer] for peer in peers] if self.to_each else [peers]
        devices = []
        for way in ways:
            device = self.make(host, end.space, self.link(end, way[0], numbers, ground.family))
            host.root.ip(end.space, f"link set dev {device} netns {space}")
            host.moved(device)
            self.settle(end, space, device, ground, numbers)
            lines = [f"link set dev {device} mtu {mtu} up"]
            if self.on_link:
                host.root.ip(space, *lines)
                take_address(host.root, space, device, own, ground.width)
                lines = []
            else:
                no_check = " nodad" if ground.family is Family.IPV6 else ""
                lines.append(f"address add {own}/{ground.width} dev {device}{no_check}")
            routes = (f"route add {ground.inner[one]}/{ground.width} dev {device}" for one in way)
            host.root.ip(space, *lines, *(f"{route} src {own}" for route in routes))
            devices.append(device)
        return Attached(own, own, space, mtu, tuple(devices))


def checksum_of(wanted: bool | None, end: End) -> str:
    """Return ip(8)'s argument for UDP checksums of a tunnel over IPv4.

    Where addresses are translated below, one that is left to be computed for both headers at once
    comes out wrong (local checksum offload, Documentation/networking/checksum-offloads).
    """
    translated = end.below is not None and end.below.address != end.below.bind
    return "udpcsum" if (not translated if wanted is None else wanted) else "noudpcsum"
