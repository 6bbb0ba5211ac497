"""What guests are and are not let do, and what is taken away again."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace

import pytest

from osmef.errors import NotFoundError
from osmef.images.guest_image import GuestImage
from osmef.providers.base import Endpoint, EndpointRequest, RunContext
from osmef.providers.libvirt.provider import LibvirtProvider
from osmef.providers.libvirt.xml import parse
from osmef.remote.login import KeyPair
from osmef.remote.session import SshSession
from osmef.scenario.clouds.libvirt import LibvirtSettings
from osmef.scenario.location import Location
from tests.libvirt.lab import LAN, Hypervisor, Lab, libvirt_module
from tests.providers.conftest import MemoryLedger

TINY = {"tiny": {"vcpus": 1, "ram": "256MiB"}}
RUN = "test-run-1"
MADE, DEADLINE = 1000.0, 2000.0
FOREIGN = """
<domain type='qemu'>
  <name>osmef-{run}-mine</name>
  <memory unit='MiB'>32</memory>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
</domain>
"""
DHCP = """
<network>
  <name>theirs</name>
  <dns enable='no'/>
  <ip address='10.96.7.1' prefix='24'>
    <dhcp><range start='10.96.7.50' end='10.96.7.59'/></dhcp>
  </ip>
</network>
"""


def provider_of(hypervisor: Hypervisor, image: GuestImage, **keys: object) -> LibvirtProvider:
    settings = {
        "kind": "libvirt",
        "uri": hypervisor.uri,
        "image": str(image.directory),
        "flavors": TINY,
        "accelerator": "tcg",
        **keys,
    }
    return LibvirtProvider(LibvirtSettings.model_validate(settings))


def order_of(run: str, requests: list[EndpointRequest], ledger: MemoryLedger) -> RunContext:
    key = KeyPair.generate("test")
    return RunContext(run, requests, key, ledger, DEADLINE, made=MADE)


@dataclass
class Guests:
    """Two guests on the network of the lab; the other hypervisor is a physical host beside them."""

    hypervisor: Hypervisor
    provider: LibvirtProvider
    endpoints: list[Endpoint]
    ledger: MemoryLedger


@pytest.fixture(scope="module")
def guests(
    lab: Lab,
    guest_image: GuestImage,
    vm: Callable[..., EndpointRequest],
    host: Callable[[str, str], EndpointRequest],
) -> Iterator[Guests]:
    alpha, ledger = lab["alpha"], MemoryLedger()
    keys = {key: str(lab["beta"].directory / key) for key in ("user_key", "known_hosts")}
    metal = {
        "ssh": f"root@{lab['beta'].address}",
        "identity": keys["user_key"],
        "known_hosts": keys["known_hosts"],
    }
    bridge = {"bridge": "br-lan", "addresses": f"{LAN}.120-{LAN}.129/24"}
    provider = provider_of(alpha, guest_image, networks=[bridge], hosts={"metal": metal})
    guests = [vm("one", "host-1"), vm("two", "host-1", role="receiver")]
    requests = [*guests, host("metal", "host-2")]
    with alpha.inside():
        try:
            provider.check(requests)
            endpoints = provider.create(order_of(RUN, requests, ledger))
            yield Guests(alpha, provider, endpoints[:2], ledger)
        finally:
            provider.close()
    assert LibvirtProvider.owned({"uri": alpha.uri}) == []
    made = {r.name for what, r in ledger.events if what == "created"}
    assert made == {r.name for what, r in ledger.events if what == "destroyed"} != set()


def connects(address: str, port: int) -> bool | None:
    """Return whether somebody listens there; None without any answer."""
    try:
        socket.create_connection((address, port), 1.0).close()
    except ConnectionRefusedError:
        return False
    except TimeoutError:
        return None
    return True


def answers(address: str, port: int, datagram: bytes, tries: int = 20) -> bool:
    """Tell whether a datagram arrives at a port where nobody listens, which the kernel tells."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((address, port))
        for _ in range(tries):  # the answers are limited in rate
            sock.settimeout(1.0)
            with suppress(TimeoutError):
                try:
                    sock.send(datagram)
                    sock.recv(1)
                except ConnectionRefusedError:
                    return True
    return False


