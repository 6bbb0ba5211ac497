"""The facts of all endpoints, collected between the groups of trials."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from osmef.engine.station import Station
from osmef.errors import OsmefError
from osmef.results.rundir import RunDirectory


def collect_facts(stations: dict[str, Station], directory: RunDirectory, moment: str) -> None:
    """Write the facts of every endpoint to ``facts/MOMENT/``. Raises StorageError.

    An endpoint that does not answer is recorded with the reason; the run goes on.
    """
    with ThreadPoolExecutor(max_workers=max(1, len(stations))) as pool:
        for name, facts in zip(stations, pool.map(_facts, stations.values()), strict=True):
            directory.write_facts(moment, name, facts)


def _facts(station: Station) -> dict[str, Any]:
    try:
        return station.facts()
    except OsmefError as error:
        return {"error": str(error)}
