"""What the local cloud promises, on a real one. ``test_rootless`` runs this file again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import IPRoute

from osmef.errors import HostKeyError, LoginError, ProviderError
from osmef.providers.base import EndpointRequest, Ledger, RunContext
from osmef.providers.local.addresses import has_ipv6
from osmef.providers.local.provider import LocalProvider
from osmef.remote.login import KeyPair
from osmef.remote.session import SshSession
from osmef.scenario.clouds.local import LocalFlavor, LocalSettings
from osmef.scenario.fields import EndpointKind, Family, ProviderNetwork
from osmef.scenario.location import Location, distance
from osmef.scenario.workload import Directions
from tests.unique import unique
from tests.waiting import until

Cloud = Any  # classes of a conftest can't be imported
Vm = Callable[..., EndpointRequest]

RATE_BPS = 100e6
PLACES = {  # name: role, host, tenant
    "vm-1": ("sender", "host-1", "tenant-1"),
    "vm-2": ("receiver", "host-1", "tenant-1"),
    "vm-3": ("receiver", "host-2", "tenant-1"),
    "vm-4": ("receiver", "host-1", "tenant-2"),
    "host-a": ("sender", "host-1", None),
    "host-b": ("receiver", "host-2", None),
}

UDP_SERVER = """
import socket, sys
six = ":" in sys.argv[1]
sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
if six:
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
else:
    sock.setsockopt(socket.IPPROTO_IP, 12, 1)  # IP_RECVTTL, which Python 3.11 does not name
sock.bind((sys.argv[1], 0))
sock.settimeout(10)
print(sock.getsockname()[1])
_, control, _, source = sock.recvmsg(100, 100)
print(int.from_bytes(control[0][2], sys.byteorder), source[0])
"""
UDP_CLIENT = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
sock = socket.socket(family, socket.SOCK_DGRAM)
sock.sendto(b"hello", (sys.argv[1], int(sys.argv[2])))
"""
ECHO = """
import socket, struct, sys
six = ":" in sys.argv[1]
family, protocol, ask = (socket.AF_INET6, 58, 128) if six else (socket.AF_INET, 1, 8)
sock = socket.socket(family, socket.SOCK_DGRAM, protocol)
sock.settimeout(10)
sock.connect((sys.argv[1], 0))
sock.send(struct.pack("!BBHHH", ask, 0, 0, 0, 1) + b"hello")
print(sock.recv(100)[8:].decode())
"""
TCP_SERVER = """
import socket, sys, time
server = socket.create_server((sys.argv[1], 0))
server.settimeout(10)
print(server.getsockname()[1])
connection, _ = server.accept()
start, total = None, 0
while data := connection.recv(1 << 20):
    start = start or time.monotonic()
    total += len(data)
print(total * 8, start, time.monotonic())
"""
TCP_CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10) as sock:
    sock.sendall(bytes(int(sys.argv[3])))
