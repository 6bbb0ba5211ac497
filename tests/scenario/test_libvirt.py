"""What is wrong with the settings of hypervisors is told where it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmef.errors import InputError
from osmef.scenario.clouds.libvirt import LibvirtSettings
from osmef.scenario.load import load


def of_file(tmp_path: Path, provider: str) -> LibvirtSettings:
    path = tmp_path / "scenario.yaml"
    path.write_text(f"name: a\nprovider: {provider}\n")
    found = load(path).scenario.provider
    assert isinstance(found, LibvirtSettings)
    return found


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("uri: 'qemu:///system', uris: {a: 'qemu:///session'}", "say the same thing twice"),
        ("uris: {a: 'qemu:///system', b: 'qemu:///system'}", "two hosts are one connection"),
        ("uri: here", "'here' is no URI of libvirt"),
        ("uri: 'qemu+ssh://[::1/system'", "is no URI of libvirt for QEMU"),
        ("uri: 'qemu:///nonsense'", "is no URI of libvirt for QEMU"),
        ("uri: 'esx://host/'", "is no URI of libvirt for QEMU"),
        ("uris: {a: 'qemu+ssh://me@two words/system'}", "is no URI of libvirt for QEMU"),
        ("default_flavor: huge", "there is no flavor 'huge'"),
        ("flavors: {a: {vcpus: 1, ram: 1MiB}}", "must be at least 128 MB"),
        ("networks: [{}]", "either a bridge or a network"),
        ("networks: [{bridge: a, network: b}]", "either a bridge or a network"),
        ("networks: [{bridge: a}]", "address that a guest on a bridge gets"),
        ("networks: [{network: a, gateway: 10.0.0.1}]", "DHCP announces the gateway"),
        ("networks: [{bridge: a, addresses: 10.0.0.9-10.0.0.1/24}]", "no range of IPv4"),
        ("networks: [{bridge: a, addresses: 10.0.0.1-10.0.1.9/24}]", "no range of IPv4"),
        ("networks: [{bridge: a, addresses: 10.0.0.1}]", "no range of IPv4"),
        ("networks: [{bridge: a, addresses: 10.0.0.0-10.0.0.9/24}]", "can't be a guest's"),
        ("networks: [{bridge: a, addresses: 10.0.0.9-10.0.0.255/24}]", "can't be a guest's"),
        (
            "networks: [{bridge: a, addresses: 10.0.0.1-10.0.0.9/24, gateway: 10.0.0.1}]",
            "that is none of theirs",
        ),
        (
            "networks: [{bridge: a, addresses: 10.0.0.2-10.0.0.9/24, gateway: 10.0.1.1}]",
            "that is none of theirs",
        ),
        ("networks: [{network: a}, {network: a}]", "two tenants on one network are one"),
        ("storage: images", "'images' is not the absolute path"),
        ("storage: ~/images", "is not the absolute path"),
    ],
)
def test_bad_settings_are_reported_at_their_line_with_a_cure(
    tmp_path: Path, keys: str, said: str
) -> None:
    with pytest.raises(InputError, match=said) as raised:
        of_file(tmp_path, f"{{kind: libvirt, {keys}}}")
    assert {problem.line for problem in raised.value.problems} == {2}
    assert all(problem.cure for problem in raised.value.problems)


def test_the_short_provider_form_uses_this_machine(tmp_path: Path) -> None:
    settings = of_file(tmp_path, "libvirt")
    assert settings.hypervisors == {"hypervisor": "qemu:///system"}
    assert settings.lanes(4, 2) == 1


@pytest.mark.parametrize(
    "uri",
    [
        "qemu:///session",
        "qemu+ssh://me@host:2222/system?keyfile=/home/me/key",
        "qemu+ssh://me@[2001:db8::7]:22/system",
        "qemu+unix:///system?socket=/run/libvirt/libvirt-sock",
        "qemu+libssh2://host/system",
    ],
)
def test_uris_of_qemu_are_taken(tmp_path: Path, uri: str) -> None:
    assert of_file(tmp_path, f"{{kind: libvirt, uri: '{uri}'}}").hypervisors["hypervisor"] == uri


def test_hosts_make_lanes_of_two(tmp_path: Path) -> None:
    uris = ", ".join(f"h{n}: 'qemu+ssh://h{n}/system'" for n in range(5))
    settings = of_file(tmp_path, f"{{kind: libvirt, uris: {{{uris}}}}}")
    assert [settings.lanes(parallel, 9) for parallel in (1, 2, 3)] == [1, 2, 2]
