"""Layers of a run: raised before their trials, reused, and taken down at the end."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import product
from typing import Any

from osmef.engine.journal import Journal
from osmef.engine.layer_endpoints import LayeredStation, StackKey, key_of, raise_layer, reserve
from osmef.engine.plan import PlannedCell
from osmef.engine.station import Station
from osmef.errors import EndpointError, OsmefError, ReachError
from osmef.kinds import LAYERS, WORKLOADS
from osmef.layers.base import Counters, Layer, LayerEnd, Underlay, UnderlayEnd, counters, facts_of
from osmef.layers.host import DuplicateError, LayerHost, overlaps
from osmef.layers.root import KernelError, Root
from osmef.layers.traces import Trace, TraceNames
from osmef.providers.base import Resource, RunContext
from osmef.providers.sites import Sites
from osmef.results.observations import InterfaceUse
from osmef.scenario.fields import DATA_PORTS, Family, ProviderNetwork
from osmef.supply.program import Program
from osmef.workloads import Outcome, Pair, TrialJob
from osmef.workloads.base import Part, Workload
from osmef.workloads.tasks import TaskTimeouts
from osmef.workloads.trial_runner import run_parts

_MOST_COUNTED = 16
_LOOPBACK = "lo"

Counting = tuple[Layer[Any], Mapping[str, LayerEnd]]
"""A layer that reports something, with its ends."""


class TrafficCounter:
    """Counts the traffic of a layer during a trial. ``outer`` are the outermost ends."""

    def __init__(
        self,
        layers: Sequence[Counting],
        outer: Mapping[str, LayerEnd],
        hosts: Mapping[str, LayerHost],
    ) -> None:
        self._layers, self._outer, self._hosts = layers, outer, hosts
        self._before = self._count()

    def _count(self) -> dict[tuple[str, str | None], Counters]:
        """Read the counters of all namespaces, by endpoint and namespace."""
        every = [ends for _, ends in self._layers] + [self._outer]
        namespaces = dict.fromkeys(
            (name, end.space) for ends in every for name, end in ends.items()
        )
        with ThreadPoolExecutor(max_workers=min(_MOST_COUNTED, len(namespaces))) as pool:
            found = pool.map(
                lambda space: counters(self._hosts[space[0]].root, space[1]), namespaces
            )
            return dict(zip(namespaces, found, strict=True))

    def add_to(self, outcome: Outcome) -> Outcome:
        """Add the counted traffic to an outcome. Raises EndpointError, ReachError."""
        after = self._count()
        change = {space: now.since(self._before[space]) for space, now in after.items()}
        metrics, interfaces = dict(outcome.metrics), list(outcome.interfaces)
        for layer, ends in self._layers:
            reported = {
                name: Counters(
                    _cards(change[name, end.space], end),
                    change[name, self._outer[name].space].tcp,
                )
                for name, end in ends.items()
            }
            metrics |= layer.outcome(list(reported.values()))
            known = {(one.endpoint, one.name) for one in interfaces}
            interfaces += [
                InterfaceUse(endpoint=name, name=device, measured=False, **counted)
                for name, one in reported.items()
                for device, counted in one.interfaces.items()
                if (name, device) not in known
            ]
        return replace(outcome, metrics=metrics, interfaces=interfaces)


def _cards(counted: Counters, end: LayerEnd) -> Mapping[str, Mapping[str, int]]:
    """Return the counters of a namespace's interfaces that the layer did not create."""
    own = {_LOOPBACK, *end.devices}
    return {name: one for name, one in counted.interfaces.items() if name not in own}


