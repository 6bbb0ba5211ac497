"""Provisioning of a run in a public cloud: tenants' sites, VMs, and firewall rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar, Generic, TypeVar

from osmef.providers.base import EndpointRequest, Order, Resource
from osmef.providers.cloud.lookup import Flavor
from osmef.providers.cloud.resource_types import A
from osmef.providers.cloud.ssh_access import BootingGuest, reach_all
from osmef.providers.cloud.tenants import Site, Tenant, networks_for
from osmef.providers.parallel import AT_ONCE, side_by_side, together
from osmef.remote.login import KeyPair, Login
from osmef.scenario.clouds.base import HostKeySource

S = TypeVar("S", bound=Site[Any])


@dataclass(frozen=True)
class VmOrder(Generic[S]):
    """A VM to create. ``name`` is the one in the cloud; ``host_key`` a given one."""

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
    """A running VM, with its private and its public address.

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

    def guest(self, settings: Any) -> BootingGuest:
        """Return the same as a guest that boots."""
        return BootingGuest(
            name=self.order.request.name,
            user=self.user(settings),
            address=self.public,
            host_key=self.order.host_key,
            console=self.console,
            wait=self.order.account.wait,
            shown_by=self.shown_by,
        )


V = TypeVar("V", bound=Vm[Any])


def host_key_for(host_keys: HostKeySource, request: EndpointRequest) -> KeyPair | None:
    """Return the host key for a VM, None where it generates its own."""
    return KeyPair.generate(request.name) if host_keys is HostKeySource.GIVEN else None


@dataclass
class Build(ABC, Generic[A, S, V]):
    """Provisioning of one run. Every method raises ProviderError.

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
        """Create a tenant's site: the networks of its VMs."""

    @abstractmethod
    def stand_up(self, requests: Sequence[EndpointRequest]) -> list[V]:
        """Create running VMs, in any order."""

    @abstractmethod
    def let_in(self, site: S, sources: set[Any], before: set[Any]) -> None:
        """Allow data into a site from these sources only, replacing earlier ones."""

    def guest_of(self, vm: V) -> BootingGuest:
        """Return the same as a guest that boots."""
        return vm.guest(self.settings)

    def names_of(self, vm: V) -> Iterable[str]:
        """Return the names of a VM and its dependent resources."""
        return [vm.order.name]

    def end(self) -> None:
        """End what works beside, before all goes; by default nothing."""

    def look_up(self) -> None:
        """Look up names before anything is created; by default nothing."""

    def choose_places(self) -> None:
        """Choose the placement of VMs while sites are created; by default nothing."""

    def make(self) -> list[tuple[V, Login]]:
        """Create everything, and return the VMs with their logins, in the order of the requests."""
        return self.reach(self.stand())

    def stand(self) -> list[V]:
        """Create everything, and return the running VMs, in the order of the requests."""
        self.look_up()
        tenants = len(self.tenants)
        self.order.progress(f"making networks for {tenants} tenant{'s' * (tenants > 1)}")
        together(self.choose_places, self._make_sites)
        self.enter(self.stand_up(self.order.requests))
        return [self.vms[request.name] for request in self.order.requests]

    def _make_sites(self) -> None:
        sites = side_by_side(self.make_site, self.tenants, at_once=self.at_once)
        self.sites = {site.tenant.slot: site for site in sites}

    def reach(self, vms: Sequence[V]) -> list[tuple[V, Login]]:
        """Wait for SSH of VMs, and return the logins."""
        self.order.progress(f"waiting for SSH on {len(vms)} {self.vm_is}{'s' * (len(vms) > 1)}")
        guests = [self.guest_of(vm) for vm in vms]
        logins = reach_all(guests, self.order, self.settings.boot_timeout)
        return list(zip(vms, logins, strict=True))

    def replace(self, request: EndpointRequest) -> tuple[V, Login]:
        """Recreate a VM; the old one is destroyed once SSH of the new one answers.

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
        """Register VMs for their requests, and admit them at the other tenants."""
        self.vms |= {vm.order.request.name: vm for vm in vms}
        self.open_data()

    def admit(self, names: Sequence[str], peers: Iterable[str]) -> None:
        """Allow data from these peers only, to VMs given by their requests."""
        for slot in {self.vms[name].order.site.tenant.slot for name in names if name in self.vms}:
            self._peers[slot] = set(peers)
        self.open_data()

    def open_data(self) -> None:
        """Update each site's firewall to its present sources."""

        def open_(site: S) -> None:
            slot, wanted = site.tenant.slot, self.sources(site)
            before = self._allowed.get(slot, set())
            if wanted != before:
                self.let_in(site, wanted, before)
                self._allowed[slot] = wanted

        side_by_side(open_, self.sites.values(), at_once=self.at_once)

    def sources(self, site: S) -> set[Any]:
        """Return the sources of a site: by default addresses of other tenants and peers."""
        others = {vm.public for vm in self.vms.values() if vm.order.site is not site}
        return others | self._peers.get(site.tenant.slot, set())

    def basis(self, request: EndpointRequest, name: str) -> dict[str, Any]:
        """Return what an order of a VM of this name says in any cloud, as keyword arguments."""
        return {
            "request": request,
            "name": name,
            "site": self.sites[str(request.tenant)],
            "login_key": self.order.key,
            "host_key": host_key_for(self.settings.host_keys, request),
        }

    def made_since(self, before: int) -> list[tuple[Resource, A]]:
        """Return the resources created after the first so many."""
        return list(self.maker.made[before:])

    def requests_of(self, tenant: Tenant[A]) -> list[EndpointRequest]:
        """Return the requests of a tenant."""
        return [one for one in self.order.requests if one.tenant == tenant.slot]

    def nic_networks(self, tenant: Tenant[A]) -> int:
        """Return how many networks the further network cards of a tenant need."""
        return networks_for(self.settings, self.requests_of(tenant))
