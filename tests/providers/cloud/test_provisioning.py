"""What a run makes in any cloud: its tenants, who may send to whom, quotas and places."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import CapacityError, NotFoundError, ProviderError, QuotaError
from osmef.providers.base import EndpointRequest, RunContext
from osmef.providers.cloud.account import Account, Tenant, TenantNet, block_of, open_tenants
from osmef.providers.cloud.lookup import (
    Flavor,
    Offers,
    Quota,
    WantedFlavor,
    Zones,
    common_zones,
    compare_quotas,
    first_with_capacity,
    host_numbers,
    known_names,
    smallest,
)
from osmef.providers.cloud.provisioning import BootingGuest, Provisioner, Vm, VmSpec
from osmef.remote.login import KeyPair
from osmef.scenario.fields import EndpointKind, FlavorNeed
from tests.providers.cloud.fake import ERRORS, QUICK
from tests.providers.conftest import MemoryLedger


class Cloud(Account):
    """An account without an API."""

    provider, errors, look_at = "fake", ERRORS, "look at it"

    def __init__(self, id_: str) -> None:
        super().__init__({"cloud": id_}, id_, QUICK)
        self.id = id_


def request(name: str, host: str | None = None, lane: int = 1, tenant: int = 1) -> EndpointRequest:
    return EndpointRequest(name, "sender", EndpointKind.VM, None, host, f"tenant-{tenant}", lane)


def test_tenants_without_accounts_of_their_own_share_one() -> None:
    asked: list[str | None] = []

    def log_in(account: str | None) -> Cloud:
        asked.append(account)
        return Cloud("usual")

    slots = [f"tenant-{number}" for number in (1, 2, 10)]
    tenants = open_tenants(slots, None, log_in)
    assert asked == [None]
    assert [(one.slot, one.number, one.account.id) for one in tenants] == [
        (slot, number, "usual") for number, slot in enumerate(slots, 1)
    ]
    assert len({one.label for one in tenants}) == 3


def test_tenants_that_are_named_have_an_account_each() -> None:
    named = {"red": "a-1", "blue": "a-2", "green": "a-3"}
    tenants = open_tenants(["tenant-1", "tenant-2"], named, lambda one: Cloud(str(one)))
    assert [(one.label, one.account.id) for one in tenants] == [("red", "a-1"), ("blue", "a-2")]
    with pytest.raises(ProviderError, match="needs 2 tenants, and there are 1"):
        open_tenants(["tenant-1", "tenant-2"], {"red": "a-1"}, lambda one: Cloud(str(one)))
    with pytest.raises(ProviderError, match="one and the same account"):
        open_tenants(["tenant-1", "tenant-2"], named, lambda _one: Cloud("a-1"))


@dataclass(frozen=True)
class Here(Vm[VmSpec[TenantNet[Cloud]]]):
    """A VM of this cloud."""


@dataclass
class Made(Provisioner[Cloud, TenantNet[Cloud], Here]):
    """VMs that are there at once; ``rules`` is what each tenant's network lets in."""

    rules: dict[str, set[str]] = field(default_factory=dict)
    changes: list[tuple[str, set[str], set[str]]] = field(default_factory=list)

    def make_net(self, tenant: Tenant[Cloud]) -> TenantNet[Cloud]:
        return TenantNet(tenant)

    def create_vms(self, requests: Sequence[EndpointRequest]) -> list[Here]:
        return [self._vm(one, next(self.numbers)) for one in requests]

    def _vm(self, one: EndpointRequest, number: int) -> Here:
        net, flavor = self.nets[str(one.tenant)], Flavor("small", 2, 4096)
        context = VmSpec(one, f"vm-{number}", net, self.context.key, None, flavor)
        return Here(context, f"id-{number}", f"10.0.0.{number}", f"192.0.2.{number}")

    def guest_of(self, vm: Here) -> BootingGuest:
        raise NotImplementedError(vm)

    def allow_ingress(self, net: TenantNet[Cloud], addresses: set[str], before: set[str]) -> None:
        self.changes.append((net.tenant.slot, addresses, before))
        self.rules[net.tenant.slot] = addresses


