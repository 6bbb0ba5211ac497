from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from osmef.errors import (
    CapacityError,
    CredentialsError,
    HostKeyError,
    InputError,
    Interrupted,
    NotFoundError,
    Problem,
    ProviderError,
    ReachError,
)
from osmef.providers import provider_class, provider_for
from osmef.providers.base import EndpointRequest, Resource, RunContext
from osmef.providers.static import lock
from osmef.providers.static.machine import access_of, holder_of
from osmef.providers.static.provider import StaticProvider
from osmef.remote.login import KeyPair
from osmef.remote.session import SshSession
from osmef.remote.workdir import directory_of
from osmef.scenario.clouds.static import StaticSettings
from osmef.scenario.fields import EndpointKind, Family, ProviderNetwork
from osmef.scenario.location import Location
from osmef.scenario.model import Scenario
from osmef.scenario.study import Cell
from tests.unique import unique

KEY = KeyPair.generate("unused")
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make two machines of this one")


@dataclass
class Notes:
    """A ledger in memory."""

    events: list[tuple[str, Resource]] = field(default_factory=list)

    def intend(self, resource: Resource) -> None:
        self.events.append(("intend", resource))

    def created(self, resource: Resource) -> None:
        self.events.append(("created", resource))

    def destroyed(self, resource: Resource) -> None:
        self.events.append(("destroyed", resource))


def settings(**machines: Any) -> StaticSettings:
    return StaticSettings.model_validate({"hosts": {n: m.entry for n, m in machines.items()}})


def host(number: int) -> EndpointRequest:
    return EndpointRequest(
        f"host-{number}", "sender", EndpointKind.HOST, None, f"host-{number}", None
    )


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    run = f"static-{unique()}-{tmp_path.name.replace('_', '-')}"
    return RunContext(run, [host(1)], KEY, Notes(), time.time() + 600)


def events(context: RunContext) -> list[tuple[str, str]]:
    assert isinstance(context.ledger, Notes)
    return [(event, resource.name) for event, resource in context.ledger.events]


def held(machine: Any) -> lock.LockOwner | None:
    session = SshSession.open(machine.sshd.login())
    try:
        return lock.holder(session)
    finally:
        session.close()


def test_a_machine_is_locked_described_and_given_back(machines: Any, context: RunContext) -> None:
    machine = machines("a")
    provider = provider_for(settings(a=machine))
    provider.check(context.requests)
    try:
        (endpoint,) = provider.create(context)
        assert endpoint.data_address == "127.0.0.1"  # where SSH arrives
        assert endpoint.vcpus == len(os.sched_getaffinity(0))
        assert provider.describe([endpoint]) == [Location(host="a")]
        assert held(machine) == holder_of(host(1), context)
        session = SshSession.open(replace(endpoint.login, kept=None))
        directory = directory_of(context.run, endpoint.name)
        session.put(b"x", f"{directory}/osmef-agent", 0o700)
        provider.close()
        assert session.run(["test", "-e", directory]).status == 1
        session.close()
        assert held(machine) is None
    finally:
        provider.close()
    name = f"osmef-{context.run}-host-1"
    assert events(context) == [("intend", name), ("created", name), ("destroyed", name)]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("directory", "osmef-a-run-../x"),
        ("scratch", "relative/.osmef-a-run+host-1+*"),
        ("scratch", "/disk/.osmef-a-run+*"),
        ("scratch", "/disk/.osmef-a-run+host-1+"),
        ("scratch", "/disk/.osmef-another+host-1+*"),
        ("scratch", "/disk/.osmef-a-run+host/../x+*"),
        ("scratch", "/disk/*"),
    ],
)
def test_resources_that_no_run_creates_are_not_removed(kind: str, name: str) -> None:
    resource = Resource("static", kind, name, "a-run", access={"host": "a", "ssh": "nowhere"})
    with pytest.raises(ProviderError, match="no run has made this"):
        StaticProvider.destroy([resource], lambda _: None)


