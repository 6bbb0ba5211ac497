"""Further network cards: as many as an instance type has, on subnets of the run, gone at its end.

The first tests need no root.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from osmef.errors import CapacityError, QuotaError
from osmef.providers.aws.provider import AwsProvider
from osmef.providers.base import Endpoint, RunContext
from osmef.remote.login import KeyPair
from tests.aws import gaps
from tests.aws.api import Api, Fault
from tests.aws.notes import Notes
from tests.providers.aws.conftest import Lab
from tests.providers.aws.test_check import requests, settings
from tests.providers.aws.test_faults import killer
from tests.providers.aws.test_provider import QUICK, request

NICS = "L-DF5E4CA3"
CARDS = {"sender": {"nics": 2}, "receiver": {"nics": 2}}


def test_more_cards_than_an_instance_type_has_are_refused(api: Api) -> None:
    provider = AwsProvider(settings(api))
    provider.check(requests("tenant-1", nics=2))
    with pytest.raises(CapacityError, match=r"c5\.large has 3 network cards, and 4 are") as raised:
        provider.check(requests("tenant-1", nics=3))
    assert "larger flavor, or write nics: 2" in str(raised.value.cure)


def test_the_nic_limit_is_that_of_the_first_hardware_network_card(
    api: Api,
) -> None:
    provider = AwsProvider(settings(api, default_flavor="p4d.24xlarge"))
    provider.check(requests("tenant-1", nics=8))  # 15 on each of four


def test_a_network_interface_quota_that_is_too_small_is_reported(api: Api) -> None:
    gaps.quotas[NICS] = 4
    AwsProvider(settings(api)).check(requests("tenant-1"))
    with pytest.raises(QuotaError, match=r"6 network interfaces \(quota 4, in use 0\)"):
        AwsProvider(settings(api)).check(requests("tenant-1", "tenant-1", nics=2))


@pytest.fixture(params=["own", "one"])
def pair(request: pytest.FixtureRequest, lab: Lab) -> Iterator[tuple[Lab, list[Endpoint]]]:
    """Two instances with two further cards each."""
    yield from two(lab, nic_networks=request.param)


def two(lab: Lab, **more: Any) -> Iterator[tuple[Lab, list[Endpoint]]]:
    wanted = [request("sender", nics=2), request("receiver", nics=1)]
    notes = Notes()
    context = RunContext("direct", wanted, KeyPair.generate("test"), notes, time.time() + 600)
    provider = AwsProvider(lab.settings(**more), QUICK)
    provider.check(wanted)
    try:
        made = lab.cloud.within(lambda: provider.create(context))
        new = lab.cloud.within(lambda: provider.replace(made[0], context))
        yield lab, [new, made[1]]
    finally:
        provider.close()
    assert lab.owned() == []
    assert notes.there == set()


def test_nics_are_on_subnets_of_the_run_and_identified_by_their_mac_addresses(
    pair: tuple[Lab, list[Endpoint]],
) -> None:
    lab, (sender, receiver) = pair
    there = {one.mac_address: one for one in lab.cloud.backends()[0].enis.values()}
    assert (len(sender.nics), len(receiver.nics)) == (2, 1)
    first, second = (there[mac].subnet for mac in sender.nics)
    (other,) = (there[mac].subnet for mac in receiver.nics)
    usual = {one.nics[0].subnet.id for one in lab.cloud.backends()[0].all_instances()}
    own = lab.cloud.requests("CreateSubnet")
    assert first.id == other.id  # those of one place meet
    assert (first.id == second.id) is (len(own) == 2)
    assert not usual & {first.id, second.id}
    attached = [there[mac].instance.id for mac in (*sender.nics, *receiver.nics)]
    assert attached == [sender.resource_id] * 2 + [receiver.resource_id]


def test_a_run_with_cards_leaves_nothing(lab: Lab) -> None:
    ended = lab("run", lab.write(placement="different-host", endpoints=CARDS))
    assert ended.code == 0, ended.err
    made = lab.osmef.kinds_of("created")
    gone = lab.osmef.kinds_of("destroyed")
    assert sorted(made) == sorted(gone)
    assert made.count("network-interface") == 4
    assert lab.owned() == []


@pytest.mark.parametrize("action", ["CreateNetworkInterface", "AttachNetworkInterface"])
def test_killed_before_the_answer_leaves_cards_that_reap_finds(lab: Lab, action: str) -> None:
    lab.cloud.faults.append(Fault(action, "InternalError", 500, after=True, then=killer(lab)))
    scenario = lab.write(placement="different-host", endpoints=CARDS)
    assert lab("run", scenario).code == -signal.SIGKILL
    assert any(one.startswith("network-interface ") for one in lab.owned())
    ended = lab("reap", "--yes")
    assert ended.code == 0, ended.err
    assert lab.owned() == []


@pytest.mark.parametrize("action", ["CreateNetworkInterface", "AttachNetworkInterface"])
def test_a_lost_answer_makes_and_attaches_nothing_twice(lab: Lab, action: str) -> None:
    lab.cloud.faults.append(Fault(action, "InternalError", 500, after=True))
    for _lab, (sender, receiver) in two(lab):
        assert (len(sender.nics), len(receiver.nics)) == (2, 1)
        there = [one for one in lab.cloud.backends()[0].enis.values() if one.attachment_id]
        assert len({one.mac_address for one in there} & {*sender.nics, *receiver.nics}) == 3


def test_a_bond_and_cards_of_two_tenants_are_refused_before_anything_is_asked(lab: Lab) -> None:
    ended = lab("validate", lab.write(endpoints=CARDS, tenancy="different-tenant"))
    assert ended.code != 0
    assert "further network cards of two tenants are on different networks" in ended.err
    bond = {"layer": [{"kind": "bond", "mode": "balance-rr", "nics": 2}]}
    ended = lab("validate", lab.write(endpoints=CARDS, sweep=bond))
    assert ended.code != 0
    assert "don't carry what the layer bond sends" in ended.err
    assert lab.cloud.calls == []
