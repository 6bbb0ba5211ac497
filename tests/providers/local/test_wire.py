from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import asdict
from ipaddress import IPv4Network

import pytest

from osmef.providers.base import EndpointRequest
from osmef.providers.local import wire
from osmef.providers.local.provider import lay_out
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.fields import EndpointKind

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def test_the_largest_cloud_comes_through_unchanged(pair: Pair) -> None:
    requests = [
        EndpointRequest(f"vm-{h}-{t}", "sender", EndpointKind.VM, None, f"h{h}", f"t{t}")
        for h in range(64)
        for t in range(64)
    ]
    settings = LocalSettings(hosts=64, tenants=64)
    spec = lay_out(settings, requests, IPv4Network("10.0.0.0/17"), [0]).cloud
    wire.send(pair[0], {"cloud": asdict(spec)})
    message, fds = wire.receive(pair[1])
    assert wire.cloud_from(message["cloud"]) == spec
    assert fds == []


def test_a_guest_comes_through_json_and_hides_its_key() -> None:
    spec = wire.GuestSpec(
        name="vm-1", hostname="vm-1", host="host-1", tenant="tenant-1", on_host=False,
        address="10.0.64.2", management="10.0.32.2", cpus=(0, 1), sshd="/usr/sbin/sshd",
        user="root", uid=0, gid=0, rootless=False, authorized_key="ssh-ed25519 AAAA",
        host_key="SECRET",
    )  # fmt: skip
    assert wire.guest_from(json.loads(json.dumps(asdict(spec)))) == spec
    assert "SECRET" not in repr(spec)


def test_a_descriptor_is_passed_and_not_inheritable(pair: Pair) -> None:
    read, write = os.pipe()
    wire.send(pair[0], {}, [write])
    os.close(write)
    _, (got,) = wire.receive(pair[1])
    assert not os.get_inheritable(got)
    os.write(got, b"x")
    assert os.read(read, 1) == b"x"
    os.close(got)
    os.close(read)


def test_a_closed_peer_is_reported(pair: Pair) -> None:
    pair[0].close()
    with pytest.raises(EOFError, match="gone"):
        wire.receive(pair[1])
