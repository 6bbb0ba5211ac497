"""What EC2 can't do for ends in zones of their own, and in which zones the others may be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from osmef.errors import CapacityError
from osmef.providers.aws.lookup import FlavorInfo, Names, free_zones
from osmef.providers.aws.provider import AwsProvider
from osmef.providers.base import EndpointRequest
from osmef.providers.cloud.lookup import WantedFlavor
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


def names() -> Names:
    flavors: dict[WantedFlavor, FlavorInfo] = {
        name: FlavorInfo(name, 2, 4096, "x86_64", ena=True, groups=(), hosts=False)
        for name in ("everywhere", "here", "there")
    }
    offered = {"everywhere": {"id-1", "id-2"}, "here": {"id-1"}, "there": {"id-2"}}
    return Names(flavors, {}, {"r-1a": "id-1", "r-1b": "id-2"}, offered)


def request(flavor: str | None, zone: str | None = None) -> EndpointRequest:
    kind, name = EndpointKind.VM, f"{flavor}-{zone}"
    return EndpointRequest(name, "sender", kind, flavor, None, "tenant-1", zone=zone)


@pytest.mark.parametrize(
    ("requests", "zones"),
    [
        ([request(None)], ["id-1", "id-2"]),
        ([request(None), request("there")], ["id-2"]),
        ([request(None), request("there", "r-1b")], ["id-1", "id-2"]),
        ([request("here"), request("there", "r-1b")], ["id-1"]),
    ],
)
def test_what_is_asked_for_in_a_zone_limits_no_other(
    requests: list[EndpointRequest], zones: list[str]
) -> None:
    settings = AwsSettings(region="r-1", default_flavor="everywhere")
    assert free_zones({"tenant-1": names()}, settings, requests) == zones


def test_no_zone_with_all_that_may_be_anywhere_is_told() -> None:
    settings = AwsSettings(region="r-1", default_flavor="everywhere")
    with pytest.raises(CapacityError, match="no zone has all of here, there"):
        free_zones({"tenant-1": names()}, settings, [request("here"), request("there")])
