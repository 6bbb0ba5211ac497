"""Network cards of layers: whether one is free, its saved state, and how that is restored."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_interface
from typing import Any

from osmef.errors import EndpointError
from osmef.layers.root import Root

_FLAGS = ("nodad", "home", "mngtmpaddr", "noprefixroute", "autojoin")
"""Flags of an address; ip(8) prints them under the same names."""
_VALUES = {"broadcast": "broadcast", "label": "label", "scope": "scope", "metric": "metric"}
_LIFE = {"valid_life_time", "preferred_life_time", "secondary", "tentative", "deprecated"}
_KNOWN = {"family", "local", "address", "prefixlen", "protocol", *_LIFE, *_FLAGS, *_VALUES}
ADDRESS = (
    r"[0-9a-f.:]+/[0-9]{1,3}(;(peer=[0-9a-f.:]+|broadcast=[0-9.]+|label=[^\s,;=]{1,15}"
    r"|scope=[a-z0-9]{1,10}|metric=[0-9]{1,10}|preferred_lft=0|" + "|".join(_FLAGS) + r")){0,9}"
)
"""Matches the result of ``address_text``."""

_ROOT = "/proc/sys/net"
_GROUPS = ("ipv4/conf", "ipv6/conf", "ipv4/neigh", "ipv6/neigh", "mpls/conf")
# Derived from others in coarser units, from the link itself, or from a daemon's socket; and a
# key, which belongs into no journal.
_NOT_SET = {"base_reachable_time", "retrans_time", "unres_qlen", "addr_gen_mode", "mc_forwarding",
            "stable_secret"}  # fmt: skip
SETTING = r"(ipv[46]|mpls)/(conf|neigh)/[a-z0-9_]{1,40}=-?[0-9]{1,20}"
"""Matches one sysctl with its value."""


def address_text(device: str, address: Mapping[str, Any]) -> str:
    """Return an address with its attributes, from the JSON of ip(8)."""
    attributes = {word: address[name] for name, word in _VALUES.items() if name in address}
    if attributes.get("label") == device:
        del attributes["label"]
    if attributes.get("scope") == "global":
        del attributes["scope"]
    if "address" in address:
        attributes = {"peer": address["address"], **attributes}
    if address.get("preferred_life_time") == 0:
        attributes["preferred_lft"] = 0
    words = [f"{word}={value}" for word, value in attributes.items()]
    words += [flag for flag in _FLAGS if address.get(flag)]
    return ";".join([f"{address.get('local')}/{address.get('prefixlen')}", *words])


def unknown(address: Mapping[str, Any]) -> list[str]:
    """Return the attributes of an address that ``address_text`` omits."""
    return [name for name, value in address.items() if value and name not in _KNOWN]


def address_words(text: str) -> str:
    """Return the arguments of ip(8) for a result of ``address_text``."""
    own, *rest = text.split(";")
    attributes = dict(word.partition("=")[::2] for word in rest)
    if "peer" in attributes:
        own, length = own.split("/")
        own = f"{own} peer {attributes.pop('peer')}/{length}"
    return " ".join([own, *(f"{word} {value}".strip() for word, value in attributes.items())])


def networks_of(addresses: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the networks to which the kernel adds routes by itself for these addresses."""
    found = {"fe80::/64"}
    for one in addresses:
        if not one.get("noprefixroute"):
            at = f"{one.get('address', one.get('local'))}/{one.get('prefixlen')}"
            network = ip_interface(at).network
            whole = network.prefixlen == network.max_prefixlen
            found.add(str(network.network_address if whole else network))
    return found


def settings_of(root: Root, device: str) -> dict[str, str]:
    """Return an interface's sysctls, by their paths without its name (ip-sysctl)."""
    paths = [f"{_ROOT}/{group}/{device}" for group in _GROUPS]
    found: dict[str, str] = {}
    for line in root.run(["grep", "-rs", ".", *paths]).stdout.decode(errors="replace").splitlines():
        path, _, value = line.partition(":")
        directory, _, key = path.rpartition("/")
        group = directory.removeprefix(f"{_ROOT}/").removesuffix(f"/{device}")
        found[f"{group}/{key}"] = value.strip()
    return found


def own_settings(root: Root, device: str) -> tuple[str, ...]:
    """Return the sysctls of an interface that differ from those of new ones."""
    usual = settings_of(root, "default")
    return tuple(
        f"{name}={value}"
        for name, value in sorted(settings_of(root, device).items())
        if usual.get(name) != value and name.rpartition("/")[2] not in _NOT_SET
    )


