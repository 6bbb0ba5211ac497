"""Endpoints that a cloud takes away while a run measures, as it may spare (spot) capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from osmef.engine.station import Station
from osmef.errors import (
    AgentError,
    CapacityError,
    EndpointError,
    HostKeyError,
    LoginError,
    OsmefError,
    ReachError,
)
from osmef.providers.sites import Sites
from osmef.results.trial import Failure, Trial
from osmef.scenario.location import Gone, Location

_BROKEN = {one.kind for one in (EndpointError, ReachError, HostKeyError, LoginError, AgentError)}


def loss_of(name: str) -> CapacityError:
    """Return the error that says of an endpoint that its cloud has it no more."""
    return CapacityError(
        "its cloud has it no more: it was taken back, as spot VMs may be, or removed",
        where=name,
        cure="measure again; if it was a spot VM, with spot: false",
    )


def lose(stations: Sequence[Station], places: Sequence[Location]) -> list[Station]:
    """Have no station tried again of which its cloud says that it is gone; return those.

    What was measured on one before stands: it has not moved.
    """
    gone = [
        station
        for station, place in zip(stations, places, strict=True)
        if isinstance(place, Gone) and station.lost is None
    ]
    for station in gone:
        station.lost = loss_of(station.name)
    return gone


def explained(sites: Sites, stations: Mapping[str, Station], trial: Trial) -> Trial:
    """Return a trial with why it failed, where its cloud does not have an end of it any more.

    What can't be read explains nothing.
    """
    if trial.failure is None or trial.failure.kind not in _BROKEN:
        return trial
    ends = [stations[name] for name in dict.fromkeys([*trial.senders, *trial.receivers])]
    try:
        lose(ends, sites.describe([station.endpoint for station in ends]))
    except OsmefError:
        return trial
    lost = [station.lost for station in ends if station.lost is not None]
    return trial.model_copy(update={"failure": Failure.of(lost[0])}) if lost else trial
