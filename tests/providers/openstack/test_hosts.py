"""Physical hosts alone: nothing of the cloud is needed, so nothing of it is asked."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from osmef.errors import ProviderError
from osmef.providers.base import EndpointRequest, RunContext
from osmef.providers.openstack.provider import OpenStackProvider
from osmef.providers.static import lock
from osmef.remote.login import KeyPair
from osmef.scenario.clouds.openstack import OpenStackSettings, PlacedBy
from osmef.scenario.fields import EndpointKind, Family, ProviderNetwork
from tests.providers.conftest import MemoryLedger
from tests.sshd import Sshd
from tests.unique import unique


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A machine with an sshd, as an entry of an inventory."""
    if os.geteuid() != 0:
        monkeypatch.setattr(lock, "PATH", str(tmp_path / "lock"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    sshd = Sshd(tmp_path)
    with sshd.listening() as login:
        (tmp_path / "known").write_text(f"[{login.address}]:{login.port} {sshd.host.public}\n")
        (tmp_path / "key").write_text(sshd.user.private)
        yield {
            "ssh": f"{login.user}@{login.address}:{login.port}",
            "identity": str(tmp_path / "key"),
            "known_hosts": str(tmp_path / "known"),
        }
    sshd.close()


def order_of(request: EndpointRequest, ledger: MemoryLedger) -> RunContext:
    run = f"hosts-{unique()}"
    return RunContext(run, [request], KeyPair.generate("unused"), ledger, time.time() + 600)


HOST = EndpointRequest("host-1", "sender", EndpointKind.HOST, None, "host-1", None)


@pytest.mark.parametrize("by", PlacedBy)
def test_hosts_alone_are_taken_and_given_back_without_the_cloud(
    machine: dict[str, str], by: PlacedBy
) -> None:
    ledger = MemoryLedger()
    settings = {"cloud": "nowhere", "boot": {"image": "none"}, "placement_by": by}
    wanted = {**settings, "zones": ["a", "b"], "hosts": {"cmp1": machine}}
    provider = OpenStackProvider(OpenStackSettings.model_validate(wanted))
    try:
        provider.check([HOST])
        (endpoint,) = provider.create(order_of(HOST, ledger))
        (place,) = provider.describe([endpoint])
        kept = provider.access_after_run(endpoint)
        assert kept is not None
        assert kept == ("static", {"host": "cmp1", **machine}), "what layers make there is noted"
    finally:
        provider.close()
    assert (endpoint.name, place.host) == ("host-1", "cmp1")
    assert [event for event, _ in ledger.events] == ["intend", "created", "destroyed"]


def test_a_host_without_ipv4_is_refused_and_given_back(machine: dict[str, str]) -> None:
    ledger = MemoryLedger()
    entry = machine | {"data_address6": "2001:db8::7"}
    wanted = {"cloud": "nowhere", "boot": {"image": "none"}, "hosts": {"cmp1": entry}}
    provider = OpenStackProvider(OpenStackSettings.model_validate(wanted))
    try:
        with pytest.raises(ProviderError, match="IPv6 address, 2001:db8::7") as caught:
            provider.create(order_of(HOST, ledger))
    finally:
        provider.close()
    assert "cmp1.data_address" in str(caught.value.cure)
    assert [event for event, _ in ledger.events] == ["intend", "created", "destroyed"]


def test_a_host_behind_nat_listens_at_the_address_that_the_inventory_gives_it(
    machine: dict[str, str],
) -> None:
    behind = {**machine, "data_address": "192.0.2.7", "listen_address": "10.0.0.7"}
    wanted = {"cloud": "nowhere", "boot": {"image": "none"}, "hosts": {"cmp1": behind}}
    provider = OpenStackProvider(OpenStackSettings.model_validate(wanted))
    try:
        (there,) = provider.create(order_of(HOST, MemoryLedger()))
        path = (there, there, ProviderNetwork.BARE, Family.IPV4)
        assert provider.data_address(*path) == "192.0.2.7"
        assert provider.listen_address(*path) == "10.0.0.7"
    finally:
        provider.close()
