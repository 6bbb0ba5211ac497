"""What EC2 can't do for ends in zones of their own, and in which zones the others may be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from osmef.errors import CapacityError
from osmef.providers.aws.lookup import FlavorInfo, Image, free_zones
from osmef.providers.aws.provider import AwsProvider
from osmef.providers.base import EndpointRequest
from osmef.providers.cloud.lookup import Offers, WantedFlavor, Zones
from osmef.scenario.clouds.aws import AwsSettings
from osmef.scenario.fields import EndpointKind
from osmef.scenario.load import load_text

USUAL = "kind: aws, region: r-1, default_flavor: everywhere"
CLUSTER = f"{USUAL}, placement_by: cluster"


def problems_of(provider: str, rest: str) -> Sequence[tuple[str, str, str]]:
    study = load_text(f"name: a\nprovider: {{{provider}}}\n{rest}", Path("a.yaml"))
    settings = study.scenario.provider
    assert isinstance(settings, AwsSettings)
    return AwsProvider(settings).problems(study.cells[0])


@pytest.mark.parametrize(
    ("provider", "receiver", "possible"),
    [
        (CLUSTER, "{zone: r-1a}", True),
        (CLUSTER, "{zone: r-1b}", False),
        (CLUSTER, "{}", False),
        (f"{CLUSTER}, zone: r-1b", "{}", False),
        (f"{CLUSTER}, zone: r-1a", "{}", True),
        (USUAL, "{zone: r-1b}", True),
    ],
)
def test_neighbours_are_in_one_zone(provider: str, receiver: str, *, possible: bool) -> None:
    ends = f"endpoints: {{sender: {{zone: r-1a}}, receiver: {receiver}}}"
    found = problems_of(provider, f"placement: any\n{ends}")
    assert [(key, "one zone" in cure) for key, _, cure in found] == (
        [] if possible else [("endpoints", True)]
    )


def offers() -> Offers[FlavorInfo, Image]:
    offered = {"everywhere": {"id-1", "id-2", "new"}, "here": {"id-1"}, "there": {"id-2"}}
    flavors: dict[WantedFlavor, FlavorInfo] = {
        name: FlavorInfo(name, 2, 4096, ena=True, groups=(), hosts=False, zones=frozenset(zones))
        for name, zones in offered.items()
    }
    return Offers("everywhere", flavors, {}, Zones({"r-1b": "id-1", "r-1a": "id-2"}))


def request(flavor: str | None, zone: str | None = None) -> EndpointRequest:
    kind, name = EndpointKind.VM, f"{flavor}-{zone}"
    return EndpointRequest(name, "sender", kind, flavor, None, "tenant-1", zone=zone)


@pytest.mark.parametrize(
    ("requests", "zones"),
    [
        ([request(None)], ["id-2", "id-1"]),  # by their names in the account
        ([request(None), request("there")], ["id-2"]),
        ([request(None), request("there", "r-1b")], ["id-2", "id-1"]),
        ([request("here"), request("there", "r-1b")], ["id-1"]),
    ],
)
def test_a_request_for_a_zone_does_not_limit_the_zones_of_others(
    requests: list[EndpointRequest], zones: list[str]
) -> None:
    assert free_zones({"tenant-1": offers()}, requests) == zones


def test_a_missing_zone_with_all_types_is_reported() -> None:
    with pytest.raises(CapacityError, match="no zone has all of here, there"):
        free_zones({"tenant-1": offers()}, [request("here"), request("there")])