# Of RFC 2544 (IPv4) and of local use (RFC 4193): no real network has these.
_INNER = {Family.IPV4: ("198.18.0.0/15", 22), Family.IPV6: ("fd6f:736d:6566::/48", 64)}
_FIRST = "job-0"
"""What the first agent of a trial is called."""
_MOST_AT_ONCE = 16
_GATEWAY = 1000
"""Of the addresses of a network inside; there are fewer endpoints."""
_MOST_NETWORKS = 3
"""How many networks are tried for the addresses of a layer, if strangers have some of them."""
_TRY_S = 0.2
"""How long something is sent through a layer that was just raised, in seconds."""
_WAITS = TaskTimeouts(arm_s=8.0, stall_s=5.0, drain_s=10.0)


@dataclass
class _Raised:
    """A stack that is up: for each endpoint its end of the outermost layer.

    One that ``needs_exclusive_nics`` exists only while its trials run.
    """

    attached: Mapping[str, LayerEnd] = field(default_factory=dict)
    prefixes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hosts: Mapping[str, LayerHost] = field(default_factory=dict)
    below: list[tuple[Layer[Any], Mapping[str, LayerEnd]]] = field(default_factory=list)
    """Each layer with its ends, the innermost first."""
    ports: list[range] = field(default_factory=list)
    """Data ports that its layers have, at all its endpoints."""
    subnets: list[str] = field(default_factory=list)
    """Networks of the addresses inside of its layers."""


class _Notes:
    """Ledger of what layers create on endpoints that outlive the run."""

    def __init__(
        self, context: RunContext, journal: Journal, reach: tuple[str, dict[str, str]]
    ) -> None:
        self._context, self._journal, self._reach = context, journal, reach

    def _resource(self, trace: Trace, name: str | None = None) -> Resource:
        kind, access = self._reach
        times = (self._context.deadline, self._context.made)
        return Resource(
            kind, trace.kind, trace.name, self._context.run, name, *times, access=access
        )

    def intend(self, trace: Trace) -> None:
        """Note the intent. Raises StorageError."""
        self._journal.intend(self._resource(trace))

    def created(self, trace: Trace) -> None:
        """Note the creation. Raises StorageError."""
        self._journal.created(self._resource(trace, trace.name))

    def destroyed(self, trace: Trace) -> None:
        """Note the destruction."""
        self._journal.destroyed(self._resource(trace))


class _NullLedger:
    """Null ledger: what layers create is destroyed with the endpoint."""

    def intend(self, trace: Trace) -> None:
        """Do nothing."""

    created = destroyed = intend


