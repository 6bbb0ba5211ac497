"""What a network card loses in another namespace: IP addresses and sysctls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_interface
from typing import Any

from osmef.layers.root import Root

_FLAGS = ("nodad", "home", "mngtmpaddr", "noprefixroute", "autojoin")
"""Of an address, words of ip-address(8) that ip(8) tells by the same names."""
_VALUES = {"broadcast": "broadcast", "label": "label", "scope": "scope", "metric": "metric"}
_LIFE = {"valid_life_time", "preferred_life_time", "secondary", "tentative", "deprecated"}
_KNOWN = {"family", "local", "address", "prefixlen", "protocol", *_LIFE, *_FLAGS, *_VALUES}
_FOREVER = 2**32 - 1
ADDRESS = (
    r"[0-9a-f.:]+/[0-9]{1,3}(;(peer=[0-9a-f.:]+|broadcast=[0-9.]+|label=[^\s,;=]{1,15}"
    r"|scope=[a-z0-9]{1,10}|metric=[0-9]{1,10}|preferred_lft=0|" + "|".join(_FLAGS) + r")){0,9}"
)
"""What ``address_text`` tells."""

_ROOT = "/proc/sys/net"
_GROUPS = ("ipv4/conf", "ipv6/conf", "ipv4/neigh", "ipv6/neigh", "mpls/conf")
# Told by others of their kind in coarser units, by the link itself, or by a daemon's socket; and a
# key, which belongs into no journal.
_NOT_SET = {"base_reachable_time", "retrans_time", "unres_qlen", "addr_gen_mode", "mc_forwarding",
            "stable_secret"}  # fmt: skip
SETTING = r"(ipv[46]|mpls)/(conf|neigh)/[a-z0-9_]{1,40}=-?[0-9]{1,20}"
"""What stands for one setting of the kernel."""


def address_text(device: str, address: Mapping[str, Any]) -> str:
    """Return an address as ip(8) tells it, with all that is set of it."""
    told = {word: address[name] for name, word in _VALUES.items() if name in address}
    if told.get("label") == device:
        del told["label"]
    if told.get("scope") == "global":
        del told["scope"]
    if "address" in address:
        told = {"peer": address["address"], **told}
    if address.get("preferred_life_time") == 0:
        told["preferred_lft"] = 0
    words = [f"{word}={value}" for word, value in told.items()]
    words += [flag for flag in _FLAGS if address.get(flag)]
    return ";".join([f"{address.get('local')}/{address.get('prefixlen')}", *words])


def unknown(address: Mapping[str, Any]) -> list[str]:
    """Return what is told of an address that ``address_text`` leaves out."""
    return [name for name, value in address.items() if value and name not in _KNOWN]


def address_words(text: str) -> str:
    """Return ip(8)'s words for an address that ``address_text`` told."""
    own, *rest = text.split(";")
    told = dict(word.partition("=")[::2] for word in rest)
    if "peer" in told:
        own, length = own.split("/")
        own = f"{own} peer {told.pop('peer')}/{length}"
    return " ".join([own, *(f"{word} {value}".strip() for word, value in told.items())])


def networks_of(addresses: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the networks to which the kernel itself leads by an interface with these addresses."""
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
    places = [f"{_ROOT}/{group}/{device}" for group in _GROUPS]
    found: dict[str, str] = {}
    for line in (
        root.run(["grep", "-rs", ".", *places]).stdout.decode(errors="replace").splitlines()
    ):
        path, _, value = line.partition(":")
        place, _, key = path.rpartition("/")
        group = place.removeprefix(f"{_ROOT}/").removesuffix(f"/{device}")
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


def set_back(root: Root, device: str, settings: Sequence[str]) -> None:
    """Restore the sysctls of an interface that differ now. Raises EndpointError."""
    now = settings_of(root, device) if settings else {}
    for one in settings:
        name, _, value = one.partition("=")
        if now.get(name, value) != value:
            group, _, key = name.rpartition("/")
            root.do(["tee", f"{_ROOT}/{group}/{device}/{key}"], value.encode())
