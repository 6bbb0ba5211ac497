"""Interface of providers: create endpoints, read back their locations, destroy them."""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from osmef.errors import ProviderError
from osmef.remote.login import KeyPair, Login
from osmef.scenario.clouds.base import CloudAccess, CloudSettings
from osmef.scenario.fields import RUN_DIRECTORY, EndpointKind, Family, FlavorNeed, ProviderNetwork
from osmef.scenario.location import Location
from osmef.scenario.study import Cell
from osmef.scenario.workload import Directions


@dataclass(frozen=True)
class EndpointRequest:
    """An endpoint that a plan needs.

    ``host`` and ``tenant`` are slots of the plan ("host-1", "tenant-2"): two requests with one slot
    must share a host or tenant, two with different slots must not. Which real host or tenant a slot
    becomes is the provider's choice; ``Location`` says which it was. Without a host slot the cloud
    chooses a VM's host (``placement: any``). A host endpoint has no tenant. Only requests of one
    ``lane`` meet in a trial: different host slots of different lanes may be one host. ``flavor`` is
    the provider's own name, a need for which it chooses the smallest that fits, or None for its
    default. ``role`` ("sender", "receiver", "loopback" or "node") lets a provider keep ends off
    each other's CPUs. ``site`` names the cloud, None where there is one only; ``zone`` is the
    cloud's own name of one, None for the settings'. ``movable`` tells a check that the run may
    recreate it while it still exists (``replace``). ``nics`` are network cards beside the usual
    one.
    """

    name: str
    role: str
    kind: EndpointKind
    flavor: str | FlavorNeed | None
    host: str | None
    tenant: str | None
    lane: int = 1
    zone: str | None = None
    site: str | None = None
    movable: bool = False
    nics: int = 0


@dataclass(frozen=True)
class Endpoint:
    """An existing endpoint. ``vcpus`` is the achieved number, None where it is unknown.

    ``data_address`` is IPv4, ``data_address6`` IPv6 or None where it has none. ``public_address``
    is the IPv4 address at which the Internet sees it, None where it has none. ``listen_address`` is
    its own IPv4 address where ``data_address`` is translated to it on the way, else None. ``image``
    is the cloud's id of the image that it booted from, None where it is unknown. ``nics`` are its
    free network cards, each by the name of its interface or by its MAC address; those of one
    place in the list meet each other. ``network`` is what the cloud says of the rate of its
    network, such as "Up to 10 Gigabit". ``lock`` is a symbolic link on it and where it points,
    which goes with the run's files when the connection ends.
    """

    request: EndpointRequest
    resource_id: str
    login: Login
    data_address: str
    flavor: str | None
    vcpus: int | None
    warnings: tuple[str, ...] = ()
    data_address6: str | None = None
    public_address: str | None = None
    listen_address: str | None = None
    image: str | None = None
    nics: tuple[str, ...] = ()
    network: str | None = None
    lock: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        """The name that the plan gave it."""
        return self.request.name


CancellationCheck = Callable[[], None]
"""What a wait calls at least once a second; raises Interrupted after a request to stop."""


def never_cancelled() -> None:
    """Do nothing: the default check of a wait, which never cancels."""


Access = dict[str, str]
"""How to reach a cloud again, without any secret: names of a cloud, region, project, or a URI."""


@dataclass(frozen=True)
class Resource:
    """A resource that a provider created and must destroy.

    ``run`` is the mark that it carries from its first moment; ``id`` is None while it is only
    intended. ``deadline`` is the UNIX time after which it is no longer needed, ``made`` the
    UNIX time at which its run began to make things, both None where the mark has no room for them.
    ``access`` says where it is.
    """

    provider: str
    kind: str
    name: str
    run: str
    id: str | None = None
    deadline: float | None = None
    made: float | None = None
    access: Access = field(default_factory=dict, hash=False)

    @property
    def key(self) -> tuple[object, ...]:
        """Its identity, whether or not its id is known.

        Two places may hold things of one name: a run has a pool on each host.
        """
        where = tuple(sorted(self.access.items()))
        return (self.provider, self.kind, self.name, self.run, where)


Unread = Callable[[str], None]
"""Told of each thing that looks like ours and whose mark can't be read: which, and what it says."""


def ignore_unreadable(_thing: str) -> None:
    """Ignore a resource whose mark can't be read."""