def made(*requests: EndpointRequest) -> Made:
    slots = sorted({str(one.tenant) for one in requests})
    tenants = open_tenants(slots, None, lambda _one: Cloud("usual"))
    context = RunContext(
        "lab-1", requests, KeyPair.generate("lab"), MemoryLedger(), time.time() + 600
    )
    settings = SimpleNamespace(nics_apart=True)
    found = Made(settings, context, SimpleNamespace(made=[]), tenants, lambda _some: None)
    found.create_all()
    return found


def test_tenants_admit_only_each_others_addresses_and_those_of_their_peers() -> None:
    one = made(request("a"), request("b"), request("c", tenant=2))
    assert one.rules == {"tenant-1": {"192.0.2.3"}, "tenant-2": {"192.0.2.1", "192.0.2.2"}}
    one.admit(["a"], ["203.0.113.7"])
    assert one.rules["tenant-1"] == {"192.0.2.3", "203.0.113.7"}
    one.admit(["a", "b"], ["203.0.113.8"])
    assert one.rules["tenant-1"] == {"192.0.2.3", "203.0.113.8"}
    assert one.rules["tenant-2"] == {"192.0.2.1", "192.0.2.2"}


def test_rules_are_changed_only_where_others_may_send() -> None:
    one = made(request("a"), request("b", tenant=2))
    one.admit(["a"], ["203.0.113.7"])
    one.admit(["a"], ["203.0.113.7"])
    assert [slot for slot, _now, _before in one.changes[2:]] == ["tenant-1"]
    one.changes.clear()
    one.register(one.create_vms([request("a")]))  # made anew, at another address
    assert one.changes == [("tenant-2", {"192.0.2.3"}, {"192.0.2.1"})]


def test_the_address_of_a_replaced_vm_is_removed_from_the_rules_before_deletion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = made(request("a"), request("b", tenant=2))
    seen: list[set[str]] = []
    monkeypatch.setattr(one, "reach", lambda vms: [(vm, None) for vm in vms])
    one.remove = lambda _some: seen.append(one.rules["tenant-2"])
    new, _ = one.replace(request("a"))
    assert seen == [{new.public}]
    assert one.rules["tenant-2"] == {new.public}


def test_one_tenant_without_peers_needs_no_rules() -> None:
    assert made(request("a"), request("b")).changes == []


LANES = st.lists(st.tuples(st.integers(1, 3), st.sampled_from([None, "h-1", "h-2", "h-10"])))


@given(LANES)
def test_host_slots_of_a_lane_get_different_numbers_from_0(some: list[tuple[int, Any]]) -> None:
    requests = [request(str(n), host, lane) for n, (lane, host) in enumerate(some)]
    numbers = host_numbers(requests, None, "hosts", "provider", "name more")
    assert set(numbers) == {(lane, host) for lane, host in some if host is not None}
    for lane in {lane for lane, _host in numbers}:
        here = sorted(number for (other, _), number in numbers.items() if other == lane)
        assert here == list(range(len(here)))


def test_too_few_hosts_for_concurrent_use_are_reported() -> None:
    requests = [request("a", "h-1"), request("b", "h-2"), request("c", "h-3", lane=2)]
    host_numbers(requests, 2, "nodes", "provider.nodes", "add some")
    with pytest.raises(CapacityError, match="needs 2 different hosts at once, and there are 1 nod"):
        host_numbers(requests, 1, "nodes", "provider.nodes", "add some")


def test_places_are_tried_in_turn_while_there_is_no_room() -> None:
    told: list[str] = []
    back: list[str] = []

    def make(place: str) -> str:
        if place != "c":
            raise CapacityError(f"{place} is full", cure="wait")
        return f"made in {place}"

    def roll_back() -> None:
        back.append("all")

    assert first_with_capacity(["a", "b", "c", "d"], make, roll_back, told.append) == "made in c"
    assert (back, len(told)) == (["all", "all"], 2)
    with pytest.raises(CapacityError, match="b is full; tried: a, b\n"):
        first_with_capacity(["a", "b"], make, roll_back, told.append)
    with pytest.raises(CapacityError, match="a is full\n"):
        first_with_capacity(["a"], make, roll_back, told.append)


