"""Ping-pong with a server that OSMeF has not started: its URL, and requests to it."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from osmef.errors import AgentError, EndpointError, InputError
from osmef.results.observations import Purpose
from osmef.scenario.load import load
from osmef.workloads.base import Outcome
from osmef.workloads.kinds.pingpong import ExistingServer, PingPong, PingPongSettings, read_url
from osmef.workloads.trial_runner import TrialJob, run_parts
from tests.agents.lab import closed_port
from tests.agents.web import published_ping, published_pong, read_head, talker
from tests.workloads.conftest import MakeHosts, Victim, pairs

GOOD = "http://192.0.2.7:8080/mping/{size}"
STATIC = "{kind: static, inventory: hosts.yaml}"
SCENARIO = """\
name: x
provider: {static}
endpoints: {ends}
workload:
  kind: pingpong
  server: {server}
"""


def workload(**settings: Any) -> PingPong:
    return PingPong(PingPongSettings.model_validate(settings))


def written(folder: Path, ends: str, url: str) -> Path:
    """Return a scenario on static hosts that asks a server."""
    (folder / "hosts.yaml").write_text("a: {ssh: node-a}\nb: {ssh: node-b}\n")
    path = folder / "x.yaml"
    path.write_text(SCENARIO.format(static=STATIC, ends=ends, server=f"'{url}'"))
    return path


def run(work: PingPong, host: Sequence[Victim]) -> Outcome:
    (one,) = host
    performed = run_parts(TrialJob(1, pairs([one], [one])), work.parts())
    return work.outcome(1, Purpose.MEASURED, performed.ran)


# --- the URL


@pytest.mark.parametrize(
    ("url", "where"),
    [
        (GOOD, ExistingServer("192.0.2.7", 8080, "/mping/{size}")),
        ("http://192.0.2.7/a/{size}/b?c=d", ExistingServer("192.0.2.7", 80, "/a/{size}/b?c=d")),
        ("http://192.0.2.7/?n={size}", ExistingServer("192.0.2.7", 80, "/?n={size}")),
        ("http://[2001:db8::7]:81/pong/{size}", ExistingServer("2001:db8::7", 81, "/pong/{size}")),
        ("http://Ping:81/pong/{size}", ExistingServer("ping", 81, "/pong/{size}")),
        ("http://a-1.b_c.example./{size}", ExistingServer("a-1.b_c.example.", 80, "/{size}")),
    ],
)
def test_a_server_url_is_parsed(url: str, where: ExistingServer) -> None:
    assert read_url(url, "server") == where
    (siege,) = workload(server=url).parts()[0].steps
    told = {name: siege.parameters[name] for name in ("host", "port", "path")}
    assert told == {"host": where.host, "port": where.port, "path": where.path}
    assert siege.parameters.get("authority") == (where.authority if where.is_named else None)


@given(
    host=st.ip_addresses(),
    port=st.integers(1, 65535),
    path=st.from_regex(r"/[a-z/]{0,9}", fullmatch=True),
)
def test_a_written_server_url_is_read_back(host: object, port: int, path: str) -> None:
    where = ExistingServer(str(host), port, f"{path}{{size}}")
    assert read_url(f"http://{where.authority}{where.path}", "server") == where


@given(st.text(max_size=60) | st.text(max_size=30).map(lambda text: f"http://192.0.2.7{text}"))
def test_any_other_text_is_a_problem_with_a_cure(text: str) -> None:
    cure, path = "", "{size}"
    try:
        path = read_url(text, "server").path
    except PydanticCustomError as error:
        cure = str((error.context or {})["cure"])
    assert cure or path.count("{size}") == 1
    assert path.isascii()


@pytest.mark.parametrize(
    ("url", "said", "cure"),
    [
        ("http://-ping:8080/mping/{size}", "-ping is no address and no name", "such as http://"),
        ("http://a..b/mping/{size}", "a..b is no address and no name", "such as http://"),
        ("http://1.2.3.4.5.$(id)/{size}", "is no address and no name", "such as http://"),
        ("https://192.0.2.7/mping/{size}", "only http is asked", "such as http://"),
        ("192.0.2.7:8080/mping/{size}", "this is no http URL of a server", "such as http://"),
        ("http://u:p@192.0.2.7/mping/{size}", "this is no http URL of a server", "such as http://"),
        ("http://192.0.2.7:99999/mping/{size}", "this is no URL", "such as http://"),
        ("http://192.0.2.7:0/mping/{size}", "no server has the port 0", "such as http://"),
        ("http://192.0.2.7/mping/5000", "the path has no {size}", "write {size}"),
        ("http://192.0.2.7/{size}/{size}", "the path has more than one {size}", "write {size}"),
        ("http://192.0.2.7/m ping/{size}", "what no request can have", "without #, spaces"),
    ],
)
def test_an_invalid_url_is_reported_with_its_position(
    tmp_path: Path, url: str, said: str, cure: str
) -> None:
    path = written(tmp_path, "{loopback: {}}", url)
    with pytest.raises(InputError) as caught:
        load(path)
    (problem,) = caught.value.problems
    assert "x.yaml:6:3" in str(problem)
    assert said in problem.message
    assert cure in str(problem.cure)


@pytest.mark.parametrize(
    ("key", "value"),
    [("implementation", "go"), ("relay", False), ("retries", 3), ("ways", ["present"])],
)
def test_ping_and_pong_settings_are_rejected_with_an_external_server(
    key: str, value: object
) -> None:
    with pytest.raises(ValidationError, match=f"{key} has no effect"):
        workload(server=GOOD, **{key: value})


def test_an_external_server_is_used_by_one_endpoint_only(tmp_path: Path) -> None:
    path = written(tmp_path, "{sender: {kind: host}, receiver: {kind: host}}", GOOD)
    with pytest.raises(InputError, match="asked by one endpoint"):
        load(path)
    path.write_text(
        f"name: x\nendpoints: {{loopback: {{}}}}\nworkload: {{kind: pingpong, server: '{GOOD}'}}\n"
    )
    with pytest.raises(InputError, match="reach nothing but each other"):
        load(path)


def test_an_external_server_is_noted_as_unknown() -> None:
    (said,) = PingPongSettings.model_validate({"server": GOOD}).warnings()
    assert GOOD in said
    assert "not known" in said
    assert list(PingPongSettings().warnings()) == []
    assert workload(server=GOOD).needs("sender") == ()


# --- requests


def test_a_ping_of_others_is_measured_as_ours(hosts: MakeHosts) -> None:
    with published_pong() as pong, published_ping(pong) as port:
        work = workload(
            server=f"http://127.0.0.1:{port}/mping/{{size}}", sizes=["10B", "5kB"], repetitions=20
        )
        outcome = run(work, hosts("s1"))
    rows = pa.concat_tables(outcome.requests).to_pylist()
    assert len(rows) == 40
    assert {(row["size"], row["length"], row["code"], row["retries"]) for row in rows} == {
        (10, 10, 200, 0),
        (5000, 5000, 200, 0),
    }
    assert {(row["sender"], row["receiver"]) for row in rows} == {("s1", f"127.0.0.1:{port}")}
    assert all(0 < row["relay_s"] <= row["duration_s"] for row in rows)
    metrics = outcome.metrics
    assert metrics.keys() == {one.name for one in work.measures}
    assert (metrics["requests"], metrics["failed_requests"]) == (40, 0)
    for name in ("cpu_receiver_percent", "endpoint_cpu_receiver_percent"):
        assert metrics[name] is None, "nothing is known of it"
    assert metrics["cpu_sender_percent"] is not None


def test_for_other_paths_the_size_of_the_answer_is_recorded(hosts: MakeHosts) -> None:
    with published_pong("chunks") as port:
        work = workload(server=f"http://127.0.0.1:{port}/pong/{{size}}", sizes=["5kB"])
        outcome = run(work, hosts("s1"))
    ((row,),) = [table.to_pylist() for table in outcome.requests]
    assert (row["length"], row["relay_s"], row["retries"]) == (5000, None, None)


def test_an_unreachable_server_is_reported(hosts: MakeHosts) -> None:
    url = f"http://127.0.0.1:{closed_port()}/mping/{{size}}"
    with pytest.raises(AgentError) as caught:
        run(workload(server=url, sizes=["5kB"]), hosts("s1"))
    assert "curl" in str(caught.value.cure)
    assert "20000" not in str(caught.value.cure)


def test_a_server_may_have_a_name(hosts: MakeHosts) -> None:
    heads: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        heads.append(read_head(connection))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + b"x" * 10)

    with talker(talk) as port:
        work = workload(server=f"http://localhost:{port}/a/{{size}}", sizes=["10B"], connections=1)
        (host,) = hosts("s1")
        host.station._addresses["localhost"] = "127.0.0.1"  # ::1 has no such server
        outcome = run(work, [host])
        assert host.station.facts()["addresses"] == {"localhost": "127.0.0.1"}
    ((row,),) = [table.to_pylist() for table in outcome.requests]
    assert (row["length"], row["receiver"]) == (10, f"localhost:{port}")
    assert f"\r\nHost: localhost:{port}\r\n".encode() in heads[-1]


def test_a_name_is_looked_up_on_the_endpoint(hosts: MakeHosts) -> None:
    (host,) = hosts("s1")
    assert ip_address(host.address_of("localhost")).is_loopback
    assert host.address_of("127.0.0.2") == "127.0.0.2"
    with pytest.raises(
        EndpointError, match=r"it finds no address of no-such-host\.invalid"
    ) as caught:
        host.address_of("no-such-host.invalid")
    assert (caught.value.where, "getent" in str(caught.value.cure)) == ("s1", True)
