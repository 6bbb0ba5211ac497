"""Bulk transfers whose agents or links are not as they should be, for real."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from osmef.agent.client import AgentClient
from osmef.agent.deploy import Binary, Deployment
from osmef.engine.station import Station
from osmef.errors import AgentError, ProviderError
from osmef.providers.base import EndpointRequest, Order, Resource
from osmef.providers.local.provider import LocalProvider
from osmef.remote.keys import KeyPair
from osmef.remote.session import Session
from osmef.scenario.fields import EndpointKind, Layer
from osmef.scenario.provider import LocalSettings
from osmef.scenario.workload import BtcSettings
from osmef.workloads.base import Job
from osmef.workloads.btc import BulkTransfer

HELLO = '{"event":"hello","protocol":2,"version":"9","machine":"x","pid":1}'
REFUSAL = '{"event":"error","id":null,"kind":"protocol","message":"flows are not my thing"}'


def test_an_agent_that_does_not_understand_is_quoted_at_once(
    session: Session, tmp_path: Path
) -> None:
    directory = f".osmef-fake-{tmp_path.name}"
    path = f"{directory}/osmef-agent"
    script = f"#!/bin/sh\necho '{HELLO}'\nread command\necho '{REFUSAL}'\ncat >/dev/null\n"
    session.put(script.encode(), path, 0o700)
    agent = AgentClient.start(session, Deployment(directory, path, Binary("any", b"", "-")))
    started = time.monotonic()
    with pytest.raises(AgentError, match="flows are not my thing"):
        BulkTransfer(BtcSettings()).run(Job(1, agent, agent, "127.0.0.1"))
    assert time.monotonic() - started < 10
    agent.close()
    session.remove_directory(directory)


class NoLedger:
    """The test's own cloud needs no journal: it closes it."""

    def intend(self, resource: Resource) -> None: ...
    def created(self, resource: Resource) -> None: ...
    def destroyed(self, resource: Resource) -> None: ...


@pytest.fixture
def slow_pair(tmp_path: Path) -> Iterator[tuple[Station, Station, str]]:
    """Two VMs on two hosts, with a link on which a flow's last bytes take seconds."""
    provider = LocalProvider(LocalSettings.model_validate({"link_rate": "1Mbit/s"}))
    try:
        provider.check()
    except ProviderError as error:
        pytest.skip(str(error))
    requests = [
        EndpointRequest(role, role, EndpointKind.VM, None, host, "tenant-1")
        for role, host in (("sender", "host-1"), ("receiver", "host-2"))
    ]
    key, run = KeyPair.generate("test"), f"slow-{os.getpid()}-{tmp_path.name}"
    stations: list[Station] = []
    try:
        one, two = provider.create(Order(run, requests, key, NoLedger(), time.time() + 600))
        stations = [Station(end, provider.describe(end), key, run) for end in (one, two)]
        yield stations[0], stations[1], provider.data_address(two, one, Layer.OVERLAY)
    finally:
        for station in stations:
            station.close()
        provider.close()


def test_flows_that_drain_slowly_are_waited_for(
    slow_pair: tuple[Station, Station, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("osmef.workloads.btc.STALL_TIMEOUT_S", 2.0)
    monkeypatch.setattr("osmef.workloads.btc._GRACE_S", 0.2)
    sender, receiver, address = slow_pair
    settings = BtcSettings.model_validate(
        {"duration": "200ms", "interval": "100ms", "connections": 4}
    )
    job = Job(1, sender.agent("sender"), receiver.agent("receiver"), address)
    outcome = BulkTransfer(settings).run(job)
    assert outcome.transfer is not None
    assert outcome.transfer.sender.elapsed_s > 2.4
