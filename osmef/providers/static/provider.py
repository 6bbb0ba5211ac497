"""Provider of static hosts, and of physical hosts beside the VMs of a cloud."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import replace
from functools import cached_property, partial
from ipaddress import ip_address
from threading import Lock

from osmef.errors import CapacityError, InputError, OsmefError, ProviderError
from osmef.providers.base import (
    Access,
    CancellationCheck,
    Endpoint,
    EndpointRequest,
    Provider,
    Resource,
    RunContext,
    Unread,
    ignore_unreadable,
    never_cancelled,
)
from osmef.providers.parallel import map_concurrently
from osmef.providers.static import machine
from osmef.providers.static.assign import assign, physical_host, requests_of
from osmef.remote.session import SshSession
from osmef.remote.ssh_config import host_name_of
from osmef.scenario.clouds.static import InventoryHost, StaticAccess, StaticSettings
from osmef.scenario.fields import RECORD, EndpointKind, Family, Placement, ProviderNetwork
from osmef.scenario.layers import EVERYTHING
from osmef.scenario.location import Location
from osmef.scenario.model import Scenario
from osmef.scenario.study import Cell
from osmef.units import counted

_POLL_S = 0.1
_MOST_AT_ONCE = 16


class StaticProvider(Provider):
    """Machines of an inventory. It creates only a directory and a lock on each, by SSH."""

    kind = machine.KIND
    Settings = StaticSettings
    access_model = StaticAccess
    found_by = frozenset({"uri"})
    families = frozenset(Family)
    outside = frozenset(Family)
    gives_nics = True
    nics_carry = EVERYTHING
    carries = EVERYTHING  # unknown: it is tried whether something gets through

    def __init__(self, settings: StaticSettings) -> None:
        self._hosts = settings.hosts
        self._taken: dict[str, Resource] = {}
        self._sessions: dict[str, SshSession] = {}
        """By the names of the machines."""
        self._families: dict[str, Family | None] = {}
        """By the names of the machines, as reading the SSH configuration for each cell is slow."""
        self._close_ledger: Callable[[Resource], None] = lambda _resource: None

    def check(
        self,
        requests: Sequence[EndpointRequest],
        check_cancelled: CancellationCheck = never_cancelled,  # noqa: ARG002
    ) -> None:
        """Assign a machine to each request, and check keys and known hosts."""
        for name in assign(requests, self._hosts).values():
            machine.login_to(machine.access_of(name, self._hosts[name]))

    def problems(self, cell: Cell) -> list[tuple[str, str, str]]:
        """List the cell's requests that the inventory can't satisfy."""
        scenario, found = cell.scenario, []
        if scenario.layer is ProviderNetwork.OVERLAY:
            cure = "use layer: bare, and data_address or interface to choose the network"
            found.append(("layer", "static hosts have no overlay that OSMeF knows of", cure))
        try:
            chosen = assign(requests_of(scenario), self._hosts).values()
        except CapacityError as error:
            return [*found, ("provider.hosts", error.message, str(error.cure))]
        if len(chosen) > 1 and scenario.on_mismatch != RECORD:
            found += self._undeclared(scenario, chosen)
        for name in chosen:
            host = self._hosts[name]
            written = (host.data_address, host.data_address6)
            if any(written) and not written[scenario.family is Family.IPV6]:
                cure = f"write its other address, too, or do not use family: {scenario.family}"
                message = f"{name} has no address of {scenario.family}"
                found.append((f"provider.hosts.{name}", message, cure))
            # One endpoint alone is measured at its loopback, whatever its address.
            elif len(chosen) > 1 and (own := self._family_by_ssh(name)) not in {
                None,
                scenario.family,
            }:
                key = _address_key(scenario.family)
                cure = f"write its {key} or interface, or set family: {own}"
                message = f"SSH arrives at no address of {scenario.family} of {name}: {host.ssh}"
                found.append((f"provider.hosts.{name}", message, cure))
        return found

    def _undeclared(
        self, scenario: Scenario, chosen: Iterable[str]
    ) -> Iterator[tuple[str, str, str]]:
        """Yield what the inventory has to declare of these machines, and does not."""
        hosts = [n for n in chosen if physical_host(n, self._hosts[n]) is None]
        if hosts and scenario.placement is not Placement.ANY:
            message = f"the inventory does not say on which host it runs: {', '.join(hosts)}"
            cure = "write its location.host, or set on_mismatch: record"
            yield ("provider.hosts", message, cure)
        # Members of one end whose peer is at another site are seen as a loopback.
        alone = scenario.endpoints.loopback is not None
        between_vms = all(end.kind is EndpointKind.VM for end in scenario.ends) and not alone
        owners = [n for n in chosen if self._hosts[n].location.tenant is None]
        if owners and between_vms:
            message = f"the inventory does not say of which tenant it is: {', '.join(owners)}"
            cure = "write its location.tenant, or set on_mismatch: record"
            yield ("provider.hosts", message, cure)

    def _family_by_ssh(self, name: str) -> Family | None:
        if name not in self._families:
            self._families[name] = _family_of_ssh(self._hosts[name])
        return self._families[name]

    def warnings(self, cell: Cell) -> list[str]:
        """Warn that the placement of VMs is declared, not read back."""
        if EndpointKind.VM in {end.kind for end in cell.scenario.ends}:
            return ["the hosts of the VMs are as the inventory says, and were not verified"]
        return []

    def machines(self, requests: Sequence[EndpointRequest]) -> Mapping[str, str]:
        """Return which machine of the inventory each endpoint will be. Raises CapacityError."""
        return assign(requests, self._hosts)

    def create(self, context: RunContext) -> list[Endpoint]:
        """Log in to a machine for each request, and lock it."""
        kinds = {host.kind for host in self._hosts.values()}
        chosen = assign([one for one in context.all_requests if one.kind in kinds], self._hosts)
        self._close_ledger = context.ledger.destroyed
        context.progress(f"logging in to {counted(len(context.requests), 'static host')}")
        jobs = [partial(self._take, request, chosen, context) for request in context.requests]
        with ThreadPoolExecutor(max_workers=_MOST_AT_ONCE) as pool:
            futures = [pool.submit(job) for job in jobs]
            try:
                pending: set[Future[Endpoint]] = set(futures)
                while pending:
                    context.check()
                    done, pending = wait(pending, timeout=_POLL_S)
                    for future in done:
                        future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return [future.result() for future in futures]

    def _take(
        self, request: EndpointRequest, chosen: Mapping[str, str], context: RunContext
    ) -> Endpoint:
        name = chosen[request.name]
        host = self._hosts[name]
        access = machine.access_of(name, host)
        login, session = machine.open_session(access)
        # It stays open: when the last session of a user ends, logind removes all that is theirs in
        # /dev/shm, and the machine would be unlocked while VMs beside it are created.
        self._sessions[name] = session
        login = replace(login, kept=session)
        holder = machine.holder_of(request, context)
        endpoint = machine.endpoint_of(session, login, holder, request, host)
        for directory in context.program_directories(request.name):
            scratch = machine.scratch_of(holder, access, directory)
            context.ledger.intend(scratch)
            self._taken[scratch.name] = scratch
        resource = machine.resource_of(holder, access)
        context.ledger.intend(resource)
        self._taken[request.name] = resource
        machine.take(session, request, context, chosen)
        context.ledger.created(replace(resource, id=name))
        return endpoint

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Return the locations that the inventory declares.

        Raises CapacityError where another run has taken one of the machines.
        """
        taken = [self._taken[one.name] for one in endpoints if one.name in self._taken]
        map_concurrently(lambda one: machine.confirm(one, self._session_to(one)), taken)
        return [
            Location(
                host=physical_host(endpoint.resource_id, host),
                zone=host.location.zone,
                tenant=host.location.tenant,
            )
            for endpoint in endpoints
            for host in [self._hosts[endpoint.resource_id]]
        ]

    def access_after_run(self, endpoint: Endpoint) -> tuple[str, Access]:
        """Return how to reach the machine of an endpoint after the run."""
        name = endpoint.resource_id
        return self.kind, machine.access_of(name, self._hosts[name])

    def data_address(
        self,
        receiver: Endpoint,
        sender: Endpoint,  # noqa: ARG002
        layer: ProviderNetwork,  # noqa: ARG002
        family: Family,
    ) -> str:
        """Return the receiver's address of a family. Raises ProviderError."""
        for address in (receiver.data_address, receiver.data_address6):
            if address is not None and _family_of(address) is family:
                return address
        name, key = receiver.login.name, _address_key(family)
        cure = f"write its {key} or interface into the inventory"
        if (interface := self._hosts[name].interface) is not None:
            cure = f"give its {interface} one, or write {key} into the inventory in its place"
        raise ProviderError(f"no address of {family} is known of it", where=name, cure=cure)

    def close(self) -> None:
        """Remove our files from the machines, and unlock them."""

        def gone(resource: Resource) -> None:
            self._close_ledger(resource)
            self._taken = {n: one for n, one in self._taken.items() if one.name != resource.name}

        try:
            _destroy(list(self._taken.values()), gone, self._session_to)
        finally:
            while self._sessions:
                self._sessions.popitem()[1].close()

    def _session_to(self, resource: Resource) -> SshSession | None:
        """Return the open session to a resource's machine, if any."""
        return self._sessions.get(resource.access["host"])

    @classmethod
    def owned(
        cls,
        access: Access,
        run: str | None = None,
        unread: Unread = ignore_unreadable,  # noqa: ARG003
    ) -> list[Resource]:
        """List the resources of a machine's holder; needs an access.

        A ``uri`` is a machine as the inventory's ``ssh`` names it. A lock that can't be read is all
        that there is to look at: it is an error. Raises ReachError, CredentialsError, InputError.
        """
        found = machine.held(_named(access))
        return [one for one in found if run in {None, one.run}]

    @classmethod
    def recognises(cls, resource: Resource) -> bool:
        """Return whether a resource is of a type that it creates."""
        if resource.kind in {machine.RESOURCE, machine.SCRATCH}:
            return True
        return machine.is_of_layer(resource)

    @classmethod
    def destroy(cls, resources: Sequence[Resource], gone: Callable[[Resource], None]) -> None:
        """Remove directories and locks on all machines concurrently, after traces of layers.

        The newest traces are removed first, in the order of the journal.
        """
        _destroy(resources, gone, lambda _resource: None)


