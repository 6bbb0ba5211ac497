"""Pairs of a server and a machine at another site."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from osmef.remote.keys import KeyPair
from tests.providers.openstack.lab import Lab
from tests.sshd import AS_ROOT, CONFIG

pytestmark = pytest.mark.timeout(900)
OUTSIDE = "198.51.100.1"
"""The address of the lab, of which the machine is a part, in the cloud's external network."""


@pytest.fixture
def machine(lab: Lab, tmp_path: Path) -> Iterator[dict[str, object]]:
    """Have a machine outside of the cloud; yields its line of an inventory."""
    host, user = KeyPair.generate("host"), KeyPair.generate("user")
    shm, config = tmp_path / "shm", tmp_path / "config"
    shm.mkdir()
    for name, text in (("host_key", host.private), ("identity", user.private)):
        descriptor = os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
    (tmp_path / "authorized_keys").write_text(user.public)
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:2222 {host.public}\n")
    more = "ListenAddress 127.0.0.1:2222\nSubsystem sftp internal-sftp"
    config.write_text(CONFIG.format(directory=tmp_path, more=more))
    alone = ["unshare", "--mount", "sh", "-c", AS_ROOT, "sh", str(shm)]
    sshd = ["/usr/sbin/sshd", "-D", "-e", "-f", str(config)]
    process = subprocess.Popen(
        [*lab.cloud.inside, *alone, *sshd], stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stderr is not None
        assert any("listening on" in line for line in process.stderr)
        yield {
            "ssh": "root@127.0.0.1:2222",
            "identity": str(tmp_path / "identity"),
            "known_hosts": str(tmp_path / "known_hosts"),
            "data_address": OUTSIDE,
        }
        process.terminate()


def test_a_server_and_a_machine_outside_measure_both_ways(
    lab: Lab, machine: dict[str, object]
) -> None:
    written = json.loads((lab.osmef.directory / lab.write()).read_text())
    cloud = written.pop("provider")
    scenario = {
        **written,
        "sites": {"cloud": cloud, "outside": {"kind": "static", "hosts": {"m": machine}}},
        "endpoints": {
            "sender": {"site": "cloud"},
            "receiver": {"site": "outside", "kind": "host"},
        },
        "workload": {**written["workload"], "direction": "both"},
    }
    ended = lab("run", lab.osmef.write(json.dumps(scenario), "sites.json"))
    assert ended.code == 0, ended.err
    (cell,) = lab.summary["cells"]
    assert (cell["n_ok"], cell["distance"], cell["mismatch"]) == (1, 4, [])
    assert cell["metrics"]["reverse_aggregate_btc_bps"]["median"] > 0
    assert lab.owned() == []
