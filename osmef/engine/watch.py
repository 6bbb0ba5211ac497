"""What the kernel's counters tell of a trial inside of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from osmef.layers.base import Attached, Layer
from osmef.layers.counters import Counters, counters
from osmef.layers.host import Host
from osmef.results.use import InterfaceUse
from osmef.workloads import Outcome

_MOST_AT_ONCE = 16
_LOOPBACK = "lo"

Counting = tuple[Layer[Any], Mapping[str, Attached]]
"""A layer that tells something, with its ends."""


class Watch:
    """Counts from its making on. ``outer`` are the ends of the outermost layer."""

    def __init__(
        self,
        layers: Sequence[Counting],
        outer: Mapping[str, Attached],
        hosts: Mapping[str, Host],
    ) -> None:
        self._layers, self._outer, self._hosts = layers, outer, hosts
        self._before = self._count()

    def _count(self) -> dict[tuple[str, str | None], Counters]:
        """Read the counters of all namespaces that are looked at, by endpoint and namespace."""
        every = [ends for _, ends in self._layers] + [self._outer]
        places = dict.fromkeys((name, end.space) for ends in every for name, end in ends.items())
        with ThreadPoolExecutor(max_workers=min(_MOST_AT_ONCE, len(places))) as pool:
            found = pool.map(lambda place: counters(self._hosts[place[0]].root, place[1]), places)
            return dict(zip(places, found, strict=True))

    def into(self, outcome: Outcome) -> Outcome:
        """Return an outcome with what was counted. Raises EndpointError, ReachError."""
        after = self._count()
        change = {place: now.since(self._before[place]) for place, now in after.items()}
        metrics, interfaces = dict(outcome.metrics), list(outcome.interfaces)
        for layer, ends in self._layers:
            told = {
                name: Counters(
                    _cards(change[name, end.space], end),
                    change[name, self._outer[name].space].tcp,
                )
                for name, end in ends.items()
            }
            metrics |= layer.outcome(list(told.values()))
            known = {(one.endpoint, one.name) for one in interfaces}
            interfaces += [
                InterfaceUse(endpoint=name, name=device, measured=False, **counted)
                for name, one in told.items()
                for device, counted in one.interfaces.items()
                if (name, device) not in known
            ]
        return replace(outcome, metrics=metrics, interfaces=interfaces)


def _cards(counted: Counters, end: Attached) -> Mapping[str, Mapping[str, int]]:
    """Return what went through the interfaces of a namespace that the layer did not make."""
    own = {_LOOPBACK, *end.devices}
    return {name: one for name, one in counted.interfaces.items() if name not in own}