def has_own_secret(root: Root, device: str) -> bool:
    """Return whether an interface derives its IPv6 address from a secret, which is lost with it."""
    name = "ipv6/conf/stable_secret"
    mine = settings_of(root, device).get(name)
    return mine is not None and mine != settings_of(root, "default").get(name)


def restore_settings(root: Root, device: str, settings: Sequence[str]) -> None:
    """Restore the sysctls of an interface that differ now. Raises EndpointError."""
    now = settings_of(root, device) if settings else {}
    for one in settings:
        name, _, value = one.partition("=")
        if now.get(name, value) != value:
            group, _, key = name.rpartition("/")
            root.do(["tee", f"{_ROOT}/{group}/{device}/{key}"], value.encode())


_BY_ITSELF = {"kernel", "ra"}
"""Protocols of routes that come with an address or a router advertisement (ip-route(8))."""
_OF_ADDRESSES = {"local", "broadcast", "anycast", "multicast"}
"""Types of routes that the kernel adds for each address."""
_CABLE = "veth"
"""For these ``link`` is the other end, not the lower interface."""
MOST_ADDRESSES = 64


def in_use_reason(
    root: Root, link: Mapping[str, Any], details: Sequence[Mapping[str, Any]]
) -> str | None:
    """Return why a network card is in use; None for a free one.

    ``link`` is its object of ``ip -j address``, ``details`` are all objects of ``ip -j -d link``.
    Raises EndpointError, ReachError.
    """
    device = str(link["ifname"])
    addresses = [one for one in link.get("addr_info", []) if one.get("local")]
    if "master" in link:
        return f"it is a part of {link['master']}"
    return (
        _of_links(device, details)
        or _of_addresses(device, addresses)
        or _of_routes(root, device, addresses)
        or _of_login(root, device)
        or _of_settings(root, device, details)
    )


def _of_links(device: str, details: Sequence[Mapping[str, Any]]) -> str | None:
    for one in details:
        info = one.get("linkinfo") or {}
        data = info.get("info_data") or {}
        if one.get("ifname") == device:
            if "xdp" in one:
                return "a program of XDP is attached to it"
            continue
        below = {data.get("link")}
        if info.get("info_kind") != _CABLE:
            below.add(one.get("link"))
        if device in below:
            return f"{one['ifname']} is based on it"
    return None


def _of_addresses(device: str, addresses: Sequence[Mapping[str, Any]]) -> str | None:
    if any(one.get("dynamic") for one in addresses):
        return "a server or a router gives it an address"
    if len(addresses) > MOST_ADDRESSES:
        return f"it has more than {MOST_ADDRESSES} addresses"
    for one in addresses:
        if odd := unknown(one):
            return f"its address {one['local']} has {odd[0]}, which could not be set back"
        if re.fullmatch(ADDRESS, address_text(device, one)) is None:
            return f"its address {one['local']} is set up in a way that could not be set back"
    return None


def _of_routes(root: Root, device: str, addresses: Sequence[Mapping[str, Any]]) -> str | None:
    by_address = networks_of(addresses)
    for version in ("-4", "-6"):
        for route in root.ask(None, version, "route", "show", "table", "all"):
            ways = [route, *route.get("nexthops", [])]
            if all(one.get("dev") != device for one in ways):
                continue
            by_itself = route.get("type", "unicast") in _OF_ADDRESSES or (
                route.get("protocol") == "ra" or route.get("dst") in by_address
            )
            if route.get("protocol", "boot") not in _BY_ITSELF or not by_itself:
                return f"the route to {route.get('dst')} leads over it"
    if _ip_json(root, "nexthop", "show", "dev", device):
        return "a next hop of routes is at it (ip nexthop)"
    return None


def _of_login(root: Root, device: str) -> str | None:
    words = root.session.run(["printenv", "SSH_CONNECTION"]).stdout.decode().split()
    if words and root.ask(None, "route", "get", words[0])[0].get("dev") == device:
        return "the login comes over it"
    return None


def _of_settings(root: Root, device: str, details: Sequence[Mapping[str, Any]]) -> str | None:
    """Return a setting that a move to another namespace loses, and that could not be restored."""
    for words in (("nud", "permanent"), ("proxy",)):
        for one in _ip_json(root, "neigh", "show", *words, "dev", device):
            return f"its neighbour {one.get('dst')} was set by somebody (ip neigh)"
    for one in _ip_json(root, "maddress", "show", "dev", device):
        if any(address.get("features") == "static" for address in one.get("maddr", [])):
            return "somebody has set a multicast address of it (ip maddress)"
    done = root.run(["tc", "-j", "qdisc", "show", "dev", device])
    for one in json.loads(done.stdout or b"[]") if not done.status else []:
        if one.get("handle") != "0:":  # the kernel's own have none
            return f"somebody has given it the queue discipline {one.get('kind')} (tc qdisc)"
    mode = next(one.get("inet6_addr_gen_mode") for one in details if one.get("ifname") == device)
    if mode == "random" or (mode == "stable_secret" and has_own_secret(root, device)):
        return f"it makes its IPv6 address of a secret of its own (addrgenmode {mode})"
    return None


