"""What the conformance suite needs of a cloud's fake: how to use it, and how it goes wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TypeVar

from osmef.providers.base import Access, EndpointRequest, Provider, Resource
from osmef.scenario.fields import EndpointKind

T = TypeVar("T")


class Wrong(Enum):
    """What goes wrong."""

    THROTTLED = auto()
    """Too many requests, asks the cloud to wait when a network is to be made; twice."""
    LOST = auto()
    """A VM is made, and the answer is lost; once."""
    DENIED = auto()
    """A VM may not be made."""
    FULL = auto()
    """The cloud has no room for a VM."""
    IN_USE = auto()
    """What the VMs were in is still in use when it is to be deleted; twice."""
    BUSY = auto()
    """Too many requests, when what the VMs were in is to be deleted; twice."""
    UNTOLD = auto()
    """The VMs are deleted, and the answer is lost; once."""
    KEPT = auto()
    """What the VMs were in may not be deleted."""


class Killed(BaseException):
    """The controller ends here, as by SIGKILL: nothing of it catches this."""


@dataclass
class Journal:
    """What a run's journal would hold.

    ``dies_of`` is the type whose answer the run won't note, and "" the first whichever it is;
    with ``before`` it does not even ask for it.
    """

    events: list[tuple[str, Resource]] = field(default_factory=list)
    dies_of: str | None = None
    before: bool = False

    def intend(self, resource: Resource) -> None:
        """Note that the resource is about to be made."""
        self.events.append(("intend", resource))
        if self.before:
            self._die(resource)

    def created(self, resource: Resource) -> None:
        """Note that the resource exists, with its id."""
        self._die(resource)
        self.events.append(("created", resource))

    def _die(self, resource: Resource) -> None:
        if self.dies_of in {"", resource.kind}:
            raise Killed

    def destroyed(self, resource: Resource) -> None:
        """Note that the resource is gone."""
        self.events.append(("destroyed", resource))

    @property
    def existing(self) -> list[Resource]:
        """What is there for all that is known, with its id if that is known."""
        left: dict[Resource, Resource] = {}
        for event, one in self.events:
            if event == "destroyed":
                left.pop(replace(one, id=None), None)
            else:
                left[replace(one, id=None)] = one
        return list(left.values())

    def noted(self, event: str, kind: str) -> int:
        """Return how often an event of a type was noted."""
        return sum(one.kind == kind for what, one in self.events if what == event)


class Bed(ABC):
    """A cloud's fake. ``vm`` is the cloud's type of VMs, ``flavor`` one of its flavors."""

    vm: str
    flavor: str | None = None
    access: Access

    @abstractmethod
    def provider(self) -> Provider:
        """Return a provider of the cloud, with the usual settings."""

    @abstractmethod
    def allow_ingress(self) -> dict[str, set[str]]:
        """Return from which addresses data comes in, of those that have a rule of their own.

        By the end of the name of the tenant's firewall, such as "net-1".
        """

    @abstractmethod
    def wrong(self, what: Wrong) -> AbstractContextManager[None]:
        """Have something go wrong."""

    @abstractmethod
    def foreign(self) -> tuple[Resource, Callable[[], bool]]:
        """Make something of somebody else's, and return it as if it were ours, but for its mark.

        With what tells whether it is still there.
        """

    def here(self, work: Callable[[], T]) -> T:
        """Return what work returns where the VMs can be reached."""
        return work()

    def owned(self) -> list[Resource]:
        """List what is ours there."""
        return type(self.provider()).owned(self.access)

    def vms(self) -> list[Resource]:
        """List the VMs that are ours."""
        return [one for one in self.owned() if one.kind == self.vm]

    def tenants(self) -> Provider:
        """Return a provider of two tenants: of one account, where that has networks for both."""
        return self.provider()

    def request(self, name: str) -> EndpointRequest:
        """Return a request for a VM, wherever the cloud likes; "b2" is of the second tenant."""
        tenant = f"tenant-{name[1:] or 1}"
        return EndpointRequest(name, "sender", EndpointKind.VM, self.flavor, None, tenant)
