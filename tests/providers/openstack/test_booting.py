"""Servers that nova gives up: the reason is told some moments after it has."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from osmef.errors import ProviderError
from osmef.providers.openstack import booting
from osmef.providers.openstack.access import open_cloud
from osmef.providers.openstack.booting import make_servers
from osmef.providers.openstack.making import Maker
from osmef.providers.openstack.marks import Mark
from osmef.providers.openstack.names import FlavorInfo, Names, Source
from osmef.providers.openstack.placing import Place
from osmef.providers.openstack.servers import ServerOrder
from osmef.providers.openstack.tenants import Site, Tenant
from osmef.providers.parallel import AT_ONCE
from osmef.remote.keys import KeyPair
from osmef.scenario.clouds.openstack import OpenStackSettings
from tests.providers.conftest import MemoryLedger
from tests.providers.openstack.keystone import Answer, keystone, write_cloud
from tests.providers.openstack.lab import RUN, server

NAME = f"osmef-{RUN}-1-a"
ERROR: dict[str, Any] = {"id": "s1", "name": NAME, "status": "ERROR"}
TOLD = {**ERROR, "fault": {"code": 500, "message": "No valid host was found."}}


@pytest.mark.parametrize(
    ("looks", "kind", "said"),
    [
        ([[ERROR], [TOLD]], "capacity", "No valid host"),
        ([[ERROR], [ERROR], [TOLD]], "capacity", "No valid host"),
        ([[], [TOLD]], "capacity", "No valid host"),
        ([[ERROR]], "boot", "its status is ERROR"),
        ([[]], "boot", "deleted by somebody"),
    ],
    ids=["not in the list", "told late", "listed late", "never told", "never listed"],
)
def test_the_reason_of_an_error_is_waited_for(
    clouds: Path, looks: Sequence[list[dict[str, Any]]], kind: str, said: str
) -> None:
    left = list(looks)

    def nova(method: str, path: str) -> tuple[int, Any] | None:
        path = path.partition("?")[0]
        if path == "servers/detail":
            return 200, {"servers": left.pop(0) if len(left) > 1 else left[0]}
        if path == "servers/s1":
            found = left.pop(0) if len(left) > 1 else left[0]
            return (200, {"server": found[0]}) if found else (404, {"itemNotFound": {}})
        if path == "servers":
            return (202, {"server": {"id": "s1"}}) if method == "POST" else (200, {"servers": []})
        return None

    settings = OpenStackSettings.model_validate({"boot": {"image": "i"}})
    flavor, maker = FlavorInfo("1", "small", 1, 512, 1), Maker(Mark(RUN, 1, 2), MemoryLedger())
    names = Names(Source("image", "i"), {}, None, None, (), (), ())
    with keystone(answers={"compute": nova}) as url:
        write_cloud(clouds, url, "p1")
        tenant = Tenant("tenant-1", 1, "one", open_cloud({"cloud": "lab"}))
        site, key = Site(tenant, names, "net", None, None, "key"), KeyPair.generate("lab")
        order = ServerOrder(server(), NAME, site, flavor, Place(), key, None)
        with pytest.raises(ProviderError, match=said) as caught:
            make_servers(maker, [order], settings, lambda _servers: None)
    assert caught.value.kind == kind


def neutron(_method: str, path: str) -> tuple[int, Any] | None:
    """Every server has a port with an address."""
    keys = re.findall(r"device_id=(s[0-9]+)", path)
    fixed = [{"ip_address": "10.0.0.9"}]
    ports = [{"id": f"p-{key}", "device_id": key, "fixed_ips": fixed} for key in keys]
    return (200, {"ports": ports}) if keys else None


def make_pairs(clouds: Path, nova: Answer, group: str | None) -> list[str]:
    """Make the servers of 40 pairs, and return the names of what was made, in that order."""
    settings = OpenStackSettings.model_validate({"boot": {"image": "i"}})
    flavor, maker = FlavorInfo("1", "small", 1, 512, 1), Maker(Mark(RUN, 1, 2), MemoryLedger())
    names = Names(Source("image", "i"), {}, None, None, (), (), ())
    with keystone(answers={"compute": nova, "network": neutron}) as url:
        write_cloud(clouds, url, "p1")
        tenant = Tenant("tenant-1", 1, "one", open_cloud({"cloud": "lab"}))
        site, key = Site(tenant, names, "net", None, None, "key"), KeyPair.generate("lab")
        orders = [
            ServerOrder(
                server(f"{end}-{n}"),
                f"{end}{n}",
                site,
                flavor,
                Place(group and f"{group}{n}"),
                key,
                None,
            )
            for end in ("sender", "receiver")
            for n in range(40)
        ]
        made = make_servers(maker, orders, settings, lambda _servers: None)
    assert [one.order.name for one in made] == [one.name for one in orders]
    return [resource.name for resource, _ in maker.made]


def test_of_many_groups_only_some_are_begun_before_others_are_whole(clouds: Path) -> None:
    """Else the first servers of all groups take the room that the others need on their hosts."""
    asked: list[str] = []
    lock = threading.Lock()

    def nova(method: str, path: str) -> tuple[int, Any] | None:
        if method == "POST":
            with lock:
                asked.append(f"s{len(asked)}")
                return 202, {"server": {"id": asked[-1]}}
        if not path.startswith("servers"):
            return None
        there = [] if "status=BUILD" in path else [{"id": key} for key in asked]
        return 200, {"servers": there}

    names = make_pairs(clouds, nova, "group")
    ahead = list(accumulate(1 if name.startswith("sender") else -1 for name in names))
    assert ahead[-1] == 0
    assert 1 < max(ahead) <= AT_ONCE


@pytest.mark.parametrize("group", [None, "group"])
def test_only_some_servers_are_built_at_once(
    clouds: Path, group: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cloud that builds a hundred at once takes longer for all than for one after the other."""
    monkeypatch.setattr(booting, "pause_for", lambda _servers, _unchanged_s: 0.05)
    asked: list[str] = []
    ready: list[str] = []  # by the next look
    active: list[str] = []
    together: list[int] = []
    lock = threading.Lock()

    def nova(method: str, path: str) -> tuple[int, Any] | None:
        if not path.startswith("servers"):
            return None
        with lock:
            if method == "POST":
                asked.append(f"s{len(asked)}")
                together.append(len(asked) - len(active))
                return 202, {"server": {"id": asked[-1]}}
            there = active
            if "status=BUILD" in path:
                there = [key for key in asked if key not in ready]
                active[:], ready[:] = ready, asked
            return 200, {"servers": [{"id": key} for key in there]}

    assert len(make_pairs(clouds, nova, group)) == 80
    assert 1 < max(together) <= AT_ONCE
