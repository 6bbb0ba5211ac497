"""What a run makes in a public cloud: sites of tenants, VMs in them, and who may send to whom."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar, Generic, TypeVar

from osmef.providers.base import EndpointRequest, Order, Resource
from osmef.providers.cloud.lookup import Flavor
from osmef.providers.cloud.network import networks_for
from osmef.providers.cloud.resource_types import A
from osmef.providers.cloud.ssh_access import Guest, reach_all
from osmef.providers.cloud.tenants import Site, Tenant
from osmef.providers.parallel import AT_ONCE, side_by_side, together
from osmef.remote.keys import KeyPair
from osmef.remote.login import Login
from osmef.scenario.clouds.base import HostKeys

S = TypeVar("S", bound=Site[Any])


@dataclass(frozen=True)
class VmOrder(Generic[S]):
    """A VM to be made. ``name`` is the one in the cloud; ``host_key`` its own, if it is given."""

    request: EndpointRequest
    name: str
    site: S
    login_key: KeyPair
    host_key: KeyPair | None
    flavor: Flavor

    @property
    def account(self) -> Any:
        """The account it is in."""
        return self.site.account

    @property
    def image_name(self) -> str | None:
        """What the results call its image, None for nothing."""
        return None


O = TypeVar("O", bound=VmOrder[Any])  # noqa: E741 - an order


@dataclass(frozen=True)
class Vm(Generic[O]):
    """A VM that runs, with its address in its network and the one that the Internet sees.

    ``nics`` are the Ethernet addresses of its further network cards.
    """

    order: O
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

    def guest(self, settings: Any) -> Guest:
        """Return the same as a guest that boots."""
        return Guest(
            name=self.order.request.name,
            user=self.user(settings),
            address=self.public,
            host_key=self.order.host_key,
            console=self.console,
            wait=self.order.account.wait,
            shown_by=self.shown_by,
        )


V = TypeVar("V", bound=Vm[Any])


def host_key_for(host_keys: HostKeys, request: EndpointRequest) -> KeyPair | None:
    """Return the host key that a VM is given, None where it makes its own."""
    return KeyPair.generate(request.name) if host_keys is HostKeys.GIVEN else None


@dataclass
class Build(ABC, Generic[A, S, V]):
    """The things of one run, as they come about. Every method raises ProviderError.

    ``remove`` destroys some of what was made, and notes it.
    """

    vm_is: ClassVar[str] = "VM"
    """What the cloud calls a VM."""

    settings: Any
    order: Order
    maker: Any
    tenants: Sequence[Tenant[A]]
    remove: Callable[[Sequence[tuple[Resource, A]]], None]
    sites: dict[str, S] = field(default_factory=dict)
    """By the tenant's slot."""
    vms: dict[str, V] = field(default_factory=dict)
    """By the name of the request."""
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _peers: dict[str, set[str]] = field(default_factory=dict)
    """The addresses elsewhere that each slot lets in."""
    _allowed: dict[str, set[Any]] = field(default_factory=dict)
    """All that each slot lets in by now."""
    at_once: int = AT_ONCE

    @abstractmethod
    def make_site(self, tenant: Tenant[A]) -> S:
        """Make what a tenant's VMs are made in."""

    @abstractmethod
    def stand_up(self, requests: Sequence[EndpointRequest]) -> list[V]:
        """Make VMs that run, in the order of the requests."""

    @abstractmethod
    def let_in(self, site: S, sources: set[Any], before: set[Any]) -> None:
        """Let data into a site from these sources alone, in the place of those before."""

    def guest_of(self, vm: V) -> Guest:
        """Return the same as a guest that boots."""
        return vm.guest(self.settings)

    def names_of(self, vm: V) -> Iterable[str]:
        """Return the names of what goes with a VM, its own among them."""
        return [vm.order.name]

    def end(self) -> None:
        """End what works beside, before all goes; by default nothing."""

    def look_up(self) -> None:
        """Look up what is needed before anything is made; by default nothing."""

    def choose_places(self) -> None:
        """Choose where VMs are to stand while sites are made; by default nothing."""

    def make(self) -> list[tuple[V, Login]]:
        """Make all, and return the VMs with how SSH gets in, in the order of the requests."""
        return self.reach(self.stand())

    def stand(self) -> list[V]:
        """Make all, and return the VMs that run, in the order of the requests."""
        self.look_up()
        tenants = len(self.tenants)
        self.order.progress(f"making networks for {tenants} tenant{'s' * (tenants > 1)}")
        together(self.choose_places, self._make_sites)
        made = self.stand_up(self.order.requests)
        self.enter(made)
        return made

    def _make_sites(self) -> None:
        sites = side_by_side(self.make_site, self.tenants, at_once=self.at_once)
        self.sites = {site.tenant.slot: site for site in sites}

    def reach(self, vms: Sequence[V]) -> list[tuple[V, Login]]:
        """Wait until SSH gets into VMs, and return how."""
        self.order.progress(f"waiting for SSH on {len(vms)} {self.vm_is}{'s' * (len(vms) > 1)}")
        guests = [self.guest_of(vm) for vm in vms]
        logins = reach_all(guests, self.order, self.settings.boot_timeout)
        return list(zip(vms, logins, strict=True))

    def replace(self, request: EndpointRequest) -> tuple[V, Login]:
        """Make a VM anew; the old one goes when SSH gets into the new one.

        Its addresses, which may be somebody else's soon, are let in no more before they go.
        """
        old = self.vms[request.name]
        ((new, login),) = self.reach(self.stand_up([request]))
        gone = {*self.names_of(old)}
        self.enter([new])
        self.remove([one for one in self.maker.made if one[0].name in gone])
        self.open_data()  # where an address is let in for as long as it is there
        return new, login

    def enter(self, vms: Sequence[V]) -> None:
        """Have VMs be those of their requests, and let them in at the other tenants."""
        self.vms |= {vm.order.request.name: vm for vm in vms}
        self.open_data()

    def admit(self, names: Sequence[str], peers: Iterable[str]) -> None:
        """Let data in from these peers elsewhere alone, to VMs given by their requests."""
        for slot in {self.vms[name].order.site.tenant.slot for name in names if name in self.vms}:
            self._peers[slot] = set(peers)
        self.open_data()

    def open_data(self) -> None:
        """Let data into each site from where it may come by now, and from nowhere else."""

        def open_(site: S) -> None:
            slot, wanted = site.tenant.slot, self.sources(site)
            before = self._allowed.get(slot, set())
            if wanted != before:
                self.let_in(site, wanted, before)
                self._allowed[slot] = wanted

        side_by_side(open_, self.sites.values(), at_once=self.at_once)

    def sources(self, site: S) -> set[Any]:
        """Return what may send to a site: by default the addresses of other tenants and peers."""
        others = {vm.public for vm in self.vms.values() if vm.order.site is not site}
        return others | self._peers.get(site.tenant.slot, set())

    def made_since(self, before: int) -> list[tuple[Resource, A]]:
        """Return what was made since so many things were there."""
        return list(self.maker.made[before:])

    def requests_of(self, tenant: Tenant[A]) -> list[EndpointRequest]:
        """Return the requests of a tenant."""
        return [one for one in self.order.requests if one.tenant == tenant.slot]

    def nic_networks(self, tenant: Tenant[A]) -> int:
        """Return how many networks the further network cards of a tenant need."""
        return networks_for(self.settings, self.requests_of(tenant))