@pytest.mark.parametrize(
    "command", ["echo only backups", "echo Welcome; eval $SSH_ORIGINAL_COMMAND", "internal-sftp"]
)
def test_a_machine_whose_commands_print_extra_output_is_rejected(
    machines: Any, context: RunContext, command: str
) -> None:
    machine = machines("a")
    keys = machine.sshd.directory / "authorized_keys"
    keys.write_text(f'command="{command}" {keys.read_text()}')
    provider = StaticProvider(settings(a=machine))
    try:
        with pytest.raises(ReachError, match="print more than they should") as caught:
            provider.create(context)
    finally:
        provider.close()
    assert "bashrc" in str(caught.value.cure)
    assert events(context) == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("exit 3", "exit status 3"),
        ("cat", "exit status 0"),
        ("echo no such account >&2; false", "exit status 1: no such account"),
    ],
)
def test_a_machine_that_runs_no_programs_is_rejected(
    machines: Any, context: RunContext, command: str, said: str
) -> None:
    """Its address is unknown, too, but to write that into the inventory would not help."""
    machine = machines("a")
    keys = machine.sshd.directory / "authorized_keys"
    keys.write_text(f'command="{command}" {keys.read_text()}')
    provider = StaticProvider(settings(a=machine))
    try:
        with pytest.raises(ReachError, match=f"printenv printed nothing there: {said}") as caught:
            provider.create(context)
    finally:
        provider.close()
    assert "bashrc" in str(caught.value.cure)
    assert events(context) == []


def test_nothing_secret_is_noted(machines: Any, context: RunContext) -> None:
    machine = machines("a")
    provider = StaticProvider(settings(a=machine))
    try:
        provider.create(context)
    finally:
        provider.close()
    assert isinstance(context.ledger, Notes)
    (access,) = {tuple(resource.access.items()) for _, resource in context.ledger.events}
    assert dict(access) == {"host": "a", **machine.entry}


@root
def test_two_machines_are_two_hosts(machines: Any, context: RunContext) -> None:
    provider = StaticProvider(settings(a=machines("a"), b=machines("b")))
    lines: list[str] = []
    context = replace(context, requests=[host(1), host(2)], progress=lines.append)
    try:
        endpoints = provider.create(context)
        assert [one.name for one in endpoints] == ["host-1", "host-2"]
        assert [place.host for place in provider.describe(endpoints)] == ["a", "b"]
    finally:
        provider.close()
    assert lines == ["logging in to 2 static hosts"]
    assert len(events(context)) == 6


def test_one_machine_under_two_names_is_refused(machines: Any, context: RunContext) -> None:
    machine = machines("a")
    provider = StaticProvider(settings(a=machine, b=machine))
    try:
        with pytest.raises(CapacityError, match=r"the same machine as [ab]\n"):
            provider.create(replace(context, requests=[host(1), host(2)]))
    finally:
        provider.close()
    assert held(machine) is None


def test_a_machine_that_another_run_measures_on_is_left_alone(
    machines: Any, context: RunContext
) -> None:
    machine = machines("a")
    first, second = (StaticProvider(settings(a=machine)) for _ in range(2))
    try:
        first.create(context)
        with pytest.raises(CapacityError, match=f"the run {context.run} measures") as caught:
            second.create(replace(context, run="other", ledger=Notes()))
        assert "osmef reap" in str(caught.value.cure)
        second.close()
        assert held(machine) == holder_of(host(1), context)
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize(
    ("run", "lasts_s", "taken"),
    [
        ("dead", (0, -60), True),
        ("dead", (600, 60), False),
        ("set", (600, -3600), False),  # this clock was set forward: by the machine's it is new
        ("set", (600, 3600), False),
        (None, (600, 60), True),
    ],
)
def test_a_lock_past_its_deadline_or_of_the_run_itself_is_taken_over(
    machines: Any, context: RunContext, run: str | None, lasts_s: tuple[int, int], taken: bool
) -> None:
    length_s, left_s = lasts_s
    machine = machines("a")
    session = SshSession.open(machine.sshd.login())
    deadline = int(time.time() + left_s)
    old = lock.LockOwner(run or context.run, "host-1", deadline - length_s, deadline)
    lock.acquire(session, old)
    provider = StaticProvider(settings(a=machine))
    try:
        if taken:
            provider.create(context)
            assert held(machine) == holder_of(host(1), context)
        else:
            with pytest.raises(CapacityError):
                provider.create(context)
            assert held(machine) == old
    finally:
        provider.close()
        lock.release(session, old.run, old.endpoint)
        session.close()


@pytest.mark.parametrize(("length_s", "is_over"), [(0, True), (600, False)])
def test_a_lock_that_a_clock_made_late_is_not_reaped(
    machines: Any, length_s: int, is_over: bool
) -> None:
    machine = machines("a")
    session = SshSession.open(machine.sshd.login())
    past = int(time.time()) - 3600
    lock.acquire(session, lock.LockOwner("set", "host-1", past - length_s, past))
    try:
        access = access_of("a", settings(a=machine).hosts["a"])
        *_, found = StaticProvider.owned(access)
        assert ((found.deadline or 0) < time.time()) == is_over
    finally:
        lock.release(session, "set", "host-1")
        session.close()


