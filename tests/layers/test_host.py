"""Names, ports and networks that somebody has are not taken; what was made goes, nothing else."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import EndpointError
from osmef.layers.host import overlaps
from osmef.layers.kinds.tunnels import Vxlan, VxlanSettings
from osmef.layers.root import InUseError, Root, in_namespace
from osmef.layers.traces import KINDS, Trace, TraceNames, is_of, remove
from tests.layers.machines import Machines

if TYPE_CHECKING:
    from osmef.remote.session import SshSession

WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)


@given(WORDS, WORDS, st.integers(0, 9999))
def test_resource_names_are_short_enough_and_recognized_as_those_of_the_run(
    run: str, endpoint: str, number: int
) -> None:
    of_run = TraceNames(run, endpoint)
    names = {
        "netns": of_run.space(number),
        "link": of_run.link(number),
        "nft": of_run.table(number),
        "xfrm": of_run.ipsec(number),
        "container": of_run.of_engine("podman", number),
    }
    assert len(names["link"].encode()) <= 15
    assert 0 < int(names["xfrm"]) < 2**31
    assert 0 < of_run.group < 2**31
    for kind, name in names.items():
        assert is_of(run, Trace(kind, name))
        assert is_of(f"{run}x", Trace(kind, name)) is False


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("netns", "production"),
        ("netns", "osmef-../../etc-1"),
        ("link", "eth0"),
        ("nft", "filter"),
        ("forwarding", "eth0=1"),
        ("forwarding", "../../x=0"),
        ("route", "10.0.0.1@eth0"),
        ("route", "2001:db8::1@eth0"),
        ("ipv6", "eth0/forwarding=2"),
        ("ipv6", "eth0/disable_ipv6=1"),
        ("ipv6", "../all/forwarding=0"),
        ("xfrm", "1"),
        ("container", "podman:database"),
        ("image", "rm:osmef-12345678-1"),
        ("disk", "sda"),
    ],
)
def test_resources_that_no_layer_creates_are_not_removed(kind: str, name: str) -> None:
    assert not is_of("a-run", Trace(kind, name))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("forwarding", "eth0=0"),
        ("ipv6", "eth0/accept_ra=1"),
        ("ipv6", "all/forwarding=0"),
        ("route", "198.18.0.2@eth0"),
        ("route", "fd6f:736d:6566:1::2@eth0"),
    ],
)
def test_settings_that_a_layer_changes_are_restored(kind: str, name: str) -> None:
    assert is_of("a-run", Trace(kind, name))


def test_a_namespace_name_in_use_is_skipped(machines: Machines) -> None:
    host = machines.hosts["a"]
    taken = host.names.space(1)
    machines.on("a", "ip", "netns", "add", taken)
    made = host.new_space()
    assert made == host.names.space(2)
    assert host.traces == [Trace("netns", made)]
    host.drop_all()
    assert taken in machines.on("a", "ip", "netns", "list")


def test_an_interface_of_another_owner_is_not_removed(machines: Machines) -> None:
    host = machines.hosts["a"]
    name = host.names.link(5)
    machines.on("a", "ip", "link", "add", name, "type", "bridge")
    remove(host.root, host.names.run, Trace("link", name))
    assert name in machines.on("a", "ip", "link")


def test_an_interface_created_by_a_program_is_deleted_with_those_of_the_run(
    machines: Machines,
) -> None:
    host = machines.hosts["a"]
    name = host.new_link_of(None, lambda name: ["ip", "link", "add", name, "type", "bridge"])
    assert name in machines.on("a", "ip", "link", "show", "group", str(host.names.group))
    host.drop_all()
    assert name not in machines.on("a", "ip", "link")


def test_an_interface_of_a_failed_program_is_deleted_although_in_no_group(
    machines: Machines,
) -> None:
    host = machines.hosts["a"]
    with pytest.raises(EndpointError):
        host.new_link_of(
            None, lambda name: ["sh", "-c", f"ip tuntap add dev {name} mode tun; exit 1"]
        )
    assert ": om" in machines.on("a", "ip", "link")
    host.drop_all()
    assert ": om" not in machines.on("a", "ip", "link")


def test_an_existing_tunnel_is_distinguished_from_other_failures(machines: Machines) -> None:
    host = machines.hosts["a"]
    kind = "type vxlan id 5 local 10.9.3.1 remote 10.9.3.2 dstport 20005"
    host.new_link(None, kind)
    with pytest.raises(InUseError):
        host.new_link(None, kind)
    host.drop_all()


def test_a_udp_port_in_use_is_skipped(machines: Machines) -> None:
    machines.on("b", "ip", "link", "add", "theirs", "type", "vxlan", "id", "9", "dstport", "20900")
    machines.on("b", "ip", "link", "set", "theirs", "up")
    assert 20900 in machines.hosts["b"].busy_ports(None)
    attached = Vxlan(VxlanSettings()).up(machines.underlay())
    assert machines.send(attached) == 100_000
    (device,) = attached["a"].devices
    told = machines.on("a", "ip", "-n", str(attached["a"].space), "-d", "link", "show", device)
    assert "dstport 20899" in told


def test_a_network_that_is_routed_somewhere_is_not_taken(machines: Machines) -> None:
    machines.on("a", "ip", "route", "add", "198.18.0.0/24", "dev", "data0")
    attached = Vxlan(VxlanSettings()).up(machines.underlay())
    assert attached["a"].address == "198.18.4.1"
    assert machines.send(attached) == 100_000


def test_a_tunnel_is_set_up_with_other_numbers_when_one_end_fails(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The identifier is one that b has already: both ends get another one."""
    layer, underlay = Vxlan(VxlanSettings()), machines.underlay()
    numbers = iter([{"id": 7, "port": 20500}, {"id": 8, "port": 20501}])
    monkeypatch.setattr(layer, "numbers", lambda _underlay: next(numbers))
    line = ("type", "vxlan", "id", "7", "local", "10.9.3.2", "dstport", "20500")
    machines.on("b", "ip", "link", "add", "theirs", *line)
    machines.on("b", "ip", "link", "set", "theirs", "up")
    attached = layer.up(underlay)
    assert machines.send(attached) == 100_000
    assert len(machines.on("a", "ip", "netns", "list").splitlines()) == 4, "one more for each"


