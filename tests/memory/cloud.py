"""A cloud in memory, whose endpoints can be reached by SSH and measured, all in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any, ClassVar

import pytest

from osmef.errors import ApiError, CapacityError, OsmefError
from osmef.kinds import PROVIDERS
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
from osmef.providers.marks import Mark
from osmef.remote.session import SshSession
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.location import Gone, Location
from osmef.scenario.study import Cell
from tests.memory.agent import Fault
from tests.memory.endpoint import BINARY, MACHINE, Machine
from tests.memory.model import Path
from tests.memory.network import Network, Place

KIND = "memory"
NEAR, APART, ROUTED = (Path(20e9, 40.0), Path(1e9, 200.0), Path(4e8, 900.0))
"""Paths within a host, between hosts of a tenant, and between tenants."""

Watch = Callable[[str, str], None]


class World:
    """What there is, and outlives every controller: machines, the marks on them, and the network.

    ``paths`` are those of pairs of endpoints by their names, where they are not the usual ones;
    ``hosts`` are real places of endpoints, where they are not as asked for. ``watch`` is told of
    each command of an agent, each look, and each thing that is made or destroyed, just before. With
    ``cleans_by_login`` nothing is destroyed without a last login, as where machines stay.
    """

    def __init__(self) -> None:
        self.machines: dict[str, Machine] = {}
        self.made: list[Machine] = []
        self.marks: dict[str, Resource] = {}
        self.faults: list[Fault] = []
        self.paths: dict[tuple[str, str], Path] = {}
        self.usual = (NEAR, APART, ROUTED)
        self.hosts: dict[str, str] = {}
        self.cleans_by_login = False
        self.no_room_for: set[str] = set()
        self.stuck: set[str] = set()
        self.watch: Watch = lambda _what, _name: None
        self.network = Network(self._path_between)
        self._requests: dict[str, EndpointRequest] = {}

    def host_of(self, name: str) -> str:
        """Return the host on which an endpoint stands: the first one where any will do."""
        return self.hosts.get(name, self._requests[name].host or "host-1")

    def tenant_of(self, name: str) -> str | None:
        """Return whose endpoint it is."""
        return self._requests[name].tenant

    def path(self, one: str, other: str) -> Path:
        """Return the path from one endpoint to another, by their names."""
        near, apart, routed = self.usual
        if (one, other) in self.paths:
            return self.paths[one, other]
        if self.tenant_of(one) != self.tenant_of(other):
            return routed
        return near if self.host_of(one) == self.host_of(other) else apart

    def _path_between(self, one: Place, other: Place) -> Path:
        names = {machine.address: machine.name for machine in self.made}
        return self.path(names[one.address], names[other.address])

    def _heed(self, endpoint: str, command: Mapping[str, Any]) -> Fault | None:
        self.watch(str(command.get("cmd")), endpoint)
        found = next((one for one in self.faults if one.meets(endpoint, command)), None)
        if found is not None:
            self.faults.remove(found)
        return found

    def make(self, request: EndpointRequest, mark: Resource) -> Machine:
        """Make a machine that carries a mark."""
        self.watch("make", mark.name)
        if request.name in self.no_room_for:
            raise CapacityError("no room", where=request.name, cure="ask for less")
        number = len(self.made) + 1
        address = f"10.0.{number // 250}.{number % 250 + 1}"
        machine = Machine(request.name, address, self.network, self._heed)
        self._requests[request.name] = request
        self.made.append(machine)
        self.machines[mark.name], self.marks[mark.name] = machine, mark
        return machine

    def destroy(self, name: str) -> None:
        """Destroy what has a name, if it is there."""
        if name in self.stuck:
            raise ApiError(f"the cloud does not let {name} go", cure="try again")
        if name in self.machines:
            self.watch("destroy", name)
            self.machines.pop(name).switch_off()
            del self.marks[name]

    def take_back(self, endpoint: str) -> None:
        """Have an endpoint no more, as where a cloud wants its spare capacity back."""
        machine = self.machine(endpoint)
        name = next(name for name, one in self.machines.items() if one is machine)
        del self.machines[name], self.marks[name]
        machine.switch_off()

    def machine(self, endpoint: str) -> Machine:
        """Return the newest machine of an endpoint."""
        return next(one for one in reversed(self.made) if one.name == endpoint)

    def close(self) -> None:
        """End all machines, and wait until they have ended."""
        for machine in self.made:
            machine.switch_off()
        for machine in self.made:
            machine.close()


class MemoryProvider(Provider):
    """The world as a controller has it for one run."""

    kind = KIND
    Settings = LocalSettings
    world: ClassVar[World]

    def __init__(self, _settings: LocalSettings) -> None:
        self._ours: dict[str, tuple[RunContext, Resource]] = {}

    def check(
        self,
        requests: Sequence[EndpointRequest],
        check_cancelled: CancellationCheck = never_cancelled,
    ) -> None:
        """Find nothing that lacks."""

    def problems(self, cell: Cell) -> list[tuple[str, str, str]]:  # noqa: ARG002
        return []

    def warnings(self, cell: Cell) -> list[str]:  # noqa: ARG002
        return []

    def create(self, context: RunContext) -> list[Endpoint]:
        return [self._make(request, context, f"vm-{request.name}") for request in context.requests]

    def _make(self, request: EndpointRequest, context: RunContext, what: str) -> Endpoint:
        mark = Mark.of(context)
        resource = mark.resource(KIND, "vm", mark.name(what), {"cloud": KIND})
        context.check()
        context.ledger.intend(resource)
        self._ours[resource.name] = (context, resource)
        machine = self.world.make(request, replace(resource, id=f"id-{resource.name}"))
        context.ledger.created(self.world.marks[resource.name])
        login = machine.login(context.key)
        return Endpoint(request, resource.name, login, machine.address, "memory", 2)

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        self.world.watch("look", KIND)
        return [self._place(endpoint) for endpoint in endpoints]

    def _place(self, endpoint: Endpoint) -> Location:
        name = endpoint.name
        if endpoint.resource_id not in self.world.machines:
            return Gone()
        return Location(host=self.world.host_of(name), tenant=self.world.tenant_of(name))

    def replace(self, endpoint: Endpoint, context: RunContext) -> Endpoint:
        """Make it anew, where it was asked to be."""
        self.world.hosts.pop(endpoint.name, None)
        made = self._make(endpoint.request, context, f"vm-{endpoint.name}-{len(self._ours)}")
        self._destroy(endpoint.resource_id)
        return made

    def _destroy(self, name: str) -> None:
        context, resource = self._ours[name]
        machine = self.world.machines.get(name)
        if self.world.cleans_by_login and machine is not None:
            SshSession.open(machine.login(context.key)).close()
        self.world.destroy(name)
        context.ledger.destroyed(resource)
        del self._ours[name]

    def close(self) -> None:
        failure: OsmefError | None = None
        for name in list(self._ours):
            try:
                self._destroy(name)
            except OsmefError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    @classmethod
    def owned(
        cls,
        access: Access,  # noqa: ARG003
        run: str | None = None,
        unread: Unread = ignore_unreadable,  # noqa: ARG003
    ) -> list[Resource]:
        return [mark for mark in cls.world.marks.values() if run in {None, mark.run}]

    @classmethod
    def recognises(cls, resource: Resource) -> bool:
        return resource.kind == "vm"

    @classmethod
    def destroy(cls, resources: Sequence[Resource], gone: Callable[[Resource], None]) -> None:
        for resource in resources:
            cls.world.destroy(resource.name)
            gone(resource)


@contextmanager
def memory_world(folder: FilePath) -> Iterator[World]:
    """Have scenarios of the local cloud measured in memory.

    Nothing may run any more in the end, but for what a test left standing. The agents' binary,
    which need not be built, is one of ``folder``.
    """
    (folder / f"osmef-agent-{MACHINE}").write_bytes(BINARY)
    world = World()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PROVIDERS.classes, KIND, MemoryProvider)
        patch.setitem(PROVIDERS.classes, "local", MemoryProvider)
        patch.setattr("osmef.agent.client._BINARIES", folder)
        patch.setattr(MemoryProvider, "world", world, raising=False)
        try:
            yield world
        finally:
            world.close()
