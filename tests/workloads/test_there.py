"""Programs that talk to a server that OSMeF has not started."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from osmef.engine.check import check_study, warnings_of
from osmef.errors import InputError
from osmef.results.observations import Purpose
from osmef.scenario.load import load
from osmef.supply.supply import Supplier, default_store
from osmef.workloads.kinds.iperf3 import Iperf3, Iperf3Settings
from osmef.workloads.kinds.netperf import Netperf, NetperfSettings
from osmef.workloads.tool import read_address
from osmef.workloads.trial_runner import TrialJob, run_parts
from tests.waiting import until
from tests.workloads.conftest import MakeHosts, pairs


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("192.0.2.7", ("192.0.2.7", 5201)),
        ("192.0.2.7:80", ("192.0.2.7", 80)),
        ("2001:db8::7", ("2001:db8::7", 5201)),
        ("[2001:db8::7]", ("2001:db8::7", 5201)),
        ("[2001:db8::7]:80", ("2001:db8::7", 80)),
    ],
)
def test_an_address_with_a_port_or_without(text: str, where: tuple[str, int]) -> None:
    assert read_address(text, 5201) == where


@pytest.mark.parametrize("text", ["", "a.example", "192.0.2.7:", "192.0.2.7:0", "192.0.2.7:99999"])
def test_an_invalid_server_address_is_rejected(text: str) -> None:
    with pytest.raises(ValidationError, match=r"is no address|there is no port"):
        Iperf3Settings(server=text)


def written(folder: Path, ends: str, provider: str = "{kind: static, inventory: h.yaml}") -> Path:
    (folder / "h.yaml").write_text("a: {ssh: node-a}\nb: {ssh: node-b}\n")
    path = folder / "x.yaml"
    workload = "{kind: iperf3, server: 192.0.2.7}"
    text = f"name: x\nprovider: {provider}\nendpoints: {ends}\nworkload: {workload}\n"
    path.write_text(text)
    return path


def test_one_endpoint_sends_requests_and_the_external_server_is_noted(tmp_path: Path) -> None:
    study = load(written(tmp_path, "{loopback: {kind: host}}"))
    check_study(study)
    (told,) = [text for text in warnings_of(study) if "192.0.2.7" in text]
    assert "a server that OSMeF has not started" in told
    with pytest.raises(InputError, match="asked by one endpoint"):
        load(written(tmp_path, "{sender: {kind: host}, receiver: {kind: host}}"))
    with pytest.raises(InputError, match="nothing but each other"):
        load(written(tmp_path, "{loopback: {kind: host}}", "local"))


@contextmanager
def serving(argv: Callable[[int], list[str]]) -> Iterator[int]:
    """Run a server at a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(argv(port), stdout=subprocess.DEVNULL) as process:

        def listens() -> bool:
            wanted = f":{port:04X} 00000000:0000 0A"
            tables = [Path(f"/proc/net/{name}") for name in ("tcp", "tcp6")]
            return any(wanted in one.read_text().replace("0" * 24, "") for one in tables)

        try:
            until(listens)
            yield port
        finally:
            process.terminate()


@pytest.mark.skipif(shutil.which("iperf3") is None, reason="there is no iperf3 here")
def test_an_iperf3_server_that_is_there(hosts: MakeHosts) -> None:
    (host,) = hosts("here")
    with serving(lambda port: ["iperf3", "-s", "-p", str(port), "-B", "127.0.0.1"]) as port:
        work = Iperf3(Iperf3Settings.model_validate(
            {"server": f"127.0.0.1:{port}", "duration": "1s"}))  # fmt: skip
        host.station.provide(work.needs("sender"), Supplier(default_store()))
        done = run_parts(TrialJob(1, pairs([host], [host])), work.parts())
    metrics = work.outcome(1, Purpose.MEASURED, done.ran).metrics
    assert (metrics["goodput_bps"] or 0) > 1e6


def test_an_external_server_needs_no_program_on_the_receiver() -> None:
    there = Netperf(NetperfSettings.model_validate({"server": "192.0.2.7"}))
    assert [one.name for one in there.needs("sender")] == ["netperf"]
    own = Netperf(NetperfSettings())
    assert [one.name for one in own.needs("sender")] == ["netperf"]
    assert [one.name for one in own.needs("receiver")] == ["netserver"]


@pytest.mark.skipif(shutil.which("netserver") is None, reason="there is no netserver here")
def test_a_netserver_that_is_there(hosts: MakeHosts) -> None:
    (host,) = hosts("here")
    with serving(lambda port: ["netserver", "-D", "-f", "-N", "-p", str(port), "-4"]) as port:
        work = Netperf(NetperfSettings.model_validate(
            {"server": f"127.0.0.1:{port}", "duration": "1s", "test": "tcp-rr"}))  # fmt: skip
        host.station.provide(work.needs("sender"), Supplier(default_store()))
        done = run_parts(TrialJob(1, pairs([host], [host])), work.parts())
    metrics = work.outcome(1, Purpose.MEASURED, done.ran).metrics
    assert (metrics["exchanges_per_s"] or 0) > 10
