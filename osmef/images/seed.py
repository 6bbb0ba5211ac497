"""Seed of a guest: keys, name and addresses, on a small disk.

The disk holds a tar file and nothing else, so it needs neither a file system nor a tool to make
one, and what is secret stands in no domain description and no list of processes. Its serial
number must be ``SERIAL``: the guest finds it by that.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface

from osmef.remote.login import KeyPair

SERIAL = "osmef-seed"
_DISK_BYTES = 1 << 16  # some hypervisors round disks down to 64 KiB
_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")


@dataclass(frozen=True)
class Card:
    """A network card of a guest, identified by its MAC address.

    Without an address it asks by DHCP.
    """

    mac: str
    address: IPv4Interface | IPv6Interface | None = None
    gateway: str | None = None

    def line(self) -> str:
        """Return the card's line of the seed's file ``network``; raises ValueError."""
        mac = self.mac.lower()
        if not _MAC.fullmatch(mac):
            raise ValueError(f"{self.mac!r} is not a MAC address")
        if self.address is None:
            return f"{mac} dhcp"
        return f"{mac} {self.address.with_prefixlen} {self.gateway or ''}".rstrip()


@dataclass(frozen=True)
class Seed:
    """The seed of one guest. Without cards, all of the guest's cards use DHCP."""

    hostname: str
    authorized_key: str
    host_key: KeyPair
    cards: Sequence[Card] = ()

    def disk(self) -> bytes:
        """Return the content of the disk, which is partly secret."""
        files = {
            "hostname": self.hostname + "\n",
            "authorized_keys": self.authorized_key + "\n",
            "ssh_host_ed25519_key": self.host_key.private,
            "network": "".join(card.line() + "\n" for card in self.cards),
        }
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for name, text in files.items():
                data = text.encode()
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(data), 0o600
                tar.addfile(member, io.BytesIO(data))
        content = buffer.getvalue()
        return content.ljust(-(-len(content) // _DISK_BYTES) * _DISK_BYTES, b"\0")