def test_the_second_to_replace_a_stale_lock_keeps_the_new_one(
    machines: Any, context: RunContext
) -> None:
    session = SshSession.open(machines("a").sshd.login())
    stale = lock.LockOwner("dead", "host-1", 1, 1)
    first = lock.LockOwner("first", "host-1", 1, int(context.deadline))
    try:
        lock.acquire(session, stale)
        lock.acquire(session, first)
        lock.remove(session, stale)  # as read before the first took it over
        assert lock.holder(session) == first
        lock.remove(session, first)
        assert lock.holder(session) is None
        lock.remove(session, first)  # gone already is success
        path = Path(lock.PATH)
        found = session.run(["find", str(path.parent), "-maxdepth", "1", "-name", f"{path.name}*"])
        assert (found.status, found.stdout) == (0, b"")
    finally:
        session.remove(lock.PATH)
        session.close()


class Meddled(SshSession):
    """A session beside which another run takes the machine whenever its lock is away."""

    other: lock.LockOwner

    def rename(self, path: str, new: str) -> bool:
        moved = super().rename(path, new)
        self.link(str(self.other), path)
        return moved


def test_a_run_that_loses_its_machine_to_another_is_notified(
    machines: Any, context: RunContext
) -> None:
    machine = machines("a")
    stale = lock.LockOwner("dead", "host-1", 1, 1)
    provider = StaticProvider(settings(a=machine))
    session = Meddled.open(machine.sshd.login())
    assert isinstance(session, Meddled)
    session.other = lock.LockOwner("third", "host-1", 1, int(context.deadline))
    try:
        (endpoint,) = provider.create(context)
        assert provider.describe([endpoint])
        lock.remove(session, stale)  # as read before the run took it over
        assert lock.holder(session) == session.other
        with pytest.raises(CapacityError, match="the run third holds it") as caught:
            provider.describe([endpoint])
        assert caught.value.cure
        provider.close()
        assert lock.holder(session) == session.other
    finally:
        provider.close()
        session.remove(lock.PATH)
        session.close()


def test_a_lock_that_the_machine_has_lost_is_recreated(machines: Any, context: RunContext) -> None:
    machine = machines("a")
    provider = StaticProvider(settings(a=machine))
    session = SshSession.open(machine.sshd.login())
    try:
        (endpoint,) = provider.create(context)
        session.remove(lock.PATH)  # as a boot does, and logind
        assert provider.describe([endpoint]) == [Location(host="a")]
        assert held(machine) == holder_of(host(1), context)
    finally:
        provider.close()
        session.close()
    assert held(machine) is None


def test_the_ssh_login_stays_open_while_a_machine_is_locked(
    machines: Any, context: RunContext
) -> None:
    machine = machines("a")
    provider = StaticProvider(settings(a=machine))
    try:
        provider.create(context)
        (server,) = machine.sshd.servers
        with pytest.raises(subprocess.TimeoutExpired):
            server.wait(timeout=0.5)
    finally:
        provider.close()
    server.wait(timeout=30)


@pytest.mark.parametrize(
    "allow_foreign",
    [
        "somewhere",
        "osmef/run/host-1/1/\N{SUPERSCRIPT TWO}",
        f"osmef/run/host-1/1/{10**20}",
        "osmef/../a/b/1",
    ],
)
def test_a_foreign_lock_is_not_removed(
    machines: Any, context: RunContext, allow_foreign: str
) -> None:
    machine = machines("a")
    session = SshSession.open(machine.sshd.login())
    session.link(allow_foreign, lock.PATH)
    provider = StaticProvider(settings(a=machine))
    try:
        with pytest.raises(ReachError, match="none of ours: "):
            provider.create(context)
        with pytest.raises(ReachError):
            provider.close()
        assert session.read_link(lock.PATH) == allow_foreign
    finally:
        session.remove(lock.PATH)
        session.close()
        provider.close()


