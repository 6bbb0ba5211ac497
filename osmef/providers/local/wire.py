"""Protocol between controller and daemon: a JSON object a packet, with file descriptors.

The channel is a pair of connected AF_UNIX SOCK_SEQPACKET sockets that only these two processes
hold, so host keys may pass and an end that dies is noticed by the other at once (unix(7)).
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

MODULE = "osmef.providers.local.daemon"
_PACKET_BYTES = 1 << 18


@dataclass(frozen=True)
class HostSpec:
    """A physical host, or the network node: its name and its address on the physical network."""

    name: str
    address: str


@dataclass(frozen=True)
class TenantSpec:
    """A tenant's network: a VXLAN over the hosts of its endpoints, and the network node.

    ``network`` is in CIDR form; its first address is the gateway, on the network node.
    """

    name: str
    vni: int
    network: str
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class CloudSpec:
    """Hosts and networks. ``physical`` and ``management`` are in CIDR form.

    What leaves a host passes a bucket of ``burst_bytes``, None without any, that fills at
    ``filling_bps``.
    """

    link_rate_bps: float
    burst_bytes: int | None
    filling_bps: float
    physical: str
    management: str
    hosts: tuple[HostSpec, ...]
    network_node: HostSpec
    tenants: tuple[TenantSpec, ...]


@dataclass(frozen=True)
class GuestSpec:
    """A VM, or (``on_host``) a host that is an endpoint itself.

    ``address`` is that in the tenant's network, ``management`` that where sshd listens; ``cpus``
    are numbers of this machine's CPUs. ``uid`` and ``gid`` are those of the user who logs in, as
    the machine counts them; ``rootless`` says that the sandbox has a user namespace of its own.
    ``nics`` are cards beside the usual ones, each by the switch that it is joined to.
    """

    name: str
    hostname: str
    host: str
    tenant: str
    on_host: bool
    address: str
    management: str
    cpus: tuple[int, ...]
    sshd: str
    user: str
    uid: int
    gid: int
    rootless: bool
    authorized_key: str
    host_key: str = field(repr=False)
    nics: tuple[str, ...] = ()


def cloud_from(data: dict[str, Any]) -> CloudSpec:
    """Deserialise a CloudSpec from JSON."""
    tenants = [{**tenant, "hosts": tuple(tenant["hosts"])} for tenant in data["tenants"]]
    return CloudSpec(
        **{
            **data,
            "hosts": tuple(HostSpec(**host) for host in data["hosts"]),
            "network_node": HostSpec(**data["network_node"]),
            "tenants": tuple(TenantSpec(**tenant) for tenant in tenants),
        }
    )


def guest_from(data: dict[str, Any]) -> GuestSpec:
    """Deserialise a GuestSpec from JSON."""
    return GuestSpec(**{**data, "cpus": tuple(data["cpus"]), "nics": tuple(data["nics"])})


def nic_name(number: int) -> str:
    """Return the name of a guest's further interface, counted from 0."""
    return f"nic{number + 1}"


def send(sock: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Send one packet. Raises OSError."""
    socket.send_fds(sock, [json.dumps(message).encode()], list(fds))


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive one packet, whose descriptors the caller owns. Raises EOFError or OSError."""
    data, fds, flags, _ = socket.recv_fds(sock, _PACKET_BYTES, 1)
    for fd in fds:  # Python 3.11's recv_fds ignores a request for MSG_CMSG_CLOEXEC
        os.set_inheritable(fd, False)
    if flags & socket.MSG_TRUNC or not data:
        for fd in fds:
            os.close(fd)
        raise EOFError("the other end is gone" if not data else "a packet was too long")
    message: dict[str, Any] = json.loads(data)
    return message, fds
