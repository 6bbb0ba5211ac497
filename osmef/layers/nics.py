"""Network cards borrowed by a layer: moved into its namespace, and restored."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osmef.errors import EndpointError
from osmef.layers.root import Root

_UP, _DOWN = "up", "down"
_USUAL = "eui64"
_BY_ITSELF = {"kernel", "ra"}
"""Protocols of routes that come and go with an address or a router's word (ip-route(8))."""
_CURE = "name another one in the inventory's nics, or free it"

PATTERN = (
    r"([0-9a-f]{2}:){5}[0-9a-f]{2},[0-9]{1,6},(up|down),(none|eui64|stable_secret|random)"
    r"(,[0-9a-f.:]+/[0-9]{1,3}){0,16}"
)
"""What ``Nic.text`` is."""


@dataclass(frozen=True)
class Nic:
    """A network card in its original state.

    Its Ethernet address, its MTU in bytes, whether it is up, how it comes to an IPv6 address of its
    link (``addrgenmode`` of ip-link(8)), and its other IP addresses.
    """

    device: str
    mac: str
    mtu: int
    up: bool
    makes_address: str = _USUAL
    addresses: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The state to restore, as a trace stores it."""
        state = _UP if self.up else _DOWN
        return ",".join((self.mac, str(self.mtu), state, self.makes_address, *self.addresses))

    @classmethod
    def read(cls, device: str, text: str) -> Nic:
        """Parse a trace. Raises ValueError for an invalid one."""
        if re.fullmatch(PATTERN, text) is None:
            raise ValueError(text)
        mac, mtu, state, makes_address, *addresses = text.split(",")
        return cls(device, mac, int(mtu), state == _UP, makes_address, tuple(addresses))


def find(root: Root, wanted: Sequence[str], *, stays: bool) -> list[Nic]:
    """Find network cards by interface name or MAC address.

    On a machine that ``stays`` after the run they have to be free. Raises EndpointError.
    """
    links, found = root.ask(None, "address", "show"), list[Nic]()
    modes = {
        one.get("ifname"): str(one.get("inet6_addr_gen_mode") or _USUAL)
        for one in root.ask(None, "-d", "link", "show")
    }
    for name in wanted:
        link = next((one for one in links if name in {one.get("ifname"), one.get("address")}), None)
        if link is None:
            cure = "see `ip link` there, and correct the inventory's nics"
            raise EndpointError(f"it has no network card {name}", where=root.name, cure=cure)
        if any(link["ifname"] == one.device for one in found):
            message = f"{link['ifname']} is named twice, once by its Ethernet address"
            raise EndpointError(message, where=root.name, cure="name each card once")
        if why := _in_use(root, link) if stays else None:
            message = f"{link['ifname']} is not free: {why}"
            raise EndpointError(message, where=root.name, cure=_CURE)
        found.append(_nic(link, modes[link["ifname"]]))
    return found


def _nic(link: Mapping[str, Any], makes_address: str) -> Nic:
    addresses = (f"{one.get('local')}/{one.get('prefixlen')}" for one in _addresses(link))
    known = (str(link["address"]), int(link["mtu"]), "UP" in link.get("flags", []), makes_address)
    return Nic(str(link["ifname"]), *known, tuple(addresses))


def _addresses(link: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the configured addresses of an interface, without link-local ones."""
    return [one for one in link.get("addr_info", []) if one.get("scope") != "link"]


def _in_use(root: Root, link: Mapping[str, Any]) -> str | None:
    """Return why a network card is in use; None for a free one."""
    device, addresses = str(link["ifname"]), _addresses(link)
    if "master" in link:
        return f"it is a part of {link['master']}"
    if any(one.get("dynamic") for one in addresses):
        return "a server or a router gives it an address"
    for version in ("-4", "-6"):
        for route in root.ask(None, version, "route", "show", "table", "all", "dev", device):
            if route.get("protocol", "boot") not in _BY_ITSELF:
                return f"the route to {route.get('dst')} leads over it"
    words = root.session.run(["printenv", "SSH_CONNECTION"]).stdout.decode().split()
    if words and root.ask(None, "route", "get", words[0])[0].get("dev") == device:
        return "the login comes over it"
    return None


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
    if nic.up:
        lines.append(f"link set dev {device} up")
    no_check = {True: " nodad", False: ""}
    lines += [f"address replace {one} dev {device}{no_check[':' in one]}" for one in nic.addresses]
    root.ip(None, *lines)
