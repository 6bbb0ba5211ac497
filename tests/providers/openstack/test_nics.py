"""Further network cards: a port each on networks of the run, whose frames nobody filters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import openstack
import pytest

from osmef.errors import QuotaError
from osmef.providers.base import Endpoint, EndpointRequest
from osmef.scenario.clouds.openstack import OpenStackSettings
from tests.openstack.faults import calls_fail
from tests.providers.openstack.lab import Lab, context, server
from tests.providers.openstack.test_quota import need
from tests.providers.openstack.test_quota import server as sized
from tests.waiting import until

CARDS = {"sender": {"nics": 2}, "receiver": {"nics": 2}}


def with_nics(name: str, nics: int, host: str = "host-1") -> EndpointRequest:
    return replace(server(name, host), nics=nics)


def test_cards_need_ports_networks_and_subnets() -> None:
    plain = [sized("a", "small", "host-1"), sized("b", "small", "host-2")]
    cards = [replace(plain[0], nics=3), replace(plain[1], nics=1, movable=True)]
    before, after = need(*plain), need(*cards)
    assert {what: after[what] - before[what] for what in ("networks", "subnets")} == {
        "networks": 3,
        "subnets": 3,
    }
    assert after["ports"] - before["ports"] == 3 + 1 + (1 + 1)  # and of one made anew, its card


def test_in_a_network_that_is_there_only_those_of_the_cards_are_made() -> None:
    one = replace(sized("a", "small", "host-1"), nics=2)
    assert need(one)["networks"] == 3
    assert need(replace(one, nics=0))["networks"] == 1


def test_a_network_quota_that_is_too_small_is_reported_before_anything_is_created(
    small_lab: Lab,
) -> None:
    provider = small_lab.provider()
    provider.check([with_nics("a", 2)])
    with openstack.connect(cloud="admin") as admin, openstack.connect(cloud="alice") as alice:
        project = str(alice.current_project_id)
        admin.network.update_quota(project, networks=2)
        try:
            with pytest.raises(QuotaError, match=r"3 networks \(quota 2, in use 0\)"):
                provider.check([with_nics("a", 2)])
        finally:
            admin.network.delete_quota(project)
    assert small_lab.owned() == []


@pytest.mark.parametrize(("networks", "count"), [("own", 3), ("one", 2)])
def test_cards_of_one_place_meet_and_carry_frames_of_all_addresses(
    small_lab: Lab, networks: str, count: int
) -> None:
    made = small_lab.provider(nic_networks=networks)
    requests = [with_nics("a", 2), with_nics("b", 1, "host-2")]
    try:
        a, b = small_lab.create(made, context(*requests))
        assert (len(set(a.nics)), len(b.nics)) == (2, 1)
        ports = ports_of()
        nets = [[ports[mac].network_id for mac in end.nics] for end in (a, b)]
        assert nets[1] == nets[0][:1]
        assert len(set(nets[0])) == count - 1
        for mac in (*a.nics, *b.nics):
            assert ports[mac].is_port_security_enabled is False
            assert ports[mac].security_group_ids == []
        usual = [one for mac, one in ports.items() if mac not in {*a.nics, *b.nics}]
        assert all(one.is_port_security_enabled for one in usual if "compute" in one.device_owner)
        assert len(subnets()) == count
    finally:
        made.close()
    assert small_lab.owned() == []


def ports_of() -> dict[str, Any]:
    with openstack.connect(cloud="alice") as api:
        return {one.mac_address: one for one in api.network.ports()}


def subnets() -> dict[str, Any]:
    """Return the subnets of runs by their names; those of cards have neither gateway nor DHCP."""
    with openstack.connect(cloud="alice") as api:
        found = {one.name: one for one in api.network.subnets() if one.name.startswith("osmef")}
    for name, one in found.items():
        of_cards = "-nic-" in name
        assert (one.gateway_ip is None, not one.is_dhcp_enabled) == (of_cards, of_cards)
    return found


def test_a_recreated_server_has_its_nics(small_lab: Lab) -> None:
    made = small_lab.provider()
    wanted = context(with_nics("a", 2))
    try:
        (old,) = small_lab.create(made, wanted)
        new: Endpoint = small_lab.cloud.here(lambda: made.replace(old, wanted))
        assert len(new.nics) == 2
        assert not {*new.nics} & {*old.nics}
        assert {*new.nics} < set(ports_of())
    finally:
        made.close()
    assert small_lab.owned() == []


def test_a_run_with_cards_leaves_nothing_also_where_it_was_killed(small_lab: Lab) -> None:
    ended = small_lab("run", small_lab.write(placement="different-host", endpoints=CARDS))
    assert ended.code == 0, ended.err
    made = small_lab.osmef.kinds_of("created")
    assert made.count("network") == 3
    assert small_lab.owned() == []
    lost = r"POST .*/networks$"
    with calls_fail(small_lab.cloud, "neutron-server", lost, "lose", times=1000):
        process = small_lab.start("run", small_lab.write("killed", endpoints=CARDS))
        with openstack.connect(cloud="admin") as admin:
            until(lambda: any("-nic-1" in one.name for one in admin.network.networks()))
        process.kill()
        process.communicate()
    assert any("-nic-1" in one for one in small_lab.owned())
    ended = small_lab("reap", "--yes")
    assert ended.code == 0, ended.err
    assert small_lab.owned() == []


def test_cards_of_two_projects_are_refused_and_a_bond_is_not(small_lab: Lab) -> None:
    projects = {"red": "alice", "blue": "bob"}
    two: dict[str, Any] = {"projects": projects, "tenancy": "different-tenant"}
    ended = small_lab("validate", small_lab.write(endpoints=CARDS, **two))
    assert ended.code != 0
    assert "further network cards of two tenants are on different networks" in ended.err
    bond = {"layer": [{"kind": "bond", "nics": 2}]}
    ended = small_lab("validate", small_lab.write(endpoints=CARDS, sweep=bond))
    assert ended.code == 0, ended.err


def test_settings_name_the_network_of_each_card() -> None:
    boot = {"boot": {"image": "i"}}
    own = OpenStackSettings.model_validate(boot)
    one = OpenStackSettings.model_validate({**boot, "nic_networks": "one"})
    assert [own.nic_network(card) for card in range(3)] == [0, 1, 2]
    assert [one.nic_network(card) for card in range(3)] == [0, 0, 0]
