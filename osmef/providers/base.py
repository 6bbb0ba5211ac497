"""What a provider is: it makes endpoints, says where they stand, and takes them away again."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from osmef.remote.keys import KeyPair
from osmef.remote.session import Login
from osmef.scenario.fields import EndpointKind, Layer
from osmef.scenario.location import Location
from osmef.scenario.study import Cell


@dataclass(frozen=True)
class EndpointRequest:
    """An endpoint that a plan needs.

    ``host`` and ``tenant`` are slots of the plan ("host-1", "tenant-2"): two requests with one
    slot must share a host or tenant, two with different slots must not. Which real host or tenant
    a slot becomes is the provider's choice; ``Location`` says which it was. A host endpoint has
    no tenant. ``role`` ("sender", "receiver" or "loopback") lets a provider keep both ends off
    each other's CPUs.
    """

    name: str
    role: str
    kind: EndpointKind
    flavor: str | None
    host: str
    tenant: str | None


@dataclass(frozen=True)
class Endpoint:
    """An endpoint that exists. ``vcpus`` is what it really got, None where nobody can tell."""

    request: EndpointRequest
    resource_id: str
    login: Login
    data_address: str
    flavor: str | None
    vcpus: int | None
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name that the plan gave it."""
        return self.request.name


@dataclass(frozen=True)
class Resource:
    """Something that a provider made and that must go again.

    ``run`` is the mark that it carries from its first moment; ``id`` is None while it is only
    intended. ``deadline`` is the UNIX time after which nobody can need it any more.
    """

    provider: str
    kind: str
    name: str
    run: str
    id: str | None = None
    deadline: float | None = None


class Ledger(Protocol):
    """Writes down, to disk, what is about to be made, what was made, and what is gone."""

    def intend(self, resource: Resource) -> None:
        """Note that the resource is about to be made."""

    def created(self, resource: Resource) -> None:
        """Note that the resource exists, with its id."""

    def destroyed(self, resource: Resource) -> None:
        """Note that the resource is gone."""


@dataclass(frozen=True)
class Order:
    """All that a provider needs to provision a run: what, for whom, and where to write it down.

    ``progress`` is called with a line for the user as each step begins.
    """

    run: str
    requests: Sequence[EndpointRequest]
    key: KeyPair
    ledger: Ledger
    deadline: float
    progress: Callable[[str], None] = field(default=lambda _line: None)


class Provider(ABC):
    """A cloud, for the length of one run.

    ``create`` is called once. ``close`` destroys all that ``create`` made, also after a failure
    half-way, and may be called again; destroying what is gone is success.
    """

    kind: str

    @abstractmethod
    def check(self) -> None:
        """Check tools, credentials and quotas; raises ProviderError with a cure. Makes nothing."""

    @abstractmethod
    def problems(self, cell: Cell) -> list[tuple[str, str, str]]:
        """List what this cloud can't do for a cell, as (scenario key, message, cure)."""

    @abstractmethod
    def warnings(self, cell: Cell) -> list[str]:
        """List what a reader of the cell's numbers has to know about this cloud."""

    @abstractmethod
    def create(self, order: Order) -> list[Endpoint]:
        """Make all requested endpoints, in the order of the requests, each ready for SSH.

        Raises ProviderError; whatever exists by then is destroyed by ``close``.
        """

    @abstractmethod
    def describe(self, endpoint: Endpoint) -> Location:
        """Read back where the endpoint really stands."""

    @abstractmethod
    def close(self) -> None:
        """Destroy all that ``create`` made, and note it in the ledger."""

    def data_address(self, receiver: Endpoint, sender: Endpoint, layer: Layer) -> str:  # noqa: ARG002
        """Return the address at which the receiver is measured from this sender."""
        return receiver.data_address

    @classmethod
    @abstractmethod
    def owned(cls, run: str | None = None) -> list[Resource]:
        """List what exists and carries our mark, of one run or of all runs."""

    @classmethod
    @abstractmethod
    def destroy(cls, resource: Resource) -> None:
        """Destroy a resource of ours, even if only its mark is known. Gone already is success."""


Connect = Callable[[], socket.socket]
"""Opens a TCP connection to an endpoint's sshd."""
