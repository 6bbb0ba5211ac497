"""Where servers really stand, as far as the cloud tells us."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from osmef.scenario.location import Location


def location_of(
    server: Any, label: str, compute_hosts: Sequence[str], region: str | None = None
) -> Location:
    """Return the location of a server of a tenant with this label, in a region.

    Administrators see the host's name. Others get an id, which is the same for all servers of a
    project on one host and different in each project, so it only tells within the tenant; unless it
    is that of one of the compute hosts that the settings name.
    """
    known = ids_of(compute_hosts, str(server.project_id))
    name = server.compute_host or known.get(str(server.host_id))
    host = name or server.host_id or None
    return Location(
        host=host,
        host_scope=None if host is None or name else label,
        zone=server.availability_zone or None,
        region=region,
        tenant=label,
    )


def ids_of(compute_hosts: Sequence[str], project_id: str) -> Mapping[str, str]:
    """Return the names of hosts by the ids under which a project sees them.

    An id is the SHA-224 of the project's id and the host's name (nova.utils.generate_hostid).
    """
    return {
        hashlib.sha224((project_id + host).encode()).hexdigest(): host for host in compute_hosts
    }
