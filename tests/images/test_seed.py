from __future__ import annotations

import io
import subprocess
import tarfile
from ipaddress import IPv4Interface, IPv6Interface
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.providers.cloud_init import Card, Seed
from osmef.remote.login import KeyPair

HOST = KeyPair.generate("host")


def read(disk: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(disk)) as tar:
        files = {member: tar.extractfile(member) for member in tar.getmembers()}
        assert all(member.mode == 0o600 for member in files)
        return {m.name: file.read().decode() for m, file in files.items() if file is not None}


@pytest.mark.parametrize(
    ("card", "line"),
    [
        (Card("52:54:00:00:00:01"), "52:54:00:00:00:01 dhcp"),
        (Card("52:54:00:AA:BB:CC"), "52:54:00:aa:bb:cc dhcp"),
        (
            Card("52:54:00:00:00:01", IPv4Interface("10.0.0.2/24"), "10.0.0.1"),
            "52:54:00:00:00:01 10.0.0.2/24 10.0.0.1",
        ),
        (
            Card("52:54:00:00:00:01", IPv4Interface("10.0.0.2/24")),
            "52:54:00:00:00:01 10.0.0.2/24",
        ),
        (
            Card("52:54:00:00:00:01", IPv6Interface("fd00::2/64")),
            "52:54:00:00:00:01 fd00::2/64",
        ),
    ],
)
def test_the_line_of_a_card(card: Card, line: str) -> None:
    assert card.line() == line


@pytest.mark.parametrize("mac", ["", "52:54:00:00:00", "52:54:00:00:00:01\nx", "eth0"])
def test_an_invalid_mac_address_is_rejected(mac: str) -> None:
    with pytest.raises(ValueError, match="not a MAC address"):
        Card(mac).line()


@given(st.from_regex(r"[a-z][a-z0-9.-]{0,40}", fullmatch=True), st.integers(0, 40))
def test_a_seed_contains_hostname_keys_and_network(hostname: str, cards: int) -> None:
    macs = [f"52:54:00:00:00:{number:02x}" for number in range(cards)]
    seed = Seed(hostname, "ssh-ed25519 AAAA me", HOST, [Card(mac) for mac in macs])
    disk = seed.disk()
    assert len(disk) % (1 << 16) == 0
    assert read(disk) == {
        "hostname": hostname + "\n",
        "authorized_keys": "ssh-ed25519 AAAA me\n",
        "ssh_host_ed25519_key": HOST.private,
        "network": "".join(f"{mac} dhcp\n" for mac in macs),
    }


def test_tar_reads_the_disk_as_the_guest_does(tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(Seed("vm-1", "key", HOST).disk())
    subprocess.run(["tar", "-x", "-f", tmp_path / "disk", "-C", tmp_path], check=True)
    assert (tmp_path / "hostname").read_text() == "vm-1\n"


def test_the_secret_is_not_shown() -> None:
    assert "PRIVATE KEY" not in repr(Seed("vm-1", "key", HOST))
