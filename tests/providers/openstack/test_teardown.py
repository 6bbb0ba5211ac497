"""What goes some time after it was asked to, and what may not be deleted in the best way."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from osmef.errors import ProviderError
from osmef.providers.base import Resource
from osmef.providers.cloud.teardown import Gone
from osmef.providers.openstack.access import USUAL, open_cloud
from osmef.providers.openstack.provider import OpenStackProvider
from osmef.providers.openstack.resource_types import TYPES
from tests.providers.openstack.keystone import keystone, write_cloud

RUN = "lab-20260101T000000Z-abcd"
MARK = {"osmef_run": RUN, "osmef_made": "1", "osmef_deadline": "2"}


@dataclass
class Cinder:
    """The volumes of a project; each takes some looks to go, or ends as an error."""

    there: dict[str, dict[str, Any]] = field(default_factory=dict)
    looks: int = 2
    fails: bool = False
    asked: list[str] = field(default_factory=list)

    def add(self, key: str, name: str) -> None:
        self.there[key] = {"id": key, "name": name, "metadata": MARK, "status": "available"}

    def __call__(self, method: str, path: str) -> tuple[int, Any] | None:
        path = path.partition("?")[0]
        if method == "DELETE":
            self.asked.append(path)
            self.there[path.rpartition("/")[2]]["status"] = "deleting"
            return 202, {}
        if not path.startswith("volumes"):
            return None
        going = [one for one in self.there.values() if one["status"] == "deleting"]
        if going:
            self.looks -= 1
        for one in going if self.looks < 0 else ():
            if self.fails:
                one["status"] = "error_deleting"
            else:
                del self.there[one["id"]]
        return 200, {"volumes": list(self.there.values())}


@pytest.fixture
def cinder(clouds: Path) -> Iterator[Cinder]:
    volumes = Cinder()
    with keystone(answers={"block-storage": volumes}) as url:
        write_cloud(clouds, url, "p1")
        yield volumes


def destroy(resources: Sequence[Resource], gone: Gone, again_s: float = math.inf) -> None:
    """Destroy what is in the cloud, which is polled often; a deletion is repeated after a time."""
    cloud = open_cloud({"cloud": "lab"}, waits=replace(USUAL, look_s=0.05, delete_retry_s=again_s))
    OpenStackProvider.tear_down([(resource, cloud) for resource in resources], gone)


@pytest.mark.parametrize("status", [202, 403])
def test_servers_are_deleted_at_once_where_that_is_allowed(clouds: Path, status: int) -> None:
    name, asked = f"osmef-{RUN}-1-a", []
    there = [{"id": "s1", "name": name, "metadata": MARK}]

    def nova(method: str, path: str) -> tuple[int, Any] | None:
        path = path.partition("?")[0]
        if path.startswith("servers/s1"):
            asked.append((method, path))
            if method == "POST" and status != 202:
                return status, {"x": {"message": "no"}}
            there.clear()
            return (202 if method == "POST" else 204), {}
        return (200, {"servers": there}) if path.startswith("servers") else None

    gone: list[Resource] = []
    with keystone(answers={"compute": nova}) as url:
        write_cloud(clouds, url, "p1")
        ours = Resource("openstack", "server", name, RUN, "s1", access={"cloud": "lab"})
        destroy([ours], gone.append)
    assert gone == [ours]
    force, usual = ("POST", "servers/s1/action"), ("DELETE", "servers/s1")
    assert asked == ([force] if status == 202 else [force, usual])


@pytest.mark.parametrize("odd", ["²", "9" * 200, 7, None, {"a": 1}])
def test_unreadable_foreign_metadata_is_reported_and_hides_no_resource(
    cinder: Cinder, odd: object
) -> None:
    cinder.add("v1", f"osmef-{RUN}-1-a")
    cinder.add("v2", f"osmef-{RUN}-2-b")
    cinder.there["v1"]["metadata"] = {**MARK, "osmef_deadline": odd}
    lines: list[str] = []
    found = TYPES["volume"].owned(open_cloud({"cloud": "lab"}), None, lines.append)
    assert [one.id for one in found] == ["v2"]
    (line,) = lines
    assert "volume v1: its mark can't be read" in line


def volume(key: str | None, name: str) -> Resource:
    return Resource("openstack", "volume", name, RUN, key, access={"cloud": "lab"})


def test_servers_are_deleted_some_at_a_time_and_dropped_deletions_are_repeated(
    clouds: Path,
) -> None:
    there = {f"s{n}": f"osmef-{RUN}-{n}-a" for n in range(60)}
    dropped, going, most = {"s3", "s50"}, set[str](), [0]

    def nova(method: str, path: str) -> tuple[int, Any] | None:
        if method == "POST":
            server = path.split("/")[1]
            if server in dropped:
                dropped.remove(server)
            elif server in there:
                going.add(server)
                most.append(len(going))
            return 202, {}
        if not path.startswith("servers"):
            return None
        for server in list(going)[:10] if "detail" not in path else ():
            going.discard(server)
            del there[server]
        rows = [{"id": key, "name": name, "metadata": MARK} for key, name in there.items()]
        return 200, {"servers": rows}

    gone: list[Resource] = []
    access = {"cloud": "lab"}
    ours = [
        Resource("openstack", "server", f"osmef-{RUN}-{n}-a", RUN, f"s{n}", access=access)
        for n in range(60)
    ]
    with keystone(answers={"compute": nova}) as url:
        write_cloud(clouds, url, "p1")
        destroy(ours, gone.append, again_s=0.2)
    assert {one.name for one in gone} == {one.name for one in ours}
    assert not there
    assert not dropped
    assert 10 < max(most) <= 24


def test_a_volume_that_is_no_longer_listed_is_deleted(cinder: Cinder) -> None:
    ours = [volume("v1", f"osmef-{RUN}-1-a"), volume(None, f"osmef-{RUN}-2-b")]
    cinder.add("v1", ours[0].name)
    cinder.add("v2", ours[1].name)
    seen: list[tuple[str, int]] = []
    destroy(ours, lambda one: seen.append((one.name, len(cinder.there))))
    assert sorted(seen) == [(one.name, 0) for one in ours]
    assert sorted(cinder.asked) == ["volumes/v1", "volumes/v2"]


def test_an_undeletable_volume_is_reported_and_stays_in_the_journal(cinder: Cinder) -> None:
    cinder.fails = True
    ours = volume("v1", f"osmef-{RUN}-1-a")
    cinder.add("v1", ours.name)
    gone: list[Resource] = []
    with pytest.raises(ProviderError, match="its status is error_deleting") as caught:
        destroy([ours], gone.append)
    assert "osmef reap" in str(caught.value.cure)
    assert gone == []


def test_a_copy_that_has_our_metadata_and_another_name_is_not_ours(cinder: Cinder) -> None:
    cinder.add("v1", f"copy-of-osmef-{RUN}-1-a")
    gone: list[Resource] = []
    destroy([volume("v1", f"osmef-{RUN}-1-a")], gone.append)
    assert len(gone) == 1
    assert cinder.asked == []
    assert list(cinder.there) == ["v1"]