class Layers:
    """Layers of a run, in all stacks. ``context`` is the run's own, with its journal."""

    def __init__(
        self,
        stations: Mapping[str, Station],
        sites: Sites,
        context: RunContext,
        journal: Journal,
    ) -> None:
        self._stations, self._sites, self._context, self._journal = (
            stations,
            sites,
            context,
            journal,
        )
        self._raised: dict[StackKey, _Raised] = {}
        self._roots: dict[str, LayerHost] = {}
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def up(self, cells: Iterable[PlannedCell]) -> None:
        """Raise all stacks of the cells, once each.

        First it is tried on all endpoints: EndpointError lists all that they lack. Stacks with an
        exclusive NIC are only tried here, and raised in turns. Raises ReachError, StorageError,
        Interrupted.
        """
        keys = dict.fromkeys(key for cell in cells if (key := key_of(cell)) is not None)
        self._probe(keys)
        for key in keys:
            what = "trying" if key.needs_exclusive_nics else "raising"
            self._context.progress(f"{what} {key.label} between {' and '.join(key.names)}")
            self._raise(key)
            if key.needs_exclusive_nics:
                self._take_down(key)

    def prepare(self, planned: PlannedCell) -> None:
        """Ensure that the stack of a cell is up, replacing others that use the same hardware.

        Raises EndpointError, StorageError, Interrupted.
        """
        key = key_of(planned)
        if key is None or not key.needs_exclusive_nics:
            return
        with self._turn:
            if self._raised[key].attached:
                return
            for other in self._raised:
                if other.needs_exclusive_nics and set(other.names) & set(key.names):
                    self._take_down(other)
            self._raise(key)

    def _take_down(self, key: StackKey) -> None:
        """Take down a stack that uses exclusive hardware. Raises the error that prevented it."""
        errors = self._lower(key)
        if errors:
            raise errors[0]

    def watch(self, planned: PlannedCell) -> TrafficCounter | None:
        """Start counting for the layers of a cell that measure something.

        None where there are none. Raises EndpointError, ReachError.
        """
        key = key_of(planned)
        if key is None:
            return None
        raised = self._raised[key]
        counting = [(layer, ends) for layer, ends in raised.below if layer.measures]
        for name, host in raised.hosts.items():
            host.root.session = self._stations[name].session
        return TrafficCounter(counting, raised.attached, raised.hosts) if counting else None

    def pair(self, planned: PlannedCell, sender: str, receiver: str) -> Pair | None:
        """Return two endpoints of a cell inside of its layers; None without layers.

        Raises EndpointError where they aren't raised.
        """
        key = key_of(planned)
        return None if key is None else self._pair(key, sender, receiver)

    def _pair(self, key: StackKey, sender: str, receiver: str) -> Pair:
        raised = self._raised[key]
        for name in (sender, receiver):
            if name not in raised.attached:
                raise EndpointError(f"the layer {key.label} is not up", where=name)
        here, there = raised.attached[sender], raised.attached[receiver]
        label = self._label(key)
        return Pair(
            LayeredStation(self._stations[sender], label, here, raised.prefixes[sender]),
            LayeredStation(self._stations[receiver], label, there, raised.prefixes[receiver]),
            here.address,
            there.address,
            here.bind,
            there.bind,
        )

    def _label(self, key: StackKey) -> str:
        """Return the prefix of the roles of agents inside of a stack."""
        return f"{key.label} {list(self._raised).index(key)}"

    def raise_again(self, names: Iterable[str]) -> None:
        """Raise the stacks again on endpoints that have recovered.

        Trials of a stack that can't be raised fail. Raises StorageError, Interrupted.
        """
        back = set(names)
        for key in [key for key in self._raised if back & set(key.names)]:
            self._lower(key)
            if not key.needs_exclusive_nics:
                self._context.progress(f"raising {key.label} again")
                try:
                    self._raise(key)
                except EndpointError as error:
                    self._context.progress(f"{key.label} can't be raised again: {error.message}")

    def down(self, *, are_kept: bool) -> EndpointError | None:
        """Take down all stacks that outlive the run; return the error where some can't be removed.

        What was raised at endpoints that are destroyed now goes with them, unless they ``are_kept``
        for other runs. Raises nothing else.
        """
        errors: list[OsmefError] = []
        for key in reversed(self._raised):
            errors += self._lower(key, are_kept=are_kept)
        return _unremoved(errors)

    def _lower(self, key: StackKey, *, are_kept: bool = True) -> list[OsmefError]:
        """Take a stack down at all its ends concurrently; return the errors."""
        raised, inside = self._raised[key], f"{self._label(key)}:"
        raised.attached, raised.prefixes, raised.below = {}, {}, []
        for name, ports in product(raised.hosts, raised.ports):
            self._stations[name].reserved -= set(ports)
        raised.ports, raised.subnets = [], []
        hosts = [host for host in raised.hosts.values() if are_kept or host.outlives_run]
        if not hosts:
            return []
        with ThreadPoolExecutor(max_workers=min(_MOST_AT_ONCE, len(hosts))) as pool:
            errors = list(pool.map(lambda host: self._clear(host, inside), hosts))
        return [error for error in errors if error is not None]

    def _clear(self, host: LayerHost, inside: str) -> OsmefError | None:
        """Remove a stack's resources from an endpoint, after ending its agents."""
        station = self._stations[host.name]
        if station.lost is not None:
            kept = ReachError("its layers were not removed", where=host.name)
            return kept if host.traces else None
        station.end_agents(inside)
        host.root.session = station.session
        try:
            host.drop_all()
        except OsmefError as error:
            return error
        return None

    def _host(self, name: str) -> LayerHost:
        """Return the layer host of an endpoint for one stack."""
        station = self._stations[name]
        with self._lock:
            if name not in self._roots:
                self._roots[name] = self._first_host(station)
            first = self._roots[name]
        first.root.session = station.session
        return replace(first, traces=[])

    def _first_host(self, station: Station) -> LayerHost:
        reach = self._sites.access_after_run(station.endpoint)
        notes = _NullLedger() if reach is None else _Notes(self._context, self._journal, reach)
        station.keep_lock()
        names = TraceNames(self._context.run, station.name)
        program = station.deployment.binary.data
        root, nics = Root(station.session, station.command_line), station.endpoint.nics
        host = LayerHost(station.name, root, names, notes, program, nics, reach is not None)
        host.folder = "" if reach is not None else station.directory
        host.supply_program = lambda wanted: self._supply_program(station, wanted)
        return host

    def _supply_program(self, station: Station, program: Program) -> None:
        """Supply a program whose need is known only at the endpoint. Raises SupplyError."""
        if station.command_line([program.name]) == [program.name]:
            from osmef.supply.supply import (  # noqa: PLC0415 - slow to load, and few need it
                Supplier,
                default_store,
            )

            store = replace(
                default_store(), progress=self._context.progress, check=self._context.check
            )
            station.provide([program], Supplier(store))

    def _probe(self, keys: Iterable[StackKey]) -> None:
        """Check that all endpoints support their layers. Raises EndpointError."""
        wanted: dict[str, dict[tuple[Any, Family], None]] = {}
        for key in keys:
            for name in key.names:
                wanted.setdefault(name, {}).update({(one, key.family): None for one in key.stack})
        errors: list[EndpointError] = []
        for name, layers in wanted.items():
            self._context.check()
            errors += self._lacking(name, layers)
        if errors:
            raise _together(errors)

    def _lacking(self, name: str, layers: Iterable[tuple[Any, Family]]) -> list[EndpointError]:
        """Return what an endpoint lacks for its layers."""
        host, errors = self._host(name), []
        try:
            host.root.do(["ip", "-V"])
            for settings, family in layers:
                if (error := _try(layer_of(settings), host, family)) is not None:
                    errors.append(error)
        except ReachError:
            raise
        except EndpointError as error:  # no layer can do without that
            return [error]
        return errors

    def _raise(self, key: StackKey) -> None:
        """Raise the layers of a stack from the bottom up. Raises EndpointError."""
        hosts = {name: self._host(name) for name in key.names}
        for name, before in self._raised.get(key, _Raised()).hosts.items():
            hosts[name].traces += before.traces  # what could not be removed
        raised = self._raised[key] = _Raised(hosts=hosts)
        ends = self._bare(key, hosts)
        facts: dict[str, dict[str, Any]] = {name: {} for name in key.names}
        # One that is raised in turns is the same each time.
        known = key.needs_exclusive_nics and all(
            key.label in self._stations[name].layers for name in key.names
        )
        try:
            for settings in reversed(key.stack):
                layer = layer_of(settings)
                underlay, attached = self._up(layer, key, ends)
                raised.below.append((layer, attached))
                if not known:
                    reported = underlay.each(_facts_at(layer, attached))
                    for name, found in reported.items():
                        facts[name][settings.label] = found
                ends = {name: _as_underlay(end, attached) for name, end in ends.items()}
        except EndpointError as error:
            error.message = f"the layer {key.label}: {error.message}"
            raise
        raised.attached = attached
        raised.prefixes = {
            name: one.prefix if one.prefix is not None else self._enter_command(hosts[name], one)
            for name, one in attached.items()
        }
        for name, found in facts.items() if not known else ():
            self._stations[name].layers[key.label] = found
        self._verify(key)

    def _up(
        self, layer: Layer[Any], key: StackKey, ends: Mapping[str, UnderlayEnd]
    ) -> tuple[Underlay, Mapping[str, LayerEnd]]:
        """Raise a layer; retry with other addresses where a host on the link has one of them.

        Raises EndpointError.
        """
        before = {name: len(end.host.traces) for name, end in ends.items()}
        tries = 0
        while True:
            underlay, tries = self._underlay(key, ends), tries + 1
            try:
                return underlay, raise_layer(layer, underlay)
            except DuplicateError:
                if tries == _MOST_NETWORKS:
                    raise
                underlay.each(lambda end: end.host.drop_all(before[end.name]))

    def _verify(self, key: StackKey) -> None:
        """Send a test transfer from the first end to each other one. Raises EndpointError."""
        first, *others = key.names
        for other in others:
            pair = self._pair(key, first, other)
            for host in (pair.sender, pair.receiver):
                host.agent(_FIRST)  # that it can't be started there is another failure
            try:
                run_parts(TrialJob(0, [pair], check=self._context.check, waits=_WAITS), _try_out())
            except EndpointError as error:
                raise EndpointError(
                    f"the layer {key.label} is up, and nothing gets through it from {first} to"
                    f" {other}: {error}",
                    where=other,
                    cure=f"let through between them {_carried(key)}: firewalls of the endpoints"
                    " (nft list ruleset) and of their network; or measure without the layer",
                ) from error

    def _enter_command(self, host: LayerHost, attached: LayerEnd) -> tuple[str, ...]:
        """Return the command prefix that enters the stack as the login's user."""
        if attached.space is None:
            return ()
        enter = (*host.root.prefix, "ip", "netns", "exec", attached.space)
        if not host.root.prefix:
            return enter
        user, group = (
            self._stations[host.name].session.word(["id", flag]) for flag in ("-u", "-g")
        )
        ids = (f"--reuid={user}", f"--regid={group}", "--init-groups", "--reset-env", "--")
        return (*enter, "setpriv", *ids)

    def _bare(self, key: StackKey, hosts: Mapping[str, LayerHost]) -> dict[str, UnderlayEnd]:
        """Return the endpoints on the underlying network."""
        found = {}
        for name, host in hosts.items():
            here = self._stations[name].endpoint
            others = [self._stations[one].endpoint for one in key.names if one != name]
            path = (ProviderNetwork.BARE, key.family)
            own = {one.name: self._sites.listen_address(here, one, *path) for one in others}
            peers = {one.name: self._sites.data_address(one, here, *path) for one in others}
            mtu = min(host.way_to(None, address)[1] for address in peers.values())
            found[name] = UnderlayEnd(host, own, peers, mtu)
        return found

    def _underlay(self, key: StackKey, ends: Mapping[str, UnderlayEnd]) -> Underlay:
        """Return the underlay of a layer, with inner addresses that no end uses."""
        taken = [net for end in ends.values() for net in end.host.networks(end.space)]
        taken += [f"{one.own[peer]}" for one in ends.values() for peer in one.own]
        # A macvlan in a namespace or a container has no route here, and may be on the same link.
        ours = [net for one in self._raised.values() for net in one.subnets]
        first = _free_network(key.family, [*taken, *ours]) or _free_network(key.family, taken)
        if first is None:
            whole, _ = _INNER[key.family]
            raise EndpointError(f"all of {whole} is in use", where=", ".join(key.names))
        self._raised[key].subnets.append(str(first))
        inner = {name: str(first[n]) for n, name in enumerate(key.names, 1)}

        def take_ports(count: int, busy: set[int]) -> range:
            ports = [end.below.ports for end in ends.values() if end.below and end.below.ports]
            there = [self._stations[name] for name in key.names]
            found = reserve(there, count, busy, ports[0] if ports else None)
            self._raised[key].ports.append(found)
            return found

        gateway = str(first[_GATEWAY])
        own = (inner, gateway, str(first))
        return Underlay(key.family, ends, *own, take_ports, self._context.check)


