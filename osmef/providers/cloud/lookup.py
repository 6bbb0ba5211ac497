"""Lookup of a scenario's names and needs in a cloud's lists, of flavors above all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from osmef.errors import CapacityError, NotFoundError
from osmef.providers.base import EndpointRequest
from osmef.scenario.fields import FlavorNeed

F = TypeVar("F")
WantedFlavor = str | FlavorNeed
"""A flavor by its name, or a need that the smallest meets."""

_MOST_NAMES = 20
_MIB = 2**20


@dataclass(frozen=True)
class Flavor:
    """A size of VMs, whatever the cloud calls it: its name and CPUs."""

    name: str
    vcpus: int


def known_names(known: Iterable[str], wanted: str, what: str = "of them") -> str:
    """Return the cure for an unknown name: close ones, or all known ones."""
    names = sorted({*known})
    close = get_close_matches(wanted, names, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return (
        f"use one of: {', '.join(names[:_MOST_NAMES])}" if names else f"there is no {what} at all"
    )


def meets(need: FlavorNeed, vcpus: int, ram_mib: int) -> bool:
    """Return whether so many CPUs and MiB of memory meet a need."""
    return vcpus >= need.vcpus and ram_mib * _MIB >= (need.ram or 0)


def smallest(fitting: Iterable[F], size_of: Callable[[F], tuple[Any, ...]], lacks: str) -> F:
    """Return the smallest of the flavors that fit a need.

    Raises NotFoundError, with ``lacks`` as its message, where there is none.
    """
    found = min(fitting, key=size_of, default=None)
    if found is None:
        cure = "ask for less, write the name of one, or use another region"
        raise NotFoundError(lacks, where="flavor", cure=cure)
    return found


def check_cards(request: EndpointRequest, flavor: str, most: int | None) -> None:
    """Raise CapacityError where a flavor has too few network cards for a request.

    ``most`` is how many it may have with the usual one, None where the cloud tells no limit.
    """
    if most is not None and request.nics >= most:
        free = most - 1
        raise CapacityError(
            f"{flavor} has {most} network card{'s' * (most != 1)}, and {request.nics + 1} are"
            f" needed: the usual one and nics: {request.nics}",
            where=request.name,
            cure=f"use a larger flavor, or write nics: {free}" if free else "use a larger flavor",
        )
