"""A cable from a namespace to the endpoint's own, and packets that are passed on between both."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TypeVar

from osmef.errors import EndpointError
from osmef.layers.base import Attached, End, Ground, Layer, peers_of, several_times
from osmef.layers.host import Host
from osmef.layers.root import KernelError, within
from osmef.layers.traces import forwarding_file
from osmef.scenario.fields import Family
from osmef.scenario.layers import LayerSettings

S = TypeVar("S", bound=LayerSettings)


class Routed(Layer[S]):
    """A namespace behind the endpoint, which is its router.

    Of IPv4 only: whether packets of IPv6 are passed on is one switch for all interfaces, with which
    an endpoint also learns no addresses from its routers any more (ip-sysctl).
    """

    def probe(self, host: Host, space: str, family: Family) -> None:  # noqa: ARG002
        """Make what it needs in a namespace of its own. Raises EndpointError."""
        try:
            self.try_out(host, space)
        except KernelError as error:
            raise self.lacking(error) from error

    @abstractmethod
    def try_out(self, host: Host, space: str) -> None:
        """Make what it needs in a namespace. Raises EndpointError."""

    @abstractmethod
    def join(self, end: End, outer: str, ground: Ground) -> str:
        """Join the near end of the cable to the endpoint; return the interface with its address."""

    def up(self, ground: Ground) -> Mapping[str, Attached]:
        """Raise it at all ends. Raises EndpointError."""
        return several_times(ground, lambda: ground.each(lambda end: self._raise(end, ground)))

    def _raise(self, end: End, ground: Ground) -> Attached:
        host, own, gateway = end.host, ground.inner[end.name], ground.gateway
        space, mtu = host.new_space(), self.mtu(end, 0, ground)
        inner = "eth0"
        outer = host.new_link(end.space, f"mtu {mtu} type veth peer name {inner} netns {space}")
        near = self.join(end, outer, ground)
        pass_on(end, near)
        host.root.ip(
            end.space,
            f"link set dev {outer} up",
            f"address add {gateway}/32 dev {near}",
            f"route add {own}/32 dev {near}",
        )
        host.root.ip(
            space,
            f"link set dev {inner} mtu {mtu} up",
            f"address add {own}/32 dev {inner}",
            f"route add {gateway}/32 dev {inner}",
            f"route add default via {gateway} dev {inner} src {own}",
        )
        for peer in peers_of(ground, end):
            below, _ = host.way_to(end.space, end.peers[peer])
            pass_on(end, below)
        return self.lead(end, ground, Attached(own, own, space, mtu, (inner,)))

    @abstractmethod
    def lead(self, end: End, ground: Ground, attached: Attached) -> Attached:
        """Lead peers to an end; return it as they see it. Raises EndpointError."""


def pass_on(end: End, interface: str) -> None:
    """Have an interface pass packets on; the endpoint's own are set back when all is taken down.

    Raises EndpointError.
    """
    host, path = end.host, forwarding_file(interface, 4)
    before = host.root.do(within(end.space, ["cat", path])).strip()
    if before == "1":
        return
    if before != "0":
        raise EndpointError(f"{path} is {before[:20]!r}", where=host.name)
    if end.space is None and not interface.startswith(host.mark.link(0)[:-1]):
        host.note("forwarding", f"{interface}={before}")
    host.root.do(within(end.space, ["tee", path]), b"1")


def nft(host: Host, space: str | None, text: str) -> None:
    """Make tables and rules of nftables, all that a text says or nothing. Raises EndpointError."""
    host.root.do(within(space, ["nft", "-f", "-"]), text.encode())