def _ip_json(root: Root, *words: str) -> list[dict[str, Any]]:
    """Return objects of ip(8)'s JSON; none if the kernel or an older ip(8) does not support it."""
    done = root.run(["ip", "-j", *words])
    found = json.loads(done.stdout or b"[]") if not done.status else []
    return [one for one in found if isinstance(one, dict) and one]


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
"""Matches ``SavedNic.text``."""


@dataclass(frozen=True)
class SavedNic:
    """A network card in its original state.

    Its MAC address, its MTU in bytes, whether it is up, how its IPv6 link-local address is
    generated (``addrgenmode`` of ip-link(8)), its other IP addresses, each as a result of
    ``address_text``, and its sysctls that differ from those of new interfaces (``own_settings``).
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
    def read(cls, device: str, text: str) -> SavedNic:
        """Parse a trace. Raises ValueError for an invalid one."""
        if re.fullmatch(PATTERN, text) is None:
            raise ValueError(text)
        mac, mtu, state, makes_address, *rest = text.split(",")
        settings = tuple(one for one in rest if re.fullmatch(SETTING, one))
        addresses = tuple(rest[: len(rest) - len(settings)])
        return cls(device, mac, int(mtu), state == _UP, makes_address, addresses, settings)


def find(root: Root, wanted: Sequence[str], *, outlives_run: bool) -> list[SavedNic]:
    """Find network cards by interface name or MAC address.

    On a machine that ``outlives_run`` they have to be free. Raises EndpointError.
    """
    links, found = root.ask(None, "address", "show"), list[SavedNic]()
    details = root.ask(None, "-d", "link", "show")
    for name in wanted:
        link = next((one for one in links if name in {one.get("ifname"), one.get("address")}), None)
        if link is None:
            cure = "see `ip link` there, and correct the inventory's nics"
            raise EndpointError(f"it has no network card {name}", where=root.name, cure=cure)
        if any(link["ifname"] == one.device for one in found):
            message = f"{link['ifname']} is named twice, once by its MAC address"
            raise EndpointError(message, where=root.name, cure="name each card once")
        if why := in_use_reason(root, link, details) if outlives_run else None:
            message = f"{link['ifname']} is not free: {why}"
            raise EndpointError(message, where=root.name, cure=_CURE)
        found.append(_nic(root, link, details))
    return found


def _nic(root: Root, link: Mapping[str, Any], details: Sequence[Mapping[str, Any]]) -> SavedNic:
    device, mac = str(link["ifname"]), str(link["address"])
    modes = {one.get("ifname"): one.get("inet6_addr_gen_mode") for one in details}
    mode = str(modes[device] or _USUAL)
    addresses = [
        address_text(device, one)
        for one in link.get("addr_info", [])
        if one.get("local") and not _makes(one, mac, mode)
    ]
    return SavedNic(
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


def restore_nic(root: Root, device: str, space: str, text: str) -> None:
    """Move a network card out of a namespace, if it is there, and restore its state.

    A card that no longer exists is success. Raises EndpointError.
    """
    nic = SavedNic.read(device, text)
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
    restore_settings(root, device, nic.settings)
    lines = [f"link set dev {device} up"] if nic.up else []
    lines += [f"address replace {address_words(one)} dev {device}" for one in nic.addresses]
    if lines:
        root.ip(None, *lines)
        if nic.up and any(one.startswith(_IPV6_MTU) for one in nic.settings):
            _await_carrier(root, device)
        restore_settings(
            root, device, nic.settings
        )  # an interface that comes up sets the MTU of IPv6


def _await_carrier(root: Root, device: str) -> None:
    """Wait until an interface is operational, at most 10 s. Raises EndpointError.

    If the carrier comes later than the interface is set up, the kernel sets the IPv6 MTU then.
    """
    deadline = time.monotonic() + _CARRIER_S
    while time.monotonic() < deadline:
        links = root.ask(None, "link", "show", "dev", device)
        if all(one.get("operstate") in _OPERATIONAL for one in links):
            return
        time.sleep(_POLL_S)