def test_a_resumed_run_gets_the_same_machines(machines: Any, context: RunContext) -> None:
    rack = {"kind": "vm", "location": {"host": "rack", "tenant": "blue"}}
    large, plain = machines("large"), machines("plain")
    large.entry.update(rack, flavor="large")
    plain.entry.update(rack)
    some = EndpointRequest("any", "sender", EndpointKind.VM, None, "host-1", "tenant-1")
    other = replace(some, name="other", flavor="large")
    provider = StaticProvider(settings(large=large, plain=plain))
    assert provider.machines([some]) == {"any": "large"}
    try:
        (endpoint,) = provider.create(replace(context, requests=[some], planned=[some, other]))
        assert endpoint.resource_id == "plain"
    finally:
        provider.close()


@root
def test_a_failure_on_one_machine_leaves_nothing_on_the_others(
    machines: Any, context: RunContext
) -> None:
    good, bad = machines("a"), machines("b")
    (bad.sshd.directory / "known_hosts").write_text("")
    provider = StaticProvider(settings(a=good, b=bad))
    try:
        with pytest.raises(HostKeyError, match="no key of it is known"):
            provider.create(replace(context, requests=[host(1), host(2)]))
    finally:
        provider.close()
    assert held(good) is None
    noted = [event for event, _ in events(context)]
    assert noted.count("intend") == noted.count("destroyed")


def test_a_request_to_stop_ends_the_making(machines: Any, context: RunContext) -> None:
    machine = machines("a")
    provider = StaticProvider(settings(a=machine))

    def stop() -> None:
        raise Interrupted("stopped")

    try:
        with pytest.raises(Interrupted):
            provider.create(replace(context, check=stop))
    finally:
        provider.close()
    assert held(machine) is None


def test_resources_of_a_dead_controller_are_destroyed_by_its_journal(
    machines: Any, context: RunContext
) -> None:
    machine = machines("a")
    dead = StaticProvider(settings(a=machine))
    dead.create(context)
    assert isinstance(context.ledger, Notes)
    resource = context.ledger.events[0][1]  # as it was intended
    kind = provider_class("static")
    assert [one.run for one in kind.owned(resource.access)] == [context.run]
    assert kind.owned(resource.access, "other") == []
    ways = {key: value for key, value in resource.access.items() if key not in {"host", "ssh"}}
    (named,) = kind.owned({"uri": resource.access["ssh"], **ways})
    assert (named.made, named.deadline) == (int(context.made), int(context.deadline))
    with pytest.raises(InputError, match="no machine is named"):
        kind.owned({})
    gone: list[Resource] = []
    kind.destroy([resource], gone.append)
    assert gone == [resource]
    assert held(machine) is None
    kind.destroy([resource], gone.append)  # gone already is success
    assert len(gone) == 2


def test_an_unreachable_machine_does_not_block_cleaning_others(
    machines: Any, context: RunContext
) -> None:
    machine = machines("a")
    provider = StaticProvider(settings(a=machine))
    provider.create(context)
    assert isinstance(context.ledger, Notes)
    (resource,) = {one.name: one for _, one in context.ledger.events}.values()
    nowhere = replace(resource, access={**resource.access, "ssh": "me@255.255.255.255"})
    gone: list[Resource] = []
    with pytest.raises(ReachError, match="no route"):
        StaticProvider.destroy([nowhere, resource], gone.append)
    assert gone == [resource]
    assert held(machine) is None


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"data_address": "192.0.2.7"}, "192.0.2.7"),
        ({"data_address6": "2001:DB8::7"}, "2001:db8::7"),
        ({"interface": "no-such-nic"}, "no-such-nic has no address"),
    ],
)
def test_the_address_to_measure_at_can_be_named(
    machines: Any, context: RunContext, more: dict[str, str], expected: str
) -> None:
    machine = machines("a")
    machine.entry.update(more)
    provider = StaticProvider(settings(a=machine))
    try:
        if "interface" in more:
            with pytest.raises(NotFoundError, match=expected):
                provider.create(context)
        else:
            assert provider.create(context)[0].data_address == expected
    finally:
        provider.close()


def test_behind_nat_it_listens_at_an_address_of_its_own(machines: Any, context: RunContext) -> None:
    machine = machines("a")
    machine.entry.update(data_address="192.0.2.7", listen_address="10.0.0.7", data_address6="::7")
    provider = StaticProvider(settings(a=machine))
    try:
        (there,) = provider.create(context)
        path = (there, there, ProviderNetwork.BARE)
        v4, v6 = Family.IPV4, Family.IPV6
        assert provider.data_address(*path, v4) == "192.0.2.7"
        assert provider.listen_address(*path, v4) == "10.0.0.7"
        assert provider.data_address(*path, v6) == provider.listen_address(*path, v6) == "::7"
    finally:
        provider.close()