def test_only_the_controller_and_peers_get_in(lab: Lab, guests: Guests) -> None:
    one, two = (endpoint.data_address for endpoint in guests.endpoints)
    assert connects(one, 22) is True
    assert connects(one, 20000) is None
    with lab["beta"].inside():
        assert connects(one, 22) is None
        assert connects(one, 20000) is False
    with closing(SshSession.open(guests.endpoints[0].login)) as session:
        told = [
            session.run(["busybox", "nc", "-w", "2", two, port]).stderr for port in ("20000", "22")
        ]
    assert b"refused" in told[0]
    assert b"timed out" in told[1]


@pytest.mark.parametrize("length", [100, 4000], ids=["whole", "in fragments"])
def test_datagrams_come_in_at_the_data_ports_only(lab: Lab, guests: Guests, length: int) -> None:
    address = guests.endpoints[0].data_address
    with lab["beta"].inside():
        assert answers(address, 20000, bytes(length))
        assert not answers(address, 19999, bytes(length), 2)
        assert not answers(address, 21000, bytes(length), 2)
    assert not answers(address, 20000, bytes(length), 2), "this machine is no peer"


def test_each_guest_has_its_own_cpus(guests: Guests) -> None:
    connection = libvirt_module().open(guests.hypervisor.uri)
    sets = [
        {pin.get("cpuset") for pin in parse(domain.XMLDesc()).iter("vcpupin")}
        for endpoint in guests.endpoints
        for domain in [connection.lookupByUUIDString(endpoint.resource_id)]
    ]
    cpus = connection.getInfo()[2]
    connection.close()
    if cpus < 2:
        assert all("share its CPUs" in " ".join(e.warnings) for e in guests.endpoints)
    else:
        assert not sets[0] & sets[1]


def test_addresses_of_another_run_are_left_alone(
    guests: Guests, guest_image: GuestImage, vm: Callable[..., EndpointRequest]
) -> None:
    taken = guests.endpoints[0].data_address
    bridge = {"bridge": "br-lan", "addresses": f"{taken}-{taken}/24"}
    other = provider_of(guests.hypervisor, guest_image, networks=[bridge])
    with pytest.raises(Exception, match="has no address left"):
        other.check([vm("one", "host-1")])


def test_the_host_is_reported_by_libvirt_and_unknown_once_the_guest_is_deleted(
    guests: Guests,
) -> None:
    found = guests.provider.describe(guests.endpoints)
    assert {(place.host, place.tenant) for place in found} == {("hypervisor", "br-lan")}
    gone = replace(guests.endpoints[0], resource_id=str(uuid.uuid4()))
    assert guests.provider.describe([gone]) == [Location()]


def test_a_domain_with_a_name_like_ours_is_left_alone(guests: Guests) -> None:
    connection = libvirt_module().open(guests.hypervisor.uri)
    foreign = connection.createXML(
        FOREIGN.format(run=RUN), libvirt_module().VIR_DOMAIN_START_PAUSED
    )
    try:
        ours = LibvirtProvider.owned({"uri": guests.hypervisor.uri}, RUN)
        assert foreign.name() not in {one.name for one in ours}
        assert {(one.made, one.deadline) for one in ours} == {(MADE, DEADLINE)}
        (some, *_) = (one for one in ours if one.kind == "domain")
        gone: list[object] = []
        like = type(some)("libvirt", "domain", foreign.name(), RUN, access=some.access)
        LibvirtProvider.destroy([like], gone.append)
        assert gone == [like]
        assert foreign.isActive()
    finally:
        foreign.destroy()
        connection.close()


def test_guests_outlive_their_daemon(guests: Guests) -> None:
    guests.hypervisor.kill_libvirtd()
    guests.hypervisor.start_libvirtd()
    assert {place.host for place in guests.provider.describe(guests.endpoints)} == {"hypervisor"}


def test_a_guest_asks_the_dhcp_server_of_a_network(
    lab: Lab, guest_image: GuestImage, vm: Callable[..., EndpointRequest], ledger: MemoryLedger
) -> None:
    alpha = lab["alpha"]
    connection = libvirt_module().open(alpha.uri)
    network = connection.networkCreateXML(DHCP)
    provider = provider_of(alpha, guest_image, networks=[{"network": "theirs"}])
    requests = [vm("one", "host-1")]
    try:
        with alpha.inside():
            provider.check(requests)
            (endpoint,) = provider.create(order_of("test-run-2", requests, ledger))
        assert endpoint.data_address.startswith("10.96.7.5")
    finally:
        with suppress(Exception):
            provider.close()
        network.destroy()
        connection.close()
    with pytest.raises(NotFoundError, match="there is no network theirs"):
        provider_of(alpha, guest_image, networks=[{"network": "theirs"}]).check(requests)
