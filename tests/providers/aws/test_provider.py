"""What the provider does beside the usual run: zones, admitting others, replacing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from osmef.errors import PolicyError
from osmef.providers.aws.provider import AwsProvider
from osmef.providers.base import Endpoint, EndpointRequest, RunContext
from osmef.providers.cloud.account import CloudWaits
from osmef.remote.login import KeyPair
from osmef.scenario.fields import DATA_PORTS, EndpointKind
from osmef.scenario.location import Gone, distance, same_host
from tests.aws.api import Fault
from tests.aws.notes import Notes
from tests.aws.wiring import OUTSIDE
from tests.providers.aws.conftest import Lab

QUICK = CloudWaits(look_s=0.1, listing_delay_s=0.1, gone_s=0.3)


@dataclass
class Made:
    """A provider at work where its instances can be reached."""

    lab: Lab
    provider: AwsProvider
    context: RunContext
    endpoints: list[Endpoint]


def request(name: str, **more: Any) -> EndpointRequest:
    kind = EndpointKind.VM
    given = {"role": name, "kind": kind, "flavor": None, "host": None, "tenant": "tenant-1", **more}
    return EndpointRequest(name=name, **given)


@pytest.fixture
def pair(lab: Lab) -> Iterator[Made]:
    """Two instances of one tenant in two zones."""
    requests = [
        request("sender", zone="eu-central-1a", host="host-1"),
        request("receiver", zone="euc1-az3", host="host-2", flavor="c4.large"),
    ]
    notes = Notes()
    key = KeyPair.generate("test")
    context = RunContext(
        run="direct", requests=requests, key=key, ledger=notes, deadline=time.time() + 600
    )
    provider = AwsProvider(lab.settings(), QUICK)
    provider.check(requests)
    yield Made(lab, provider, context, lab.cloud.within(lambda: provider.create(context)))
    provider.close()
    assert lab.owned() == []
    assert notes.there == set()


def test_endpoints_have_zones_of_their_own_and_are_apart(pair: Made) -> None:
    here, there = pair.provider.describe(pair.endpoints)
    assert (here.zone, there.zone) == ("euc1-az1", "euc1-az3")
    assert here.region == there.region == "eu-central-1"
    assert here.tenant == there.tenant
    assert same_host(here, there) is False
    assert distance(here, there) == 2
    told = [endpoint.warnings for endpoint in pair.endpoints]
    assert told == [(), ("c4.large has no enhanced networking (ENA)",)]


def test_peers_of_another_cloud_are_admitted_to_the_data_ports_only(pair: Made) -> None:
    low, high = DATA_PORTS.start, DATA_PORTS.stop - 1
    for peers in ({9, 10}, {9, 10}, {9, 11}):  # again is no error, and who is not named is out
        pair.provider.admit(pair.endpoints, [f"203.0.113.{n}" for n in sorted(peers)])
        groups = pair.lab.cloud.backends()[0].describe_security_groups()
        (ours,) = [group for group in groups if group.name.startswith("osmef-")]
        rules = {
            (rule.ip_protocol, rule.from_port, rule.to_port, rule.ip_range["CidrIp"])
            for rule in ours.ingress_rules
            if rule.ip_range
        }
        assert rules == {
            ("tcp", 22, 22, f"{OUTSIDE}/32"),
            *(
                (protocol, low, high, f"203.0.113.{n}/32")
                for protocol in ("tcp", "udp")
                for n in peers
            ),
        }


def test_the_address_of_a_deleted_instance_is_removed_from_the_rules(lab: Lab) -> None:
    requests = [request("sender"), request("receiver", tenant="tenant-2")]
    key, ledger = KeyPair.generate("test"), Notes()
    context = RunContext("direct", requests, key, ledger, time.time() + 600)
    provider = AwsProvider(lab.settings(), QUICK)
    try:
        sender, receiver = lab.cloud.within(lambda: provider.create(context))
        new = lab.cloud.within(lambda: provider.replace(sender, context))
        groups = lab.cloud.backends()[0].describe_security_groups()
        allow_ingress = [
            {rule.ip_range["CidrIp"] for rule in group.ingress_rules if rule.ip_range}
            for group in groups
            if group.name.startswith("osmef-")
        ]
    finally:
        provider.close()
    ssh = f"{OUTSIDE}/32"
    assert sorted(map(sorted, allow_ingress)) == sorted(
        sorted({ssh, f"{one.public_address}/32"}) for one in (new, receiver)
    )


def test_a_replacement_stands_in_the_zone_of_the_old_one(pair: Made) -> None:
    old, other = pair.endpoints
    new = pair.lab.cloud.within(lambda: pair.provider.replace(old, pair.context))
    assert [place.zone for place in pair.provider.describe([new, other])] == [
        "euc1-az1",
        "euc1-az3",
    ]


def test_after_an_unreachable_replacement_the_old_instance_is_described(lab: Lab) -> None:
    requests = [request("sender", host="host-1"), request("receiver", host="host-2")]
    context = RunContext("direct", requests, KeyPair.generate("test"), Notes(), time.time() + 600)
    provider = AwsProvider(lab.settings(host_keys="console", placement_by="spread"), QUICK)
    try:
        old, _other = lab.cloud.within(lambda: provider.create(context))
        before = provider.describe([old])
        lab.cloud.faults.append(Fault("GetConsoleOutput", "UnauthorizedOperation", 403, times=-1))
        with pytest.raises(PolicyError):
            lab.cloud.within(lambda: provider.replace(old, context))
        after = provider.describe([old])
        running = [call.action for call in lab.cloud.calls].count("RunInstances")
    finally:
        provider.close()
    assert running == 3
    assert before == after
    assert old.resource_id in str(after[0].rack)
    assert lab.owned() == []


def test_a_host_of_the_plan_is_a_dedicated_one_in_each_account(lab: Lab) -> None:
    """EC2 runs an instance on a host of its own account only, and a host is of one family."""
    zone = "euc1-az1"
    requests = [
        request("sender", host="host-1", zone=zone),
        request("near", host="host-2", zone=zone),
        request("far", host="host-2", zone=zone, tenant="tenant-2", flavor="m5.large"),
    ]
    context = RunContext("direct", requests, KeyPair.generate("test"), Notes(), time.time() + 600)
    tenants = {"red": "red", "blue": "blue"}
    provider = AwsProvider(lab.settings(tenants=tenants, placement_by="dedicated-host"), QUICK)
    try:
        endpoints = lab.cloud.within(lambda: provider.create(context))
        hosts = [place.host for place in provider.describe(endpoints)]
    finally:
        provider.close()
    red, blue = (set(backend.hosts) for backend in lab.cloud.backends())
    assert {hosts[0], hosts[1]} == red
    assert {hosts[2]} == blue
    assert len(lab.cloud.requests("AllocateHosts")) == 3
    assert lab.owned() == lab.owned("blue") == []


def test_an_instance_that_was_taken_back_is_gone_and_the_others_stand(pair: Made) -> None:
    gone, other = pair.endpoints
    (backend, _) = pair.lab.cloud.backends()
    (held,) = [one for one in backend.reservations.values() if gone.resource_id in ids_of(one)]
    held.instances = [one for one in held.instances if one.id != gone.resource_id]
    here, there = pair.provider.describe([gone, other])
    assert isinstance(here, Gone)
    assert there.zone == "euc1-az3"


def ids_of(reservation: Any) -> list[str]:
    return [instance.id for instance in reservation.instances]
