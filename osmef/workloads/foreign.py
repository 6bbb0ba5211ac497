"""An HTTP server that OSMeF has not started, at an address that a scenario names."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from osmef.scenario.base import conflict

SIZE = "{size}"
_EXAMPLE = "http://192.0.2.7:8080/mping/{size}"
_TARGET = re.compile(r"[!-~]{1,200}")


@dataclass(frozen=True)
class Foreign:
    """Where requests go: a numeric address, a port, and a path with ``{size}`` in it."""

    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Host and port as a URL has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_url(url: str, key: str) -> Foreign:
    """Return where a URL leads. Raises a conflict of that key with what is wrong, and the cure."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise conflict(f"this is no URL: {error}", f"such as {_EXAMPLE}", key) from error
    if parts.scheme != "http" or not host or parts.username is not None:
        what = (
            "only http is asked" if parts.scheme == "https" else "this is no http URL of a server"
        )
        raise conflict(what, f"such as {_EXAMPLE}", key)
    try:
        ipaddress.ip_address(host)
    except ValueError as error:
        raise conflict(
            f"{host} is no address, and endpoints look no names up",
            f"write its address, which `getent hosts {host}` tells, such as {_EXAMPLE}",
            key,
        ) from error
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if path.count(SIZE) != 1:
        how = "no" if SIZE not in path else "more than one"
        cure = f"write {SIZE} where the size of a message stands, such as {_EXAMPLE}"
        raise conflict(f"the path has {how} {SIZE}", cure, key)
    if parts.fragment or port == 0 or not _TARGET.fullmatch(path):
        what = "no server has the port 0" if port == 0 else "the path has what no request can have"
        cure = f"write it with its port, without #, spaces and other letters, such as {_EXAMPLE}"
        raise conflict(what, cure, key)
    return Foreign(host, 80 if port is None else port, path)
