"""Interface of layers: raising a network between endpoints, its ends, their counters and facts."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from osmef.errors import EndpointError
from osmef.layers.host import LayerHost
from osmef.layers.root import InUseError, KernelError, Root, in_namespace
from osmef.results.measure import Measure
from osmef.scenario.fields import Family
from osmef.scenario.layers import LayerSettings
from osmef.supply.program import Program

_FILES = ("/proc/net/dev", "/proc/net/snmp", "/proc/net/netstat")
_COLUMNS = {"rx_bytes": 0, "rx_packets": 1, "tx_bytes": 8, "tx_packets": 9}

Interfaces = Mapping[str, Mapping[str, int]]
"""Of each interface by its name: bytes and packets that came and went."""


@dataclass(frozen=True)
class Counters:
    """Kernel counters of a namespace, or their differences.

    ``tcp`` are those of the groups Tcp and TcpExt by name (proc(5)); ones that a kernel does not
    have are not there.
    """

    interfaces: Interfaces
    tcp: Mapping[str, int]

    def since(self, before: Counters) -> Counters:
        """Return the differences since; new interfaces are left out."""
        return Counters(
            {
                name: {key: value - before.interfaces[name][key] for key, value in now.items()}
                for name, now in self.interfaces.items()
                if name in before.interfaces
            },
            {name: now - before.tcp[name] for name, now in self.tcp.items() if name in before.tcp},
        )


def counters(root: Root, space: str | None) -> Counters:
    """Return the counters of a namespace now. Raises EndpointError, ReachError."""
    return counters_from(root.do(in_namespace(space, ["cat", *_FILES])))


def counters_from(text: str) -> Counters:
    """Parse /proc/net/dev, snmp and netstat, concatenated.

    Lines that are none of these are passed over.
    """
    interfaces: dict[str, dict[str, int]] = {}
    tcp: dict[str, int] = {}
    heads: dict[str, list[str]] = {}
    past_interfaces = False
    for line in text.splitlines():
        name, _, rest = line.strip().partition(":")
        words = rest.split()
        if name in {"Tcp", "TcpExt"} and name not in heads:
            heads[name] = words
        elif name in heads and all(map(_is_number, words)):
            tcp |= dict(zip(heads[name], map(int, words), strict=False))
        elif words and name == "Ip":  # the first line of snmp; its groups look like interfaces
            past_interfaces = True
        elif past_interfaces:
            continue
        elif len(words) > max(_COLUMNS.values()) and all(map(str.isdecimal, words)):
            interfaces[name] = {key: int(words[column]) for key, column in _COLUMNS.items()}
    return Counters(interfaces, tcp)


def _is_number(word: str) -> bool:
    return word.removeprefix("-").isdecimal()


_MOST_AT_ONCE = 16
_MOST_TRIES = 5


@dataclass(frozen=True)
class LayerEnd:
    """An end of a layer: its address, and how to enter it.

    ``address`` is the one that peers use, ``bind`` its own, which differs behind NAT. ``space`` is
    its network namespace, None for the endpoint's own. ``mtu`` is the longest packet inside, in
    bytes. ``devices`` are its interfaces there. ``ports`` are those that lead to it, None for all.
    ``prefix`` is put before each command line that runs inside; by default it enters the namespace.
    """

    address: str
    bind: str
    space: str | None
    mtu: int
    devices: tuple[str, ...] = ()
    ports: range | None = None
    prefix: tuple[str, ...] | None = None


@dataclass(frozen=True)
class UnderlayEnd:
    """An endpoint below a layer: the underlay network.

    ``own`` is its own address towards each peer, ``peers`` the address at which it reaches each, by
    their names; ``below`` the end of the layer below, if there is one, and ``mtu`` the longest
    packet that reaches all peers unfragmented, in bytes.
    """

    host: LayerHost
    own: Mapping[str, str]
    peers: Mapping[str, str]
    mtu: int
    below: LayerEnd | None = None

    @property
    def name(self) -> str:
        """The endpoint's name."""
        return self.host.name

    @property
    def space(self) -> str | None:
        """The underlay's network namespace."""
        return self.below.space if self.below else None


