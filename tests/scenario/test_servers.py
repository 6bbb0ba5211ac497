"""A receiver that is a server which is there already."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmef.engine.check import check_study
from osmef.engine.placement import pair_placements, requested
from osmef.engine.plan import make_plan
from osmef.errors import InputError
from osmef.scenario.load import load_text
from osmef.scenario.model import Scenario
from osmef.scenario.study import Study

PROVIDER = "{kind: static, hosts: {a: {ssh: node-a}}}"


def read(receiver: str, workload: str, sender: str = "{kind: host}", more: str = "") -> Study:
    ends = f"{{sender: {sender}, receiver: {receiver}}}"
    text = f"name: x\nprovider: {PROVIDER}\nendpoints: {ends}\nworkload: {workload}\n{more}"
    return load_text(text, Path("x.yaml"))


@pytest.mark.parametrize(
    ("receiver", "workload", "asked"),
    [
        ("{address: 192.0.2.7, port: 5999}", "iperf3", "192.0.2.7:5999"),
        ("{address: 192.0.2.7}", "netperf", "192.0.2.7:12865"),
        ("{address: '2001:db8::7'}", "iperf3", "[2001:db8::7]:5201"),
        ("{address: 192.0.2.7}", "pingpong", "192.0.2.7:8080"),
    ],
)
def test_with_an_external_server_the_plan_has_one_endpoint(
    receiver: str, workload: str, asked: str
) -> None:
    study = read(receiver, workload)
    check_study(study)
    assert study.scenario.workload.server_address == asked
    (cell,) = make_plan(study, seed=1).cells
    assert (len(cell.endpoints), cell.receiver_names, cell.distance) == (1, [asked], None)
    (place,) = pair_placements(cell, {}).values()
    assert place == requested(cell)
    assert {place.placement, place.tenancy, place.distance} == {None}


@pytest.mark.parametrize(
    ("relay", "path"), [("", "/mping/{size}"), (", relay: false", "/pong/{size}")]
)
def test_siege_asks_ping_or_pong_there(relay: str, path: str) -> None:
    study = read("{address: 192.0.2.7, port: 80}", f"{{kind: pingpong, max: 1kB{relay}}}")
    written = study.scenario.workload.non_default["server"]
    assert written == f"http://192.0.2.7:80{path}"


def test_servers_can_be_swept() -> None:
    more = "sweep: {endpoints.receiver.address: [192.0.2.7, 192.0.2.8]}\n"
    cells = read("{address: 192.0.2.7}", "iperf3", more=more).cells
    asked = [cell.scenario.workload.server_address for cell in cells]
    assert asked == ["192.0.2.7:5201", "192.0.2.8:5201"]
    assert [dict(cell.values) for cell in cells] == [
        {"endpoints.receiver.address": one} for one in ("192.0.2.7", "192.0.2.8")
    ]


@pytest.mark.parametrize(
    ("receiver", "workload", "sender", "place", "told"),
    [
        ("{address: there.example}", "iperf3", "{}", (3, 36), "is no address"),
        ("{address: 192.0.2.7, port: 70000}", "iperf3", "{}", (3, 56), "no port 70000"),
        ("{address: 192.0.2.7, port: true}", "iperf3", "{}", (3, 56), "no port True"),
        ("{address: 192.0.2.7, kind: host}", "iperf3", "{}", (3, 56), "of what OSMeF makes"),
        ("{address: 192.0.2.7}", "btc", "{}", (3, 36), "needs an agent at both ends"),
        ("{address: 192.0.2.7}", "{kind: iperf3, server: 192.0.2.8}", "{}", (4, 26), "twice"),
        ("{address: 192.0.2.7}", "iperf3", "{count: 2}", (3, 22), "by one endpoint"),
        ("{address: 192.0.2.7}", "iperf3", "{port: 80}", (3, 22), "the end that is ours"),
        ("{port: 80}", "iperf3", "{}", (3, 36), "only a receiver with an address"),
        ("{}", "iperf3", "{address: 192.0.2.7}", (3, 22), "only a receiver with an address"),
        ("{address: 192.0.2.7}", "no-such-kind", "{}", (4, 11), "no workload 'no-such-kind'"),
    ],
)
def test_incompatible_server_settings_are_reported_at_their_position(
    receiver: str, workload: str, sender: str, place: tuple[int, int], told: str
) -> None:
    with pytest.raises(InputError, match=told) as raised:
        read(receiver, workload, sender)
    assert place in {(problem.line, problem.column) for problem in raised.value.problems}


@pytest.mark.parametrize("background", ["btc", "{kind: udp, rate: 1Mbit/s}", "latency"])
def test_a_background_that_would_stay_on_the_sender_is_refused(background: str) -> None:
    with pytest.raises(InputError, match="needs an agent at both ends") as raised:
        read("{address: 192.0.2.7}", "iperf3", more=f"background: {background}\n")
    assert raised.value.problems[0].line == 5


def test_a_background_of_the_sender_s_own_is_kept() -> None:
    study = read("{address: 192.0.2.7}", "iperf3", more="background: stress-ng\n")
    assert study.scenario.background is not None


def test_it_is_in_the_schema_of_editors() -> None:
    keys = Scenario.model_json_schema()["$defs"]["EndpointSettings"]["properties"]
    assert {"address", "port"} <= keys.keys()