def test_all_missing_quotas_are_reported_at_once_and_unknown_ones_are_ignored() -> None:
    quotas = {"cores": Quota(8, 4), "ips": Quota(5), "nets": Quota(None, 99), "disks": Quota(1.5)}
    compare_quotas("here", {"cores": 4, "ips": 5, "nets": 9, "disks": 0, "untold": 9}, quotas)
    with pytest.raises(QuotaError, match=r"5 cores \(quota 8, in use 4\), 6 ips \(quota 5, in use"):
        compare_quotas("here", {"cores": 5, "ips": 6}, quotas)


def test_names_that_are_not_known_have_a_cure() -> None:
    assert known_names(["m1.tiny", "m1.large"], "m1.tinny") == "did you mean m1.tiny?"
    assert known_names(["b", "a"], "xyz") == "use one of: a, b"
    assert known_names([], "xyz", "flavor") == "there is no flavor at all"


def test_the_smallest_that_fits_a_need_is_taken() -> None:
    there = [Flavor("b", 4, 8192), Flavor("c", 2, 4096), Flavor("a", 2, 4096), Flavor("d", 1, 512)]
    need = FlavorNeed.model_validate({"vcpus": 2, "ram": "4GiB"})
    assert smallest(there, need, "no flavor has it").name == "a"
    assert smallest(there, need, "no flavor has it", lambda one: (one.name != "c",)).name == "c"
    with pytest.raises(NotFoundError, match="no flavor has it"):
        smallest(there, FlavorNeed.model_validate({"vcpus": 2, "ram": "9GiB"}), "no flavor has it")


def offers(zones: dict[str, str], **has: set[str]) -> Offers[Flavor, str]:
    flavors: dict[WantedFlavor, Flavor] = {
        name: Flavor(name, 2, 4096, architecture="x64", zones=frozenset(there), nics=2)
        for name, there in has.items()
    }
    return Offers("small", flavors, {"x64": "debian"}, Zones(zones))


def test_a_zone_is_named_by_its_id_or_by_the_accounts_own_name() -> None:
    zones = Zones({"1": "id-b", "2": "id-a"})
    assert [zones.id_of(zone) for zone in ("1", "id-b", "2", "id-a")] == ["id-b"] * 2 + ["id-a"] * 2
    assert zones.name_of("id-a") == "2"
    with pytest.raises(NotFoundError, match="no zone '3'") as raised:
        zones.id_of("3")
    assert raised.value.cure == "use one of: 1 (id-b), 2 (id-a)"
    with pytest.raises(NotFoundError) as raised:
        Zones().id_of("1")
    assert raised.value.cure == "leave it out: there are no zones"


def test_a_flavor_is_checked_for_its_cards_and_in_its_zone() -> None:
    there = offers({"1": "id-b", "2": "id-a"}, small={"id-a"}, none=set())
    assert there.check(request("a"), None).name == "small"
    assert there.check(request("a"), "2") is there.check(request("a"), "id-a")
    assert there.image_of(there.flavor_of(request("a"))) == "debian"
    with pytest.raises(CapacityError, match="the zone 1 has no small") as raised:
        there.check(request("a"), "1")
    assert raised.value.cure == "use one of: 2 (id-a)"
    with pytest.raises(CapacityError, match="has no none") as raised:
        there.check(replace(request("a"), flavor="none"), "1")
    assert raised.value.cure == "use another flavor"
    with pytest.raises(CapacityError, match="small has 2 network cards"):
        there.check(replace(request("a"), nics=2), None)


def test_zones_for_all_are_those_of_every_account_in_the_order_of_the_first() -> None:
    one = offers({"1": "id-b", "2": "id-a", "3": "id-c"}, small={"id-a", "id-b", "id-c", "new"})
    two = offers({"1": "id-a", "2": "id-b"}, small={"id-a", "id-b", "id-c", "new"})
    both = {"tenant-1": one, "tenant-2": two}
    assert common_zones(both, [request("a")]) == ["id-b", "id-a", "id-c"]
    assert common_zones(both, [request("a"), request("b", tenant=2)]) == ["id-b", "id-a"]
    assert common_zones(both, [request("b", tenant=2)]) == ["id-a", "id-b"]


@given(st.integers(0, 255), st.integers(0, 255))
def test_blocks_of_different_numbers_do_not_overlap(one: int, other: int) -> None:
    assert block_of(one, 20).overlaps(block_of(other, 20)) is (one == other)
    assert block_of(one, 16).is_private