@dataclass(frozen=True)
class Underlay:
    """The underlay of a layer: its ends by name, the IP version, and inner addresses.

    ``inner`` are unused addresses, one for each end; ``gateway`` is a further one, which each end
    may use locally, and ``subnet`` the network of all these. ``take_ports`` reserves consecutive
    data ports, except given ones, at all ends. ``clock`` returns seconds, for deadlines.
    """

    family: Family
    ends: Mapping[str, UnderlayEnd]
    inner: Mapping[str, str]
    gateway: str
    subnet: str
    take_ports: Callable[[int, set[int]], range]
    check: Callable[[], None] = field(default=lambda: None)
    clock: Callable[[], float] = time.monotonic

    @property
    def width(self) -> int:
        """The prefix length of a single address."""
        return 128 if self.family is Family.IPV6 else 32

    def free_ports(self, count: int) -> range:
        """Reserve consecutive data ports that are free at all ends."""
        busy = [end.host.busy_ports(end.space) for end in self.ends.values()]
        return self.take_ports(count, set[int]().union(*busy))

    def free_port(self) -> int:
        """Reserve a data port that is free at all ends."""
        return self.free_ports(1).start

    def each(self, work: Callable[[UnderlayEnd], T]) -> dict[str, T]:
        """Call a function at all ends concurrently; raise the first error after all have ended."""
        self.check()
        return at_all(self.ends.values(), work)


T = TypeVar("T")
S = TypeVar("S", bound=LayerSettings)


def at_all(ends: Iterable[UnderlayEnd], work: Callable[[UnderlayEnd], T]) -> dict[str, T]:
    """Call a function at some ends concurrently; raise the first error after all have ended."""
    there = list(ends)
    with ThreadPoolExecutor(max_workers=min(_MOST_AT_ONCE, len(there))) as pool:
        futures = {end.name: pool.submit(work, end) for end in there}
    return {name: future.result() for name, future in futures.items()}


class Layer(ABC, Generic[S]):
    """A layer with its settings.

    ``Settings`` is the model of what people write under ``layer:``, whose ``kind`` has the name of
    the kind as its default. ``needs`` says in words what an endpoint has to have.
    """

    Settings: ClassVar[type[LayerSettings]]
    needs: ClassVar[tuple[str, ...]] = ("iproute2", "root, or sudo without a password")
    programs: ClassVar[tuple[Program, ...]] = ()
    """Programs that are supplied to endpoints without them."""
    example: ClassVar[str] = ""
    """Lines of a scenario that show how it is used, YAML; by default the kind alone."""
    module: ClassVar[str] = ""
    """The kernel's module that it needs."""
    measures: ClassVar[tuple[Measure, ...]] = ()
    """The metrics of a trial that it computes from the kernel's counters, if any."""

    def __init__(self, settings: S) -> None:
        self.settings = settings

    @abstractmethod
    def probe(self, host: LayerHost, space: str, family: Family) -> None:
        """Check that an endpoint supports it, in a temporary namespace.

        Raises EndpointError.
        """

    @abstractmethod
    def up(self, underlay: Underlay) -> Mapping[str, LayerEnd]:
        """Raise it between the ends, and return each. Raises EndpointError.

        The caller removes what was created, also after an error.
        """

    def outcome(self, changes: Sequence[Counters]) -> dict[str, float | None]:  # noqa: ARG002
        """Return its ``measures`` of a trial, from the counters of each endpoint.

        The interfaces are all that are in its namespace but its own ``devices`` and the loopback,
        TCP is that of the programs.
        """
        return {}

    def facts(self, host: LayerHost, attached: LayerEnd) -> dict[str, Any]:  # noqa: ARG002
        """Return the facts of one end, beyond those of every layer."""
        return {}

    def lacking(self, error: KernelError) -> EndpointError:
        """Return the error of an endpoint whose kernel lacks support."""
        load = f"load it there (modprobe {self.module})" if self.module else "use another kernel"
        what = f"no {self.module}" if self.module else "not what it needs"
        return EndpointError(
            f"the layer {self.settings.kind} can't be raised, as the kernel has {what}:"
            f" {error.message.partition(': ')[2] or error.message}",
            where=error.where,
            cure=f"{load}, or install the kernel's package with more modules; or measure without"
            " the layer",
        )

    def mtu(self, end: UnderlayEnd, overhead: int, underlay: Underlay) -> int:
        """Return the inner MTU: as set, or as the underlay leaves it, in bytes."""
        left = end.mtu - overhead
        least = 1280 if underlay.family is Family.IPV6 else 68
        if self.settings.mtu is None and left < least:
            raise EndpointError(
                f"the network below carries packets of {end.mtu} bytes, of which"
                f" {self.settings.kind} leaves {left}",
                where=end.name,
                cure="stack fewer layers, or write an mtu",
            )
        return self.settings.mtu or left


