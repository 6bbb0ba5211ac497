"""Kernel counters of a network namespace: interfaces, and TCP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from osmef.layers.root import Root, within

_FILES = ("/proc/net/dev", "/proc/net/snmp", "/proc/net/netstat")
_COLUMNS = {"rx_bytes": 0, "rx_packets": 1, "tx_bytes": 8, "tx_packets": 9}

Interfaces = Mapping[str, Mapping[str, int]]
"""Of each interface by its name: bytes and packets that came and went."""


@dataclass(frozen=True)
class Counters:
    """Kernel counters of a namespace, or their differences.

    ``tcp`` are those of the groups Tcp and TcpExt by name (proc(5)); ones that a kernel does not
    have are not there.
    """

    interfaces: Interfaces
    tcp: Mapping[str, int]

    def since(self, before: Counters) -> Counters:
        """Return the differences since; new interfaces are left out."""
        return Counters(
            {
                name: {key: value - before.interfaces[name][key] for key, value in now.items()}
                for name, now in self.interfaces.items()
                if name in before.interfaces
            },
            {name: now - before.tcp[name] for name, now in self.tcp.items() if name in before.tcp},
        )


def counters(root: Root, space: str | None) -> Counters:
    """Return the counters of a namespace now. Raises EndpointError, ReachError."""
    return counters_from(root.do(within(space, ["cat", *_FILES])))


def counters_from(text: str) -> Counters:
    """Parse /proc/net/dev, snmp and netstat, concatenated.

    Lines that are none of these are passed over.
    """
    interfaces: dict[str, dict[str, int]] = {}
    tcp: dict[str, int] = {}
    heads: dict[str, list[str]] = {}
    past_interfaces = False
    for line in text.splitlines():
        name, _, rest = line.strip().partition(":")
        words = rest.split()
        if name in {"Tcp", "TcpExt"} and name not in heads:
            heads[name] = words
        elif name in heads and all(map(_is_number, words)):
            tcp |= dict(zip(heads[name], map(int, words), strict=False))
        elif words and name == "Ip":  # the first line of snmp; its groups look like interfaces
            past_interfaces = True
        elif past_interfaces:
            continue
        elif len(words) > max(_COLUMNS.values()) and all(map(str.isdecimal, words)):
            interfaces[name] = {key: int(words[place]) for key, place in _COLUMNS.items()}
    return Counters(interfaces, tcp)


def _is_number(word: str) -> bool:
    return word.removeprefix("-").isdecimal()
