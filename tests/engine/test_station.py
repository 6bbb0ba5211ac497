from __future__ import annotations

from pathlib import Path

import pytest

from osmef.engine.station import Station
from osmef.errors import ReachError
from osmef.providers.base import Endpoint, EndpointRequest
from osmef.scenario.fields import EndpointKind
from osmef.scenario.location import Location
from tests.sshd import Sshd

REQUEST = EndpointRequest("vm-1", "sender", EndpointKind.VM, None, "host-1", "tenant-1")


def test_an_endpoint_that_takes_no_agent_is_left_without_a_connection(tmp_path: Path) -> None:
    sshd = Sshd(tmp_path, options="")  # without the sftp subsystem
    endpoint = Endpoint(REQUEST, "id", sshd.login(), "192.0.2.1", None, None)
    try:
        with pytest.raises(ReachError, match="sftp"):
            Station(endpoint, Location(host="h", tenant="t"), sshd.user, tmp_path.name)
        for server in sshd.servers:
            server.wait(timeout=10)  # it ends with the connection
    finally:
        sshd.close()
