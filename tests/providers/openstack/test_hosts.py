"""Physical hosts alone: nothing of the cloud is needed, so nothing of it is asked."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from osmef.providers.base import EndpointRequest, Order
from osmef.providers.openstack.provider import OpenStackProvider
from osmef.providers.static import lock
from osmef.remote.keys import KeyPair
from osmef.scenario.clouds.openstack import OpenStackSettings, PlacedBy
from osmef.scenario.fields import EndpointKind
from tests.providers.conftest import MemoryLedger
from tests.sshd import Sshd


@pytest.mark.parametrize("by", PlacedBy)
def test_hosts_alone_are_taken_and_given_back_without_the_cloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: PlacedBy
) -> None:
    if os.geteuid() != 0:
        monkeypatch.setattr(lock, "PATH", str(tmp_path / "lock"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    sshd, ledger = Sshd(tmp_path), MemoryLedger()
    request = EndpointRequest("host-1", "sender", EndpointKind.HOST, None, "host-1", None)
    run = f"hosts-{os.getpid()}-{by}"
    order = Order(run, [request], KeyPair.generate("unused"), ledger, time.time() + 600)
    with sshd.listening() as login:
        (tmp_path / "known").write_text(f"[{login.address}]:{login.port} {sshd.host.public}\n")
        (tmp_path / "key").write_text(sshd.user.private)
        entry = {
            "ssh": f"{login.user}@{login.address}:{login.port}",
            "identity": str(tmp_path / "key"),
            "known_hosts": str(tmp_path / "known"),
        }
        settings = {"cloud": "nowhere", "boot": {"image": "none"}, "placement_by": by}
        wanted = {**settings, "zones": ["a", "b"], "hosts": {"cmp1": entry}}
        provider = OpenStackProvider(OpenStackSettings.model_validate(wanted))
        try:
            provider.check([request])
            (endpoint,) = provider.create(order)
            (place,) = provider.describe([endpoint])
        finally:
            provider.close()
            sshd.close()
    assert (endpoint.name, place.host) == ("host-1", "cmp1")
    assert [event for event, _ in ledger.events] == ["intend", "created", "destroyed"]
