from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import CapacityError
from osmef.providers.base import EndpointRequest
from osmef.providers.static.assign import assign, physical_host
from osmef.scenario.clouds.static import InventoryHost
from osmef.scenario.fields import EndpointKind, FlavorNeed

Entry = tuple[str | None, str | None, str | None]
"""Host, tenant and flavor of a VM."""


def vm(host: str | None = None, tenant: str | None = None, flavor: str | None = None) -> object:
    return {
        "ssh": "x",
        "kind": "vm",
        "flavor": flavor,
        "location": {"host": host, "tenant": tenant},
    }


def inventory(**entries: object) -> dict[str, InventoryHost]:
    return {name: InventoryHost.model_validate(entry) for name, entry in entries.items()}


def wanted(*ends: str) -> list[EndpointRequest]:
    """Make requests of words like ``h1 t1`` (a VM), ``h1 t1 large``, or ``h1`` (a host)."""
    made = []
    for number, end in enumerate(ends):
        host, tenant, flavor = (*end.split(), None, None)[:3]
        kind = EndpointKind.HOST if tenant is None else EndpointKind.VM
        slot = None if host == "any" else host
        made.append(EndpointRequest(f"end-{number}", "sender", kind, flavor, slot, tenant))
    return made


def chosen(hosts: dict[str, InventoryHost], *ends: str) -> list[str]:
    requests = wanted(*ends)
    found = assign(requests, hosts)
    return [found[request.name] for request in requests]


def test_hosts_are_taken_as_they_are_listed() -> None:
    hosts = inventory(a={"ssh": "a"}, b={"ssh": "b"}, c={"ssh": "c"})
    assert chosen(hosts, "h1", "h2") == ["a", "b"]


def test_one_slot_is_one_physical_host_and_two_are_two() -> None:
    hosts = inventory(a=vm("one"), b=vm("two"), c=vm("two"), d=vm("three"))
    assert chosen(hosts, "h1 t1", "h1 t1") == ["b", "c"]
    assert set(chosen(hosts, "h1 t1", "h1 t1", "h2 t1")) in ({"b", "c", "a"}, {"b", "c", "d"})


def test_tenants_keep_to_themselves() -> None:
    hosts = inventory(a=vm("one", "red"), b=vm("two", "red"), c=vm("two", "blue"), d=vm("three"))
    assert chosen(hosts, "h1 t1", "h2 t2") == ["a", "c"]
    assert chosen(hosts, "h1 t1", "h1 t2") == ["b", "c"]
    assert chosen(hosts, "h1 t1", "h2 t1") == ["a", "b"]
    with pytest.raises(CapacityError):
        assign(wanted("h1 t1", "h2 t2", "h3 t3"), hosts)  # d does not say whose it is


def test_an_endpoint_without_a_slot_gets_any_free_machine() -> None:
    hosts = inventory(a=vm("one"), b=vm("one"), c=vm("two"))
    assert chosen(hosts, "any t1", "any t1") == ["a", "b"]
    assert chosen(hosts, "h1 t1", "any t1", "h1 t1") in (["a", "c", "b"], ["b", "c", "a"])
    with pytest.raises(CapacityError, match="any host with 2 VM of t1"):
        assign(wanted("any t1", "any t1", "h1 t2"), inventory(a=vm(), b=vm(), c=vm()))


def test_requested_flavors_are_matched_and_others_get_any_machine() -> None:
    hosts = inventory(a=vm("one", flavor="small"), b=vm("two", flavor="large"))
    assert chosen(hosts, "h1 t1 large", "h2 t1") == ["b", "a"]
    assert chosen(hosts, "h1 t1", "h2 t1 small") == ["b", "a"]


def test_a_need_is_met_by_what_is_declared() -> None:
    sizes = {"a": (2, "4GiB"), "b": (4, "8GiB"), "c": (None, None)}
    hosts = inventory(
        **{n: {"ssh": "x", "kind": "vm", "vcpus": c, "ram": r} for n, (c, r) in sizes.items()}
    )
    need = FlavorNeed.model_validate({"vcpus": 2, "ram": "6GiB"})
    (request,) = wanted("h1 t1")
    assert assign([replace(request, flavor=need)], hosts) == {request.name: "b"}
    with pytest.raises(CapacityError, match="of flavor 8vcpu"):
        assign([replace(request, flavor=FlavorNeed(vcpus=8))], hosts)


