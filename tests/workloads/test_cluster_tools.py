"""Programs that all endpoints run together: what they are told, and their numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from osmef.agent.messages import Interfaces
from osmef.errors import InputError, OutputError
from osmef.kinds import WORKLOADS
from osmef.scenario.load import load_text
from osmef.workloads.kinds.npb import FINALIZE, Npb
from osmef.workloads.programs import EndedProgram, interfaces_of
from tests.workloads.test_tools import OUTPUTS, ended

SAMPLES = OUTPUTS / "npb"
TOLD = Interfaces(
    name=["lo", "eth0", "eth1"],
    rx_bytes=[1, 3_000_000, None],
    rx_packets=[1, 30, None],
    tx_bytes=[1, 2_000_000, 7],
    tx_packets=[1, 20, 1],
)


def npb(**keys: Any) -> Npb:
    settings = WORKLOADS.settings("npb").model_validate_json(json.dumps(keys), strict=True)
    made = WORKLOADS.get("npb")(settings)
    assert isinstance(made, Npb)
    return made


def processes(
    made: Npb, stdout: str, endpoints: int, interfaces: Interfaces | None = TOLD
) -> list[list[EndedProgram]]:
    """Return the ends of all processes, the first of which has printed something."""
    found: list[list[EndedProgram]] = []
    for number in range(endpoints):
        each: list[EndedProgram] = []
        for run in made.runs():
            said = "" if found or each else stdout
            one = ended(run, said.encode())
            result = one.result.model_copy(update={"interfaces": interfaces})
            each.append(replace(one, endpoint=f"n{number}", result=result, interface="eth0"))
        found.append(each)
    return found


def sample(name: str) -> str:
    return (SAMPLES / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", ["bt", "cg", "ep", "ft", "is", "lu", "mg", "sp"])
def test_every_benchmark_has_its_numbers(name: str) -> None:
    made = npb(benchmark=name, processes=2)
    found = made.numbers(processes(made, sample(name), 2))
    expected = json.loads((SAMPLES / f"{name}.json").read_text())
    assert list(found) == [one.name for one in made.output_measures]
    assert found["mops"] == pytest.approx(expected["operations_per_s"] / 1e6)
    assert found["mops_per_process"] == pytest.approx(expected["operations_per_s"] / 4e6)
    assert (found["time_s"], found["processes"]) == (expected["time_s"], 4)
    assert found["moved_mb"] == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("keys", "text", "endpoints", "said"),
    [
        ({"benchmark": "ft"}, sample("unsuccessful"), 3, "verification was not successful"),
        ({"benchmark": "bt"}, sample("idle-processes"), 3, "only 1 of 3 processes"),
        ({"benchmark": "bt"}, sample("bt"), 2, "2 processes were started, and it ran with 4"),
        ({"benchmark": "sp"}, sample("bt"), 4, "this is BT of class S"),
        ({"benchmark": "is", "class": "B"}, sample("is-class-a"), 2, "this is IS of class A"),
        ({}, sample("not-a-power-of-two"), 3, "not a power of two"),
        ({}, sample("is")[:500], 4, "did it come to its end"),
        ({}, "", 4, "did it come to its end"),
    ],
)
def test_an_unverified_npb_result_is_rejected(
    keys: dict[str, Any], text: str, endpoints: int, said: str
) -> None:
    made = npb(**keys)
    with pytest.raises(OutputError, match=said) as caught:
        made.numbers(processes(made, text, endpoints))
    assert caught.value.where == "n0"
    assert caught.value.tail or not text


def test_each_endpoint_has_so_many_processes_and_its_own_interface() -> None:
    made = npb(benchmark="ft", processes=3, **{"class": "B"})
    runs = made.runs()
    assert [run.argv for run in runs] == [["ft.B.x"]] * 3
    assert runs[0].env["UCX_NET_DEVICES"] == "{interface}"
    assert runs[0].env["UCX_TCP_PORT_RANGE"] == "20000-20999"
    parts = made.parts()
    assert len(parts) == 3
    assert all(step.rank and step.end == "sender" for part in parts for step in part.steps)


def test_it_may_take_long() -> None:
    assert npb(duration="30s").parts()[0].deadline_s == 360
    assert npb(duration="30s", deadline="40s").parts()[0].deadline_s == 40


def test_only_the_program_that_is_run_is_needed() -> None:
    made = npb(benchmark="mg", **{"class": "W"})
    (program,) = made.needs("sender")
    assert (program.name, program.how) == ("mg.W.x", ("present", "build"))
    assert program.source is not None
    assert program.source.adds == (FINALIZE,)
    assert made.needs("receiver") == ()
    assert len({one.name for one in made.programs}) == 8 * 5


def test_a_value_that_an_endpoint_does_not_report_is_not_zero() -> None:
    made = npb()
    text = sample("is")
    for odd in (None, TOLD.model_copy(update={"tx_bytes": [1, None, 1]})):
        assert made.numbers(processes(made, text, 4, odd))["moved_mb"] is None
    one = npb(processes=4)
    assert one.numbers(processes(one, text, 1))["moved_mb"] == 0


def test_interface_counters_are_recorded_once_per_endpoint() -> None:
    made = npb(processes=2)
    found = interfaces_of([one for each in processes(made, "", 2) for one in each])
    assert [(one.endpoint, one.name, one.measured) for one in found] == [
        (endpoint, name, name == "eth0") for endpoint in ("n0", "n1") for name in TOLD.name
    ]
    assert (found[1].rx_bytes, found[1].tx_bytes) == (3_000_000, 2_000_000)
    assert found[2].rx_bytes is None


@pytest.mark.parametrize(
    ("ends", "work", "good"),
    [
        ("{node: {count: 4}}", "{kind: npb, benchmark: bt}", True),
        ("{node: {count: 2}}", "{kind: npb, benchmark: bt, processes: 2}", True),
        ("{node: {count: 2}}", "{kind: npb, benchmark: sp}", False),
        ("{node: {count: 3}}", "{kind: npb, benchmark: ep}", True),
        ("{node: {count: 3}}", "{kind: npb, benchmark: lu}", True),  # it says so itself
        ("{node: {count: 3}}", "{kind: npb, benchmark: is}", False),
        ("{node: {}}", "{kind: npb, benchmark: bt}", True),
        ("{loopback: {}}", "{kind: npb, benchmark: mg, processes: 4}", True),
        ("{sender: {count: 3}, receiver: {}}", "{kind: npb, benchmark: cg}", True),
        ("{sender: {count: 2}, receiver: {}}", "{kind: npb, benchmark: cg}", False),
    ],
)
def test_a_benchmark_takes_some_numbers_of_processes(ends: str, work: str, *, good: bool) -> None:
    text = f"name: x\nplacement: same-host\nendpoints: {ends}\nworkload: {work}\n"
    if good:
        assert load_text(text, Path("x.yaml")).scenario.workload.kind == "npb"
        return
    with pytest.raises(InputError, match="can't use"):
        load_text(text, Path("x.yaml"))