def _family_of(address: str) -> Family:
    return Family.IPV6 if ip_address(address).version == 6 else Family.IPV4


def _family_of_ssh(host: InventoryHost) -> Family | None:
    """Return the family of the address that a host is measured at, if only SSH tells it.

    None where it is written down, or has to be looked up: by a name or an interface.
    """
    if host.interface is not None or host.data_address or host.data_address6:
        return None
    with contextlib.suppress(ValueError):
        address = ip_address(host_name_of(host.ssh, host.jump) or "")
        is_mapped = address.version == 6 and address.ipv4_mapped  # sshd reports the IPv4 one
        return Family.IPV4 if is_mapped else _family_of(str(address))
    return None


def _address_key(family: Family) -> str:
    return "data_address6" if family is Family.IPV6 else "data_address"


def _destroy(
    resources: Sequence[Resource],
    gone: Callable[[Resource], None],
    session_to: Callable[[Resource], SshSession | None],
) -> None:
    """Remove directories and locks, after traces of layers, over open sessions."""
    errors = _take_down([one for one in resources if machine.is_of_layer(one)], gone)
    resources = [one for one in resources if not machine.is_of_layer(one)]
    with ThreadPoolExecutor(max_workers=_MOST_AT_ONCE) as pool:
        futures = {pool.submit(machine.release, one, session_to(one)): one for one in resources}
        for future in as_completed(futures):
            try:
                future.result()
            except OsmefError as error:
                errors.append(error)
            else:
                gone(futures[future])
    if errors:
        raise errors[0]


