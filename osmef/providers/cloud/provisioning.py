"""Provisioning of a run in a public cloud: networks, VMs, firewall rules, and access by SSH."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar, Generic, TypeVar

from osmef.errors import BootError, CredentialsError, PolicyError, ProviderError, ReachError
from osmef.providers.base import EndpointRequest, Resource, RunContext
from osmef.providers.cloud.account import A, Tenant, TenantNet, nic_network_count
from osmef.providers.cloud.lookup import Flavor
from osmef.providers.cloud_init import host_keys
from osmef.providers.parallel import AT_ONCE, map_concurrently, run_concurrently
from osmef.remote.login import HostKeys, KeyPair, Login
from osmef.remote.session import wait_for_ssh
from osmef.scenario.clouds.base import HostKeySource
from osmef.units import counted

_TAIL_LINES = 15
_MOST_WAITS = 64


@dataclass(frozen=True)
class BootingGuest:
    """A booting VM.

    ``host_key`` is the one that it was given with its first data; None if it makes its own, which
    ``console`` then shows: it returns what the VM wrote so far, maybe nothing. ``shown_by`` is what
    the cloud calls its console. ``other_keys`` is asked first, where the cloud has a better source:
    it returns None as long as that holds no keys.
    ``wait`` waits for so many seconds until the next look.
    """

    name: str
    user: str
    address: str
    host_key: KeyPair | None
    console: Callable[[], str]
    wait: Callable[[float], None]
    look_s: float = 2.0
    shown_by: str = "console"
    other_keys: Callable[[], HostKeys | None] | None = None
    jump: Login | None = None

    def reach(self, context: RunContext, deadline: float) -> Login:
        """Wait for SSH, and return the login. ``deadline`` is a time of ``time.monotonic()``.

        Raises BootError, ReachError, and ProviderError where its keys can't be read.
        """
        keys = self.accept_keys(context, deadline)
        login = Login(self.name, self.user, self.address, keys, context.key, jump=self.jump)
        try:
            wait_for_ssh(login, deadline=deadline, check=context.check).close()
        except ReachError as error:
            raise self.explain(error, context) from error
        return login

    def accept_keys(self, context: RunContext, deadline: float) -> HostKeys:
        """Return the accepted host keys, once the guest shows them. Raises BootError."""
        if self.host_key is not None:
            return HostKeys(
                accepted=(" ".join(self.host_key.public.split()[:2]),),
                source="its first data",
                cure="does cloud-init of the image take ssh_keys? else provider.host_keys: console",
            )
        while True:
            why = f"its {self.shown_by} shows no SSH host keys"
            try:
                found = self._shown_keys()
            except (CredentialsError, PolicyError):
                raise
            except ProviderError as error:  # as long as nothing is written
                found, why = None, f"its {self.shown_by} can't be read: {error.message}"
            if found is not None:
                return found
            if time.monotonic() > deadline:
                raise self._unbooted(why, context)
            self.wait(self.look_s)

    def _shown_keys(self) -> HostKeys | None:
        found = self.other_keys() if self.other_keys else None
        if found is not None:
            return found
        keys = tuple(host_keys(self.console()))
        return HostKeys(accepted=keys, source=f"its {self.shown_by}") if keys else None

    def explain(self, error: ReachError, context: RunContext) -> ProviderError | ReachError:
        """Distinguish a guest that did not boot from one that is unreachable."""
        console = self._console_if_any()
        if not console or host_keys(console) or "login:" in console:
            return error
        return self._unbooted(error.message, context)

    def _console_if_any(self) -> str:
        """Return its console for the message of another error, without raising."""
        try:
            return self.console()
        except ProviderError:
            return ""

    def _unbooted(self, message: str, context: RunContext) -> BootError:
        console = self._console_if_any()
        if not console.strip():
            return BootError(
                f"{message}, and its {self.shown_by} is empty",
                where=self.name,
                cure="is it an image for this kind of machine, with sshd and cloud-init?",
            )
        path = context.keep(f"console-{self.name}.txt", console)
        tail = "\n".join(f"    {line}" for line in console.splitlines()[-_TAIL_LINES:])
        return BootError(
            f"{message}; the end of its {self.shown_by} (all of it: {path}):\n{tail}",
            where=self.name,
            cure="does the image boot by hand? provider.boot_timeout is how long it may take",
        )


def reach_all(
    guests: Iterable[BootingGuest], context: RunContext, boot_timeout: float
) -> list[Login]:
    """Wait for SSH of all guests, and return the logins. Raises as ``BootingGuest.reach``."""
    deadline = time.monotonic() + boot_timeout
    return map_concurrently(lambda one: one.reach(context, deadline), guests, at_once=_MOST_WAITS)


S = TypeVar("S", bound=TenantNet[Any])


@dataclass(frozen=True)
class VmSpec(Generic[S]):
    """A VM to create. ``name`` is the one in the cloud; ``host_key`` a given one."""

    request: EndpointRequest
    name: str
    net: S
    login_key: KeyPair
    host_key: KeyPair | None
    flavor: Flavor

    @property
    def account(self) -> Any:
        """The account it is in."""
        return self.net.account

    @property
    def image_name(self) -> str | None:
        """What the results call its image, None for nothing."""
        return None

    @property
    def nic_names(self) -> list[str]:
        """The names of its further network cards, where these are resources."""
        return [f"{self.name}-nic-{number}" for number in range(1, self.request.nics + 1)]


O = TypeVar("O", bound=VmSpec[Any])  # noqa: E741


@dataclass(frozen=True)
class Vm(Generic[O]):
    """A running VM, with its private and its public address.

    ``nics`` are the MAC addresses of its further network cards.
    """

    spec: O
    id: str
    private: str
    public: str
    nics: tuple[str, ...] = ()
    shown_by: ClassVar[str] = "console"
    """What the cloud calls its console."""

    def user(self, settings: Any) -> str:
        """Return the account that SSH logs into."""
        return str(settings.user)

    def console(self) -> str:
        """Return what it wrote on its console so far, maybe nothing. Raises ProviderError."""
        return ""

    def guest(self, settings: Any) -> BootingGuest:
        """Return the same as a guest that boots."""
        return BootingGuest(
            name=self.spec.request.name,
            user=self.user(settings),
            address=self.public,
            host_key=self.spec.host_key,
            console=self.console,
            wait=self.spec.account.wait,
            shown_by=self.shown_by,
        )


V = TypeVar("V", bound=Vm[Any])


def host_key_for(host_keys: HostKeySource, request: EndpointRequest) -> KeyPair | None:
    """Return the host key for a VM, None where it generates its own."""
    return KeyPair.generate(request.name) if host_keys is HostKeySource.GIVEN else None


@dataclass
class Provisioner(ABC, Generic[A, S, V]):
    """Creates the resources of one run, in order. Every method raises ProviderError.

    ``remove`` destroys some of what was made, and notes it.
    """

    vm_is: ClassVar[str] = "VM"
    """What the cloud calls a VM."""

    settings: Any
    context: RunContext
    maker: Any
    tenants: Sequence[Tenant[A]]
    remove: Callable[[Sequence[tuple[Resource, A]]], None]
    nets: dict[str, S] = field(default_factory=dict)
    """By the tenant's slot."""
    vms: dict[str, V] = field(default_factory=dict)
    """By the name of the request."""
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _peers: dict[str, set[str]] = field(default_factory=dict)
    """Allowed peers at other sites, by the tenant's slot."""
    _allowed: dict[str, set[Any]] = field(default_factory=dict)
    """Sources that the firewall allows by now, by the tenant's slot."""
    at_once: int = AT_ONCE

    @abstractmethod
    def make_net(self, tenant: Tenant[A]) -> S:
        """Create the networks of a tenant's VMs."""

    @abstractmethod
    def create_vms(self, requests: Sequence[EndpointRequest]) -> list[V]:
        """Create running VMs, in any order."""

    @abstractmethod
    def allow_ingress(self, net: S, sources: set[Any], before: set[Any]) -> None:
        """Allow data into a tenant's networks from these sources only, replacing earlier ones."""

    def guest_of(self, vm: V) -> BootingGuest:
        """Return the same as a guest that boots."""
        return vm.guest(self.settings)

    def names_of(self, vm: V) -> Iterable[str]:
        """Return the names of a VM and its dependent resources."""
        return [vm.spec.name]

    def end(self) -> None:
        """End background work before the teardown; by default there is none."""

    def look_up(self) -> None:
        """Look up names before anything is created; by default nothing."""

    def choose_places(self) -> None:
        """Choose the placement of VMs while networks are created; by default nothing."""

    def make(self) -> list[tuple[V, Login]]:
        """Create everything, and return the VMs with their logins, in the order of the requests."""
        return self.reach(self.create_all())

    def create_all(self) -> list[V]:
        """Create everything, and return the running VMs, in the order of the requests."""
        self.look_up()
        tenants = counted(len(self.tenants), "tenant")
        self.context.progress(f"making networks for {tenants}")
        run_concurrently(self.choose_places, self._make_nets)
        self.register(self.create_vms(self.context.requests))
        return [self.vms[request.name] for request in self.context.requests]

    def _make_nets(self) -> None:
        nets = map_concurrently(self.make_net, self.tenants, at_once=self.at_once)
        self.nets = {net.tenant.slot: net for net in nets}

    def reach(self, vms: Sequence[V]) -> list[tuple[V, Login]]:
        """Wait for SSH of VMs, and return the logins."""
        self.context.progress(f"waiting for SSH on {counted(len(vms), self.vm_is)}")
        guests = [self.guest_of(vm) for vm in vms]
        logins = reach_all(guests, self.context, self.settings.boot_timeout)
        return list(zip(vms, logins, strict=True))

    def replace(self, request: EndpointRequest) -> tuple[V, Login]:
        """Recreate a VM; the old one is destroyed once SSH of the new one answers.

        Its addresses are removed from firewalls first, as the cloud may give them to others.
        """
        old = self.vms[request.name]
        ((new, login),) = self.reach(self.create_vms([request]))
        gone = {*self.names_of(old)}
        self.register([new])
        self.remove([one for one in self.maker.made if one[0].name in gone])
        self.open_data()  # where an address is allowed for as long as it exists
        return new, login

    def register(self, vms: Sequence[V]) -> None:
        """Register VMs for their requests, and admit them at the other tenants."""
        self.vms |= {vm.spec.request.name: vm for vm in vms}
        self.open_data()

    def admit(self, names: Sequence[str], peers: Iterable[str]) -> None:
        """Allow data from these peers only, to VMs given by their requests."""
        for slot in {self.vms[name].spec.net.tenant.slot for name in names if name in self.vms}:
            self._peers[slot] = set(peers)
        self.open_data()

    def open_data(self) -> None:
        """Update each tenant's firewall to its present sources."""

        def open_(net: S) -> None:
            slot, wanted = net.tenant.slot, self.sources(net)
            before = self._allowed.get(slot, set())
            if wanted != before:
                self.allow_ingress(net, wanted, before)
                self._allowed[slot] = wanted

        map_concurrently(open_, self.nets.values(), at_once=self.at_once)

    def sources(self, net: S) -> set[Any]:
        """Return the sources that a tenant allows: by default other tenants and peers."""
        others = {vm.public for vm in self.vms.values() if vm.spec.net is not net}
        return others | self._peers.get(net.tenant.slot, set())

    def common_spec(self, request: EndpointRequest, name: str) -> dict[str, Any]:
        """Return what the spec of a VM of this name says in any cloud, as keyword arguments."""
        return {
            "request": request,
            "name": name,
            "net": self.nets[str(request.tenant)],
            "login_key": self.context.key,
            "host_key": host_key_for(self.settings.host_keys, request),
        }

    def made_since(self, before: int) -> list[tuple[Resource, A]]:
        """Return the resources created after the first so many."""
        return list(self.maker.made[before:])

    def requests_of(self, tenant: Tenant[A]) -> list[EndpointRequest]:
        """Return the requests of a tenant."""
        return [one for one in self.context.requests if one.tenant == tenant.slot]

    def nic_network_count(self, tenant: Tenant[A]) -> int:
        """Return how many networks the further network cards of a tenant need."""
        return nic_network_count(self.settings, self.requests_of(tenant))
