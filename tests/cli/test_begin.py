"""How one begins without a scenario file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from osmef.cli.scenario_files import scenario_text
from osmef.engine.check import check_study
from osmef.errors import InputError
from osmef.kinds import WORKLOADS
from osmef.results.files import hold
from osmef.scenario.load import load_text
from tests.cli.conftest import Osmef

OWN = ("btc", "udp", "pingpong")


@pytest.mark.parametrize("kind", WORKLOADS.names)
def test_a_scenario_to_begin_with_is_valid(kind: str) -> None:
    study = load_text(scenario_text(kind), Path("a.yaml"))
    assert study.scenario.workload.kind == kind
    try:
        check_study(study)
    except InputError as error:  # a program that this machine can't bring is no fault of the file
        found = [problem.message for problem in error.problems]
        assert [one for one in found if "can't be supplied" not in one] == []


@pytest.mark.parametrize("kind", OWN)
def test_each_default_in_a_comment_is_the_default(kind: str) -> None:
    text = scenario_text(kind)
    written = re.sub(r"^  # ([a-z_]+: )", r"  \1", text, flags=re.MULTILINE)
    assert written != text
    plain, spelt = (load_text(one, Path("a.yaml")).scenario for one in (text, written))
    assert spelt.workload == plain.workload


def test_a_file_to_begin_with_is_written_once(osmef: Osmef) -> None:
    done = osmef("init", "udp")
    assert done.code == 0, done.err
    assert json.loads((osmef.directory / "osmef-scenario.schema.json").read_text())
    first = (osmef.directory / "udp.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=osmef-scenario.schema.json"
    assert osmef("validate", "udp.yaml").code == 0
    again = osmef("init", "udp")
    assert (again.code, "this file exists already" in again.err) == (2, True)
    assert "osmef workloads" in osmef("init", "upd").err


def test_a_dash_writes_the_scenario_to_standard_output(osmef: Osmef) -> None:
    done = osmef("init", "udp", "--output", "-")
    assert (done.code, done.out, done.err) == (0, scenario_text("udp"), "")
    assert list(osmef.directory.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("left",), "name two hosts"),
        (("a", "b", "c"), "name two hosts"),
        (("local", "--connections", "1,x"), "write it as 1,8"),
        (("local", "--duration", "5"), "--duration"),
        (("local", "--duration", "0s"), "error: --duration: workload.duration is '0s'"),
        (("local", "--connections", "1,0"), "error: --connections: workload.connections is 0"),
        (("local", "--repeat", "0"), "error: --repeat: repeat is 0"),
        (("", "right"), "error: HOST_A HOST_B: "),
        (("left", "left"), "error: HOST_A HOST_B: left is named twice"),
    ],
)
def test_a_wrong_command_line_is_reported(osmef: Osmef, words: tuple[str, ...], told: str) -> None:
    ended = osmef("quick", *words)
    assert (ended.code, told in ended.err) == (2, True), ended.err
    assert "quick.yaml" not in ended.err
    assert not (osmef.directory / "results").exists()


def test_a_first_measurement_needs_no_file(osmef: Osmef) -> None:
    words = ("--connections", "1,2", "--duration", "100ms", "--repeat", "1", "--json")
    ended = osmef("quick", "local", *words)
    assert ended.code == 0, ended.err
    summary = ended.json()["summary"]
    assert [cell["values"] for cell in summary["cells"]] == [
        {"connections": 1},
        {"connections": 2},
    ]
    (scenario,) = osmef.directory.glob("results/quick-*/scenario.yaml")
    assert osmef("validate", str(scenario)).code == 0


@pytest.mark.parametrize(
    ("ends", "is_ipv6"),
    [(("me@[fd00::7]:1", "me@[fd00::8]:1"), True), (("[127.0.0.1]:1", "me@[127.0.0.2]:1"), False)],
)
def test_hosts_that_are_named_by_ipv6_addresses_are_measured_by_them(
    osmef: Osmef, ends: tuple[str, str], is_ipv6: bool
) -> None:
    osmef("quick", *ends)
    (scenario,) = osmef.directory.glob("results/quick-*/scenario.yaml")
    assert ("family: ipv6" in scenario.read_text()) == is_ipv6


def test_a_run_is_extended_and_one_that_was_cut_shows_what_it_has(osmef: Osmef) -> None:
    words = ("--connections", "1", "--duration", "100ms", "--repeat", "2", "--json")
    assert osmef("quick", "local", *words).code == 0
    ended = osmef("extend", "latest", "--repeat", "3", "--no-figures", "--json")
    assert ended.code == 0, ended.err
    summary = ended.json()["summary"]
    assert [cell["n_ok"] for cell in summary["cells"]] == [3]
    assert any("to 3 of each cell" in note for note in summary["run"]["warnings"])
    again = osmef("extend", "latest", "--repeat", "3")
    assert (again.code, "give more than 3" in again.err) == (2, True)
    many = osmef("extend", "latest", "--repeat", "100001")
    assert (many.code, "at most 100000" in many.err) == (2, True)
    (directory,) = osmef.directory.glob("results/quick-*")
    (directory / "summary.json").unlink()
    lines = (directory / "trials.jsonl").read_text().splitlines(keepends=True)
    (directory / "trials.jsonl").write_text("".join(lines[:2]))
    (listed,) = osmef("list", "--json").json()["runs"]
    assert [listed[key] for key in ("workloads", "trials", "state")] == ["btc", 2, "interrupted"]
    held = hold(directory)
    assert osmef("list", "--json").json()["runs"][0]["state"] == "running"
    held.release()
    shown = osmef("show", "latest")
    assert shown.code == 0, shown.err
    assert "incomplete; to go on: osmef resume" in shown.out
    assert " 2/2 " in shown.out


def test_the_help_begins_where_no_file_is(osmef: Osmef) -> None:
    """An installed osmef has no example scenarios beside it."""
    told = " ".join(osmef("--help").out.split())
    assert "First steps: osmef quick HOST_A HOST_B, or osmef init and osmef run btc.yaml" in told
