"""Lost endpoints: unreachable during a run, or destroyed by their cloud.

A cloud may take spare (spot) capacity back; a machine may break down, or boot.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from osmef.engine.plan import PlannedTrial
from osmef.engine.station import Station
from osmef.errors import (
    AgentError,
    CapacityError,
    CredentialsError,
    EndpointError,
    HostKeyError,
    LoginError,
    LostError,
    OsmefError,
    ReachError,
)
from osmef.providers.sites import Sites
from osmef.results.trial import Trial
from osmef.scenario.location import Gone, Location

_OF_ENDPOINTS = (EndpointError, ReachError, HostKeyError, LoginError, AgentError, CredentialsError)
BROKEN = {one.kind for one in _OF_ENDPOINTS}
"""Kinds of failures of trials that a lost endpoint may be behind."""

Stations = Mapping[str, Station]


def loss_of(name: str) -> CapacityError:
    """Return the error of an endpoint that no longer exists in its cloud."""
    return CapacityError(
        "its cloud has it no more: it was taken back, as spot VMs may be, or removed",
        where=name,
        cure="measure again; if it was a spot VM, with spot: false",
    )


def lose(stations: Sequence[Station], places: Sequence[Location]) -> list[Station]:
    """Mark the stations lost whose endpoints no longer exist in their cloud; return those.

    What was measured on one before stands: it has not moved.
    """
    gone = [
        station
        for station, place in zip(stations, places, strict=True)
        if isinstance(place, Gone) and not isinstance(station.lost, CapacityError)
    ]
    for station in gone:
        station.lose(loss_of(station.name))
    return gone


def ask_cloud(sites: Sites, stations: Sequence[Station]) -> None:
    """Mark endpoints lost that no longer exist in their cloud. The cloud's errors are ignored."""
    with contextlib.suppress(OsmefError):
        lose(stations, sites.describe([station.endpoint for station in stations]))


def lost_ends(sites: Sites, stations: Stations, trial: Trial) -> list[str]:
    """Return the ends of a failed trial that no longer exist, if that explains the failure."""
    if trial.failure is None or trial.failure.kind not in BROKEN:
        return []
    names = dict.fromkeys([*trial.senders, *trial.receivers])
    ends = [stations[name] for name in names if name in stations]  # a server there is not ours
    ask_cloud(sites, ends)
    return [station.name for station in ends if station.lost is not None]


def is_measurable(planned: PlannedTrial, stations: Stations) -> bool:
    """Return whether none of the ends of a trial is lost."""
    return all(stations[end.name].lost is None for end in planned.cell.endpoints)


def lost_error(stations: Stations, left: Sequence[PlannedTrial], planned: int) -> LostError:
    """Return the error of a run that could not measure all ``planned`` trials."""
    needed = {end.name for one in left for end in one.cell.endpoints}
    lost = [station for name, station in stations.items() if name in needed and station.lost]
    said = [(station.name, _told(station)) for station in lost]
    what = "; ".join(text for _, text in said[:1])
    if said[1:]:
        what = "; ".join(f"{name} {text}" for name, text in said)
    cures = dict.fromkeys(str(one.lost.cure) for one in lost if one.lost and one.lost.cure)
    cells = len({one.cell.cell.key for one in left})
    return LostError(
        f"{what}. Without {'it' if len(lost) == 1 else 'them'} {len(left)} of {planned} trials"
        f" could not be measured, of {cells} {'cell' if cells == 1 else 'cells'}; they remain to be"
        " measured",
        where=", ".join(name for name, _ in said),
        cure="; ".join(cures) or None,
    )


def _told(station: Station) -> str:
    since = f"{station.lost_at:%Y-%m-%d %H:%M:%S} UTC" if station.lost_at else "the start"
    return f"lost since {since}: {station.lost.message if station.lost else ''}"
