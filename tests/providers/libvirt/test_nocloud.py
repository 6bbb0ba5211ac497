"""The seed of a guest with cloud-init, read back by another program than the one that wrote it."""

from __future__ import annotations

import json
import shutil
import subprocess
from ipaddress import IPv4Interface
from pathlib import Path

import pytest

from osmef.errors import ProviderError
from osmef.providers.cloud_init import Card, Seed
from osmef.providers.libvirt.storage import find_iso_tool, nocloud_disk
from osmef.remote.login import KeyPair

USER, HOST = KeyPair.generate("user"), KeyPair.generate("host")
CARDS = (
    Card("52:54:00:00:00:01", IPv4Interface("10.1.2.3/24"), "10.1.2.1"),
    Card("52:54:00:00:00:02"),
)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    if shutil.which("isoinfo") is None:
        pytest.skip("no isoinfo to read it with (Debian: apt install genisoimage)")
    try:
        find_iso_tool()
    except ProviderError as error:
        pytest.skip(str(error))
    path = tmp_path / "seed.iso"
    path.write_bytes(nocloud_disk(Seed("vm-1", USER.public, HOST, CARDS)))
    return path


def read(disk: Path, name: str) -> str:
    argv = ["isoinfo", "-R", "-x", f"/{name}", "-i", str(disk)]
    return subprocess.run(argv, capture_output=True, check=True, text=True).stdout


def test_it_has_the_label_that_cloud_init_looks_for(disk: Path) -> None:
    told = subprocess.run(["isoinfo", "-d", "-i", disk], capture_output=True, check=True, text=True)
    assert "Volume id: cidata" in told.stdout


def test_the_seed_contains_keys_hostname_and_addresses(disk: Path) -> None:
    head, _, body = read(disk, "user-data").partition("\n")
    user = json.loads(body)
    assert head == "#cloud-config"
    assert user["ssh_authorized_keys"] == [USER.public]
    assert user["ssh_keys"]["ed25519_private"] == HOST.private
    assert user["disable_root"] is False
    assert json.loads(read(disk, "meta-data"))["local-hostname"] == "vm-1"
    network = json.loads(read(disk, "network-config"))
    assert [card["subnets"] for card in network["config"]] == [
        [{"type": "static", "address": "10.1.2.3/24", "gateway": "10.1.2.1"}],
        [{"type": "dhcp4"}],
    ]