def test_a_host_and_a_vm_on_it_share_it() -> None:
    hosts = inventory(other={"ssh": "o"}, iron={"ssh": "i"}, guest=vm("iron"))
    assert chosen(hosts, "h1 t1", "h1") == ["guest", "iron"]
    assert chosen(hosts, "h1 t1", "h2") == ["guest", "other"]


def test_a_vm_whose_host_is_not_known_is_the_last_choice() -> None:
    hosts = inventory(a=vm(), b=vm("one"), c=vm("two"))
    assert chosen(hosts, "h1 t1", "h2 t1") == ["b", "c"]
    assert set(chosen(hosts, "h1 t1", "h2 t1", "h3 t1")) == {"a", "b", "c"}
    assert physical_host("a", hosts["a"]) is None


@pytest.mark.parametrize(
    ("hosts", "ends", "said"),
    [
        (
            inventory(a={"ssh": "a"}),
            ["h1 t1", "h2 t1"],
            "2 VMs are needed, and the inventory has 0",
        ),
        (inventory(a=vm("x")), ["h1"], "1 physical hosts are needed, and the inventory has 0"),
        (
            inventory(a=vm("x", "red"), b=vm("x", "red", "big")),
            ["h1 t1", "h2 t1 small"],
            "Needed: h1 with 1 VM of t1; h2 with 1 VM of flavor small of t1. Available: x with",
        ),
    ],
)
def test_missing_machines_are_reported(
    hosts: dict[str, InventoryHost], ends: list[str], said: str
) -> None:
    with pytest.raises(CapacityError) as caught:
        assign(wanted(*ends), hosts)
    assert said in caught.value.message
    assert caught.value.cure


def right(
    requests: list[EndpointRequest], names: list[str], hosts: dict[str, InventoryHost]
) -> bool:
    """Tell whether an assignment keeps every rule."""
    places = [physical_host(name, hosts[name]) or name for name in names]
    tenants = [hosts[name].location.tenant for name in names]
    for n, one in enumerate(requests):
        if one.flavor not in {None, hosts[names[n]].flavor}:
            return False
        for m, other in enumerate(requests[:n]):
            slotted = None not in {one.host, other.host}
            if slotted and (one.host == other.host) != (places[n] == places[m]):
                return False
            if (one.tenant == other.tenant) != (tenants[n] == tenants[m]):
                return False
            if one.tenant != other.tenant and None in {tenants[n], tenants[m]}:
                return False
    return True


some = st.sampled_from
requests_of = st.lists(
    st.tuples(some(["h1", "h2", "h3", "any"]), some(["t1", "t2"]), some(["", "big"])),
    min_size=1,
    max_size=4,
)
entries_of = st.lists(
    st.tuples(some([None, "x", "y", "z"]), some([None, "red", "blue"]), some([None, "big"])),
    max_size=5,
)


@given(requests_of, entries_of)
def test_an_assignment_is_found_exactly_when_one_exists(
    ends: list[tuple[str, str, str]], entries: list[Entry]
) -> None:
    requests = wanted(*(" ".join(end) for end in ends))
    hosts = inventory(**{f"e{n}": vm(*entry) for n, entry in enumerate(entries)})
    ways = [
        names for names in permutations(hosts, len(requests)) if right(requests, list(names), hosts)
    ]
    try:
        found = assign(requests, hosts)
    except CapacityError:
        assert ways == []
    else:
        assert tuple(found[request.name] for request in requests) in ways


def test_a_large_inventory_is_no_work() -> None:
    hosts = inventory(**{f"e{n}": vm(f"host-{n // 8}", f"t{n % 8}") for n in range(400)})
    ends = [f"h{n} t{n % 4}" for n in range(40)] + [f"h{n} t{(n + 1) % 4}" for n in range(40)]
    assert len(set(chosen(hosts, *ends))) == 80
