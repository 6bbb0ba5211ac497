"""What stands in braces in a program's arguments until a trial knows it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

KNOWN = (
    *("peer", "host", "bind", "port", "data_port", "dir", "duration", "cpus"),
    *("interface", "family"),
)
"""Address of the other end, the same as URLs have it, address of the own end, the port, the one
behind it, the directory, whole seconds, how many CPUs the own end has, the network interface that
has the own address, and the family of that: inet or inet6. Workloads have ``{upstream}``, too: of
a server that asks another one, the port of that."""

_BRACES = re.compile(r"\{\{(?P<kept>[a-z_]+)\}\}|\{(?P<name>[a-z_]+)\}")


def unknown(text: str) -> Iterator[str]:
    """Yield the names in braces that stand for nothing. Anything but a word stays as it is."""
    for found in _BRACES.finditer(text):
        if found["name"] is not None and found["name"] not in KNOWN:
            yield found["name"]


def used(text: str, name: str) -> bool:
    """Tell whether a text has a placeholder."""
    return any(found["name"] == name for found in _BRACES.finditer(text))


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return a text with what its placeholders stand for; ``{{peer}}`` becomes ``{peer}``.

    Raises KeyError for one without a value.
    """
    return _BRACES.sub(
        lambda found: f"{{{found['kept']}}}" if found["kept"] else values[found["name"]], text
    )
