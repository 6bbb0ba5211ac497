"""What a cloud's settings measure: two sessions that share a place disturb each other."""

from __future__ import annotations

import hashlib
import os
from urllib.parse import urlsplit

from osmef.campaigns.holder import this_machine
from osmef.scenario.clouds.base import CloudSettings
from osmef.scenario.clouds.inventory import CloudWithHosts
from osmef.scenario.clouds.libvirt import LibvirtSettings
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.clouds.openstack import OpenStackSettings
from osmef.scenario.clouds.public import PublicCloudSettings

# The column of held places has room for 500.
_LONGEST = 400


def places_of(settings: CloudSettings) -> frozenset[str]:
    """Return the names of what is measured, at least one; no settings of size or account count.

    A public cloud is one place a region. Hosts are places of their own, whoever names them, and
    this machine is one, for the local cloud as for guests of its libvirt.
    """
    found: set[str] = set()
    if isinstance(settings, LocalSettings):
        found = {_host("localhost")}
    elif isinstance(settings, PublicCloudSettings):
        found = {" ".join(filter(None, (settings.kind, settings.endpoint_url, settings.region)))}
    elif isinstance(settings, OpenStackSettings):
        found = {_openstack(settings)}
    elif isinstance(settings, LibvirtSettings):
        uris = list(settings.uris.values()) or [settings.uri]
        found = {_host(urlsplit(uri).hostname or "localhost") for uri in uris}
    if isinstance(settings, CloudWithHosts):
        found |= {_host(_address(host.ssh)) for host in settings.hosts.values()}
    return frozenset(map(_bounded, found or {settings.kind}))


def _bounded(name: str) -> str:
    """Return a name that a database takes: of a very long one its beginning and its digest."""
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST // 2]} {hashlib.sha256(name.encode()).hexdigest()}"


def _openstack(settings: OpenStackSettings) -> str:
    """Return the name of a cloud, else where the OS_* variables say that it is."""
    named = settings.cloud or os.environ.get("OS_CLOUD")
    region = settings.region or (None if named else os.environ.get("OS_REGION_NAME"))
    where = named or os.environ.get("OS_AUTH_URL", "").rstrip("/")
    return " ".join(filter(None, (settings.kind, where, region)))


def _address(destination: str) -> str:
    """Return the host of an ssh destination, ``[user@]host[:port]`` or a URL of it."""
    text = destination if "//" in destination else f"//{destination}"
    try:
        return urlsplit(text).hostname or destination
    except ValueError:  # a bare IPv6 address
        return destination.rpartition("@")[2]


def _host(name: str) -> str:
    here = name in {"localhost", "127.0.0.1", "::1"}
    return f"host {this_machine() if here else name.lower()}"