def _take_down(resources: Sequence[Resource], gone: Callable[[Resource], None]) -> list[OsmefError]:
    """Remove traces of layers on all machines concurrently; return the errors."""
    machines: dict[tuple[tuple[str, str], ...], list[Resource]] = {}
    for resource in resources:
        machines.setdefault(tuple(sorted(resource.access.items())), []).append(resource)
    lock = Lock()

    def gone_there(resource: Resource) -> None:
        with lock:
            gone(resource)

    with ThreadPoolExecutor(max_workers=_MOST_AT_ONCE) as pool:
        found = pool.map(lambda some: machine.take_down(some, gone_there), machines.values())
        return [error for errors in found for error in errors]


def _named(access: Access) -> Access:
    """Return the access of a machine by its address only. Raises InputError."""
    if "host" in access:
        return access
    if "uri" not in access:
        cure = "name it: --uri [user@]host[:port], or an alias of OpenSSH's configuration"
        raise InputError("no machine is named", where="static", cure=cure)
    return {**access, "host": access["uri"], "ssh": access["uri"]}


class HostEndpoints:
    """The physical hosts of a run; without any, every method does nothing.

    ``cloud`` is the name of the cloud whose VMs are measured with them, by IPv4.
    """

    def __init__(self, inventory: Mapping[str, InventoryHost], cloud: str) -> None:
        self._inventory = inventory
        self._cloud = cloud
        self.made: Sequence[Endpoint] = ()

    @cached_property
    def _provider(self) -> StaticProvider:
        return StaticProvider(StaticSettings(hosts=self._inventory))

    def check(self, requests: Sequence[EndpointRequest]) -> None:
        """Assign a host to each request, and check its keys. Raises ProviderError."""
        if wanted := _of_hosts(requests):
            self._provider.check(wanted)

    def machines(self, requests: Sequence[EndpointRequest]) -> Mapping[str, str]:
        """Return the inventory entry of each physical host. Raises CapacityError."""
        return assign(_of_hosts(requests), self._inventory)

    def names(self, requests: Sequence[EndpointRequest]) -> Mapping[str, str]:
        """Return the name of the physical host on each slot that has one."""
        chosen = self.machines(requests)
        found = {one.host: chosen[one.name] for one in _of_hosts(requests)}
        named = {slot: physical_host(one, self._inventory[one]) for slot, one in found.items()}
        return {slot: name for slot, name in named.items() if slot and name}

    def access_after_run(self, endpoint: Endpoint) -> tuple[str, Access] | None:
        """Return how to reach an endpoint's machine after the run; None if it is no host."""
        is_host = endpoint.request.kind is EndpointKind.HOST
        return self._provider.access_after_run(endpoint) if is_host else None

    def create(self, context: RunContext) -> list[Endpoint]:
        """Log into the hosts, and lock them. Raises ProviderError, ReachError."""
        wanted = _of_hosts(context.requests)
        self.made = self._provider.create(replace(context, requests=wanted)) if wanted else []
        for endpoint in self.made:
            if ip_address(endpoint.data_address).version != 4:
                raise ProviderError(
                    f"all that is known of it is an IPv6 address, {endpoint.data_address}, and on"
                    f" {self._cloud} IPv4 is measured",
                    where=endpoint.login.name,
                    cure=f"write provider.hosts.{endpoint.login.name}.data_address, or interface",
                )
        return [*self.made]

    def describe(self, endpoints: Sequence[Endpoint]) -> Mapping[str, Location]:
        """Return the locations of the physical hosts among the endpoints, by name."""
        ours = [e for e in endpoints if e.request.kind is EndpointKind.HOST]
        found = self._provider.describe(ours) if ours else []
        return {endpoint.name: location for endpoint, location in zip(ours, found, strict=True)}

    def close(self) -> None:
        """Unlock the hosts. Raises ProviderError, ReachError."""
        if self._inventory:
            self._provider.close()


def _of_hosts(requests: Sequence[EndpointRequest]) -> list[EndpointRequest]:
    return [request for request in requests if request.kind is EndpointKind.HOST]
