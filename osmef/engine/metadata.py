"""Metadata: the facts of all endpoints, collected between the groups of trials."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from osmef.engine.station import Station
from osmef.errors import OsmefError
from osmef.facts.collect import change
from osmef.results.rundir import RunDirectory

Facts = dict[str, Any]

_RESUMED = "."


def first_moment(group: int, starts: int) -> str:
    """Return the name of the moment before a group, at the nth start of a run.

    A resumed run has new endpoints, whose counters begin anew: what stands of the moment after the
    group before is not theirs, and is kept.
    """
    return f"{group - 1:05}" + (f"{_RESUMED}{starts - 1:02}" if starts > 1 else "")


def made_at(moments: list[str]) -> str:
    """Return the moment at which an endpoint was last created."""
    return max((moment for moment in moments if _RESUMED in moment), default=moments[0])


def collect_facts(
    stations: dict[str, Station],
    directory: RunDirectory,
    moment: str,
    earlier: Mapping[str, Facts],
) -> dict[str, Facts]:
    """Write the facts of every endpoint to ``facts/MOMENT/``, and return them by endpoint.

    ``earlier`` are those of the moment before, if any: what has changed since is written, too. An
    endpoint that does not answer is recorded with the reason; the run goes on. Raises StorageError.
    """
    with ThreadPoolExecutor(max_workers=max(1, len(stations))) as pool:
        found = dict(zip(stations, pool.map(_facts, stations.values()), strict=True))
    for name, facts in found.items():
        changed = {"change": change(earlier[name], facts)} if name in earlier else {}
        directory.write_facts(moment, name, {**facts, **changed})
    return found


def _facts(station: Station) -> Facts:
    try:
        return station.facts()
    except OsmefError as error:
        return {"error": str(error)}
