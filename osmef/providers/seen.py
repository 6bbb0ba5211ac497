"""A cell as the cloud at one site sees it, and what that cloud can't do for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from osmef.providers.base import Provider
from osmef.scenario.fields import Placement, Tenancy
from osmef.scenario.model import Endpoints, EndpointSettings
from osmef.scenario.study import Cell

Problem = tuple[str, str, str]
"""Scenario key, message, cure."""

_SETTINGS = re.compile(r"\bprovider\.(?=[a-z_])")
_ALONE = re.compile(r"^provider(?=$|: )")
_LONE = "endpoints.loopback"


def seen_from(site: str | None, cell: Cell) -> Cell:
    """Return a cell as a site sees it: of an end whose peer is elsewhere, that end alone.

    It stands as a loopback anywhere in the cloud, for nothing is asked of where it stands.
    """
    scenario = cell.scenario
    if not scenario.is_between_sites:
        return cell
    alone = Endpoints.model_construct(loopback=_ends_at(site, cell)[0][1])
    seen = scenario.model_copy(update={"endpoints": alone, "placement": Placement.ANY})
    return replace(cell, scenario=seen)


def _ends_at(site: str | None, cell: Cell) -> list[tuple[str, EndpointSettings]]:
    """Return the ends at a site, each with its key."""
    named = cell.scenario.endpoints.each.items()
    return [(f"endpoints.{name}", end) for name, end in named if end.site == site]


def problems_at(site: str | None, cloud: Provider, cell: Cell) -> Iterator[Problem]:
    """Yield what the cloud at a site can't do for a cell."""
    ends = _ends_at(site, cell)
    yield from _missing(cloud, cell, ends)
    for words in cloud.problems(seen_from(site, cell)):
        key, message, cure = (word.replace(_LONE, ends[0][0]) for word in words)
        if site is None:
            yield key, message, cure
        else:
            yield renamed(key, site), f"{site}: {renamed(message, site)}", renamed(cure, site)


def _missing(
    cloud: Provider, cell: Cell, ends: list[tuple[str, EndpointSettings]]
) -> Iterator[Problem]:
    family = cell.scenario.family
    if family not in cloud.families:
        message = f"the provider {cloud.kind} gives its endpoints no addresses of {family}"
        yield "family", message, f"use one of: {', '.join(sorted(cloud.families))}"
    elif cell.scenario.is_between_sites and family not in cloud.outside:
        what = f"over {family}" if cloud.outside else "at all"
        message = (
            f"endpoints of the provider {cloud.kind} can't be reached from another site {what}"
        )
        yield f"{ends[0][0]}.site", message, "use one site for both ends, or another site here"
    stack = cell.scenario.stack
    carries = {"udp"} if cell.scenario.is_between_sites else cloud.carries
    if stack and stack[-1].borrows and not cell.scenario.is_between_sites:
        carries = cloud.nics_carry
    if stack and stack[-1].carried_by not in carries:
        where = "between sites" if cell.scenario.is_between_sites else f"of {cloud.kind}"
        message = f"the networks {where} don't carry what the layer {stack[-1].kind} sends"
        yield "layer", message, "use one over UDP: vxlan, geneve or wireguard; or bare"
    apart = cell.scenario.tenancy is Tenancy.DIFFERENT_TENANT and not cloud.shares_nics
    for key, end in ends:
        if end.zone is not None and not cloud.has_zones:
            message = f"endpoints of the provider {cloud.kind} can't name a zone"
            yield f"{key}.zone", message, "remove zone"
        if end.nics and not cloud.gives_nics:
            message = f"the provider {cloud.kind} gives an endpoint one network card only"
            yield f"{key}.nics", message, "remove nics, or use another provider"
        elif end.nics and apart:
            message = "further network cards of two tenants are on different networks"
            yield f"{key}.nics", message, "remove nics, or use tenancy: same-tenant"


def renamed(text: str, site: str) -> str:
    """Return a key or a text in which the settings of the provider are those of a site."""
    here = f"sites.{site}"
    return _ALONE.sub(here, _SETTINGS.sub(f"{here}.", text))