class Ledger(Protocol):
    """Durable record of intended, created and destroyed resources."""

    def intend(self, resource: Resource) -> None:
        """Note the intent to create a resource."""

    def created(self, resource: Resource) -> None:
        """Note that a resource exists, with its id."""

    def destroyed(self, resource: Resource) -> None:
        """Note that a resource is destroyed."""


@dataclass(frozen=True)
class RunContext:
    """Context of a run, which its provisioning needs: requests, keys, deadline and ledger.

    ``made`` and ``deadline`` are UNIX times for the mark of each resource: when the run began to
    make things, and when they are no longer needed. ``progress`` is called with a line for the
    user as each step begins. ``check`` raises Interrupted after a request to stop: every wait calls
    it at least once a second. ``planned`` are all endpoints that the run has, had or will have: who
    chooses among machines chooses for all, so that a run that goes on later gets the same ones.
    ``keep`` writes a text, such as the console of an endpoint that
    failed to boot, into the run directory under a file name, and returns its path for the message.
    ``site`` is the number of the site that it is for, None where there is one only: a part of
    names, as two sites can be in one account. ``scratch`` are, by endpoint, the directories in
    which programs get some of their own, beside that of the run: what is left there must go, where
    the endpoint's disk outlives the run.
    """

    run: str
    requests: Sequence[EndpointRequest]
    key: KeyPair
    ledger: Ledger
    deadline: float
    progress: Callable[[str], None] = field(default=lambda _line: None)
    made: float = field(default_factory=time.time)
    check: Callable[[], None] = field(default=lambda: None)
    keep: Callable[[str, str], str] = field(default=lambda name, _text: name)
    site: int | None = None
    planned: Sequence[EndpointRequest] = ()
    scratch: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def all_requests(self) -> Sequence[EndpointRequest]:
        """All endpoints of the run; by default those of the requests."""
        return self.planned or self.requests

    def program_directories(self, endpoint: str) -> list[str]:
        """Return the parents of programs' directories on an endpoint, beside the run's own."""
        return [one for one in self.scratch.get(endpoint, ()) if one != RUN_DIRECTORY]


Problem = tuple[str, str, str]
"""What a cloud can't do for a cell: scenario key, message, cure."""


