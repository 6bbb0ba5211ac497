"""What carries our mark on a real hypervisor is listed, then destroyed, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from osmef.errors import InputError
from osmef.providers.base import Resource
from osmef.providers.libvirt import xml
from osmef.providers.libvirt.connection import Hypervisor, Maker, Mark, libvirt
from osmef.providers.libvirt.guest import start_domain
from osmef.providers.libvirt.networks import make_filters, make_networks
from osmef.providers.libvirt.provider import LibvirtProvider
from osmef.providers.libvirt.storage import StoragePool
from tests.cli.conftest import Osmef
from tests.libvirt.lab import Lab
from tests.providers.conftest import MemoryLedger

RUN = "dead-20260101T000000Z-ab12"
KINDS = ("domain", "filter", "network", "pool")
HOUR = 3600
# Names like ours, and no mark, or one that somebody else wrote.
FOREIGN_DOMAIN = f"""
<domain type='qemu'><name>osmef-{RUN}-vm-1</name>
  <metadata><run xmlns='urn:other' id='{RUN}' made='1' deadline='2'/></metadata>
  <memory unit='MiB'>32</memory>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
</domain>
"""
FOREIGN_NETWORK = f"<network><name>osmef-{RUN}-theirs</name></network>"
FOREIGN_FILTER = f"<filter name='osmef-{RUN}-filter'/>"
FOREIGN_POOL = (
    f"<pool type='dir'><name>osmef-{RUN}-pool</name><target><path>{{path}}</path></target></pool>"
)


@pytest.fixture
def host(lab: Lab) -> Iterator[Hypervisor]:
    """A hypervisor with things of others on it, which are all there afterwards."""
    there = Hypervisor("alpha", lab["alpha"].uri)
    directory = lab["alpha"].directory / "theirs"
    directory.mkdir()
    (directory / "precious").write_text("their data")
    connection = there.do("connecting", lambda connection: connection)
    with ExitStack() as stack:
        domain = connection.createXML(FOREIGN_DOMAIN, 1)  # paused
        stack.callback(domain.destroy)
        network = connection.networkCreateXML(FOREIGN_NETWORK)
        stack.callback(network.destroy)
        filtered = connection.nwfilterDefineXML(FOREIGN_FILTER)
        stack.callback(filtered.undefine)
        pool = connection.storagePoolCreateXML(FOREIGN_POOL.format(path=directory))
        stack.callback(pool.destroy)
        yield there
        assert domain.isActive()
        assert network.isActive()
        assert pool.isActive()
        assert (directory / "precious").read_text() == "their data"
        assert filtered.name() in connection.listNWFilters()
        (directory / "precious").unlink()
        directory.rmdir()
    there.close()


def leave(host: Hypervisor, *, made_s: float, deadline_s: float) -> None:
    """Leave one thing of each kind there, as a run that was killed does; times are from now."""
    now = int(time.time())
    maker = Maker(Mark(RUN, int(now + made_s), int(now + deadline_s)), MemoryLedger())
    make_networks(host, maker, ["tenant-1"])
    make_filters([host], maker, ["192.0.2.1"], ["192.0.2.2"])
    StoragePool.make(host, maker, "/var/lib/libvirt/images").put("vm-2.seed", bytes(1 << 16))
    machine = xml.Domain(maker.mark.name("vm-2"), "x86_64", "tcg", 1, 1 << 25, None)
    start_domain(host, maker, machine, None)


def kinds(host: Hypervisor) -> list[str]:
    return sorted(one.kind for one in LibvirtProvider.owned({"uri": host.uri}))


def test_reap_lists_before_it_destroys_and_leaves_what_is_young_or_foreign(
    osmef: Osmef, host: Hypervisor, lab: Lab
) -> None:
    leave(host, made_s=-2 * HOUR, deadline_s=HOUR)
    where = ("reap", "--provider", "libvirt", "--uri", host.uri)
    for young in (where, (*where, "--older-than", "3h", "--yes")):
        skipped = osmef(*young)
        assert (skipped.code, skipped.out) == (0, "nothing left\n")
    asked = osmef(*where, "--older-than", "1h")  # and nobody answers
    assert asked.code == 1
    for kind in KINDS:
        assert f"libvirt {kind} osmef-{RUN}-" in asked.out
    assert "it was made long ago" in asked.out
    assert kinds(host) == list(KINDS)
    ended = osmef(*where, "--older-than", "1h", "--yes")
    assert ended.code == 0, ended.err
    assert "destroyed 4, nothing left" in ended.out
    assert kinds(host) == []
    assert not list(Path(lab["alpha"].directory / "var/lib/libvirt/images").glob("osmef-*"))


def test_resources_past_their_deadline_are_reaped_at_the_uri_of_the_environment(
    osmef: Osmef, host: Hypervisor
) -> None:
    leave(host, made_s=-2 * HOUR, deadline_s=-HOUR)
    environment = ("env", f"LIBVIRT_DEFAULT_URI={host.uri}")
    ended = osmef("reap", "--provider", "libvirt", "--yes", prefix=environment)
    assert ended.code == 0, ended.err
    assert "its deadline has passed" in ended.out
    assert kinds(host) == []


def test_a_guest_that_was_migrated_is_taken_from_where_it_is(host: Hypervisor, lab: Lab) -> None:
    """Really migrated, from the one hypervisor to the other."""
    maker = Maker(Mark(RUN, 1, 2), MemoryLedger())
    beta = Hypervisor("beta", lab["beta"].uri)
    machine = xml.Domain(maker.mark.name("vm-3"), "x86_64", "tcg", 1, 1 << 25, None)
    uuid = start_domain(host, maker, machine, None)
    StoragePool.make(beta, maker, "/var/lib/libvirt/images")
    there = beta.do("connecting", lambda connection: connection)
    host.do(
        "migrating",
        lambda connection: connection.lookupByUUIDString(uuid).migrate3(
            there, {}, libvirt().VIR_MIGRATE_LIVE | libvirt().VIR_MIGRATE_UNSAFE
        ),
    )
    assert kinds(host) == []
    assert kinds(beta) == ["domain", "pool"]
    made = list(maker.made.values())
    gone: list[Resource] = []
    LibvirtProvider.destroy(made, gone.append)
    assert kinds(beta) == []
    assert set(made) <= set(gone)
    beta.close()


def test_the_cloud_option_is_rejected_for_libvirt(osmef: Osmef) -> None:
    ended = osmef("reap", "--provider", "libvirt", "--cloud", "lab")
    assert ended.code == 2
    assert "cure: leave it out, or use --uri" in ended.err


def test_a_machine_without_libvirt_is_not_said_to_have_nothing_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("osmef.providers.libvirt.provider._own_uri", lambda: None)
    monkeypatch.delenv("LIBVIRT_DEFAULT_URI", raising=False)
    with pytest.raises(InputError, match="this machine has no libvirt"):
        LibvirtProvider.owned({})
