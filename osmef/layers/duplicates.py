"""Duplicate address detection: whether a host on a link has an address (RFC 5227, RFC 4862)."""

from __future__ import annotations

import time

from osmef.errors import EndpointError
from osmef.layers.host import LayerHost, is_ipv6
from osmef.layers.root import Root, within

_PROBES, _GAP_MS = 3, 100
"""How often it is asked, and how long an answer may take, in milliseconds."""
_LIMIT_S = 10
_POLL_S = 0.05
_BROADCAST = "ff:ff:ff:ff:ff:ff"


class DuplicateError(EndpointError):
    """A host on the link has a chosen address: one of another network may do."""


def take_address(root: Root, space: str | None, device: str, address: str, width: int) -> None:
    """Give an interface an address that no host on its link has.

    It is up, in a namespace that has no other address on it. Three probes are sent, which takes
    0.3 s. Raises DuplicateError, EndpointError.
    """
    if is_ipv6(address):  # the kernel asks itself
        _set(root, space, f"ipv6/neigh/{device}/retrans_time_ms", _GAP_MS)
        _set(root, space, f"ipv6/conf/{device}/router_solicitation_delay", 0)
        _set(root, space, f"ipv6/conf/{device}/dad_transmits", _PROBES)
        root.ip(space, f"address add {address}/{width} dev {device}")
        _await_ipv6(root, space, device, address)
        return
    _set(root, space, f"ipv4/neigh/{device}/retrans_time_ms", _GAP_MS)
    _set(root, space, f"ipv4/neigh/{device}/ucast_solicit", _PROBES)
    _set(root, space, f"ipv4/neigh/{device}/locktime", 0)  # take the first answer
    # Without an address of its own the kernel asks from 0.0.0.0, as RFC 5227 has it.
    neighbour = f"{address} dev {device}"
    root.ip(space, f"neighbour replace {neighbour} lladdr {_BROADCAST} nud probe")
    _await_ipv4(root, space, device, address)
    root.ip(space, f"neighbour delete {neighbour}", f"address add {address}/{width} dev {device}")


def try_address(host: LayerHost, below: str, address: str, width: int) -> None:
    """Check that no host on the link of an endpoint's interface has an address.

    Raises DuplicateError, EndpointError.
    """
    space = host.new_space()
    device = host.new_link(None, f"link {below} type macvlan mode bridge")
    host.root.ip(None, f"link set dev {device} netns {space}")
    host.moved(device)
    host.root.ip(space, f"link set dev {device} up")
    take_address(host.root, space, device, address, width)
    host.drop("netns", space)


def _await_ipv4(root: Root, space: str | None, device: str, address: str) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        found = root.ask(space, "neighbour", "show", "to", address, "dev", device)
        has = found[0].get("lladdr") if found else None
        if has is None:
            return
        if has != _BROADCAST:
            raise _duplicate(root, address, f" by {has}")
        time.sleep(_POLL_S)
    raise _untold(root, address)


def _await_ipv6(root: Root, space: str | None, device: str, address: str) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        found = root.ask(space, "address", "show", "dev", device, "to", address)
        told = [one for link in found for one in link.get("addr_info", []) if one]
        if any(one.get("dadfailed") for one in told):
            raise _duplicate(root, address, "")
        if not any(one.get("tentative") for one in told):
            return
        time.sleep(_POLL_S)
    raise _untold(root, address)


def _set(root: Root, space: str | None, name: str, value: int) -> None:
    root.do(within(space, ["tee", f"/proc/sys/net/{name}"]), str(value).encode())


def _duplicate(root: Root, address: str, whose: str) -> DuplicateError:
    return DuplicateError(
        f"{address} is in use on its link{whose}",
        where=root.name,
        cure="keep 198.18.0.0/15 and fd6f:736d:6566::/48 free there",
    )


def _untold(root: Root, address: str) -> EndpointError:
    return EndpointError(
        f"the kernel has not told within {_LIMIT_S} s whether {address} is in use on its link",
        where=root.name,
        cure="see whether the link has a carrier",
    )
