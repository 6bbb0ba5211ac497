"""Routed namespaces: a veth pair to the endpoint's own namespace, and forwarding."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TypeVar

from osmef.errors import EndpointError
from osmef.layers.base import Attached, End, Ground, Layer, peers_of, several_times
from osmef.layers.host import LayerHost
from osmef.layers.root import KernelError, within
from osmef.layers.traces import IPV6, IPV6_KEYS, forwarding_file, ipv6_file
from osmef.scenario.fields import Family
from osmef.scenario.layers import LayerSettings

S = TypeVar("S", bound=LayerSettings)


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
    def join(self, end: End, outer: str, ground: Ground) -> str:
        """Attach the near end of the veth pair to the endpoint; return the addressed interface."""

    def up(self, ground: Ground) -> Mapping[str, Attached]:
        """Raise it at all ends. Raises EndpointError."""
        return several_times(ground, lambda: ground.each(lambda end: self._raise(end, ground)))

    def _raise(self, end: End, ground: Ground) -> Attached:
        host, own, gateway = end.host, ground.inner[end.name], ground.gateway
        space, mtu = host.new_space(), self.mtu(end, 0, ground)
        inner = "eth0"
        outer = host.new_link(end.space, f"mtu {mtu} type veth peer name {inner} netns {space}")
        near = self.join(end, outer, ground)
        no_check = ""
        if ground.family is Family.IPV6:
            no_check = " nodad"
            _enable_ipv6(end, near)
        host.root.ip(
            end.space,
            f"link set dev {outer} up",
            f"address add {gateway}/{ground.width} dev {near}{no_check}",
            f"route add {own}/{ground.width} dev {near}",
        )
        host.root.ip(
            space,
            f"link set dev {inner} mtu {mtu} up",
            f"address add {own}/{ground.width} dev {inner}{no_check}",
            f"route add {gateway}/{ground.width} dev {inner}",
            f"route add default via {gateway} dev {inner} src {own}",
        )
        if ground.family is Family.IPV6:
            pass_on_ipv6(end)
        else:
            ways = [host.way_to(end.space, end.peers[one])[0] for one in peers_of(ground, end)]
            for interface in (near, *ways):
                pass_on(end, interface)
        return self.lead(end, ground, Attached(own, own, space, mtu, (inner,)))

    @abstractmethod
    def lead(self, end: End, ground: Ground, attached: Attached) -> Attached:
        """Route peers to an end; return it as they see it. Raises EndpointError."""


def pass_on(end: End, interface: str) -> None:
    """Enable forwarding on an interface; the endpoint's setting is restored at teardown.

    Raises EndpointError.
    """
    host, path = end.host, forwarding_file(interface, 4)
    before = host.root.do(within(end.space, ["cat", path])).strip()
    if before == "1":
        return
    if before != "0":
        raise EndpointError(f"{path} is {before[:20]!r}", where=host.name)
    if end.space is None and not interface.startswith(host.names.link(0)[:-1]):
        host.note("forwarding", f"{interface}={before}")
        host.forwards.add(interface)
    host.root.do(within(end.space, ["tee", path]), b"1")


def _enable_ipv6(end: End, interface: str) -> None:
    """Enable IPv6 on an interface of ours: an endpoint may have it off for all new ones.

    Raises EndpointError.
    """
    path = ipv6_file(interface, "disable_ipv6")
    end.host.root.do(within(end.space, ["tee", path]), b"0")


def pass_on_ipv6(end: End) -> None:
    """Enable IPv6 forwarding on an endpoint, which is one switch for all interfaces.

    A router learns nothing from other routers unless ``accept_ra`` is 2 (ip-sysctl), so that comes
    first: else a default route that a router told would go. All is set back as it was when it is
    taken down. Raises EndpointError.
    """
    host, switch = end.host, ipv6_file("all", "forwarding")
    if host.root.do(within(end.space, ["cat", switch])).strip() == "1":
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
        host.root.do(within(end.space, ["tee", ipv6_file(name, key)]), b"2")
    host.root.do(within(end.space, ["tee", switch]), b"1")


def _ipv6_settings(end: End) -> dict[str, dict[str, str]]:
    """Return the IPv6 settings of interfaces that are not ours, with all and default."""
    found: dict[str, dict[str, str]] = {}
    names = [f"--include={key}" for key in IPV6_KEYS]
    told = end.host.root.do(within(end.space, ["grep", "-rs", *names, ".", IPV6]))
    for line in told.splitlines():
        path, _, value = line.partition(":")
        name, key = path.removeprefix(f"{IPV6}/").split("/")
        found.setdefault(name, dict.fromkeys(IPV6_KEYS, ""))[key] = value
    ours = end.host.names.link(0)[:-1]
    return {name: values for name, values in found.items() if not name.startswith(ours)}


def nft(host: LayerHost, space: str | None, text: str) -> None:
    """Apply rules of nftables atomically. Raises EndpointError."""
    host.root.do(within(space, ["nft", "-f", "-"]), text.encode())
