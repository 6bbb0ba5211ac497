"""Network cards that are borrowed come back as they were, and only free ones are touched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import EndpointError
from osmef.layers.host import LayerHost
from osmef.layers.nics import Nic, find
from osmef.layers.traces import Trace, is_of, remove
from tests.layers.machines import Notes, one_machine

octets = st.integers(0, 255)
macs = st.lists(octets, min_size=6, max_size=6).map(lambda six: ":".join(f"{n:02x}" for n in six))
addresses = st.ip_addresses().map(lambda one: f"{one}/{one.max_prefixlen}")
nics = st.builds(
    Nic,
    device=st.just("eth1"),
    mac=macs,
    mtu=st.integers(68, 65535),
    up=st.booleans(),
    makes_address=st.sampled_from(["none", "eui64", "stable_secret"]),
    addresses=st.lists(addresses, max_size=4).map(tuple),
)


@given(nics)
def test_what_a_trace_tells_of_a_card_is_all_of_it(nic: Nic) -> None:
    assert Nic.read("eth1", nic.text) == nic


@given(nics, st.sampled_from(["eth1", "enp3s0f1", "wan.7"]))
def test_the_trace_of_a_card_is_known_as_the_run_s_own(nic: Nic, device: str) -> None:
    space = "osmef-" + "0" * 8 + "-1"
    assert not is_of("a-run", Trace("nic", f"{device}@{space}={nic.text}"))


@pytest.mark.parametrize("text", ["up", "52:54:00:00:00:01,1500,up,eui64,$(reboot)", "x,1500,up"])
def test_what_tells_of_no_card_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        Nic.read("eth1", text)


@pytest.fixture
def host() -> Iterator[LayerHost]:
    with one_machine() as made:
        made.root.ip(
            None,
            "link add card type veth peer name switch",
            "link set dev card address 52:54:00:00:00:01 mtu 1400",
            "link set dev switch addrgenmode none up",
        )
        yield made


def state(host: LayerHost) -> list[str]:
    """Return what was set of the machine's network; that carriers come takes the kernel a while."""
    words = (["ip", "-o", "link"], ["ip", "-o", "address"], ["ip", "route"], ["ip", "-6", "route"])
    lines = [line for argv in words for line in host.root.do(argv).splitlines()]
    plain = [re.sub(r"NO-CARRIER,|,LOWER_UP|,M-DOWN| state [A-Z]+| linkdown", "", o) for o in lines]
    return [line.replace(" tentative", "") for line in plain]


@pytest.mark.parametrize("wanted", ["card", "52:54:00:00:00:01"])
@pytest.mark.parametrize(
    "before",
    [
        (),
        ("link set dev card addrgenmode eui64",),
        ("link set dev card up",),
        ("address add 10.9.7.1/24 dev card", "address add fd00:7::1/64 dev card nodad"),
        ("link set dev card up", "address add 10.9.7.1/24 dev card"),
    ],
)
def test_a_card_comes_back_as_it_was(host: LayerHost, wanted: str, before: tuple[str, ...]) -> None:
    host.root.ip(None, "link set dev card addrgenmode none", *before)
    earlier = state(host)
    space = host.new_space()
    (nic,) = host.borrow([wanted], space)
    assert nic.device == "card"
    told = host.traces[-1]
    assert is_of(host.names.run, told), told
    changes = ("mtu 1300", "address 52:54:00:00:00:02", "up")
    host.root.ip(space, *(f"link set dev card {what}" for what in changes))
    host.root.ip(space, "address add 198.18.0.1/32 dev card")
    host.drop_all()
    assert state(host) == earlier
    assert cast("Notes", host.notes).standing == []
    remove(host.root, host.names.run, told)
    assert state(host) == earlier, "once more changes nothing"


def test_a_card_that_is_gone_is_given_back(host: LayerHost) -> None:
    (nic,) = host.borrow(["card"], host.new_space())
    host.root.ip(None, "link delete switch")
    host.drop_all()
    assert nic.device not in host.root.do(["ip", "link"])


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["link add theirs type bridge", "link set dev card master theirs"], "a part of theirs"),
        (["link set dev card up", "route add 10.1.0.0/16 dev card"], "the route to 10.1.0.0/16"),
        (
            [
                "link set dev card up",
                "address add 10.1.0.1/16 dev card valid_lft 99 preferred_lft 9",
            ],
            "gives it an address",
        ),
    ],
)
def test_a_card_in_use_is_left_alone(host: LayerHost, lines: list[str], why: str) -> None:
    host.root.ip(None, *lines)
    before = state(host)
    space = host.new_space()
    with pytest.raises(EndpointError, match="card is not free") as told:
        host.borrow(["card"], space)
    assert why in told.value.message
    host.drop_all()
    assert [line.split(" valid_lft")[0] for line in state(host)] == [
        line.split(" valid_lft")[0] for line in before
    ]
    assert find(host.root, ["card"], stays=False)[0].device == "card", "a VM goes with all of it"


def test_a_card_that_is_named_twice_is_told(host: LayerHost) -> None:
    with pytest.raises(EndpointError, match="card is named twice"):
        find(host.root, ["card", "52:54:00:00:00:01"], stays=True)


def test_a_card_that_is_not_there_is_told(host: LayerHost) -> None:
    with pytest.raises(EndpointError, match="no network card eth7"):
        find(host.root, ["eth7"], stays=True)
