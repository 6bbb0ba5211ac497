"""What ties the sites of a scenario and its ends together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from osmef.scenario.base import conflict
from osmef.scenario.fields import Layer, Placement, Tenancy

if TYPE_CHECKING:
    from osmef.scenario.model import EndpointSettings, Scenario

_ENDS = ("endpoints.sender", "endpoints.receiver")


def check_sites(scenario: Scenario) -> None:
    """See that every end is at a site that there is, and asks for nothing that two sites can't do.

    Raises PydanticCustomError.
    """
    if scenario.sites and "provider" in scenario.model_fields_set:
        raise conflict(
            "provider is one cloud, and sites are several",
            "write one of provider and sites",
            *("sites", "provider"),
        )
    if len(scenario.sites) == 1:
        raise conflict("this is one site", "write it as provider, or name another one", "sites")
    for name, end in scenario.endpoints.each.items():
        _check_end(scenario, f"endpoints.{name}", end)
    if scenario.is_between_sites:
        _check_between(scenario)
    if scenario.placement is Placement.SAME_HOST:
        _check_zones(scenario)


def _check_end(scenario: Scenario, key: str, end: EndpointSettings) -> None:
    known = ", ".join(scenario.sites)
    if scenario.sites and end.site is None:
        raise conflict(
            f"{key} names no site", f"write its site: {known}", key, "endpoints", "sites"
        )
    if end.site is not None and not scenario.sites:
        raise conflict(
            f"there is no site {end.site!r}, for the scenario has no sites",
            "remove site, or write sites in the place of provider",
            f"{key}.site",
        )
    if end.site is not None and end.site not in scenario.sites:
        raise conflict(f"there is no site {end.site!r}", f"write one of: {known}", f"{key}.site")
    form = end.zone and scenario.clouds[end.site].written_zone(end.zone)
    if form:
        raise conflict(f"there is no zone {end.zone!r} here", f"write it {form}", f"{key}.zone")


def _check_zones(scenario: Scenario) -> None:
    zones = scenario.zones_of_ends
    if len(set(zones)) < 2:
        return
    raise conflict(
        "two zones share no host"
        if None not in zones
        else "one end is to be in a zone, the other in any, and two zones share no host",
        "write the same zone for both ends, or use placement: different-host",
        *("placement", *(f"{end}.zone" for end in _ENDS)),
    )


def _check_between(scenario: Scenario) -> None:
    sites = tuple(f"{end}.site" for end in _ENDS)
    if scenario.placement is Placement.SAME_HOST:
        raise conflict(
            "two sites share no host",
            "use placement: different-host, or one site for both ends",
            *("placement", *sites),
        )
    if scenario.tenancy is Tenancy.DIFFERENT_TENANT:
        raise conflict(
            "ends at two sites are never of one tenant, so there is nothing to ask for",
            "leave tenancy out, or use one site for both ends",
            *("tenancy", *sites),
        )
    if scenario.layer is Layer.OVERLAY:
        raise conflict(
            "there is no overlay between two sites",
            "use layer: bare, or one site for both ends",
            *("layer", *sites),
        )
