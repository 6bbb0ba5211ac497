"""Names, marks, XML, sizes, CPUs and errors; on libvirt's own fake driver where that serves."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from ipaddress import IPv4Network
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.engine.check import check_study
from osmef.errors import (
    ApiError,
    CapacityError,
    InputError,
    NotFoundError,
    OsmefError,
    ProviderError,
    ReachError,
)
from osmef.programs import find_program
from osmef.providers.base import Endpoint, EndpointRequest, Resource
from osmef.providers.libvirt import provider, xml
from osmef.providers.libvirt.connection import Hypervisor, Maker, Mark, mark_of_name, mark_of_xml
from osmef.providers.libvirt.guest import find_guest
from osmef.providers.libvirt.networks import make_networks
from osmef.providers.libvirt.provider import LibvirtProvider
from osmef.providers.libvirt.provision import flavor_of, pin, place
from osmef.providers.libvirt.storage import find_image
from osmef.providers.parallel import map_concurrently
from osmef.remote.login import HostKeys, KeyPair, Login
from osmef.scenario.clouds.libvirt import LibvirtSettings, addresses_of
from osmef.scenario.fields import EndpointKind, FlavorNeed
from osmef.scenario.load import load
from tests.images.written import write_image
from tests.libvirt.lab import libvirt_module
from tests.providers.conftest import MemoryLedger

MARK = Mark("lab-20260101T000000Z-ab12", 1000, 2000)
FAKE = "test:///default"


def settings(**keys: object) -> LibvirtSettings:
    return LibvirtSettings.model_validate({"kind": "libvirt", **keys})


@pytest.fixture
def fake() -> Iterator[Hypervisor]:
    libvirt_module()
    host = Hypervisor("fake", FAKE)
    yield host
    host.close()


def test_names_and_metadata_carry_the_mark() -> None:
    assert mark_of_name(MARK.marking_name("pool"), "pool") == MARK
    assert mark_of_name(MARK.marking_name("pool"), "filter") is None
    subnet = IPv4Network("10.1.2.0/24")
    name = MARK.name("tenant-1")
    description = xml.network(name, subnet, MARK.element(name), routed=True)
    assert mark_of_xml(description) == MARK
    assert mark_of_xml(description.replace(f"<name>{name}", f"<name>{name}-clone")) is None
    assert xml.parse(description).find("ip[@address='10.1.2.1'][@prefix='24']") is not None


@pytest.mark.parametrize(
    "name",
    ["osmef-lab-pool", "default", "osmef-lab-pool-1-x", "my-osmef-lab-pool-1-2", "osmef--pool--2"],
)
def test_similar_pool_names_are_not_taken_for_marks(name: str) -> None:
    assert mark_of_name(name, "pool") is None


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "<metadata/>",
        "<metadata><run xmlns='urn:other' id='a' made='1' deadline='2'/></metadata>",
        "<metadata><run xmlns='urn:osmef:libvirt:1' id='a' made='1'/></metadata>",
        "<metadata><run xmlns='urn:osmef:libvirt:1' id='a' made='1' deadline='2'/></metadata>",
        "<metadata><o:run xmlns:o='urn:osmef:libvirt:1' name='osmef-a-vm' id='a'/></metadata>",
    ],
)
def test_foreign_domain_metadata_is_not_taken_for_a_mark(metadata: str) -> None:
    assert mark_of_xml(f"<domain><name>osmef-a-vm</name>{metadata}</domain>") is None


@given(st.text(min_size=1, max_size=20, alphabet=st.characters(exclude_categories=["C"])))
def test_no_text_breaks_out_of_the_description(text: str) -> None:
    machine = xml.Domain("n", "x86_64", "tcg", 1, 1 << 28, xml.KernelBoot(text, "i", text))
    parsed = xml.parse(machine.xml([]))
    assert parsed.findtext("os/kernel") == text
    assert parsed.findtext("os/cmdline") == text


def topology(cores: int, threads: int) -> str:
    cpus = "".join(
        f"<cpu id='{thread * cores + core}' socket_id='0' die_id='0' core_id='{core}'/>"
        for core in range(cores)
        for thread in range(threads)
    )
    cells = f"<topology><cells><cell><cpus>{cpus}</cpus></cell></cells></topology>"
    return f"<capabilities><host>{cells}</host></capabilities>"


@given(st.integers(1, 16), st.integers(1, 2), st.lists(st.integers(1, 8), min_size=1, max_size=6))
def test_no_two_guests_share_a_cpu_and_if_possible_no_core(
    cores: int, threads: int, sizes: list[int]
) -> None:
    wanted = {f"vm-{n}": size for n, size in enumerate(sizes)}
    found = pin(topology(cores, threads), wanted)
    if found is None:
        assert sum(sizes) > cores * threads
        return
    assert {name: len(set(cpus)) for name, cpus in found.items()} == wanted
    whole = sum(-(-size // threads) for size in sizes) <= cores
    for one, other in combinations(found.values(), 2):
        assert not set(one) & set(other)
        if whole:
            assert not {cpu % cores for cpu in one} & {cpu % cores for cpu in other}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, "small"),
        ("large", "large"),
        ("huge", None),
        (FlavorNeed(vcpus=2), "medium"),
        (FlavorNeed.model_validate({"vcpus": 1, "ram": "2GiB"}), "large"),
        (FlavorNeed(vcpus=9), None),
    ],
)
def test_the_smallest_flavor_that_fits_is_taken(
    wanted: str | FlavorNeed | None, found: str | None
) -> None:
    assert flavor_of(settings(), wanted) == found


def test_slots_are_mapped_to_hosts_and_other_vms_to_free_hosts(
    vm: Callable[..., EndpointRequest],
) -> None:
    two = settings(uris={"alpha": "qemu:///system", "beta": "qemu+ssh://b/system"})
    placed = place(two, [vm("a", "host-1"), vm("b", "host-1"), vm("c", "host-2")])
    assert placed["a"] == placed["b"] != placed["c"]
    anywhere = [
        EndpointRequest(name, "sender", vm("a", "h").kind, None, None, "tenant-1")
        for name in "abcd"
    ]
    assert sorted(place(two, anywhere).values()) == ["alpha", "alpha", "beta", "beta"]
    with pytest.raises(CapacityError):
        place(settings(), [vm("a", "host-1"), vm("c", "host-2")])


def test_a_plan_lists_the_host_of_each_guest(
    vm: Callable[..., EndpointRequest], host: Callable[[str, str], EndpointRequest]
) -> None:
    uris = {"alpha": "qemu:///system", "beta": "qemu+ssh://b/system"}
    provider = LibvirtProvider(settings(uris=uris, hosts={"metal": {"ssh": "metal"}}))
    requests = [vm("a", "host-1"), vm("b", "host-2"), host("c", "host-3")]
    assert provider.machines(requests) == {"a": "alpha", "b": "beta", "c": "metal"}


def test_a_physical_host_is_found_beside_the_guest_that_stands_on_it(
    vm: Callable[..., EndpointRequest], host: Callable[[str, str], EndpointRequest]
) -> None:
    inventory = {
        "far": {"ssh": "far"},
        "metal": {"ssh": "metal", "location": {"host": "hypervisor"}},
    }
    placed = place(settings(hosts=inventory), [vm("a", "host-1"), host("b", "host-1")])
    assert placed == {"a": "hypervisor", "b": "metal"}
    placed = place(settings(hosts=inventory), [vm("a", "host-1"), host("b", "host-2")])
    assert placed == {"a": "hypervisor", "b": "far"}


def test_networks_are_made_where_nothing_is_and_removed_by_their_mark(
    fake: Hypervisor, ledger: MemoryLedger
) -> None:
    maker = Maker(MARK, ledger)
    made = make_networks(fake, maker, ["tenant-1", "tenant-2"])
    subnets = [network.subnet for network in made.values()]
    assert not subnets[0].overlaps(subnets[1])
    assert not any(subnet.overlaps(IPv4Network("192.168.122.0/24")) for subnet in subnets)
    ours = LibvirtProvider.owned({"uri": FAKE})
    assert {one.name for one in ours} == {network.name for network in made.values()}
    assert LibvirtProvider.owned({"uri": FAKE}, "another-run") == []
    gone: list[Resource] = []
    LibvirtProvider.destroy(ours, gone.append)
    LibvirtProvider.destroy(ours, gone.append)
    assert len(gone) == 4
    assert LibvirtProvider.owned({"uri": FAKE}) == []
    assert fake.do("looking", lambda connection: connection.listNetworks()) == ["default"]


def intended(kind: str, name: str) -> Resource:
    """Return what a journal holds of a thing whose making was not seen to end."""
    return MARK.resource("libvirt", kind, name, {"uri": FAKE})


def test_a_network_created_late_is_removed_at_the_second_search(
    fake: Hypervisor, ledger: MemoryLedger
) -> None:
    late: list[str] = []

    def come() -> None:
        if not late:
            late.extend(
                one.name for one in make_networks(fake, Maker(MARK, ledger), ["t"]).values()
            )

    fake.do("connecting", lambda connection: connection.getLibVersion())
    fake.check = come
    gone: list[Resource] = []
    provider.destroy(fake, [intended("network", MARK.name("t"))], gone.append)
    assert late == [MARK.name("t")]
    assert [one.name for one in gone] == late
    assert fake.do("looking", lambda connection: connection.listNetworks()) == ["default"]


def test_a_guest_is_found_on_the_host_that_it_was_migrated_to(
    fake: Hypervisor, tmp_path: Path
) -> None:
    (tmp_path / "empty.xml").write_text("<node/>")
    first = Hypervisor("first", f"test://{tmp_path}/empty.xml")
    (uuid,) = fake.do(
        "looking", lambda connection: [one.UUIDString() for one in connection.listAllDomains()]
    )
    found = find_guest([first, fake], uuid)
    assert found is not None
    host, described = found
    assert host is fake
    assert uuid in described
    assert find_guest([first], uuid) is None
    first.close()


def described(mark: Mark, name: str) -> str:
    """Return a guest as the fake driver takes it."""
    made = xml.Domain(name, "x86_64", "tcg", 1, 1 << 28, None).xml([mark.element(name)])
    return made.replace("type='qemu'", "type='test'").replace('type="qemu"', 'type="test"')


def test_a_migrated_guest_is_deleted_with_its_run(
    fake: Hypervisor, ledger: MemoryLedger, tmp_path: Path
) -> None:
    (tmp_path / "empty.xml").write_text("<node/>")
    first = {"uri": f"test://{tmp_path}/empty.xml"}
    name, other = MARK.name("a"), Mark("other-20260101T000000Z-ab12", 1000, 2000)
    make_networks(fake, Maker(MARK, ledger), ["t"])
    there = fake.do("connecting", lambda connection: connection)
    for mark in (MARK, other):
        there.createXML(described(mark, mark.name("a")))
    made = [MARK.resource("libvirt", "domain", name, first, "its-id")]
    made += [event[1] for event in ledger.events if event[0] == "created"]
    gone: list[Resource] = []
    LibvirtProvider.destroy(made, gone.append)
    theirs = LibvirtProvider.owned({"uri": FAKE})
    assert [one.name for one in theirs] == [other.name("a")]
    assert set(made) <= set(gone)
    LibvirtProvider.destroy(theirs, gone.append)


def test_a_network_used_by_a_remaining_guest_is_not_deleted(
    fake: Hypervisor, ledger: MemoryLedger
) -> None:
    """It can't be ended, as it is not running; somebody has defined it."""
    (network,) = make_networks(fake, Maker(MARK, ledger), ["t"]).values()
    name, other = MARK.name("a"), Mark("other-20260101T000000Z-ab12", 1000, 2000)
    (theirs,) = make_networks(fake, Maker(other, ledger), ["t"]).values()
    text = described(MARK, name)
    domain = fake.do("defining", lambda connection: connection.defineXML(text))
    left = [intended("domain", name), intended("network", network.name)]
    also = other.resource("libvirt", "network", theirs.name, {"uri": FAKE})
    gone: list[Resource] = []
    try:
        with pytest.raises(ProviderError, match=name):
            provider.destroy(fake, [*left, also], gone.append)
        assert gone == [also]
        there = fake.do("looking", lambda connection: connection.listNetworks())
        assert set(there) == {"default", network.name}
    finally:
        domain.undefine()
    provider.destroy(fake, left, gone.append)
    assert set(gone) == {also, *left}


