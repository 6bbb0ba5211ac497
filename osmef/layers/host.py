"""An endpoint that carries layers: it creates marked traces, removes them, and checks addresses.

Whether a host on a link has an address is asked as duplicate address detection does (RFC 5227,
RFC 4862).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from itertools import cycle
from typing import Any, Protocol

from osmef.errors import EndpointError
from osmef.layers.nics import SavedNic, find
from osmef.layers.root import InUseError, Root, in_namespace
from osmef.layers.traces import Trace, TraceNames, remove
from osmef.supply.program import Program

_MOST_TRIES = 20


class TraceLedger(Protocol):
    """Ledger of traces, durable on disk."""

    def intend(self, trace: Trace) -> None:
        """Note the intent to create a trace."""

    def created(self, trace: Trace) -> None:
        """Note that a trace exists."""

    def destroyed(self, trace: Trace) -> None:
        """Note that a trace is removed."""


@dataclass
class LayerHost:
    """An endpoint with the right to create interfaces. ``traces`` exist, in this order.

    ``program`` is the agent's executable, to be copied there. ``nics`` are its free network cards,
    by name or MAC address; ``outlives_run`` is whether its machine outlives the run.
    """

    name: str
    root: Root
    names: TraceNames
    notes: TraceLedger
    program: bytes = b""
    nics: tuple[str, ...] = ()
    outlives_run: bool = True
    # Names have room for four digits; the oldest objects are gone when numbers are used again.
    numbers: Iterator[int] = field(default_factory=lambda: cycle(range(1, 10_000)))
    traces: list[Trace] = field(default_factory=list)
    # Shared by all layers of the endpoint.
    forwards: set[str] = field(default_factory=set)
    """The endpoint's own interfaces on which layers have enabled forwarding."""
    folder: str = ""
    """The run's directory below the login's home, if the machine is deleted after the run."""
    supply_program: Callable[[Program], None] = lambda _program: None
    """Supplies a program that turns out to be missing; raises SupplyError."""

    def make(self, kind: str, name: Callable[[int], str], make: Callable[[str], None]) -> str:
        """Create a trace under a free name, recorded beforehand; return the name.

        Raises EndpointError, ReachError, StorageError.
        """
        error: EndpointError | None = None
        for _ in range(_MOST_TRIES):
            chosen = name(next(self.numbers))
            trace = Trace(kind, chosen)
            self.notes.intend(trace)
            try:
                make(chosen)
            except InUseError as caught:  # it belongs to another owner
                self.notes.destroyed(trace)
                error = caught
                continue
            except EndpointError:
                self.traces.append(trace)
                raise
            self.traces.append(trace)
            self.notes.created(trace)
            return chosen
        raise error or EndpointError("no name is free", where=self.name)

    def drop(self, kind: str, name: str) -> None:
        """Remove a trace. Raises EndpointError, ReachError."""
        trace = Trace(kind, name)
        remove(self.root, self.names.run, trace)
        self.notes.destroyed(trace)
        self.traces = [one for one in self.traces if one != trace]

    def drop_all(self, after: int = 0) -> None:
        """Remove the traces after the first ``after``, the newest first."""
        while len(self.traces) > after:
            self.drop(self.traces[-1].kind, self.traces[-1].name)

    def new_space(self) -> str:
        """Create a network namespace with only a loopback. Raises EndpointError."""

        def make(name: str) -> None:
            self.root.do(["ip", "netns", "add", name])
            self.root.ip(name, "link set dev lo up")

        return self.make("netns", self.names.space, make)

    def new_link(self, space: str | None, kind: str) -> str:
        """Create an interface in a namespace by ip(8)'s arguments; return its name.

        In the host's namespace it is a trace; in one of ours it is deleted with that. Raises
        InUseError if an interface of the same name or settings exists, EndpointError.
        """
        name = self.names.link(next(self.numbers))
        line = f"link add dev {name} group {self.names.group} {kind}"
        if space is not None:
            self.root.ip(space, line)
            return name
        self.note("link", name)
        self.root.ip(None, line)
        self.notes.created(Trace("link", name))
        return name

    def new_link_of(self, space: str | None, argv: Callable[[str], Sequence[str]]) -> str:
        """Create an interface by a program, by the command line for its name; return the name.

        Raises EndpointError.
        """
        name = self.names.link(next(self.numbers))
        if space is None:
            self.note("link", name)
        self.root.do(in_namespace(space, argv(name)))
        self.root.ip(space, f"link set dev {name} group {self.names.group}")
        if space is None:
            self.notes.created(Trace("link", name))
        return name

    def note(self, kind: str, name: str) -> None:
        """Record a trace before its creation or change, for later removal."""
        trace = Trace(kind, name)
        self.notes.intend(trace)
        self.traces.append(trace)

    def moved(self, link: str) -> None:
        """Record that an interface was moved into one of our namespaces, which deletes it."""
        trace = Trace("link", link)
        if trace in self.traces:
            self.notes.destroyed(trace)
            self.traces.remove(trace)

    def acquire_nics(self, wanted: Sequence[str], space: str) -> list[SavedNic]:
        """Move free network cards into a namespace of ours; removing the traces restores them.

        Raises EndpointError.
        """
        nics = find(self.root, wanted, outlives_run=self.outlives_run)
        names = [f"{nic.device}@{space}={nic.text}" for nic in nics]
        for name in names:
            self.note("nic", name)
        self.root.ip(None, *(f"link set dev {nic.device} netns {space}" for nic in nics))
        for name in names:
            self.notes.created(Trace("nic", name))
        return nics

    def networks(self, space: str | None) -> list[str]:
        """Return the networks in the routes and addresses of a namespace."""
        found: list[str] = []
        for version in ("-4", "-6"):
            routes = self.root.ask(space, version, "route", "show", "table", "all")
            found += [str(one.get("dst")) for one in routes]
            found += [str(one.get("gateway")) for one in routes if one.get("gateway")]
        return [one for one in found if one not in {"default", "None"}]

    def busy_ports(self, space: str | None) -> set[int]:
        """Return the UDP and TCP ports that are bound in a namespace (proc(5))."""
        files = [f"/proc/net/{kind}" for kind in ("udp", "udp6", "tcp", "tcp6")]
        done = self.root.run(in_namespace(space, ["cat", *files]))  # without IPv6 some don't exist
        rows = (line.split() for line in done.stdout.decode(errors="replace").splitlines())
        return {
            int(row[1].rpartition(":")[2], 16)
            for row in rows
            if len(row) > 3 and row[0].rstrip(":").isdigit()
        }

    def way_to(self, space: str | None, address: str) -> tuple[str, int]:
        """Return the interface of the route to an address, and the path MTU in bytes.

        Raises EndpointError.
        """
        routes = self.root.ask(space, "route", "get", address)
        interface = str(routes[0].get("dev")) if routes else ""
        links = self.root.ask(space, "link", "show", "dev", interface) if interface else []
        if not links:
            raise EndpointError(f"it has no route to {address}", where=self.name)
        mtu = min(int(links[0].get("mtu") or 0), int(_metric(routes[0], "mtu") or 65535))
        return interface, mtu


