"""All that a run does on a host, in small: python -m tests.libvirt.member URI. Tells JSON.

It is what a user needs rights for: to look, to make things of each kind, use and destroy them.
"""

from __future__ import annotations

import json
import sys
import time

from osmef.errors import OsmefError
from osmef.providers.libvirt import xml
from osmef.providers.libvirt.connection import Hypervisor, Maker, Mark
from osmef.providers.libvirt.guest import is_running, start_domain
from osmef.providers.libvirt.networks import make_filters, make_networks
from osmef.providers.libvirt.provider import LibvirtProvider
from osmef.providers.libvirt.provision import capabilities_of, ram_bytes_of
from osmef.providers.libvirt.storage import StoragePool
from tests.libvirt.lab import TIMEOUT_S
from tests.providers.conftest import MemoryLedger

FOREIGN = {
    "network": ("networkCreateXML", "<network><name>theirs</name></network>"),
    "filter": ("nwfilterDefineXML", "<filter name='theirs'/>"),
    "pool": (
        "storagePoolDefineXML",
        "<pool type='dir'><name>theirs</name><target><path>/tmp</path></target></pool>",
    ),
    "domain": (
        "createXML",
        "<domain type='qemu'><name>x</name><memory>9</memory><os><type>hvm</type></os></domain>",
    ),
}


def connected(uri: str) -> Hypervisor:
    """Return the host, as soon as its libvirtd and polkit are there."""
    end = time.monotonic() + TIMEOUT_S
    while True:
        host = Hypervisor("here", uri)
        try:
            capabilities_of(host)
        except OsmefError:
            if time.monotonic() > end:
                raise
        else:
            return host


def work(host: Hypervisor) -> list[str]:
    """Make and use a thing of each kind, and destroy all; return the kinds that were there."""
    maker = Maker(Mark("member-20260101T000000Z-ab12", 1, 4_000_000_000), MemoryLedger())
    ram_bytes_of(host)
    make_networks(host, maker, ["tenant-1", "tenant-2"])
    make_filters([host], maker, ["192.0.2.1"], ["192.0.2.2"])
    store = StoragePool.make(host, maker, "/var/lib/libvirt/images")
    store.check_room(1 << 16)
    store.overlay("a.qcow2", 1 << 20, store.put("a.seed", bytes(1 << 16)), "raw")
    store.read("a.seed", 1 << 16)
    machine = xml.Domain(maker.mark.name("a"), "x86_64", "tcg", 1, 1 << 25, None)
    start_domain(host, maker, machine, None)
    is_running(host, machine.name)
    ours = LibvirtProvider.owned({"uri": host.uri})
    LibvirtProvider.destroy(ours, lambda _resource: None)
    return sorted(
        {one.kind for one in ours} - {one.kind for one in LibvirtProvider.owned({"uri": host.uri})}
    )


def refused(host: Hypervisor, kind: str) -> str:
    """Try to make what is not named like ours; return the kind of error."""
    call, description = FOREIGN[kind]
    try:
        host.do("making", lambda connection: getattr(connection, call)(description))
    except OsmefError as error:
        return error.kind
    return "nothing"


if __name__ == "__main__":
    there = connected(sys.argv[1])
    told = {"ours": work(there), "foreign": {kind: refused(there, kind) for kind in FOREIGN}}
    print(json.dumps(told))  # noqa: T201 - for the test
