"""Network cards borrowed by a layer: moved into its namespace, and restored."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any

from osmef.errors import EndpointError
from osmef.layers.nic_settings import (
    ADDRESS,
    SETTING,
    address_text,
    address_words,
    own_settings,
    set_back,
)
from osmef.layers.nic_use import MOST_ADDRESSES, in_use
from osmef.layers.root import Root

_UP, _DOWN = "up", "down"
_USUAL = "eui64"
_NONE = "none"
_CURE = "name another one in the inventory's nics, or free it"
_MOST_SETTINGS = 200
_IPV6_MTU = "ipv6/conf/mtu="
_CARRIER_S = 10
_POLL_S = 0.1
_OPERATIONAL = {"UP", "UNKNOWN"}

PATTERN = (
    r"([0-9a-f]{2}:){5}[0-9a-f]{2},[0-9]{1,6},(up|down),(none|eui64|stable_secret|random)"
    rf"(,{ADDRESS}){{0,{MOST_ADDRESSES}}}(,{SETTING}){{0,{_MOST_SETTINGS}}}"
)
"""What ``Nic.text`` is."""


@dataclass(frozen=True)
class Nic:
    """A network card in its original state.

    Its Ethernet address, its MTU in bytes, whether it is up, how it comes to an IPv6 address of its
    link (``addrgenmode`` of ip-link(8)), its other IP addresses, each as ``address_text`` tells it,
    and its sysctls that differ from those of new interfaces (``own_settings``).
    """

    device: str
    mac: str
    mtu: int
    up: bool
    makes_address: str = _USUAL
    addresses: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The state to restore, as a trace stores it."""
        state = _UP if self.up else _DOWN
        first = (self.mac, str(self.mtu), state, self.makes_address)
        return ",".join((*first, *self.addresses, *self.settings))

    @classmethod
    def read(cls, device: str, text: str) -> Nic:
        """Parse a trace. Raises ValueError for an invalid one."""
        if re.fullmatch(PATTERN, text) is None:
            raise ValueError(text)
        mac, mtu, state, makes_address, *rest = text.split(",")
        settings = tuple(one for one in rest if re.fullmatch(SETTING, one))
        addresses = tuple(rest[: len(rest) - len(settings)])
        return cls(device, mac, int(mtu), state == _UP, makes_address, addresses, settings)


def find(root: Root, wanted: Sequence[str], *, stays: bool) -> list[Nic]:
    """Find network cards by interface name or MAC address.

    On a machine that ``stays`` after the run they have to be free. Raises EndpointError.
    """
    links, found = root.ask(None, "address", "show"), list[Nic]()
    details = root.ask(None, "-d", "link", "show")
    for name in wanted:
        link = next((one for one in links if name in {one.get("ifname"), one.get("address")}), None)
        if link is None:
            cure = "see `ip link` there, and correct the inventory's nics"
            raise EndpointError(f"it has no network card {name}", where=root.name, cure=cure)
        if any(link["ifname"] == one.device for one in found):
            message = f"{link['ifname']} is named twice, once by its Ethernet address"
            raise EndpointError(message, where=root.name, cure="name each card once")
        if why := in_use(root, link, details) if stays else None:
            message = f"{link['ifname']} is not free: {why}"
            raise EndpointError(message, where=root.name, cure=_CURE)
        found.append(_nic(root, link, details))
    return found


def _nic(root: Root, link: Mapping[str, Any], details: Sequence[Mapping[str, Any]]) -> Nic:
    device, mac = str(link["ifname"]), str(link["address"])
    modes = {one.get("ifname"): one.get("inet6_addr_gen_mode") for one in details}
    mode = str(modes[device] or _USUAL)
    addresses = [
        address_text(device, one)
        for one in link.get("addr_info", [])
        if one.get("local") and not _makes(one, mac, mode)
    ]
    return Nic(
        *(device, mac, int(link["mtu"]), "UP" in link.get("flags", []), mode, tuple(addresses)),
        own_settings(root, device),
    )


def _makes(address: Mapping[str, Any], mac: str, mode: str) -> bool:
    """Return whether the kernel gives an interface that is up this address itself (RFC 4291)."""
    if address.get("scope") != "link" or address.get("family") != "inet6" or mode == _NONE:
        return False
    if mode != _USUAL:
        return bool(address.get("protocol", "kernel_ll") == "kernel_ll")
    octets = bytes.fromhex(mac.replace(":", ""))
    own = bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:]
    return ip_address(str(address["local"])) == IPv6Address(b"\xfe\x80" + bytes(6) + own)


def bring_back(root: Root, device: str, space: str, text: str) -> None:
    """Move a network card out of a namespace, if it is there, and restore its state.

    One that is nowhere any more is success. Raises EndpointError.
    """
    nic = Nic.read(device, text)
    with contextlib.suppress(EndpointError):  # it is not there, or the namespace is gone
        if root.ask(space, "link", "show", "dev", device):
            root.ip(space, f"link set dev {device} nomaster", f"link set dev {device} netns 1")
    links = root.ask(None, "-d", "link", "show")
    now = next((one for one in links if one.get("ifname") == device), None)
    if now is None:
        return
    lines = [f"link set dev {device} down"]
    if now.get("address") != nic.mac:
        lines.append(f"link set dev {device} address {nic.mac}")
    if now.get("inet6_addr_gen_mode", nic.makes_address) != nic.makes_address:
        lines.append(f"link set dev {device} addrgenmode {nic.makes_address}")
    lines.append(f"link set dev {device} mtu {nic.mtu}")
    root.ip(None, *lines)
    set_back(root, device, nic.settings)
    lines = [f"link set dev {device} up"] if nic.up else []
    lines += [f"address replace {address_words(one)} dev {device}" for one in nic.addresses]
    if lines:
        root.ip(None, *lines)
        if nic.up and any(one.startswith(_IPV6_MTU) for one in nic.settings):
            _await_carrier(root, device)
        set_back(root, device, nic.settings)  # an interface that comes up sets the MTU of IPv6


def _await_carrier(root: Root, device: str) -> None:
    """Wait until an interface is operational, at most 10 s. Raises EndpointError.

    Where its carrier comes after it was set up, the kernel sets the MTU of IPv6 then.
    """
    deadline = time.monotonic() + _CARRIER_S
    while time.monotonic() < deadline:
        links = root.ask(None, "link", "show", "dev", device)
        if all(one.get("operstate") in _OPERATIONAL for one in links):
            return
        time.sleep(_POLL_S)