def test_a_missing_address_is_reported_with_the_key_of_its_family(
    machines: Any, context: RunContext
) -> None:
    provider = StaticProvider(settings(a=machines("a")))
    try:
        (there,) = provider.create(context)
        with pytest.raises(ProviderError, match="no address of ipv6") as refused:
            provider.data_address(there, there, ProviderNetwork.BARE, Family.IPV6)
    finally:
        provider.close()
    assert refused.value.cure == "write its data_address6 or interface into the inventory"


def test_an_interface_without_an_address_of_the_family_is_not_to_be_named_again(
    machines: Any, context: RunContext
) -> None:
    machine = machines("a")
    provider = StaticProvider(settings(a=machine))
    try:
        (there,) = provider.create(context)
        machine.entry["interface"] = "eth1"
        named = StaticProvider(settings(a=machine))
        with pytest.raises(ProviderError, match="no address of ipv6") as refused:
            named.data_address(there, there, ProviderNetwork.BARE, Family.IPV6)
    finally:
        provider.close()
    assert "give its eth1 one" in str(refused.value.cure)


def test_a_check_makes_no_connection_and_reports_what_is_missing(
    machines: Any, context: RunContext
) -> None:
    machine = machines("a")
    provider = StaticProvider(settings(a=machine))
    provider.check(context.requests)
    assert machine.sshd.servers == []
    with pytest.raises(CapacityError, match="2 physical hosts are needed"):
        provider.check([host(1), host(2)])
    (machine.sshd.directory / "known_hosts").unlink()
    (machine.sshd.directory / "known_hosts").mkdir()
    with pytest.raises(CredentialsError, match="known_hosts"):
        provider.check(context.requests)


def problem(key: str, message: str, cure: str) -> Problem:
    return Problem(key, 1, 1, message, cure)


def cell(hosts: dict[str, Any], **values: Any) -> tuple[StaticProvider, Cell]:
    written = {name: {"ssh": "x", **entry} for name, entry in hosts.items()}
    scenario = Scenario.model_validate(
        {"name": "x", "provider": {"kind": "static", "hosts": written}, **values}
    )
    assert isinstance(scenario.provider, StaticSettings)
    return StaticProvider(scenario.provider), Cell("x", (), scenario, problem)


HOST = {"kind": "host"}
IRON: dict[str, Any] = {"endpoints": {"sender": HOST, "receiver": HOST}}
VMS: dict[str, Any] = {
    name: {"kind": "vm", "location": {"host": place, "tenant": "t"}}
    for name, place in (("a", "x"), ("b", "y"))
}
HOMELESS: dict[str, Any] = {"kind": "vm", "location": {"tenant": "t"}}
OWNERLESS: dict[str, Any] = {n: {"kind": "vm", "location": {"host": n}} for n in "ab"}
UNKNOWN: dict[str, Any] = {"a": {"kind": "vm"}}


