"""The way to servers that run: floating addresses, the rules of the groups, and SSH."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address

from osmef.errors import BootError, ProviderError, ReachError
from osmef.providers.base import Endpoint, EndpointRequest, Order
from osmef.providers.cloud_init import host_keys
from osmef.providers.openstack.access import FLOATING_AT_ONCE
from osmef.providers.openstack.making import Maker
from osmef.providers.openstack.networks import Rule, rules_for, source_address
from osmef.providers.openstack.servers import Server, console_of
from osmef.providers.openstack.tenants import Site, close_group, open_group
from osmef.providers.parallel import side_by_side
from osmef.remote.login import HostKeys, Login
from osmef.remote.ssh_config import find_login
from osmef.remote.waiting import wait_for_ssh
from osmef.scenario.clouds.openstack import OpenStackSettings, Reach

_TAIL_LINES = 15
_MOST_WAITS = 64


@dataclass(frozen=True)
class Reached:
    """A server, its floating address if it has one, and the login that got in."""

    server: Server
    floating: str | None
    login: Login

    def address_from(self, sender: Endpoint) -> str:
        """Return the address for a sender of another tenant, or on a physical host.

        Within one network it is the server's own: by way of the floating address the sender's would
        be translated, too, and then no rule lets it in.
        """
        address = ip_address(sender.data_address)
        beside = any(address in network for network in self.server.order.site.names.own)
        return self.server.fixed if beside else self.floating or self.server.fixed


def needs_floating(settings: OpenStackSettings, requests: Iterable[EndpointRequest]) -> bool:
    """Tell whether servers need floating addresses: for SSH, or across tenants and from hosts."""
    parties = {request.tenant for request in requests}  # None is that of physical hosts
    return settings.way_in is Reach.FLOATING or (settings.network is None and len(parties) > 1)


class FloatingAddresses:
    """Gives servers floating addresses, while others are still being built."""

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self._pool = ThreadPoolExecutor(FLOATING_AT_ONCE)
        self._asked: dict[str, Future[str]] = {}

    def __enter__(self) -> FloatingAddresses:
        return self

    def __exit__(self, *_error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def give(self, servers: Sequence[Server]) -> None:
        """Begin to give them to servers."""
        for server in servers:
            self._asked[server.id] = self._pool.submit(self._add, server)

    def addresses(self) -> dict[str, str]:
        """Wait for all of them, and return them by the id of the server. Raises ProviderError."""
        return {server: future.result() for server, future in self._asked.items()}

    def _add(self, server: Server) -> str:
        name = server.order.name.replace("osmef-", "osmef-ip-", 1)
        made = self._maker.make(
            server.cloud,
            "floating-ip",
            name,
            lambda c: c.network.create_ip(
                floating_network_id=server.order.site.names.external,
                port_id=server.port,
                description=self._maker.mark.text_with(name),
            ),
        )
        return str(made.floating_ip_address)


@dataclass(frozen=True)
class Peers:
    """The servers of a run, their floating addresses by id, and the physical hosts' addresses.

    ``outside`` are addresses elsewhere by the slots of the tenants that they send to.
    """

    servers: Sequence[Server]
    floating: Mapping[str, str]
    hosts: Sequence[str]
    outside: Mapping[str, set[str]]

    @property
    def sites(self) -> list[Site]:
        """The tenants whose group was made for the run."""
        found = {server.order.site.tenant.slot: server.order.site for server in self.servers}
        return [site for site in found.values() if site.group is not None]

    def rules(self, settings: OpenStackSettings, site: Site) -> list[Rule]:
        """Return what a tenant's group is to let in: SSH from here, and data from the peers."""
        ours = [s for s in self.servers if s.order.site is site]
        others = [s for s in self.servers if s.order.site is not site]
        targets = (self.floating.get(server.id, server.fixed) for server in ours)
        beside = bool(site.names.own)  # all are in the one network that the settings name
        addresses = [s.fixed if beside else self.floating.get(s.id, s.fixed) for s in others]
        outside = sorted(self.outside.get(site.tenant.slot, ()))
        peers = [f"{address}/32" for address in (*addresses, *self.hosts, *outside)]
        return rules_for(_controllers(settings, targets), peers)


