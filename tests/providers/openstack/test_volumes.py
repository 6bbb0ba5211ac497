"""Servers that boot from volumes, on a real cinder whose volumes hold nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import openstack
import pytest

from osmef.errors import NotFoundError, QuotaError
from osmef.providers.openstack.provider import OpenStackProvider
from tests.openstack.calls import recorded
from tests.openstack.cloud import Cloud
from tests.openstack.volumes import VolumeCloud
from tests.providers.openstack.lab import Lab, server

pytestmark = [pytest.mark.timeout(1800)]  # the first test waits for the cloud

Make = Callable[..., OpenStackProvider]
WAIT = {"wait": 120, "interval": 0.5}
SOURCES = {
    "size": {"image": "guest", "size": "3GiB"},
    "snapshot": {"snapshot": "a snapshot"},
    "volume": {"volume": "a volume ü"},
}


@pytest.fixture(scope="session")
def openstack_cloud(volume_cloud: VolumeCloud) -> Cloud:
    return volume_cloud


@pytest.fixture
def theirs(lab: Lab) -> Iterator[Any]:
    """A volume that boots and a snapshot of it, which are all that is there afterwards."""
    with openstack.connect(cloud="alice") as api:
        store: Any = api.block_storage
        image: Any = api.image.find_image("guest")
        volume = store.create_volume(name="a volume ü", size=2, image_id=image.id)
        store.wait_for_status(volume, "available", **WAIT)
        snapshot = store.create_snapshot(volume_id=volume.id, name="a snapshot")
        store.wait_for_status(snapshot, "available", **WAIT)
        yield api
        assert [one.id for one in store.volumes()] == [volume.id]
        assert [one.id for one in store.snapshots()] == [snapshot.id]
        store.delete_snapshot(snapshot)
        store.wait_for_delete(snapshot, **WAIT)
        store.delete_volume(volume)
        store.wait_for_delete(volume, **WAIT)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.usefixtures("theirs")
def test_servers_boot_from_volumes_of_their_own_which_go(lab: Lab, source: str) -> None:
    with recorded(lab.cloud) as calls:
        ended = lab("run", lab.write(boot=SOURCES[source]))
    assert ended.code == 0, ended.err
    events = lab.osmef.events
    assert events.count(("created", "volume")) == events.count(("destroyed", "volume")) == 2
    made = [call for call in calls if call.method == "POST" and call.path.endswith("/volumes")]
    assert [call.status for call in made] == [202, 202]
    assert lab.owned() == []


@pytest.mark.usefixtures("theirs")
def test_after_kill_9_reap_takes_the_volumes_with_their_servers(lab: Lab) -> None:
    process = lab.start("run", lab.write(boot=SOURCES["snapshot"]))
    lab.osmef.until(process, "putting the agent on")
    process.kill()
    process.communicate()
    kinds = [one.split()[0] for one in lab.owned()]
    assert (kinds.count("server"), kinds.count("volume")) == (2, 2)
    ended = lab("reap", "--yes")
    assert ended.code == 0, ended.err
    assert lab.owned() == []


@pytest.mark.parametrize("made", [False, True])
def test_volumes_are_compared_with_the_quotas(provider: Make, *, made: bool) -> None:
    own: dict[str, Any] = {"cloud": "admin", "projects": "made"} if made else {}
    with pytest.raises(QuotaError, match=r"11 volumes \(quota 10, in use 0\)") as caught:
        provider(boot=SOURCES["size"], **own).check([server(f"s{n}") for n in range(11)])
    assert "volume space" not in caught.value.message
    big = provider(boot={"image": "guest", "size": "600GiB"}, **own)
    with pytest.raises(QuotaError, match=r"1200 volume space \(GiB\) \(quota 1000, in use 0\)"):
        big.check([server("a"), server("b", "host-2")])


@pytest.mark.usefixtures("theirs")
@pytest.mark.parametrize("what", ["volume", "snapshot"])
def test_a_missing_boot_source_is_reported_with_the_available_ones(
    provider: Make, what: str
) -> None:
    with pytest.raises(NotFoundError, match=f"no {what} 'a {what[:4]}'") as caught:
        provider(boot={what: f"a {what[:4]}"}).check([server()])
    assert f"did you mean a {what}" in str(caught.value.cure)