@pytest.mark.parametrize(
    ("hosts", "values", "said"),
    [
        ({"a": {}, "b": {}}, IRON, []),
        (VMS, {}, []),
        ({"a": {}}, IRON, ["2 physical hosts are needed"]),
        ({"a": {}, "b": {}}, {}, ["2 VMs are needed"]),
        (VMS, {"placement": "same-host"}, ["no hosts of the inventory fit"]),
        (VMS, {"tenancy": "different-tenant"}, ["no hosts of the inventory fit"]),
        ({"a": {}, "b": {}}, {**IRON, "layer": "overlay"}, ["no overlay"]),
        ({"a": {}}, {"endpoints": {"loopback": HOST}}, []),
        ({"a": {}, "b": {}, "c": {}}, {"endpoints": {"node": {**HOST, "count": 3}}}, []),
        (
            {"a": {}, "b": {}},
            {"endpoints": {"node": {**HOST, "count": 3}}},
            ["3 physical hosts are needed"],
        ),
        (VMS, {"endpoints": {"node": {"count": 2}}}, []),
        (VMS, {"endpoints": {"node": {"count": 3}}}, ["3 VMs are needed"]),
        (
            VMS,
            {"endpoints": {"node": {"count": 2}}, "placement": "same-host"},
            ["no hosts of the inventory fit"],
        ),
        (
            {"a": HOMELESS, "b": VMS["b"]},
            {},
            ["the inventory does not say on which host it runs: a"],
        ),
        ({"a": HOMELESS, "b": VMS["b"]}, {"on_mismatch": "record"}, []),
        ({"a": HOMELESS, "b": VMS["b"]}, {"placement": "any"}, []),
        (OWNERLESS, {}, ["the inventory does not say of which tenant it is: a, b"]),
        (OWNERLESS, {"placement": "any"}, ["of which tenant it is: a, b"]),
        (OWNERLESS, {"on_mismatch": "record"}, []),
        ({"a": OWNERLESS["a"], "c": {}}, {"endpoints": {"sender": HOST, "receiver": {}}}, []),
        (UNKNOWN, {"endpoints": {"loopback": {}}}, []),
        ({"a": {}, "b": {}}, {**IRON, "placement": "any"}, []),
        (
            {"a": {"data_address": "192.0.2.1"}, "b": {}},
            {**IRON, "family": "ipv6"},
            ["a has no address of ipv6"],
        ),
        ({"a": {"data_address6": "2001:db8::1"}, "b": {}}, IRON, ["a has no address of ipv4"]),
        (
            {"a": {"ssh": "me@10.0.0.7:2222"}, "b": {"ssh": "10.0.0.8", "interface": "eth1"}},
            {**IRON, "family": "ipv6"},
            ["SSH arrives at no address of ipv6 of a: me@10.0.0.7:2222"],
        ),
        ({"a": {"ssh": "me@[fd00::7]"}, "b": {}}, IRON, ["no address of ipv4 of a"]),
        ({"a": {"ssh": "me@[fd00::7]"}, "b": {}}, {**IRON, "family": "ipv6"}, []),
        ({"a": {"ssh": "[::ffff:10.0.0.7]"}, "b": {}}, IRON, []),
        (
            {"a": {"ssh": "10.0.0.7", "data_address6": "fd00::7"}, "b": {}},
            {**IRON, "family": "ipv6"},
            [],
        ),
        ({"a": {"ssh": "10.0.0.7"}}, {"endpoints": {"loopback": HOST}, "family": "ipv6"}, []),
    ],
)
def test_an_inventory_that_does_not_suffice_is_a_scenario_problem(
    hosts: dict[str, Any], values: dict[str, Any], said: list[str]
) -> None:
    provider, one = cell(hosts, **values)
    found = provider.problems(one)
    assert len(found) == len(said)
    for (_key, message, cure), words in zip(found, said, strict=True):
        assert words in message
        assert cure


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("Host 10.0.0.7\n  HostName fd00::7\n", []),
        ("Host other\n  HostName fd00::7\n", ["SSH arrives at no address of ipv6 of a: 10.0.0.7"]),
        ("Host 10.*\n  ProxyCommand nc6 fd00::7 22\n", []),
        ("Host 10.*\n  Port x\n  HostName 10.0.0.9\n", ["of ipv6 of a: 10.0.0.7"]),
        ("Match magic\n", []),
    ],
)
def test_the_family_of_an_address_is_that_of_the_ssh_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, said: list[str]
) -> None:
    file = tmp_path / "config"
    file.write_text(config)
    monkeypatch.setattr("osmef.remote.ssh_config.CONFIG_FILES", (file,))
    provider, one = cell({"a": {"ssh": "10.0.0.7"}, "b": {}}, **IRON, family="ipv6")
    found = [message for _key, message, _cure in provider.problems(one)]
    assert len(found) == len(said)
    assert all(words in message for message, words in zip(found, said, strict=True))


class Counted(tuple[Path, ...]):
    """Counts how often files are gone through."""

    times = 0

    def __iter__(self) -> Iterator[Path]:
        Counted.times += 1
        return super().__iter__()


def test_the_ssh_configuration_is_read_once_for_all_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a large site has thousands of lines, and a sweep as many cells."""
    file = tmp_path / "config"
    file.write_text("Host a\n  HostName fd00::7\n")
    monkeypatch.setattr("osmef.remote.ssh_config.CONFIG_FILES", Counted([file]))
    provider, one = cell({"a": {"ssh": "a"}, "b": {"ssh": "10.0.0.7"}}, **IRON, family="ipv6")
    found = [provider.problems(one) for _ in range(5)]
    assert [len(problems) for problems in found] == [1] * 5
    assert Counted.times == 2, "once for each machine"


def test_a_placement_taken_from_the_inventory_is_warned_of() -> None:
    provider, one = cell(VMS)
    assert "inventory says" in provider.warnings(one)[0]
    provider, one = cell({"a": {}, "b": {}}, **IRON)
    assert provider.warnings(one) == []
