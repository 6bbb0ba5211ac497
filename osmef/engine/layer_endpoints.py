"""Endpoints inside of layers: the key of a stack, and the endpoint as programs see it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osmef.agent.client import AgentClient
from osmef.engine.plan import PlannedCell
from osmef.engine.station import Station
from osmef.errors import EndpointError
from osmef.kinds import LAYERS
from osmef.layers.base import Layer, LayerEnd, Underlay
from osmef.scenario.fields import DATA_PORTS, Family
from osmef.scenario.layers import Stack

_SHOWN = 200
"""So many characters of what a layer returned are shown."""


@dataclass(frozen=True)
class StackKey:
    """Identity of a stack: its layers, the IP version, and its endpoints."""

    stack: Stack
    family: Family
    names: tuple[str, ...]

    @property
    def label(self) -> str:
        """The layers' short names, the outermost first."""
        return "+".join(layer.label for layer in self.stack)

    @property
    def needs_exclusive_nics(self) -> bool:
        """Whether it needs exclusive hardware of an endpoint, so that stacks take turns."""
        return any(layer.needs_exclusive_nics for layer in self.stack)


def key_of(planned: PlannedCell) -> StackKey | None:
    """Return the stack of a cell; None on the bare network."""
    scenario = planned.cell.scenario
    if not scenario.stack:
        return None
    names = tuple(sorted({end.name for end in planned.endpoints}))
    return StackKey(scenario.stack, scenario.family, names)


@dataclass(frozen=True)
class LayeredStation:
    """An endpoint inside of a layer: agents are started there."""

    station: Station
    label: str
    attached: LayerEnd
    prefix: tuple[str, ...]

    @property
    def name(self) -> str:
        """The endpoint's name."""
        return self.station.name

    @property
    def directory(self) -> str:
        """The run's directory on it, from where agents are started."""
        return self.station.directory

    @property
    def cpus(self) -> int:
        """How many CPUs programs may use there. Raises ReachError, EndpointError."""
        return self.station.cpus

    def agent(self, role: str) -> AgentClient:
        """Return a living, idle agent for a role. Raises ReachError or AgentError."""
        return self.station.agent(f"{self.label}:{role}", self.prefix)

    def scratch(self, directory: str, job: str) -> str:
        """Return the path of a job's own directory below this one, which does not exist yet."""
        return self.station.scratch(directory, job)

    def command_line(self, argv: Sequence[str]) -> list[str]:
        """Resolve a command line to the paths of supplied programs."""
        return self.station.command_line(argv)

    def address_of(self, name: str) -> str:
        """Look up the address of another host there. Raises ReachError, EndpointError."""
        return self.station.address_of(name)

    def data_ports(self, count: int) -> int:
        """Return the first of consecutive data ports that no other job of the trial uses."""
        return self.station.data_ports(count, self.attached.ports)


def raise_layer(layer: Layer[Any], underlay: Underlay) -> Mapping[str, LayerEnd]:
    """Raise a layer, and return its ends. Raises EndpointError, also where it returns others."""
    ends: object = layer.up(underlay)  # a layer of another package may return anything
    if not isinstance(ends, Mapping):
        found = repr(ends)[:_SHOWN]
    elif strange := [one for one in ends.values() if not isinstance(one, LayerEnd)]:
        found = f"a mapping with {strange[0]!r}"[:_SHOWN]
    elif set(ends) != set(underlay.ends):
        found = f"a mapping of {', '.join(map(str, ends)) or 'nothing'}"[:_SHOWN]
    else:
        return ends
    raise EndpointError(
        f"up() of {layer.settings.kind} returned {found}, and must return a LayerEnd for each"
        " endpoint, by its name",
        where=", ".join(underlay.ends),
        cure=LAYERS.cure(type(layer)),
    )


def reserve(
    stations: Sequence[Station], count: int, busy: set[int], among: range | None = None
) -> range:
    """Reserve consecutive data ports at all of these endpoints.

    The last ones, since jobs begin anywhere. Raises EndpointError.
    """
    # Those that lead inside of a layer are given to its jobs alone.
    taken = busy.union(*(one.reserved for one in stations)) if among is None else busy
    ports = among or DATA_PORTS
    for first in range(ports.stop - count, ports.start - 1, -1):
        found = range(first, first + count)
        if not taken & set(found):
            for station in stations:
                station.reserved |= set(found)
            return found
    names = ", ".join(one.name for one in stations)
    raise EndpointError("too few data ports are free", where=names, cure="use fewer layers")
