"""Whether a network card is free: what else uses it, and what could not be restored."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from osmef.layers.nic_settings import ADDRESS, address_text, has_own_secret, networks_of, unknown
from osmef.layers.root import Root

_BY_ITSELF = {"kernel", "ra"}
"""Protocols of routes that come and go with an address or a router's word (ip-route(8))."""
_OF_ADDRESSES = {"local", "broadcast", "anycast", "multicast"}
"""Types of routes that the kernel makes of each address."""
_CABLE = "veth"
"""Of these ``link`` tells the other end, not what one stands on."""
MOST_ADDRESSES = 64


def in_use(root: Root, link: Mapping[str, Any], details: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why a network card is in use; None for a free one.

    ``link`` is what ``ip address`` tells of it, ``details`` what ``ip -d link`` tells of all.
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
    if _told(root, "nexthop", "show", "dev", device):
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
        for one in _told(root, "neigh", "show", *words, "dev", device):
            return f"its neighbour {one.get('dst')} was set by somebody (ip neigh)"
    for one in _told(root, "maddress", "show", "dev", device):
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


def _told(root: Root, *words: str) -> list[dict[str, Any]]:
    """Return what ip(8) tells; nothing where a kernel or an older one does not know of it."""
    done = root.run(["ip", "-j", *words])
    found = json.loads(done.stdout or b"[]") if not done.status else []
    return [one for one in found if isinstance(one, dict) and one]
