"""A whole run of ping-pong against a server that was there before it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import Osmef
from tests.cli.machines import Lab

ROOT = Path(__file__).parents[2]
SCENARIO = """
name: someone-elses
provider: {kind: static, inventory: hosts.yaml}
endpoints: {loopback: {kind: host}}
workload:
  kind: pingpong
  server: http://10.9.3.2:8080/pong/{size}
  sizes: [10B, 5kB]
  repetitions: 10
repeat: 2
"""
AS_RECEIVER = SCENARIO.replace(
    "{loopback: {kind: host}}", "{sender: {kind: host}, receiver: {address: 10.9.3.2, port: 8080}}"
).replace("server: http://10.9.3.2:8080/pong/{size}", "relay: false")
DIAL = "import socket; socket.create_connection(('10.9.3.2', 8080))"


@pytest.fixture
def server(lab: Lab) -> Iterator[None]:
    """A server on machine b, of which OSMeF knows nothing but its address."""
    program = ROOT / "agents" / "pingpong" / "python" / "pingpong.py"
    words = [sys.executable, str(program), "pong", "--bind", "10.9.3.2"]
    with subprocess.Popen([*lab.prefix, "ip", "netns", "exec", "b", *words]) as process:
        try:
            deadline = time.monotonic() + Osmef.end_s
            while lab.on("a", sys.executable, "-c", DIAL).returncode != 0:
                assert process.poll() is None
                assert time.monotonic() < deadline, "it does not listen"
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("scenario", [SCENARIO, AS_RECEIVER], ids=["server", "receiver"])
def test_a_server_of_another_machine_is_asked(
    osmef: Osmef, lab: Lab, server: None, scenario: str
) -> None:
    osmef.write("a: {ssh: node-a}\n", "hosts.yaml")
    ended = osmef("run", osmef.write(scenario), prefix=lab.prefix)
    assert ended.code == 0, ended.err
    (cell,) = osmef.summary["cells"]
    assert cell["n_ok"] == 2
    assert cell["receivers"] == ["10.9.3.2:8080"]
    assert cell["distance"] is cell["achieved_placement"] is cell["requested_distance"] is None
    assert osmef("report", str(osmef.run)).code == 0
    rows = pd.read_parquet(osmef.run / "requests.parquet")
    assert len(rows) == 40
    assert set(rows["receiver"]) == {"10.9.3.2:8080"}
    assert set(rows["code"]) == {200}
    assert "http://10.9.3.2:8080/pong/{size}" in " ".join(ended.out.split())
    assert "has not started" in " ".join(ended.out.split())
    assert lab.left() == []


def test_a_server_that_is_not_there_fails_the_trials_with_a_cure(osmef: Osmef, lab: Lab) -> None:
    osmef.write("a: {ssh: node-a}\n", "hosts.yaml")
    ended = osmef("run", osmef.write(SCENARIO), prefix=lab.prefix)
    assert ended.code == 1
    said = " ".join((ended.out + ended.err).split())
    assert "try the URL there with curl" in said
    assert lab.left() == []