def open_groups(settings: OpenStackSettings, peers: Peers, done: dict[str, set[Rule]]) -> None:
    """Let in SSH from this machine, and data from the peers, where groups were made for the run.

    ``done`` holds what each tenant's slot has by now, and is kept up. Raises ProviderError.
    """

    def add(site: Site) -> None:
        known = done.setdefault(site.tenant.slot, set())
        new = [rule for rule in peers.rules(settings, site) if rule not in known]
        if new:
            open_group(site, new)
        known.update(new)

    side_by_side(add, peers.sites)


def close_groups(settings: OpenStackSettings, peers: Peers, done: dict[str, set[Rule]]) -> None:
    """Let nobody in any more who is no peer now: the address may be another's soon.

    ``done`` as for open_groups. Raises ProviderError.
    """

    def remove(site: Site) -> None:
        known = done.setdefault(site.tenant.slot, set())
        old = known.difference(peers.rules(settings, site))
        if old:
            close_group(site, old)
        known.difference_update(old)

    side_by_side(remove, peers.sites)


def _controllers(settings: OpenStackSettings, targets: Iterable[str]) -> set[str]:
    if settings.controller_cidr is not None:
        return {settings.controller_cidr}
    return {f"{source_address(target)}/32" for target in targets}


def reach_all(
    settings: OpenStackSettings,
    servers: Sequence[Server],
    floating: Mapping[str, str],
    order: Order,
) -> list[Reached]:
    """Wait until SSH gets into all servers, and return how. Raises BootError, ReachError."""
    deadline = time.monotonic() + settings.boot_timeout

    def reach(server: Server) -> Reached:
        login = _login(settings, server, floating.get(server.id), order, deadline)
        try:
            wait_for_ssh(login, deadline=deadline, check=order.check).close()
        except ReachError as error:
            raise _explained(server, error, order.keep) from error
        return Reached(server, floating.get(server.id), login)

    return side_by_side(reach, servers, at_once=_MOST_WAITS)


def _login(
    settings: OpenStackSettings,
    server: Server,
    floating: str | None,
    order: Order,
    deadline: float,
) -> Login:
    return Login(
        name=server.order.request.name,
        user=settings.user,
        address=server.fixed if settings.way_in is Reach.JUMP else floating or server.fixed,
        host_keys=_host_keys(server, order, deadline),
        key=order.key,
        jump=_jump(settings),
    )


def _jump(settings: OpenStackSettings) -> Login | None:
    if settings.way_in is not Reach.JUMP or settings.jump is None:
        return None
    return find_login(f"the jump host {settings.jump}", settings.jump)


def _host_keys(server: Server, order: Order, deadline: float) -> HostKeys:
    given = server.order.host_key
    if given is not None:
        return HostKeys(
            accepted=(" ".join(given.public.split()[:2]),),
            source="the userdata",
            cure="does cloud-init of the image take ssh_keys? else provider.host_keys: console",
        )
    while not (found := host_keys(console_of(server.id, server.cloud))):
        if time.monotonic() > deadline:
            raise _unbooted(server, "its console shows no SSH host keys", order.keep)
        server.cloud.wait(server.cloud.waits.look_s)
    return HostKeys(accepted=tuple(found), source="the console")


def _explained(
    server: Server, error: ReachError, keep: Callable[[str, str], str]
) -> ProviderError | ReachError:
    """Tell a guest that never came up from one that is up and can't be reached."""
    console = console_of(server.id, server.cloud)
    if not console or host_keys(console) or "login:" in console:
        return error
    return _unbooted(server, error.message, keep)


def _unbooted(server: Server, message: str, keep: Callable[[str, str], str]) -> BootError:
    name = server.order.request.name
    console = console_of(server.id, server.cloud)
    if not console.strip():
        return BootError(
            f"{message}, and its console is empty",
            where=name,
            cure="is it an image for this kind of machine, with sshd and cloud-init?",
        )
    path = keep(f"console-{name}.txt", console)
    tail = "\n".join(f"    {line}" for line in console.splitlines()[-_TAIL_LINES:])
    return BootError(
        f"{message}; the end of its console (all of it: {path}):\n{tail}",
        where=name,
        cure="does the image boot by hand? provider.boot_timeout is how long it may take",
    )
