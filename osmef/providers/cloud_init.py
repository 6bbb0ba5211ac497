"""cloud-init: user data for a guest's first boot, and host keys on its console."""

from __future__ import annotations

import base64
import io
import json
import math
import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from ipaddress import IPv4Interface, IPv6Interface

from osmef.errors import ProviderError
from osmef.remote.login import KeyPair

MOST_BYTES = 65535
"""Of userdata in base64, as nova takes it."""
_TYPES = {
    "#!": "x-shellscript",
    "#cloud-config": "cloud-config",
    "#cloud-boothook": "cloud-boothook",
    "#include": "x-include-url",
    "## template: jinja": "jinja2",
}
MOST_CONSOLE = 1 << 20
"""Of the end of a console: guests write as much as they like."""
_BEGIN, _END = (f"-----{word} SSH HOST KEY KEYS-----" for word in ("BEGIN", "END"))
# Bounded, so that no text takes longer than its length.
_KEY = re.compile(
    r"\b((?:ssh|ecdsa)-[a-z0-9-]{1,40}) (AAAA[A-Za-z0-9+/=]{1,4000})(?![A-Za-z0-9+/=])", re.ASCII
)


def cloud_config(
    user: str, login: KeyPair, host: KeyPair | None, ends_in_s: float | None = None
) -> str:
    """Return a cloud-config with the run's public key and the guest's host key.

    With ``ends_in_s`` the guest powers itself off after about that time. Written as JSON, which is
    YAML. Modules "ssh", "users-groups" and "runcmd" of cloud-init read it.
    """
    config: dict[str, object] = {"ssh_authorized_keys": [login.public]}
    if ends_in_s is not None:
        config["runcmd"] = [["shutdown", "-P", f"+{max(1, math.ceil(ends_in_s / 60))}"]]
    if user == "root":
        config["disable_root"] = False
    if host is not None:
        config["ssh_deletekeys"] = True
        config["ssh_keys"] = {"ed25519_private": host.private, "ed25519_public": host.public}
    return "#cloud-config\n" + json.dumps(config, indent=1) + "\n"


def user_data(ours: str, own: str | None) -> str:
    """Return the user data in base64: ours, with the user's own behind it.

    Raises ProviderError for an unknown format of the user's, or if it is too long.
    """
    text = ours if own is None else _multipart(own, ours)
    encoded = base64.b64encode(text.encode()).decode()
    if len(encoded) > MOST_BYTES:
        raise ProviderError(
            f"the userdata is too long: {len(encoded)} bytes in base64 of {MOST_BYTES}",
            where="provider.userdata",
            cure="fetch the rest from the guest, with #include",
        )
    return encoded


def _multipart(own: str, ours: str) -> str:
    kind = next((kind for start, kind in _TYPES.items() if own.startswith(start)), None)
    if kind is None:
        raise ProviderError(
            "this userdata does not say what it is",
            where="provider.userdata",
            cure="begin it with #cloud-config or #!, or another mark that cloud-init knows",
        )
    message = MIMEMultipart()
    message.attach(MIMEText(own, kind))
    part = MIMEText(ours, "cloud-config")
    # By default cloud-init would let our list of keys replace the user's.
    part["Merge-Type"] = "list(append)+dict(recurse_array)+str()"
    message.attach(part)
    return message.as_string()


def host_keys(console: str) -> list[str]:
    """Return the public host keys that cloud-init printed on a console, in OpenSSH's format."""
    before, end, _ = console[-MOST_CONSOLE:].rpartition(_END)
    _, begin, reported = before.rpartition(_BEGIN)
    return keys_in(reported) if begin and end else []


def keys_in(text: str) -> list[str]:
    """Return all public keys in a guest's output, in OpenSSH's format."""
    return [f"{kind} {key}" for kind, key in _KEY.findall(text)]


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