def _free_network(family: Family, taken: list[str]) -> IPv4Network | IPv6Network | None:
    """Return a free network for addresses inside a layer, none if all of them are ``taken``.

    The search begins at random: others who measure on the same link begin elsewhere.
    """
    text, length = _INNER[family]
    whole = ip_network(text)
    count = 1 << (length - whole.prefixlen)
    start = secrets.randbelow(count)
    for number in range(count):
        at = (start + number) % count << (whole.max_prefixlen - length)
        found = ip_network((whole[at], length))
        if not overlaps(str(found), taken):
            return found
    return None


def _try_out() -> Sequence[Part]:
    """Return the parts of a short test transfer."""
    usual = WORKLOADS.settings("btc")()
    settings = usual.model_copy(update={"duration": _TRY_S, "interval": _TRY_S})
    made: Workload[Any] = WORKLOADS.get("btc")(settings)
    return made.parts()


def _carried(key: StackKey) -> str:
    """Describe the protocols that the network must carry for a stack."""
    carried = key.stack[-1].carried_by
    ports = f"{DATA_PORTS.start} to {DATA_PORTS.stop - 1}"
    return {
        "udp": f"UDP at the ports {ports}",
        "ethernet": "frames with other MAC addresses than their own",
        "ip": "packets of other IP addresses than their own",
    }.get(carried, f"the protocol {carried}")


