"""API addresses: credentials are sent to hosts of their own cloud, and to this machine, only.

A scenario or a journal is untrusted, and names where requests go that carry a
token, a signature, or keys of VMs. What is no host of the vendor's has to be allowed by the
environment, which is the user's own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

HOSTS = "OSMEF_API_HOSTS"
"""The variable that allows more hosts: each as HOST or HOST:PORT, with commas between them."""

_EXAMPLE = "write it like https://api.example.org:8443"
_PORT, _MOST = 443, 1000
# Nothing that two programs read in two ways: no user, no escape, no query, no dot at the end.
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
_URL = re.compile(
    rf"(?P<scheme>https?)://(?P<host>{_NAME}|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{{1,5}}))?"
    r"(?:/[A-Za-z0-9._~-]*)*"
)
_SCHEMA = WithJsonSchema({"type": "string", "pattern": r"^https?://[^\s/]+\S*$"})


def only_to(vendor: str, hosts: str) -> Callable[[str], str]:
    """Return a validator that allows only the vendor's hosts, a pattern.

    It raises ValueError, with the cure behind a semicolon.
    """

    def check(value: str) -> str:
        found = _URL.fullmatch(value) if len(value) <= _MOST else None
        host = found["host"].lower() if found else ""
        port = int(found["port"] or _PORT) if found else 0
        if found is None or not 0 < port < 65536 or not _is_host(host):
            raise ValueError(f"{value[:60]!r} is no address of an API; {_EXAMPLE}")
        if is_loopback(host):
            if found["scheme"] == "http" and _has_proxy(host):
                raise ValueError(
                    "credentials for this machine would go to the proxy that the environment names;"
                    f" export no_proxy={host}"
                )
            return value
        if found["scheme"] == "http":
            raise ValueError(
                f"credentials for {host} would travel readable for all, by http;"
                " write https://, as all but this machine itself has to be reached"
            )
        if re.fullmatch(hosts, host) is None and not _is_allowed(host, port):
            raise ValueError(
                f"{host[:100]!r} is no host of {vendor}'s API, and credentials go to no other;"
                " leave it out, or, if you trust that host with them:"
                f" export {HOSTS}={_named(host, port)}"
            )
        return value

    return check


def is_loopback(host: str) -> bool:
    """Return whether a host, IPv6 in brackets, is this machine, by name or literal only."""
    try:
        if host.startswith("["):
            return IPv6Address(host[1:-1]) == IPv6Address("::1")
        return host == "localhost" or IPv4Address(host).is_loopback
    except ValueError:
        return False


def _is_host(host: str) -> bool:
    try:
        return not host.startswith("[") or bool(IPv6Address(host[1:-1]))
    except ValueError:
        return False


def _named(host: str, port: int) -> str:
    return host if port == _PORT else f"{host}:{port}"


def _has_proxy(host: str) -> bool:
    from urllib.request import (  # noqa: PLC0415 - it loads ssl, and few scenarios name an API
        getproxies_environment,
        proxy_bypass,
    )

    proxies = getproxies_environment().keys() & {"http", "all"}
    return bool(proxies) and not proxy_bypass(host)


def _is_allowed(host: str, port: int) -> bool:
    named = {one.strip().lower() for one in os.environ.get(HOSTS, "").split(",")}
    return bool(named & {_named(host, port), f"{host}:{port}"})


Url = Annotated[str, AfterValidator(only_to("the cloud", r"(?!)")), _SCHEMA]
"""The address of an API of a cloud whose hosts are not known here."""
AwsUrl = Annotated[
    str,
    # More of amazonaws.com than these is its customers': load balancers, buckets, gateways.
    AfterValidator(
        only_to(
            "Amazon",
            r"(ec2|sts|servicequotas)(-fips)?(\.[a-z0-9-]+)?"
            r"\.(amazonaws\.com(\.cn)?|amazonaws\.eu|api\.aws|api\.amazonwebservices\.com\.cn)",
        )
    ),
    _SCHEMA,
]
AzureUrl = Annotated[
    str,
    AfterValidator(
        only_to(
            "Azure",
            r"([a-z0-9-]+\.)?management\.(azure\.com|usgovcloudapi\.net|chinacloudapi\.cn)",
        )
    ),
    _SCHEMA,
]
check_google = only_to("Google", r"([a-z0-9-]+\.)*googleapis\.com")
GoogleUrl = Annotated[str, AfterValidator(check_google), _SCHEMA]
