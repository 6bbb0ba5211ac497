"""A transfer over a link on which a flow's last bytes take seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from osmef.engine.station import Station
from osmef.errors import ProviderError
from osmef.providers.base import EndpointRequest, Resource, RunContext
from osmef.providers.local.provider import LocalProvider
from osmef.remote.login import KeyPair
from osmef.results.observations import Purpose
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.fields import EndpointKind, Family, ProviderNetwork
from osmef.workloads.kinds.btc import BtcSettings, BulkTransfer
from osmef.workloads.tasks import Pair, TaskTimeouts
from osmef.workloads.trial_runner import TrialJob, run_parts
from tests.unique import unique


class NoLedger:
    """The test's own cloud needs no journal: it closes it."""

    def intend(self, resource: Resource) -> None: ...
    def created(self, resource: Resource) -> None: ...
    def destroyed(self, resource: Resource) -> None: ...


@pytest.fixture
def slow_pair(tmp_path: Path) -> Iterator[Pair]:
    """Two VMs on two hosts, with a link of 1 Mbit/s."""
    provider = LocalProvider(LocalSettings.model_validate({"link_rate": "1Mbit/s"}))
    try:
        provider.check([])
    except ProviderError as error:
        pytest.skip(str(error))
    requests = [
        EndpointRequest(role, role, EndpointKind.VM, None, host, "tenant-1")
        for role, host in (("sender", "host-1"), ("receiver", "host-2"))
    ]
    key, run = KeyPair.generate("test"), f"slow-{unique()}-{tmp_path.name}"
    stations: list[Station] = []
    try:
        one, two = provider.create(RunContext(run, requests, key, NoLedger(), time.time() + 600))
        stations = [Station(end, provider.describe([end])[0], run) for end in (one, two)]
        there = provider.data_address(two, one, ProviderNetwork.OVERLAY, Family.IPV4)
        yield Pair(stations[0], stations[1], one.data_address, there)
    finally:
        for station in stations:
            station.close()
        provider.close()


def test_flows_that_drain_slowly_are_waited_for(slow_pair: Pair) -> None:
    waits = TaskTimeouts(stall_s=2.0, grace_s=0.2)
    workload = BulkTransfer(
        BtcSettings.model_validate({"duration": "200ms", "interval": "100ms", "connections": 4})
    )
    ran = run_parts(TrialJob(1, [slow_pair], waits=waits), workload.parts()).ran
    (transfer,) = workload.outcome(1, Purpose.MEASURED, ran).transfers
    assert transfer.sender.elapsed_s > 2.4
