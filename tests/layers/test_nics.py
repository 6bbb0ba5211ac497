"""Network cards that a layer acquired are restored, and only free ones are touched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import EndpointError
from osmef.layers.host import LayerHost
from osmef.layers.nics import SavedNic, find
from osmef.layers.traces import Trace, is_of, remove
from tests.layers.machines import Notes, one_machine

octets = st.integers(0, 255)
macs = st.lists(octets, min_size=6, max_size=6).map(lambda six: ":".join(f"{n:02x}" for n in six))
words = st.lists(
    st.sampled_from(
        ["peer=10.0.0.9", "broadcast=10.0.0.255", "label=eth1:a", "scope=link", "metric=7", "home"]
    ),
    unique=True,
)
addresses = st.builds(
    lambda one, rest: ";".join([f"{one}/{one.max_prefixlen}", *rest]), st.ip_addresses(), words
)
nics = st.builds(
    SavedNic,
    device=st.just("eth1"),
    mac=macs,
    mtu=st.integers(68, 65535),
    up=st.booleans(),
    makes_address=st.sampled_from(["none", "eui64", "stable_secret"]),
    addresses=st.lists(addresses, max_size=4).map(tuple),
    settings=st.lists(
        st.sampled_from(["ipv4/conf/rp_filter=2", "ipv6/conf/hop_limit=64", "ipv4/neigh/x=-1"])
    ).map(tuple),
)


@given(nics)
def test_a_saved_nic_state_is_read_back_completely(nic: SavedNic) -> None:
    assert SavedNic.read("eth1", nic.text) == nic


@given(nics, st.sampled_from(["eth1", "enp3s0f1", "wan.7"]))
def test_the_saved_state_of_a_nic_is_recognized_as_that_of_the_run(
    nic: SavedNic, device: str
) -> None:
    space = "osmef-" + "0" * 8 + "-1"
    assert not is_of("a-run", Trace("nic", f"{device}@{space}={nic.text}"))


@pytest.mark.parametrize(
    "text",
    [
        "up",
        "x,1500,up",
        "52:54:00:00:00:01,1500,up,eui64,$(reboot)",
        "52:54:00:00:00:01,1500,up,eui64,ipv4/conf/../x=1",
        "52:54:00:00:00:01,1500,up,eui64,10.0.0.1/24;label=a b",
    ],
)
def test_an_invalid_saved_nic_state_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        SavedNic.read("eth1", text)


UP_WITH_ADDRESS = ("link set dev card up", "address add 10.9.7.1/24 dev card")


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
    words = (
        *(
            ["ip", "-o", "link"],
            ["ip", "-o", "address"],
            ["ip", "neigh", "show", "nud", "permanent"],
        ),
        *(
            ["ip", "route"],
            ["ip", "-6", "route"],
            ["tc", "qdisc"],
            ["ip", "neigh", "show", "proxy"],
        ),
        ["sh", "-c", "grep -s . /proc/sys/net/ipv?/*/card/* | grep -v stable_secret"],
    )
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
        ("link set dev card up", "address add 10.9.7.1/24 brd + dev card label card:web"),
        ("link set dev card up", "address add 10.9.7.1 peer 10.9.7.2/32 dev card"),
        ("link set dev card up", "address add 10.9.7.1/24 dev card metric 500"),
        ("link set dev card up", "address add 10.9.7.1/24 dev card noprefixroute"),
        ("link set dev card up", "address add 169.254.3.4/16 dev card scope link"),
        ("link set dev card up", "address add fe80::42/64 dev card nodad"),
        (
            "link set dev card addrgenmode eui64 up",
            "address add fe80::42/64 dev card nodad",
            "address add fd00:7::1/64 dev card nodad home",
        ),
        ("link set dev card up", *(f"address add 10.9.7.{n}/24 dev card" for n in range(1, 40))),
        ("link set dev card alias storage allmulticast on txqueuelen 77",),
    ],
)
def test_a_card_comes_back_as_it_was(host: LayerHost, wanted: str, before: tuple[str, ...]) -> None:
    host.root.ip(None, "link set dev card addrgenmode none", *before)
    earlier = state(host)
    space = host.new_space()
    (nic,) = host.acquire_nics([wanted], space)
    assert nic.device == "card"
    told = host.traces[-1]
    assert is_of(host.names.run, told), told
    changes = ("mtu 1300", "address 52:54:00:00:00:02", "up")
    host.root.ip(space, *(f"link set dev card {what}" for what in changes))
    host.root.ip(space, "address add 198.18.0.1/32 dev card")
    host.drop_all()
    assert state(host) == earlier
    assert cast("Notes", host.notes).existing == []
    remove(host.root, host.names.run, told)
    assert state(host) == earlier, "once more changes nothing"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ipv4/conf/card/rp_filter", "2"),
        ("ipv4/conf/card/forwarding", "1"),
        ("ipv4/neigh/card/gc_stale_time", "77"),
        ("ipv6/conf/card/accept_ra", "0"),
        ("ipv6/conf/card/disable_ipv6", "1"),
        ("ipv6/conf/card/mtu", "1300"),
    ],
)
def test_its_settings_of_the_kernel_come_back(host: LayerHost, key: str, value: str) -> None:
    host.root.ip(None, "link set dev card addrgenmode none up")
    host.root.do(["tee", f"/proc/sys/net/{key}"], value.encode())
    earlier = state(host)
    host.acquire_nics(["card"], host.new_space())
    told = host.traces[-1]
    assert is_of(host.names.run, told), told
    host.drop_all()
    assert state(host) == earlier


def test_the_mtu_of_ipv6_comes_back_where_the_carrier_is_late(
    host: LayerHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, root, ask = "/proc/sys/net/ipv6/conf/card/mtu", host.root, host.root.ask
    looks = list[str]()

    def link_comes_at_the_second_look(space: str | None, *words: str) -> list[dict[str, Any]]:
        found = ask(space, *words)
        if space is None and words == ("link", "show", "dev", "card"):
            looks.append(str(found[0]["operstate"]))
            root.ip(None, "link set dev switch up")
        return found

    root.ip(None, "link set dev card addrgenmode none up")
    root.do(["tee", key], b"1300")
    host.acquire_nics(["card"], host.new_space())
    root.ip(None, "link set dev switch down")
    monkeypatch.setattr(root, "ask", link_comes_at_the_second_look)
    host.drop_all()
    assert looks[0] not in {"UP", "UNKNOWN"}
    assert looks[-1] == "UP"
    assert root.do(["cat", key]).strip() == "1300"


def test_a_card_that_is_gone_is_given_back(host: LayerHost) -> None:
    (nic,) = host.acquire_nics(["card"], host.new_space())
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
        (["link add theirs link card type macvlan"], "theirs is based on it"),
        (["link add theirs type vxlan id 4 dev card dstport 4789"], "theirs is based on it"),
        (
            [
                *("link set dev card up", "address add 10.9.7.1/24 dev card"),
                *("link add other type veth peer name far", "link set dev other up"),
                "address add 10.9.6.1/24 dev other",
                "route add 10.8.0.0/16 nexthop via 10.9.7.9 nexthop via 10.9.6.9",
            ],
            "the route to 10.8.0.0/16",
        ),
        (
            [*UP_WITH_ADDRESS, "nexthop add id 5 via 10.9.7.9 dev card"],
            "a next hop of routes",
        ),
        (
            [
                *("link set dev card up", "address add 10.9.7.1/24 dev card noprefixroute"),
                "route add 10.9.7.0/24 dev card proto kernel metric 100",
            ],
            "the route to 10.9.7.0/24",
        ),
        ([*UP_WITH_ADDRESS, "neigh add 10.9.7.9 lladdr 52:54:00:00:00:99 dev card"], "10.9.7.9"),
        ([*UP_WITH_ADDRESS, "neigh add proxy 10.9.7.9 dev card"], "its neighbour 10.9.7.9"),
        (["maddress add 33:33:00:00:00:05 dev card"], "a multicast address"),
        (["link set dev card addrgenmode random"], "a secret of its own"),
        ([f"address add 10.9.7.{n}/24 dev card" for n in range(1, 67)], "more than 64 addresses"),
    ],
)
def test_a_card_in_use_is_left_alone(host: LayerHost, lines: list[str], why: str) -> None:
    host.root.ip(None, *lines)
    before = state(host)
    space = host.new_space()
    with pytest.raises(EndpointError, match="card is not free") as told:
        host.acquire_nics(["card"], space)
    assert why in told.value.message
    host.drop_all()
    assert [line.split(" valid_lft")[0] for line in state(host)] == [
        line.split(" valid_lft")[0] for line in before
    ]
    assert find(host.root, ["card"], outlives_run=False)[0].device == "card", (
        "a VM goes with all of it"
    )


@pytest.mark.parametrize(
    "words", ["root tbf rate 10mbit burst 20k latency 50ms", "ingress"], ids=["tbf", "ingress"]
)
def test_a_nic_with_a_configured_queue_discipline_is_not_used(host: LayerHost, words: str) -> None:
    host.root.do(["tc", "qdisc", "add", "dev", "card", *words.split()])
    with pytest.raises(EndpointError, match="has given it the queue discipline"):
        find(host.root, ["card"], outlives_run=True)


def test_a_nic_named_twice_is_rejected(host: LayerHost) -> None:
    with pytest.raises(EndpointError, match="card is named twice"):
        find(host.root, ["card", "52:54:00:00:00:01"], outlives_run=True)


def test_a_missing_nic_is_reported(host: LayerHost) -> None:
    with pytest.raises(EndpointError, match="no network card eth7"):
        find(host.root, ["eth7"], outlives_run=True)