"""


class Forgetful:
    def intend(self, _resource: object) -> None: ...
    def created(self, _resource: object) -> None: ...
    def destroyed(self, _resource: object) -> None: ...


@pytest.fixture(scope="module")
def cloud(make_cloud: Any) -> Iterator[Cloud]:
    requests = [
        EndpointRequest(
            name,
            role,
            EndpointKind.HOST if tenant is None else EndpointKind.VM,
            None,
            host,
            tenant,
        )
        for name, (role, host, tenant) in PLACES.items()
    ]
    run = f"test-provider-{unique()}"
    settings = LocalSettings.model_validate({"link_rate": f"{RATE_BPS:.0f}bit/s"})
    with make_cloud(run, requests, settings, Forgetful()) as made:
        yield made


@pytest.fixture(params=Family)
def family(request: pytest.FixtureRequest) -> Family:
    if request.param is Family.IPV6 and not has_ipv6():
        pytest.skip("this machine's kernel has no IPv6")
    return Family(request.param)


def address(
    cloud: Cloud,
    sender: str,
    receiver: str,
    family: Family = Family.IPV4,
    layer: ProviderNetwork = ProviderNetwork.BARE,
) -> str:
    ends = cloud.endpoints
    return str(cloud.provider.data_address(ends[receiver], ends[sender], layer, family))


def route(
    cloud: Cloud,
    sender: str,
    receiver: str,
    family: Family,
    layer: ProviderNetwork = ProviderNetwork.BARE,
) -> tuple[int, str]:
    """Send a datagram; return how many routers it passed, and its source as the receiver saw it."""
    target = address(cloud, sender, receiver, family, layer)
    server = cloud.python_process(receiver, UDP_SERVER, target)
    cloud.python(sender, UDP_CLIENT, target, server.read_line())
    ttl, source = server.read_line().split()
    return 64 - int(ttl), source


def test_any_login_may_ping(cloud: Cloud, family: Family) -> None:
    assert cloud.python("vm-1", ECHO, address(cloud, "vm-1", "vm-3", family)) == "hello"


def rate_bps(cloud: Cloud, sender: str, receiver: str, size: int) -> float:
    return rate_of([transfer(cloud, sender, receiver, size)])


def both_ways_bps(cloud: Cloud) -> float:
    """Return the rate of two hosts that send to each other at once."""
    ends = ("vm-1", "vm-3")
    with ThreadPoolExecutor() as pool:
        return rate_of(list(pool.map(partial(transfer, cloud, size=8_000_000), ends, ends[::-1])))


def transfer(cloud: Cloud, sender: str, receiver: str, size: int) -> str:
    """Transfer so many bytes, and return the bits, and when they began and ended."""
    target = address(cloud, sender, receiver)
    server = cloud.python_process(receiver, TCP_SERVER, target)
    cloud.python(sender, TCP_CLIENT, target, server.read_line(), str(size))
    return str(server.read_line())


def rate_of(transfers: list[str]) -> float:
    """Return the rate of transfers from the first one's begin to the last one's end."""
    bits, begins, ends = zip(*(map(float, one.split()) for one in transfers), strict=True)
    return float(sum(bits) / (max(ends) - min(begins)))


def test_each_endpoint_is_a_machine_of_its_own(cloud: Cloud) -> None:
    names = {name: cloud.sessions[name].run(["hostname"]).stdout.strip() for name in PLACES}
    assert names == {
        "vm-1": b"vm-1", "vm-2": b"vm-2", "vm-3": b"vm-3", "vm-4": b"vm-4",
        "host-a": b"host-1", "host-b": b"host-2",
    }  # fmt: skip
    assert cloud.sessions["vm-1"].run(["cat", "/proc/1/comm"]).stdout == b"sshd\n"
    devices = cloud.sessions["vm-1"].run(["ls", "/sys/class/net"]).stdout.split()
    assert devices == [b"eth0", b"lo", b"mgmt0"]


def test_files_of_an_endpoint_are_its_own(cloud: Cloud) -> None:
    for path in ("/run/osmef-probe", "/run/home/osmef-probe"):
        cloud.sessions["vm-1"].put(b"x", path, 0o600)
        assert not Path(path).exists()
        assert cloud.sessions["vm-2"].run(["ls", path]).status != 0


@pytest.mark.parametrize("name", PLACES)
def test_the_location_is_as_requested_and_read_back(cloud: Cloud, name: str) -> None:
    _, host, tenant = PLACES[name]
    found = cloud.provider.describe([cloud.endpoints[name]])[0]
    assert found == Location(host=host, tenant=tenant)


def test_the_location_is_not_an_echo_of_the_request(cloud: Cloud) -> None:
    one, other = cloud.endpoints["vm-1"], cloud.endpoints["vm-3"]
    lie = replace(one, request=replace(other.request, name="vm-1"))
    assert cloud.provider.describe([lie])[0] == Location(host="host-1", tenant="tenant-1")


@pytest.mark.parametrize(
    ("receiver", "hops", "apart"), [("vm-2", 0, 0), ("vm-3", 0, 2), ("vm-4", 1, 4)]
)
def test_tenants_reach_each_other_through_the_router_only(
    cloud: Cloud, receiver: str, hops: int, apart: int, family: Family
) -> None:
    assert route(cloud, "vm-1", receiver, family)[0] == hops
    ends = [cloud.provider.describe([cloud.endpoints[name]])[0] for name in ("vm-1", receiver)]
    assert distance(*ends) == apart


@pytest.mark.parametrize(
    ("sender", "receiver", "layer"),
    [
        ("host-a", "host-b", ProviderNetwork.OVERLAY),
        ("vm-1", "host-b", ProviderNetwork.BARE),
        ("host-a", "vm-3", ProviderNetwork.BARE),
    ],
)
def test_hosts_take_part_in_the_overlay(
    cloud: Cloud, sender: str, receiver: str, layer: ProviderNetwork, family: Family
) -> None:
    bare = {
        address(cloud, "host-a", "host-b", family),
        address(cloud, "host-b", "host-a", family),
    }
    hops, source = route(cloud, sender, receiver, family, layer)
    assert hops == 0
    assert not {source, address(cloud, sender, receiver, family, layer)} & bare


def test_hosts_meet_on_the_physical_network(cloud: Cloud, family: Family) -> None:
    there = address(cloud, "host-b", "host-a", family)
    assert route(cloud, "host-a", "host-b", family) == (0, there)


def test_the_ipv6_address_is_the_one_that_the_endpoint_reports(cloud: Cloud) -> None:
    if not has_ipv6():
        pytest.skip("this machine's kernel has no IPv6")
    for name in ("vm-3", "host-b"):
        end = cloud.endpoints[name]
        told = cloud.provider.data_address(
            end, cloud.endpoints["host-a"], ProviderNetwork.BARE, Family.IPV6
        )
        assert told == end.data_address6
        assert IPv6Address(told).is_private


@pytest.mark.parametrize(
    ("sender", "receiver"), [("host-a", "host-b"), ("vm-1", "vm-3"), ("vm-1", "vm-4")]
)
def test_traffic_between_hosts_is_limited_to_the_link_rate(
    cloud: Cloud, sender: str, receiver: str
) -> None:
    assert 0.7 * RATE_BPS < rate_bps(cloud, sender, receiver, 8_000_000) < 1.02 * RATE_BPS


def test_hosts_that_send_in_turns_share_the_rate_and_then_do_not(cloud: Cloud) -> None:
    """One way alone has the whole rate; both at once have it together, and each of it after."""
    ends = [cloud.endpoints[name] for name in ("vm-1", "vm-3")]
    try:
        cloud.provider.prepare(ends, Directions.IN_TURNS)
        assert 0.7 * RATE_BPS < rate_bps(cloud, "vm-1", "vm-3", 8_000_000) < 1.02 * RATE_BPS
        assert all(both_ways_bps(cloud) < 1.1 * RATE_BPS for _ in range(4))
    finally:
        cloud.provider.prepare(ends, Directions.AT_ONCE)
    # The later of two connections is often slow, as its acknowledgements wait behind the other's
    # data, but they are never so fast where they share the rate.
    until(lambda: both_ways_bps(cloud) > 1.2 * RATE_BPS)


def test_traffic_within_a_host_is_not_limited(cloud: Cloud) -> None:
    assert rate_bps(cloud, "vm-1", "vm-2", 50_000_000) > 2 * RATE_BPS


def test_cpus_are_those_of_the_flavor(cloud: Cloud) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    code = "import os; print(*sorted(os.sched_getaffinity(0)))"
    assert cloud.python("vm-1", code) == str(cpus[0])
    assert cloud.python("vm-2", code) == str(cpus[-1])
    assert cloud.python("host-a", code) == " ".join(map(str, cpus))
    assert cloud.endpoints["vm-1"].vcpus == 1
    assert cloud.endpoints["host-a"].vcpus == len(cpus)


def test_another_key_does_not_get_in(cloud: Cloud) -> None:
    with pytest.raises(LoginError):
        SshSession.open(replace(cloud.endpoints["vm-1"].login, key=KeyPair.generate("stranger")))


def test_each_endpoint_has_a_host_key_of_its_own(cloud: Cloud) -> None:
    logins = [endpoint.login for endpoint in cloud.endpoints.values()]
    assert len({login.host_keys for login in logins}) == len(logins)
    with pytest.raises(HostKeyError):
        SshSession.open(replace(logins[0], host_keys=logins[1].host_keys))


def test_keys_are_on_no_command_line_and_in_no_environment(cloud: Cloud) -> None:
    secret = cloud.key.private.splitlines()[2].encode()
    for entry in Path("/proc").iterdir():
        for name in ("cmdline", "environ"):
            try:
                text = (entry / name).read_bytes()
            except OSError:
                continue
            assert secret not in text
            assert b"OPENSSH PRIVATE KEY" not in text


def test_ssh_is_not_open_on_the_tenants_network(cloud: Cloud) -> None:
    target = address(cloud, "vm-1", "vm-2")
    code = "import socket,sys; print(socket.socket().connect_ex((sys.argv[1], 22)) != 0)"
    assert cloud.python("vm-1", code, target) == "True"


def machine_state() -> list[Any]:
    with IPRoute() as ip:
        links = [(link["index"], link.get("ifname")) for link in ip.get_links()]
        addresses = [(one["index"], one.get("address")) for one in ip.get_addr()]
        routes = [
            (one.get("dst"), one.get("oif"), one.get("gateway"), one.get("table"))
            for one in ip.get_routes()
        ]
    namespaces = Path("/run/netns")
    names = sorted(one.name for one in namespaces.iterdir()) if namespaces.exists() else []
    mounts = Path("/proc/self/mountinfo").read_text()
    forward = Path("/proc/sys/net/ipv4/ip_forward").read_text()
    networks = [sorted(part, key=str) for part in (links, addresses, routes)]
    return [*networks, names, mounts, forward, os.uname().nodename]


def test_the_network_of_the_machine_is_unchanged(
    make_cloud: Any, vm: Vm, ledger: Ledger, run_name: str
) -> None:
    before = machine_state()
    with make_cloud(run_name, [vm("vm-1", "host-1")], LocalSettings(), ledger):
        assert machine_state() == before
    assert machine_state() == before


def test_two_concurrent_local_clouds_are_isolated(
    make_cloud: Any, vm: Vm, ledger: Ledger, run_name: str
) -> None:
    requests = [vm("vm-1", "host-1"), vm("vm-2", "host-1")]
    connect = (
        "import socket,sys; print(socket.socket().connect_ex((sys.argv[1], int(sys.argv[2]))))"
    )
    with (
        make_cloud(f"{run_name}-a", requests, LocalSettings(), ledger) as one,
        make_cloud(f"{run_name}-b", requests, LocalSettings(), ledger) as other,
    ):
        target = address(one, "vm-1", "vm-2")
        assert target == address(other, "vm-1", "vm-2")
        port = one.python_process("vm-2", TCP_SERVER, target).read_line()
        assert other.python("vm-1", connect, target, port) != "0"
        assert one.python("vm-1", connect, target, port) == "0"


def test_the_ledger_records_the_whole_lifecycle(
    make_cloud: Any, vm: Vm, ledger: Any, run_name: str
) -> None:
    with make_cloud(run_name, [vm("vm-1", "host-1")], LocalSettings(), ledger) as made:
        (owned,) = LocalProvider.owned({}, run_name)
        assert [event for event, _ in ledger.events] == ["intend", "created"]
        assert ledger.events[0][1].id is None
        assert ledger.events[1][1].id == owned.id
        made.provider.close()
        assert ledger.events[2:] == [("destroyed", ledger.events[1][1])]
    assert len(ledger.events) == 3
    assert LocalProvider.owned({}, run_name) == []


def test_an_overcommitted_flavor_gets_what_there_is(
    make_cloud: Any, vm: Vm, ledger: Ledger, run_name: str
) -> None:
    flavors = {"huge": LocalFlavor(vcpus=1024)}
    settings = LocalSettings(flavors=flavors, cpu_overcommit=True)
    with make_cloud(run_name, [vm("vm-1", "host-1")], settings, ledger) as made:
        (endpoint,) = made.endpoints.values()
    assert endpoint.vcpus == len(os.sched_getaffinity(0))
    assert endpoint.flavor == "huge"
    assert "1024" in endpoint.warnings[0]


def test_the_user_reads_what_is_made(machine: None, vm: Vm, ledger: Ledger, run_name: str) -> None:
    requests = [vm(f"vm-{n}", f"host-{1 + n % 2}", f"tenant-{1 + n // 2}") for n in range(4)]
    lines: list[str] = []
    key, provider = KeyPair.generate("t"), LocalProvider(LocalSettings())
    try:
        context = RunContext(run_name, requests, key, ledger, time.time() + 600, lines.append)
        for endpoint in provider.create(context):
            SshSession.open(endpoint.login).close()
    finally:
        provider.close()
    assert lines == ["making a local cloud: 2 hosts, 2 tenants", "starting 4 endpoints"]


def test_a_closed_cloud_answers_with_an_error(
    make_cloud: Any, vm: Vm, ledger: Ledger, run_name: str
) -> None:
    with make_cloud(run_name, [vm("vm-1", "host-1")], LocalSettings(), ledger) as made:
        made.provider.close()
        (endpoint,) = made.endpoints.values()
        with pytest.raises(ProviderError):
            made.provider.describe([endpoint])
        with pytest.raises(OSError, match=r"."):
            endpoint.login.connect()


def test_network_cards_have_links_of_their_own_rate(make_cloud: Any, cloud: Cloud) -> None:
    """Two cards of two VMs: each pair of them is a link; what one sends, the other does not get."""
    if cloud.sessions["vm-1"].word(["id", "-u"]) != "0":
        pytest.skip("only root can give them addresses")
    names = {"one": "host-1", "other": "host-2"}
    requests = [
        EndpointRequest(name, "sender", EndpointKind.VM, None, host, "tenant-1", nics=2)
        for name, host in names.items()
    ]
    settings = LocalSettings.model_validate({"link_rate": f"{RATE_BPS:.0f}bit/s"})
    with make_cloud(f"test-nics-{unique()}", requests, settings, Forgetful()) as made:
        assert [one.nics for one in made.endpoints.values()] == [("nic1", "nic2")] * 2
        for number, session in enumerate(made.sessions.values(), 1):
            for card in (1, 2):
                words = ["ip", "address", "add", f"10.255.254.{4 * card + number}/30"]
                assert session.run([*words, "dev", f"nic{card}"]).status == 0
        for there in ("10.255.254.6", "10.255.254.10"):
            server = made.python_process("other", TCP_SERVER, there)
            port = str(server.read_line())
            made.python("one", TCP_CLIENT, there, port, "5000000")
            rate = rate_of([str(server.read_line())])
            assert 0.8 * RATE_BPS < rate < 1.1 * RATE_BPS
