"""Servers that nova gives up: the reason is told some moments after it has."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import pytest

from osmef.errors import BootError, ProviderError
from osmef.providers.cloud.account import CloudWaits, Tenant
from osmef.providers.openstack.access import open_cloud
from osmef.providers.openstack.lookup import FlavorInfo, ResolvedBootSource, ResolvedNames
from osmef.providers.openstack.network import TenantNet
from osmef.providers.openstack.placement import VmPlacement
from osmef.providers.openstack.resource_types import TYPES, Maker, Mark
from osmef.providers.openstack.servers import BootingServers, ServerSpec, make_servers
from osmef.providers.parallel import AT_ONCE
from osmef.remote.login import KeyPair
from osmef.scenario.clouds.openstack import OpenStackSettings
from tests.providers.conftest import MemoryLedger
from tests.providers.openstack.keystone import Answer, keystone, write_cloud
from tests.providers.openstack.lab import RUN, server

T = TypeVar("T")
NAME = f"osmef-{RUN}-1-a"
QUICK = CloudWaits(look_s=0.05)
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
    flavor, maker = (
        FlavorInfo("small", 1, 512, 1, "1"),
        Maker(Mark(RUN, 1, 2), MemoryLedger(), TYPES),
    )
    names = ResolvedNames(ResolvedBootSource("image", "i"), {}, None, None, (), (), ())
    with keystone(answers={"compute": nova}) as url:
        write_cloud(clouds, url, "p1")
        tenant = Tenant("tenant-1", 1, "one", open_cloud({"cloud": "lab"}, waits=QUICK))
        site, key = TenantNet(tenant, names, "net", None, None, "key"), KeyPair.generate("lab")
        context = ServerSpec(server(), NAME, site, key, None, flavor, VmPlacement())
        with pytest.raises(ProviderError, match=said) as caught:
            make_servers(maker, [context], settings, lambda _servers: None)
    assert caught.value.kind == kind


def neutron(_method: str, path: str) -> tuple[int, Any] | None:
    """Every server has a port with an address."""
    keys = re.findall(r"device_id=(s[0-9]+)", path)
    fixed = [{"ip_address": "10.0.0.9"}]
    usual = {"network_id": "net", "mac_address": "fa:16:3e:00:00:01", "fixed_ips": fixed}
    ports = [{"id": f"p-{key}", "device_id": key, **usual} for key in keys]
    return (200, {"ports": ports}) if keys else None


PAIRS = [(f"{end}{n}", f"group{n}") for end in ("sender", "receiver") for n in range(40)]
"""The names of servers, and their groups."""


def make(
    clouds: Path,
    nova: Answer,
    wanted: Sequence[tuple[str, str | None]],
    boot_timeout_s: float = 300,
) -> list[str]:
    """Make servers, and return the names of what was made, in that order."""
    usual = OpenStackSettings.model_validate({"boot": {"image": "i"}})
    settings = usual.model_copy(update={"boot_timeout": boot_timeout_s})
    flavor, maker = (
        FlavorInfo("small", 1, 512, 1, "1"),
        Maker(Mark(RUN, 1, 2), MemoryLedger(), TYPES),
    )
    names = ResolvedNames(ResolvedBootSource("image", "i"), {}, None, None, (), (), ())
    with keystone(answers={"compute": nova, "network": neutron}) as url:
        write_cloud(clouds, url, "p1")
        tenant = Tenant("tenant-1", 1, "one", open_cloud({"cloud": "lab"}, waits=QUICK))
        site, key = TenantNet(tenant, names, "net", None, None, "key"), KeyPair.generate("lab")
        orders = [
            ServerSpec(server(name), name, site, key, None, flavor, VmPlacement(group))
            for name, group in wanted
        ]
        made = make_servers(maker, orders, settings, lambda _servers: None)
    assert [one.spec.name for one in made] == [name for name, _ in wanted]
    return [resource.name for resource, _ in maker.made]


class Nova:
    """Servers run at the second look; ``together`` is how many were built, at each new one."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.ready: list[str] = []  # by the next look
        self.active: list[str] = []
        self.together: list[int] = []
        self._lock = threading.Lock()

    def __call__(self, method: str, path: str) -> tuple[int, Any] | None:
        if not path.startswith("servers"):
            return None
        with self._lock:
            if method == "POST":
                self.asked.append(f"s{len(self.asked)}")
                self.together.append(len(self.asked) - len(self.active))
                return 202, {"server": {"id": self.asked[-1]}}
            there = self.active
            if "status=BUILD" in path:
                there = [key for key in self.asked if key not in self.ready]
                self.active[:], self.ready[:] = self.ready, self.asked
            return 200, {"servers": [{"id": key} for key in there]}


def test_only_some_server_groups_are_started_before_others_are_complete(clouds: Path) -> None:
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

    names = make(clouds, nova, PAIRS)
    ahead = list(accumulate(1 if name.startswith("sender") else -1 for name in names))
    assert ahead[-1] == 0
    assert 1 < max(ahead) <= AT_ONCE


@pytest.mark.parametrize("wanted", [PAIRS, [(name, None) for name, _ in PAIRS]])
def test_only_some_servers_are_built_at_once(
    clouds: Path, wanted: Sequence[tuple[str, str | None]]
) -> None:
    """A cloud that builds a hundred at once takes longer for all than for one after the other."""
    nova = Nova()
    assert len(make(clouds, nova, wanted)) == 80
    assert 1 < max(nova.together) <= AT_ONCE


class Passing(threading.Condition):
    """Time passes at once: at each waiting the next of ``steps`` happens, and it was too long."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        super().__init__()
        self._steps = iter(steps)

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:  # noqa: ARG002
        next(self._steps)()
        return predicate()


def boot_of(*names: str) -> BootingServers:
    """Return the state in which as many servers are built as may be, these among them."""
    site: Any = None
    flavor, key = FlavorInfo("small", 1, 512, 1, "1"), KeyPair.generate("lab")
    orders = [ServerSpec(server(n), n, site, key, None, flavor, VmPlacement()) for n in names]
    return BootingServers(
        RUN, [], 60, lambda _servers: None, dict(zip(names, orders, strict=True)), building=AT_ONCE
    )


def test_a_server_waits_for_longer_than_a_boot_may_take_while_others_come_to_run() -> None:
    boot = boot_of("a", "b", "c")
    boot.changed = Passing(
        *(partial(boot.running.add, name) for name in ("a", "b")),
        partial(setattr, boot, "building", AT_ONCE - 1),
    )
    assert boot.await_slot(leads=True)
    assert boot.building == AT_ONCE


def test_a_server_waits_no_longer_when_none_comes_to_run() -> None:
    boot = boot_of("a", "b")
    boot.changed = Passing(partial(boot.running.add, "a"), dict, dict)
    with pytest.raises(BootError, match="still BUILD") as caught:
        boot.await_slot(leads=True)
    assert caught.value.where == "b"


def test_servers_that_are_built_for_ever_end_the_waiting_of_the_others(clouds: Path) -> None:
    asked: list[str] = []

    def nova(method: str, path: str) -> tuple[int, Any] | None:
        if method == "POST":
            asked.append(f"s{len(asked)}")
            return 202, {"server": {"id": asked[-1]}}
        there = [{"id": key} for key in asked] if "status=BUILD" in path else []
        return (200, {"servers": there}) if path.startswith("servers") else None

    with pytest.raises(BootError, match="still BUILD"):
        make(clouds, nova, [(name, None) for name, _ in PAIRS], boot_timeout_s=0.3)
    assert len(asked) == AT_ONCE