def layer_of(settings: Any) -> Layer[Any]:
    """Return a layer for its settings."""
    made: Layer[Any] = LAYERS.get(settings.kind)(settings)
    return made


def _as_underlay(end: UnderlayEnd, attached: Mapping[str, LayerEnd]) -> UnderlayEnd:
    """Return an end as the underlay of the next layer."""
    mine = attached[end.name]
    own = dict.fromkeys(end.peers, mine.bind)
    peers = {name: attached[name].address for name in end.peers}
    mtu = min(mine.mtu, *(attached[name].mtu for name in end.peers))
    return UnderlayEnd(end.host, own, peers, mtu, mine)


def _try(layer: Layer[Any], host: LayerHost, family: Family) -> EndpointError | None:
    """Return what a layer lacks on an endpoint, by trying it in a namespace.

    Raises ReachError, and EndpointError where there can't even be a namespace.
    """
    space = ""
    try:
        space = host.new_space()
        layer.probe(host, space, family)
    except ReachError:
        raise
    except EndpointError as error:
        if not space:
            raise
        return layer.lacking(error) if isinstance(error, KernelError) else error
    finally:
        host.drop_all()
    return None


def _facts_at(
    layer: Layer[Any], attached: Mapping[str, LayerEnd]
) -> Callable[[UnderlayEnd], dict[str, Any]]:
    return lambda end: facts_of(layer, end.host, attached[end.name])


def _together(errors: Sequence[EndpointError]) -> EndpointError:
    """Combine the errors of several endpoints into one, with each message once."""
    if len(errors) == 1:
        return errors[0]
    where: dict[str, dict[str, None]] = {}
    for one in errors:
        where.setdefault(one.message, {})[str(one.where)] = None
    lines = (f"{', '.join(names)}: {message}" for message, names in where.items())
    cures = dict.fromkeys(str(one.cure) for one in errors if one.cure)
    return EndpointError("; ".join(lines), cure="; ".join(cures))


def _unremoved(errors: Sequence[OsmefError]) -> EndpointError | None:
    if not errors:
        return None
    reported = "; ".join(
        f"{one.where}: {one.message}" if one.where else one.message for one in errors
    )
    return EndpointError(
        f"what layers have made could not all be removed: {reported}",
        cure="osmef reap removes it once the endpoint can be reached",
    )