def _metric(route: dict[str, Any], name: str) -> int | None:
    """Return a metric of a route, from iproute2's lists of metrics."""
    metrics = [one for one in route.get("metrics", []) if isinstance(one, dict)]
    return next((int(one[name]) for one in metrics if name in one), None)


def overlaps(network: str, others: list[str]) -> bool:
    """Return whether a network overlaps any of others."""
    mine = ip_network(network)
    for other in others:
        try:
            theirs = ip_network(other, strict=False)
        except ValueError:
            continue
        if theirs.version == mine.version and theirs.prefixlen and mine.overlaps(theirs):
            return True
    return False


def is_ipv6(address: str) -> bool:
    """Return whether an address is of IPv6."""
    return ip_address(address).version == 6


_PROBES, _GAP_MS = 3, 100
"""Number of probes, and how long an answer to each may take, in milliseconds."""
_LIMIT_S = 10
_POLL_S = 0.05
_BROADCAST = "ff:ff:ff:ff:ff:ff"


class DuplicateError(EndpointError):
    """A host on the link already has a chosen address: one of another network may be free."""


def take_address(root: Root, space: str | None, device: str, address: str, width: int) -> None:
    """Give an interface an address after duplicate address detection (RFC 5227, RFC 4862).

    The interface has to be up, without another address. Three probes are sent, which takes 0.3 s.
    Raises DuplicateError, EndpointError.
    """
    if is_ipv6(address):  # the kernel detects duplicates itself
        _set(root, space, f"ipv6/neigh/{device}/retrans_time_ms", _GAP_MS)
        _set(root, space, f"ipv6/conf/{device}/router_solicitation_delay", 0)
        _set(root, space, f"ipv6/conf/{device}/dad_transmits", _PROBES)
        root.ip(space, f"address add {address}/{width} dev {device}")
        _await_ipv6(root, space, device, address)
        return
    _set(root, space, f"ipv4/neigh/{device}/retrans_time_ms", _GAP_MS)
    _set(root, space, f"ipv4/neigh/{device}/ucast_solicit", _PROBES)
    _set(root, space, f"ipv4/neigh/{device}/locktime", 0)  # take the first answer
    # Without an own address the kernel sends ARP probes from 0.0.0.0, as in RFC 5227.
    neighbour = f"{address} dev {device}"
    root.ip(space, f"neighbour replace {neighbour} lladdr {_BROADCAST} nud probe")
    _await_ipv4(root, space, device, address)
    root.ip(space, f"neighbour delete {neighbour}", f"address add {address}/{width} dev {device}")