class Provider(ABC):
    """A cloud, for the duration of one run.

    ``create`` is called once. ``close`` destroys all that ``create`` made, also after a failure
    half-way, and may be called again; destroying what is gone is success.
    """

    kind: ClassVar[str]
    Settings: ClassVar[type[CloudSettings]]
    """The model of what people write under ``provider:``, with the kind as its default."""
    families: frozenset[Family] = frozenset({Family.IPV4})
    """What its networks can carry; a cell that asks for another is a problem of the file."""
    outside: frozenset[Family] = frozenset()
    """Over which its endpoints can be measured from another site; then it has ``admit``, too."""
    carries: frozenset[str] = frozenset({"tcp", "udp"})
    """What its networks carry between endpoints: protocols of IP by their names, ``ip`` for packets
    and ``ethernet`` for frames of addresses that it did not give."""
    has_zones = False
    """Whether an endpoint can name its zone."""
    gives_nics = False
    """Whether it can give an endpoint more network cards than one."""
    nics_carry: frozenset[str] = frozenset({"tcp", "udp"})
    """What the networks of its further network cards carry, as ``carries`` says it."""
    shares_nics = True
    """Whether further network cards of different tenants are on common networks."""
    access_model: type[CloudAccess] = CloudAccess
    """What an ``access`` may say: each key as its scenario's settings take it."""
    found_by: frozenset[str] = frozenset({"cloud", "region", "uri"})
    """By which keys of an ``access`` a user names the place where ``owned`` is to look."""

    @abstractmethod
    def check(
        self,
        requests: Sequence[EndpointRequest],
        check_cancelled: CancellationCheck = never_cancelled,
    ) -> None:
        """Check tools, credentials, names, and quotas against the requests.

        Makes nothing. Every wait calls ``check_cancelled``. Raises ProviderError with a cure.
        """

    @abstractmethod
    def problems(self, cell: Cell) -> list[Problem]:
        """List what this cloud does not support of a cell, as (scenario key, message, cure)."""

    @abstractmethod
    def warnings(self, cell: Cell) -> list[str]:
        """List the warnings about this cloud for a cell's summary."""

    def check_peers(  # noqa: B027
        self, requests: Sequence[EndpointRequest], elsewhere: Sequence[EndpointRequest]
    ) -> None:
        """Check whether all peers at other sites can be admitted.

        Makes nothing. Raises ProviderError. By default nothing: for a cloud without such a limit.
        """

    def machines(self, requests: Sequence[EndpointRequest]) -> Mapping[str, str]:  # noqa: ARG002
        """Return the physical machine of each endpoint, by name.

        Only what the settings alone say; what a cloud decides is left out. Connects to nothing.
        Raises ProviderError where there are not enough machines.
        """
        return {}

    @abstractmethod
    def create(self, context: RunContext) -> list[Endpoint]:
        """Create all requested endpoints, in the order of the requests, each ready for SSH.

        Raises ProviderError; whatever exists by then is destroyed by ``close``.
        """

    @abstractmethod
    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        """Read back the endpoints' locations from the cloud, in their order.

        ``Gone`` is the location of one that no longer exists.
        """

    def replace(self, endpoint: Endpoint, context: RunContext) -> Endpoint:  # noqa: ARG002
        """Recreate an endpoint, elsewhere if the cloud can; the old one is destroyed.

        Called where the placement is not the requested one. The old one is destroyed only when the
        new one exists, or the cloud might choose the same host again. Raises ProviderError.
        """
        raise ProviderError(
            f"the provider {self.kind} can't move an endpoint",
            where=endpoint.name,
            cure="set on_mismatch: fail or record",
        )

    @abstractmethod
    def close(self) -> None:
        """Destroy all that ``create`` made, and note it in the ledger."""

    def admit(self, endpoints: Sequence[Endpoint], peers: Sequence[str]) -> None:  # noqa: B027
        """Open the data ports of its endpoints to peers at other sites, given by IPv4 address.

        ``peers`` are all of them: earlier ones that are not among them are no longer allowed.
        Raises ProviderError. By default nothing: for a cloud that has no peers from ``outside``, or
        that has no firewall of its own.
        """

    def access_after_run(self, endpoint: Endpoint) -> tuple[str, Access] | None:  # noqa: ARG002
        """Return how to reach an endpoint's machine after the run; None if it is destroyed.

        With the kind of the provider that removes what a run has made there.
        """
        return None

    def prepare(self, endpoints: Sequence[Endpoint], directions: Directions) -> None:  # noqa: B027
        """Prepare the network between endpoints for a trial whose data goes in these directions.

        By default nothing: a real network does not follow the trial. Raises ProviderError.
        """

    def data_address(
        self,
        receiver: Endpoint,
        sender: Endpoint,  # noqa: ARG002
        layer: ProviderNetwork,  # noqa: ARG002
        family: Family,
    ) -> str:
        """Return the address at which this sender measures the receiver.

        Raises ProviderError where it has none of that family.
        """
        if family is Family.IPV4:
            return receiver.data_address
        if receiver.data_address6 is None:
            raise ProviderError(
                "it has no IPv6 address",
                where=receiver.name,
                cure="give it one, or use family: ipv4",
            )
        return receiver.data_address6

    def listen_address(
        self, receiver: Endpoint, sender: Endpoint, layer: ProviderNetwork, family: Family
    ) -> str:
        """Return the receiver's own address for this sender's connections, behind any NAT.

        It is another one than ``data_address`` where addresses are translated on the way.
        """
        if family is Family.IPV4 and receiver.listen_address is not None:
            return receiver.listen_address
        return self.data_address(receiver, sender, layer, family)

    @classmethod
    @abstractmethod
    def owned(
        cls, access: Access, run: str | None = None, unread: Unread = ignore_unreadable
    ) -> list[Resource]:
        """List existing resources with our mark, of one run or of all.

        An empty ``access`` means wherever the environment points to. Anybody can write a mark: one
        that can't be read keeps nothing else from being listed. Raises ProviderError.
        """

    @classmethod
    @abstractmethod
    def recognises(cls, resource: Resource) -> bool:
        """Return whether a resource is of a type that it creates, with a plausible name and id.

        A journal can be damaged, or of another version; only what is so can be destroyed.
        """

    @classmethod
    @abstractmethod
    def destroy(cls, resources: Sequence[Resource], gone: Callable[[Resource], None]) -> None:
        """Destroy resources of ours, given in any order, even if only their marks are known.

        ``gone`` is called for each as soon as it is gone; gone already is success. Dependent
        resources are destroyed first. Goes on after a failure, and raises the first one at the end.
        A resource at an id that does not carry our mark is not touched, and counts as gone.
        """


Connect = Callable[[], socket.socket]
"""Opens a TCP connection to an endpoint's sshd."""
