"""Errors by kind, each with its cure: as real hypervisors and ssh make them, and as they tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from osmef.errors import (
    ApiError,
    CapacityError,
    CredentialsError,
    HostKeyError,
    LoginError,
    NotFoundError,
    OsmefError,
    PolicyError,
    ReachError,
)
from osmef.programs import find_program, search_path
from osmef.providers.base import EndpointRequest
from osmef.providers.libvirt.connection import Hypervisor, translate
from osmef.providers.libvirt.provider import LibvirtProvider
from osmef.providers.libvirt.provision import memory_note, ram_bytes_of
from osmef.remote.login import KeyPair
from osmef.scenario.clouds.libvirt import LibvirtSettings
from tests.cli.conftest import Osmef
from tests.libvirt.lab import LAN, Lab, libvirt_module

BETA = f"{LAN}.2"
STRANGER = KeyPair.generate("stranger")
Change = Callable[[str, Path], str]


def told(message: str, code: int = 1) -> OsmefError:
    error = libvirt_module().libvirtError("x")
    error.err = (code, 7, message, 2, "", "", "", 0, 0)
    return translate(error, "making the domain", "alpha")


@pytest.mark.real("libvirt")
@pytest.mark.parametrize(
    ("message", "code", "kind", "cure"),
    [
        ("Failed to connect socket to '/s': Permission denied", 38, CredentialsError, "group"),
        ("authentication unavailable: no polkit agent available", 45, CredentialsError, "group"),
        ("Failed to connect socket to '/s': No such file or directory", 38, ApiError, "libvirtd"),
        ("Failed to connect socket to '/s': Connection refused", 38, ApiError, "libvirtd"),
        ("access denied: 'QEMU' denied access", 88, PolicyError, "this right"),
        ("cannot create path '/srv/x': Permission denied", 38, PolicyError, "storage"),
        ("Could not open '/srv/x/root': Permission denied", 1, PolicyError, "storage"),
        (
            "failed to communicate with bridge helper: stderr=access denied by acl file\n: gone",
            38,
            PolicyError,
            "bridge.conf",
        ),
        ("Cannot get interface MTU on 'br9': No such device", 38, NotFoundError, "networks"),
        ("Network not found: no network with matching name 'x'", 43, NotFoundError, "virsh"),
        ("Maximum CPUs greater than specified machine type limit 288", 67, CapacityError, "vcpus"),
        (
            "cannot set up guest memory 'pc.ram': Cannot allocate memory",
            1,
            CapacityError,
            "free memory",
        ),
        ("cannot write data: No space left on device", 38, CapacityError, "free memory"),
        ("Could not access KVM kernel module: /dev/kvm", 1, PolicyError, "accelerator"),
        (
            "qemu-system-x86_64: ../../target/i386/kvm/kvm.c:3183: kvm_buf_set_msrs: Assertion",
            1,
            PolicyError,
            "accelerator: auto",
        ),
        ("something new", 1, ApiError, "log of libvirtd"),
    ],
)
def test_libvirt_errors_are_translated_to_a_kind_with_a_cure(
    message: str, code: int, kind: type[OsmefError], cure: str
) -> None:
    found = told(message, code)
    assert type(found) is kind
    assert cure in str(found.cure)
    assert "\n" not in found.message
    assert found.where == "alpha"


def changed(config: str, folder: Path) -> str:
    (folder / "known").write_text(f"{BETA} {STRANGER.public}\n")
    return known(config, folder)


def known(config: str, folder: Path) -> str:
    lines = [line for line in config.splitlines() if "UserKnownHostsFile" not in line]
    return "\n".join([*lines, f"    UserKnownHostsFile {folder / 'known'}\n"])


def unknown(config: str, folder: Path) -> str:
    (folder / "known").touch()
    return known(config, folder)


def refused_login(config: str, folder: Path) -> str:
    (folder / "key").touch(mode=0o600)
    (folder / "key").write_text(STRANGER.private)
    lines = [line for line in config.splitlines() if "IdentityFile" not in line]
    return "\n".join([*lines, f"    IdentityFile {folder / 'key'}\n"])


def as_it_is(config: str, folder: Path) -> str:
    return config


@pytest.fixture
def own_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose ssh is the one that is found, and reads the config there."""
    ssh = find_program("ssh", "openssh-client", "the test")
    (tmp_path / "ssh").write_text(f'#!/bin/sh\nexec {ssh} -F {tmp_path}/config "$@"\n')
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{search_path()}")
    return tmp_path


