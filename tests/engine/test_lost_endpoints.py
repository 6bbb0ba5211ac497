"""Endpoints that their cloud has no more: what their trials say, and that they are not tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from osmef.engine.station import Station, lost_ends
from osmef.errors import ApiError, CapacityError, OsmefError
from osmef.providers.base import Endpoint, EndpointRequest
from osmef.providers.local.provider import LocalProvider
from osmef.providers.sites import Sites
from osmef.results.trial import Failure, Status, Trial
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.fields import EndpointKind, Placement, Tenancy
from osmef.scenario.location import Gone, Location
from tests.sshd import Sshd

HERE = Location(host="host-1", tenant="tenant-1")
Told = dict[str, Location]


class Telling(LocalProvider):
    """A cloud that tells where its endpoints stand, or nothing while its API is down."""

    def __init__(self, told: Told | None) -> None:
        super().__init__(LocalSettings())
        self.told = told

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        if self.told is None:
            raise ApiError("the API is down")
        return [self.told.get(endpoint.name, Gone()) for endpoint in endpoints]


@pytest.fixture
def stations(sshd: Sshd, tmp_path: Path) -> Iterator[dict[str, Station]]:
    made: dict[str, Station] = {}
    for name in ("a", "b"):
        request = EndpointRequest(name, "sender", EndpointKind.VM, None, "host-1", "tenant-1")
        login = replace(sshd.login(), name=name)
        endpoint = Endpoint(request, name, login, "192.0.2.1", None, None)
        made[name] = Station(endpoint, HERE, tmp_path.name)
    yield made
    for station in made.values():
        station.lost = None  # it is there all the same, and what was put there goes
        station.close()


def failed(kind: str = "agent") -> Trial:
    return Trial(
        index=1, cell="all", repetition=1, group=1, values={}, senders=["a"], receivers=["b"],
        placement=Placement.ANY, tenancy=Tenancy.SAME_TENANT, distance=0, workload="btc",
        started_at=datetime.now(UTC), wall_s=0.1, status=Status.FAILED,
        failure=Failure(kind=kind, message="it is silent", where="a"),
    )  # fmt: skip


def lost_of(told: Told | None, stations: dict[str, Station], kind: str = "agent") -> list[str]:
    return lost_ends(Sites({None: Telling(told)}), stations, failed(kind))


@pytest.mark.parametrize("kind", ["agent", "reach", "host-key", "login", "credentials"])
def test_a_lost_endpoint_is_named_and_not_retried(stations: dict[str, Station], kind: str) -> None:
    assert lost_of({"a": HERE}, stations, kind) == ["b"]
    lost: OsmefError | None = stations["b"].lost
    assert isinstance(lost, CapacityError)
    assert lost.where == "b"
    with pytest.raises(CapacityError, match="reclaimed"):
        stations["b"].agent("receiver")
    assert stations["a"].agent("sender").gone is None


@pytest.mark.parametrize(
    ("told", "kind"), [({"a": HERE, "b": HERE}, "agent"), (None, "agent"), ({}, "placement")]
)
def test_other_failures_lose_no_endpoint(
    stations: dict[str, Station], told: Told | None, kind: str
) -> None:
    assert lost_of(told, stations, kind) == []
    assert [station.lost for station in stations.values()] == [None, None]