def test_removing_a_missing_resource_succeeds(machines: Machines) -> None:
    host = machines.hosts["a"]
    for kind, name in {
        "netns": host.names.space(1),
        "link": host.names.link(1),
        **({"nft": host.names.table(1)} if shutil.which("nft") else {}),
        "route": "198.18.0.1@data0",
        "xfrm": host.names.ipsec(1),
        "forwarding": "gone0=0",
    }.items():
        remove(host.root, host.names.run, Trace(kind, name))
    assert {"container", "image", "network"} <= KINDS


def test_a_login_without_root_privileges_is_reported(machines: Machines) -> None:
    shell = replace(machines.shells["a"], user="1000")
    shell.enter = (*shell.enter, "env", "PATH=/nowhere")
    with pytest.raises(EndpointError) as told:
        Root(cast("SshSession", shell)).do(["ip", "link"])
    assert "not root and may not become it" in told.value.message
    assert "sudo without a password" in str(told.value.cure)


def test_a_program_that_is_missing_is_named_with_its_package(machines: Machines) -> None:
    shell = machines.shells["a"]
    shell.enter = (*shell.enter, "env", "PATH=/nowhere")
    with pytest.raises(EndpointError) as told:
        Root(cast("SshSession", shell)).do(["wg", "--version"])
    assert (told.value.message, told.value.cure) == (
        "there is no program wg",
        "install wireguard-tools there",
    )


def test_overlaps_of_networks() -> None:
    assert overlaps("198.18.0.0/22", ["198.18.1.0/24"])
    assert overlaps("198.18.0.0/22", ["198.18.1.7"])
    assert not overlaps("198.18.0.0/22", ["198.18.4.0/24", "0.0.0.0/0", "fd00::/8", "nonsense"])


def test_a_bound_port_is_seen(machines: Machines) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours:
        ours.bind(("127.0.0.1", 0))
        assert ours.getsockname()[1] not in machines.hosts["a"].busy_ports(None), "another network"


def test_a_program_that_was_brought_is_run_where_it_lies(machines: Machines) -> None:
    there = {"wg": ["/opt/loader", "/opt/wg"]}

    def words(argv: Sequence[str]) -> list[str]:
        return [one for word in argv for one in there.get(word, [word])]

    shell = machines.shells["a"]
    root = Root(cast("SshSession", shell), words)
    root.run(in_namespace("its-space", ["wg", "--version"]))
    assert shell.ran[-1] == ["ip", "netns", "exec", "its-space", *there["wg"], "--version"]