@pytest.mark.parametrize(
    ("change", "host", "expected"),
    [
        (changed, BETA, HostKeyError("shows another key than known_hosts has, SHA256:")),
        (unknown, BETA, HostKeyError("Host key verification failed")),
        (refused_login, BETA, LoginError("Permission denied (publickey")),
        (as_it_is, f"{BETA}:9", ReachError("Connection refused")),
        (as_it_is, "203.0.113.9", ReachError("Network is unreachable")),
        (as_it_is, "no-such-host.invalid", ReachError("Could not resolve hostname")),
    ],
    ids=["changed key", "unknown key", "login", "refused", "no route", "no name"],
)
def test_the_reason_of_a_failed_ssh_connection_is_reported(
    lab: Lab, own_ssh: Path, change: Change, host: str, expected: OsmefError
) -> None:
    alpha, beta = lab.hypervisors
    config = (beta.directory / "ssh_config").read_text()
    (own_ssh / "config").write_text(change(config, own_ssh))
    there = Hypervisor("beta", f"qemu+ssh://root@{host}/system")
    with alpha.inside(), pytest.raises(type(expected)) as raised:
        there.do("connecting", lambda connection: connection.getHostname())
    assert type(raised.value) is type(expected)
    assert expected.message in raised.value.message
    assert raised.value.cure
    assert raised.value.exit_code == 3


SCENARIO = """
name: fails
placement: same-host
provider:
  kind: libvirt
  uri: "{uri}"
  image: {disk}
  accelerator: tcg
"""


@pytest.mark.parametrize(
    ("more", "said", "cure"),
    [
        (
            "  networks: [{bridge: nobr, addresses: 10.97.0.60-10.97.0.69/24}]",
            "Cannot get interface MTU on 'nobr'",
            "provider.networks",
        ),
        (
            "  networks: [{bridge: br-lan, addresses: 203.0.113.10-203.0.113.19/24}]",
            "this machine has no route to the guests' network",
            "on that network",
        ),
        ("  flavors: {huge: {vcpus: 1000, ram: 128MB}}", "Maximum CPUs", "fewer vcpus"),
        ("  flavors: {huge: {vcpus: 1, ram: 9TB}}", "2 guests need 18 TB of memory", "smaller"),
        ("  storage: /proc/nowhere", "cannot create path '/proc/nowhere'", "provider.storage"),
    ],
    ids=["no such bridge", "no route", "too many CPUs", "no memory", "no such directory"],
)
def test_an_impossible_request_to_a_hypervisor_is_reported_and_leaves_nothing(
    osmef: Osmef, lab: Lab, more: str, said: str, cure: str
) -> None:
    alpha = lab["alpha"]
    disk = osmef.directory / "disk.raw"
    disk.write_bytes(bytes(1 << 20))
    text = SCENARIO.format(uri=alpha.uri, disk=disk) + more
    ended = osmef("run", osmef.write(text), prefix=alpha.network)
    assert ended.code == 3
    assert said in ended.err
    assert cure in ended.err
    assert "Traceback" not in ended.err
    assert LibvirtProvider.owned({"uri": alpha.uri}) == []


def test_memory_that_is_not_free_is_a_note_as_the_kernel_may_free_it(
    lab: Lab, tmp_path: Path, vm: Callable[..., EndpointRequest]
) -> None:
    (tmp_path / "disk.raw").write_bytes(bytes(1 << 20))
    host = Hypervisor("alpha", lab["alpha"].uri)
    try:
        whole = ram_bytes_of(host)
        flavors = {"whole": {"vcpus": 1, "ram": f"{whole >> 20}MiB"}}
        keys = {"uri": host.uri, "image": str(tmp_path / "disk.raw"), "flavors": flavors}
        provider = LibvirtProvider(LibvirtSettings.model_validate(keys))
        provider.check([vm("a", "host-1")])
        with pytest.raises(CapacityError, match="2 guests need"):
            provider.check([vm("a", "host-1"), vm("b", "host-1")])
        # Ten times what there is, as machines get memory and lose it while tests run.
        assert "swaps or ends processes" in str(memory_note(host, 10 * whole))
        assert memory_note(host, 1) is None
    finally:
        host.close()


def test_a_host_without_room_for_image_and_guests_is_sent_nothing(osmef: Osmef, lab: Lab) -> None:
    alpha = lab["alpha"]
    disk = osmef.directory / "disk.raw"
    disk.write_bytes(bytes(1 << 20))
    text = SCENARIO.format(uri=alpha.uri, disk=disk) + "  storage: /run/small"
    alpha.run("mkdir", "/run/small")
    alpha.run("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", "/run/small")
    try:
        ended = osmef("run", osmef.write(text), prefix=alpha.network)
        assert alpha.run("ls", "-A", "/run/small") == ""
    finally:
        alpha.run("umount", "/run/small")
        alpha.run("rmdir", "/run/small")
    assert ended.code == 3
    assert "image and guests need 3.15 MB in /run/small" in ended.err
    assert "make room there" in ended.err
    assert LibvirtProvider.owned({"uri": alpha.uri}) == []
