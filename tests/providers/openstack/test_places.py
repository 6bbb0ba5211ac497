from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from osmef.providers.openstack.placement import location_of
from osmef.scenario.location import Location, same_host

# As nova 2024.2 showed it to a member of the project, for a server on cmp2.
PROJECT = "c9c4a5fa46384f0cbf13a13b0a43f04f"
HOST_ID = "405d779964f0fe3ad0f690742fbdfc908d2d0af2408b5b6fa9c7df16"


def server(**facts: Any) -> SimpleNamespace:
    usual = {
        "availability_zone": "az2",
        "compute_host": None,
        "host_id": HOST_ID,
        "project_id": PROJECT,
    }
    return SimpleNamespace(**(usual | facts))


def test_an_administrator_sees_the_host() -> None:
    found = location_of(server(compute_host="cmp3"), "tenant-a", [])
    assert (found.host, found.host_scope, found.zone) == ("cmp3", None, "az2")


def test_host_ids_are_comparable_only_within_their_project() -> None:
    here = location_of(server(), "a", [])
    assert same_host(here, location_of(server(), "a", [])) is True
    assert same_host(here, location_of(server(host_id="other"), "a", [])) is False
    assert same_host(here, location_of(server(host_id="other"), "b", [])) is None


def test_an_id_of_a_host_that_is_named_is_that_host() -> None:
    found = location_of(server(), "a", ["cmp1", "cmp2", "cmp3"])
    assert (found.host, found.host_scope) == ("cmp3", None)
    assert location_of(server(), "a", ["cmp1"]).host == HOST_ID


def test_sites_of_one_region_are_distinguished_only_by_their_hosts() -> None:
    def at(site: str, region: str | None) -> Location:
        return location_of(server(), site, [], region).model_copy(update={"site": site})

    assert same_host(at("a", "r at k"), at("b", "r at k")) is None
    assert same_host(at("a", "r at k"), at("b", "r at l")) is False
    assert same_host(at("a", None), at("b", "r at k")) is False


def test_a_server_without_a_host_has_no_location() -> None:
    found = location_of(server(host_id="", availability_zone=""), "a", ["cmp1"])
    assert (found.host, found.host_scope, found.zone, found.tenant) == (None, None, None, "a")