def retry_while_in_use(
    underlay: Underlay, attempt: Callable[[], Mapping[str, T]]
) -> Mapping[str, T]:
    """Retry with other numbers, such as ports, while one is in use.

    Raises EndpointError.
    """
    before = {end.name: len(end.host.traces) for end in underlay.ends.values()}
    error: InUseError | None = None
    for _ in range(_MOST_TRIES):
        try:
            return attempt()
        except InUseError as caught:
            error = caught
            at_all(underlay.ends.values(), lambda end: end.host.drop_all(before[end.name]))
    raise error or EndpointError("no number is free")


def peers_of(underlay: Underlay, end: UnderlayEnd) -> Sequence[str]:
    """Return the names of all ends but one."""
    return [name for name in underlay.ends if name != end.name]


def facts_of(layer: Layer[Any], host: LayerHost, attached: LayerEnd) -> dict[str, Any]:
    """Return the facts of a layer at one end."""
    found: dict[str, Any] = {"mtu_bytes": attached.mtu}
    with contextlib.suppress(EndpointError):
        for device in attached.devices:
            links = host.root.ask(attached.space, "-d", "link", "show", "dev", device)
            features = host.root.run(in_namespace(attached.space, ["ethtool", "-k", device]))
            reported = {"features": features_of(features.stdout.decode(errors="replace"))}
            found.setdefault("interfaces", {})[device] = _interface_details(links[0]) | reported
        version = host.root.run(["cat", f"/sys/module/{layer.module}/version"])
        found["module_version"] = version.stdout.decode(errors="replace").strip()[:80] or None
        found |= layer.facts(host, attached)
    return found


def features_of(text: str) -> dict[str, bool] | None:
    """Return the offloads of an interface by ethtool(8); None where it prints nothing."""
    rows = [line.split(":")[:2] for line in text.splitlines() if line.count(":") == 1]
    found = {name.strip(): value.split()[:1] for name, value in rows}
    switches = {name: value == ["on"] for name, value in found.items() if value}
    return {name: on for name, on in switches.items() if name and found[name] in _SWITCH} or None


_SWITCH = (["on"], ["off"])
_DETAILS = (
    *("mtu", "qdisc", "num_tx_queues", "num_rx_queues", "gso_max_size", "gro_max_size"),
    *("tso_max_size", "gso_max_segs"),
)


def _interface_details(link: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details of an interface by ip(8), without those that differ from run to run."""
    info = link.get("linkinfo")
    found = {name: link[name] for name in _DETAILS if name in link}
    if isinstance(info, dict):
        found |= {"kind": info.get("info_kind"), "data": info.get("info_data")}
    return found