def test_a_copy_of_our_network_made_by_others_is_not_deleted(
    fake: Hypervisor, ledger: MemoryLedger
) -> None:
    (network,) = make_networks(fake, Maker(MARK, ledger), ["t"]).values()
    copy = xml.network(
        f"{network.name}-clone",
        IPv4Network("10.250.9.0/24"),
        MARK.element(network.name),
        routed=False,
    )
    theirs = fake.do("copying", lambda connection: connection.networkCreateXML(copy))
    try:
        ours = LibvirtProvider.owned({"uri": FAKE})
        assert [one.name for one in ours] == [network.name]
        gone: list[Resource] = []
        provider.destroy(fake, [*ours, intended("network", theirs.name())], gone.append)
        assert len(gone) == 2
        assert theirs.isActive()
    finally:
        theirs.destroy()


def test_without_a_uri_the_uri_of_the_environment_is_used(
    fake: Hypervisor, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_networks(fake, Maker(MARK, ledger), ["tenant-1"])
    monkeypatch.setenv("LIBVIRT_DEFAULT_URI", FAKE)
    ours = LibvirtProvider.owned({})
    LibvirtProvider.destroy(ours, lambda _resource: None)
    assert [(one.run, one.access) for one in ours] == [(MARK.run, {"uri": FAKE})]


@pytest.mark.real("libvirt")
@pytest.mark.parametrize(
    ("uri", "kind", "cure"),
    [
        ("qemu+unix:///system?socket=/nowhere", ApiError, "is libvirtd running"),
        ("qemu+ssh://nobody@127.0.0.1:9/system", ReachError, "is sshd running"),
        ("nonsense:///x", ProviderError, ""),
    ],
)
def test_a_host_that_can_not_be_reached(uri: str, kind: type[OsmefError], cure: str) -> None:
    libvirt_module()
    host = Hypervisor("alpha", uri)
    with pytest.raises(kind) as raised:
        host.do("connecting", lambda connection: connection.getHostname())
    assert raised.value.where == "alpha"
    assert cure in str(raised.value.cure)


def test_things_done_at_once_end_with_the_first_failure() -> None:
    def work(number: int) -> int:
        if number == 3:
            raise CapacityError("full")
        return number

    assert map_concurrently(work, [1, 2]) == [1, 2]
    with pytest.raises(CapacityError):
        map_concurrently(work, range(6))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no image here"),
        (b"", "is no disk image"),
        (b"QFI\xfb" + bytes(4) + (104).to_bytes(8, "big") + bytes(496), "only a part of a disk"),
    ],
)
def test_images_that_can_not_be_used(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "disk"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(NotFoundError, match=said):
        find_image(str(path))


@pytest.mark.real("libvirt")
def test_an_image_that_has_the_hypervisor_read_other_files_is_refused(tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    disk = images / "other.qcow2"
    qemu_img = find_program("qemu-img", "qemu-utils", "the test")
    make = (qemu_img, "create", "-q", "-f", "qcow2")
    data = f"data_file={tmp_path}/data.raw,data_file_raw=on"
    subprocess.run([*make, "-o", data, disk, "1M"], check=True)
    with pytest.raises(NotFoundError, match="an external data file"):
        find_image(str(disk))
    subprocess.run([*make, disk, "1M"], check=True)
    assert find_image(str(disk)).disk_bytes == 1 << 20
    directory = write_image(images, "plain")
    back = ("-b", str(disk), "-F", "qcow2")
    subprocess.run([*make, *back, directory / "root.qcow2"], check=True)
    manifest = json.loads((directory / "image.json").read_text())
    manifest["files"]["root"]["size_bytes"] = (directory / "root.qcow2").stat().st_size
    (directory / "image.json").write_text(json.dumps(manifest))
    with pytest.raises(NotFoundError, match="a backing file"):
        find_image(str(directory))


def test_the_home_of_an_unknown_user_in_an_image_path_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="no-such-user"):
        find_image("~no-such-user/disk.qcow2")


def test_the_size_of_a_disk_is_read_from_its_header(tmp_path: Path) -> None:
    path = tmp_path / "disk.qcow2"
    path.write_bytes(b"QFI\xfb" + bytes(20) + (7 << 30).to_bytes(8, "big") + bytes(480))
    image = find_image(str(path))
    assert (image.format, image.disk_bytes) == ("qcow2", 7 << 30)


@given(st.integers(1, 200), st.integers(0, 54))
def test_a_range_has_both_its_ends(first: int, more: int) -> None:
    found = addresses_of(f"10.9.8.{first}-10.9.8.{first + more}/24")
    assert len(found) == more + 1
    assert str(found[0]) == f"10.9.8.{first}/24"
    assert str(found[-1]) == f"10.9.8.{first + more}/24"


def test_a_physical_host_stays_after_the_run_and_guests_do_not() -> None:
    hosts = {"metal": {"ssh": "root@10.9.9.9"}}
    settings = LibvirtSettings.model_validate({"kind": "libvirt", "hosts": hosts})
    provider = LibvirtProvider(settings)
    for kind, kept in (
        (EndpointKind.HOST, ("static", {"host": "metal", "ssh": "root@10.9.9.9"})),
        (EndpointKind.VM, None),
    ):
        request = EndpointRequest("host-1", "sender", kind, None, "host-1", None)
        login = Login("metal", "root", "10.9.9.9", HostKeys(()), KeyPair.generate("none"))
        endpoint = Endpoint(request, "metal", login, "10.9.9.9", None, None)
        assert provider.access_after_run(endpoint) == kept


def test_further_cards_are_on_bridges_that_are_named(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    networks = "networks: [{bridge: b, addresses: 10.0.0.1-10.0.0.9/24}], nic_bridges: [b1, b2]"
    uris = "uris: {a: 'qemu:///system', b: 'qemu+ssh://b/system'}"
    path.write_text(
        f"name: a\nprovider: {{kind: libvirt, {uris}, {networks}}}\n"
        "endpoints: {sender: {nics: 4}, receiver: {nics: 4}}\n"
        "layer: {kind: bond, mode: balance-alb, nics: 4}\n"
    )
    check_study(load(path))


@pytest.mark.parametrize(
    ("provider", "rest", "said"),
    [
        ("{kind: libvirt}", "placement: different-host", "different-host needs two hosts"),
        ("{kind: libvirt, uri: 'qemu:///session'}", "placement: same-host", "can't make networks"),
        (
            "{kind: libvirt, uri: 'qemu:///session', networks: [{network: default}]}",
            "placement: same-host",
            "does not reach networks of the system's libvirt",
        ),
        (
            "{kind: libvirt, uri: 'qemu+tls://far/system'}",
            "placement: same-host",
            "are reached through SSH alone",
        ),
        (
            "{kind: libvirt, uris: {a: 'qemu:///system', b: 'qemu+ssh://b/system'}}",
            "placement: different-host",
            "need a network that joins these",
        ),
        (
            "{kind: libvirt, networks: [{bridge: b, addresses: 10.0.0.1-10.0.0.9/24}]}",
            "placement: same-host\ntenancy: different-tenant",
            "two tenants need a network each",
        ),
        (
            "{kind: libvirt, uri: 'qemu:///session'}",
            "placement: same-host\nendpoints: {sender: {nics: 2}, receiver: {nics: 2}}",
            "networks of further cards are made on one host",
        ),
        (
            "{kind: libvirt}",
            "placement: same-host\nendpoints: {sender: {flavor: huge}, receiver: {}}",
            "there is no flavor 'huge'",
        ),
        (
            "{kind: libvirt}",
            "endpoints: {sender: {kind: host}, receiver: {kind: host}}",
            "physical hosts are needed",
        ),
        (
            "{kind: libvirt}",
            "family: ipv6\nplacement: same-host",
            "gives its endpoints no addresses of ipv6",
        ),
    ],
)
def test_impossible_settings_are_reported_before_any_connection(
    tmp_path: Path, provider: str, rest: str, said: str
) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(f"name: a\nprovider: {provider}\n{rest}\n")
    with pytest.raises(InputError, match=said) as raised:
        check_study(load(path))
    assert all(problem.cure for problem in raised.value.problems)


@pytest.mark.parametrize("odd", ["²", "9" * 400, "soon"])
def test_unreadable_foreign_metadata_is_reported_and_hides_no_resource(
    fake: Hypervisor, ledger: MemoryLedger, odd: str
) -> None:
    theirs = MARK.element("theirs")
    theirs.set("deadline", odd)
    description = xml.network("theirs", IPv4Network("10.9.8.0/24"), theirs, routed=False)
    made = make_networks(fake, Maker(MARK, ledger), ["t"])
    fake.do("making", lambda connection: connection.networkCreateXML(description))
    lines: list[str] = []
    assert [one.name for one in provider.owned(fake, None, lines.append)] == [
        one.name for one in made.values()
    ]
    (line,) = lines
    assert "network theirs: its mark can't be read" in line
    fake.do("removing", lambda connection: connection.networkLookupByName("theirs").destroy())