def try_address(host: LayerHost, below: str, address: str, width: int) -> None:
    """Check that no host on the link of an endpoint's interface has an address.

    Raises DuplicateError, EndpointError.
    """
    space = host.new_space()
    device = host.new_link(None, f"link {below} type macvlan mode bridge")
    host.root.ip(None, f"link set dev {device} netns {space}")
    host.moved(device)
    host.root.ip(space, f"link set dev {device} up")
    take_address(host.root, space, device, address, width)
    host.drop("netns", space)


def _await_ipv4(root: Root, space: str | None, device: str, address: str) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        found = root.ask(space, "neighbour", "show", "to", address, "dev", device)
        has = found[0].get("lladdr") if found else None
        if has is None:
            return
        if has != _BROADCAST:
            raise _duplicate(root, address, f" by {has}")
        time.sleep(_POLL_S)
    raise _no_dad_answer(root, address)


def _await_ipv6(root: Root, space: str | None, device: str, address: str) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        found = root.ask(space, "address", "show", "dev", device, "to", address)
        reported = [one for link in found for one in link.get("addr_info", []) if one]
        if any(one.get("dadfailed") for one in reported):
            raise _duplicate(root, address, "")
        if not any(one.get("tentative") for one in reported):
            return
        time.sleep(_POLL_S)
    raise _no_dad_answer(root, address)


def _set(root: Root, space: str | None, name: str, value: int) -> None:
    root.do(in_namespace(space, ["tee", f"/proc/sys/net/{name}"]), str(value).encode())


def _duplicate(root: Root, address: str, whose: str) -> DuplicateError:
    return DuplicateError(
        f"{address} is in use on its link{whose}",
        where=root.name,
        cure="keep 198.18.0.0/15 and fd6f:736d:6566::/48 free there",
    )


def _no_dad_answer(root: Root, address: str) -> EndpointError:
    return EndpointError(
        f"the kernel has not reported within {_LIMIT_S} s whether {address} is in use on its link",
        where=root.name,
        cure="see whether the link has a carrier",
    )
