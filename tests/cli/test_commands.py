from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.main import get_group

from osmef.cli.completion import complete_run
from osmef.cli.main import make_app
from tests.cli.conftest import ROOT, Osmef, obeying_permissions
from tests.invoked import invoke

SAMPLE = Path(__file__).parents[1] / "results/data/quickstart-20261121T031500Z-3f9a"
COMMANDS = (
    "run",
    "quick",
    "init",
    "list",
    "resume",
    "extend",
    "reap",
    "validate",
    "plan",
    "show",
    "plot",
    "compare",
    "recommend",
    "similarity",
    "statistics",
    "prices list",
    "prices rank",
    "prices update",
    "report",
    "import",
    "schema",
    "verify-methods",
    "image build",
    "image list",
    "program bundle",
    "program list",
    "program remove",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_for_every_command(osmef: Osmef, command: str) -> None:
    shown = osmef(*command.split(), "--help")
    assert shown.code == 0
    assert f"osmef {command}" in shown.out.split("Example")[1]
    assert "…" not in shown.out, "an option's name is cut off at 80 columns"
    assert not re.search(r"<(bool|str|int|float|list|Path)", shown.out), "Python's names of types"


def test_help_names_the_extra_that_a_command_needs(osmef: Osmef) -> None:
    assert "osmef[archive]" in osmef("campaign", "export", "--help").out


def test_the_list_of_commands_imports_none_of_them() -> None:
    script = "import sys; from osmef.cli.main import load; load([]); print(*sys.modules)"
    shown = subprocess.check_output([sys.executable, "-c", script], text=True, cwd=ROOT)
    loaded = {name for name in shown.split() if name.startswith("osmef.")}
    assert loaded == {
        *("osmef.cli", "osmef.cli.main", "osmef.cli.streams"),
        "osmef.errors",
    }


def test_the_command_list_has_the_short_help_of_each_command() -> None:
    listed, loaded = (get_group(app).commands for app in (make_app([]), make_app()))
    assert [*listed] == [*loaded]
    for name, command in loaded.items():
        assert listed[name].get_short_help_str(999) == command.get_short_help_str(999)


def test_a_run_is_completed_by_its_name_and_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert complete_run("") == ["latest"]
    for name in ("results/quick-1", "results/quick-2", "results/udp-1", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "results/notes.txt").touch()
    assert complete_run("qu") == ["quick-1", "quick-2"]
    assert complete_run("l") == ["latest"]
    assert complete_run("results/u") == ["results/udp-1"]
    assert complete_run("re") == ["results"]
    assert complete_run(f"{tmp_path}/o") == [f"{tmp_path}/other"]
    assert complete_run("nowhere/x") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_the_command(osmef: Osmef, shell: str) -> None:
    words = ("_OSMEF_COMPLETE=complete_" + shell, "COMP_WORDS=osmef va", "COMP_CWORD=1")
    others = ("_TYPER_COMPLETE_ARGS=osmef va", "_TYPER_COMPLETE_FISH_ACTION=get-args")
    script = "import sys; sys.argv[0] = 'osmef'; from osmef.__main__ import main; main()"
    done = subprocess.run(
        ["env", *words, *others, f"PYTHONPATH={ROOT}", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "validate" in done.stdout
    assert "resume" not in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_for_the_installed_command(osmef: Osmef, shell: str) -> None:
    """Also as `python -m osmef`, which a shell can't complete by its name."""
    named = ("env", "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION=1")  # not the one around the test
    shown = osmef("--show-completion", shell, prefix=named)
    assert shown.code == 0, shown.err
    assert f"_OSMEF_COMPLETE=complete_{shell}" in shown.out
    assert "python" not in shown.out.lower()


BAD = """
nam: typo
workload: {kind: btc, duration: 5}
endpoints:
  sender: {flavor: 3}
sweep: {placement: [here]}
"""


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_all_problems_are_listed_with_their_places(osmef: Osmef, command: str) -> None:
    ended = osmef(command, osmef.write(BAD))
    assert ended.code == 2
    for place in ("scenario.yaml:2:1", "scenario.yaml:3:33", "scenario.yaml:5:20"):
        assert place in ended.err, ended.err
    assert ended.err.count("cure:") >= 4
    assert "Traceback" not in ended.err
    assert not (osmef.directory / "results").exists()


def test_problems_come_as_json_too(osmef: Osmef) -> None:
    ended = osmef("validate", osmef.write(BAD), "--json")
    assert ended.code == 2
    printed = ended.json()
    assert printed["valid"] is False
    lines = [problem["line"] for problem in printed["problems"]]
    assert lines == sorted(lines)
    assert all(problem["cure"] for problem in printed["problems"])
    assert osmef("validate", osmef.write("name: fine")).code == 0
    assert osmef("validate", osmef.write("name: fine"), "--json").json() == {
        "valid": True,
        "cells": 1,
        "problems": [],
    }


def test_a_request_beyond_the_provider_is_reported_as_a_scenario_error(osmef: Osmef) -> None:
    text = """
name: impossible
provider: {kind: local, hosts: 1}
endpoints: {sender: {flavor: huge}, receiver: {}}
sweep:
  placement: [same-host, different-host]
"""
    for command in ("validate", "plan", "run"):
        ended = osmef(command, osmef.write(text))
        assert ended.code == 2
        assert "scenario.yaml:4:30" in ended.err
        assert "scenario.yaml:6:26" in ended.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "missing.yaml"), "no such file"),
        (("show", "missing"), "there is no such run"),
        (("resume", "."), "no run directory"),
        (("run", "scenario.yaml", "--set", "nonsense"), "not NAME=VALUE"),
        (("run", "scenario.yaml", "--set", "nonsense=1"), "nonsense"),
        (("run", "scenario.yaml", "--set", "workload.duration=x"), "workload.duration"),
    ],
)
def test_bad_arguments_have_a_clear_error(
    osmef: Osmef, arguments: tuple[str, ...], words: str
) -> None:
    osmef.write("name: fine")
    ended = osmef(*arguments)
    assert ended.code == 2
    assert words in ended.err
    assert "cure" in ended.err
    assert "Traceback" not in ended.err


def test_an_unwritable_results_directory_is_reported(osmef: Osmef) -> None:
    osmef.write("", "file")
    ended = osmef("run", osmef.write("name: fine"), "--out", "file/results")
    assert ended.code == 4
    assert "file/results" in ended.err
    assert "Traceback" not in ended.err


def test_a_plan_lists_cells_endpoints_and_time_and_creates_nothing(osmef: Osmef) -> None:
    name = osmef.write(
        "name: planned\nrepeat: 10\nworkload: {kind: btc, duration: 60s}\n"
        "sweep: {placement: [same-host, different-host], connections: [1, 5, 10]}\n"
    )
    shown = osmef("plan", name)
    assert shown.code == 0, shown.err
    assert "6 cells x 10 = 60 trials" in shown.out
    assert "about 1 h" in shown.out
    for word in ("same-host", "different-host", "sender-h1-t1", "receiver-h2-t1"):
        assert word in shown.out
    printed = osmef("plan", name, "--json").json()
    assert printed["trials"] == 60
    assert [cell["distance"] for cell in printed["cells"]] == [0, 0, 0, 2, 2, 2]
    assert sorted(path.name for path in osmef.directory.iterdir()) == ["scenario.yaml"]


def test_a_plan_shows_a_switch_as_it_is_written(osmef: Osmef) -> None:
    name = osmef.write("name: a\nworkload: pingpong\nsweep: {relay: [true, false]}")
    shown = osmef("plan", name).out.splitlines()
    assert [line.split()[0] for line in shown[:4] if line[0] != "─"] == ["relay", "true", "false"]


def test_nothing_of_a_plan_is_cut_off_on_a_narrow_terminal(osmef: Osmef) -> None:
    name = osmef.write("name: a\nsweep: {endpoints.receiver: [{kind: host}, {flavor: small}]}")
    shown = osmef("plan", name, prefix=("env", "COLUMNS=40"))
    assert shown.code == 0, shown.err
    assert "…" not in shown.out
    assert "Left out, as 40 columns have no room:\nreceivers." in shown.out
    for row in ("{kind: host}     2        sender-h1-t1", "receiver-small-h2-t1"):
        assert row.split() in [line.split()[: len(row.split())] for line in shown.out.splitlines()]


def test_runs_are_listed_and_called_by_the_beginning_of_their_names(osmef: Osmef) -> None:
    assert "osmef run SCENARIO makes results/" in osmef("list").err
    name = f"results/{SAMPLE.name}"
    shutil.copytree(SAMPLE, osmef.directory / name)
    (row,) = [line for line in osmef("list").out.splitlines() if SAMPLE.name in line]
    assert row.split()[3:] == ["btc", "1", "3", "1", "complete"]
    (run,) = osmef("list", "--json").json()["runs"]
    assert (run["name"], run["failed"], run["state"]) == (SAMPLE.name, 1, "complete")
    for called in ("latest", "quick", name):
        assert osmef("show", called).out.splitlines()[-1] == f"run: {name}"
    assert osmef("statistics", "latest").code == 0
    wrong = osmef("show", "results")
    assert (wrong.code, "osmef list" in wrong.err) == (2, True)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_where_one_looks_for_it(osmef: Osmef, option: str) -> None:
    shown = osmef("run", option)
    assert shown.code == 0
    assert "or credentials, 4 interrupted" in " ".join(shown.out.split())


def test_a_terminal_without_a_letter_shows_another(osmef: Osmef) -> None:
    ascii_only = ("env", "PYTHONIOENCODING=ascii")
    shown = osmef("show", str(SAMPLE), prefix=ascii_only)
    assert shown.code == 0, shown.err
    assert "aggregate" in shown.out


def test_a_file_name_with_invalid_utf8_is_reported(osmef: Osmef) -> None:
    for arguments in (("plan", "\udcff.yaml"), ("plan", "\udcff.yaml", "--json")):
        ended = osmef(*arguments)
        assert ended.code == 2
        assert "no such file" in ended.err + ended.out


def test_a_run_without_its_scenario_file_is_reported(osmef: Osmef) -> None:
    run = osmef.directory / "results" / "lost"
    run.mkdir(parents=True)
    (run / "lock").touch()
    note = {"at": "2026-01-01T00:00:00+00:00", "event": "plan", "seed": 1, "digest": "0" * 64}
    (run / "journal.jsonl").write_text(json.dumps(note) + "\n")
    ended = osmef("resume", str(run))
    assert ended.code == 2
    assert "scenario file of the run is missing" in ended.err


@pytest.mark.parametrize("module", ["osmef.cli.main", "typer", "pydantic"])
def test_ctrl_c_while_the_command_loads_leaves_no_traceback(osmef: Osmef, module: str) -> None:
    ended = osmef("plan", osmef.write("name: a"), prefix=osmef.interrupted_at(module))
    assert (ended.code, ended.out, ended.err) == (4, "", "")


def test_ctrl_c_within_a_command_is_reported_as_interrupted(osmef: Osmef) -> None:
    at_work = osmef.interrupted_at("osmef.providers.local.provider")  # it is loaded when needed
    ended = osmef("plan", osmef.write("name: a"), "--json", prefix=at_work)
    assert ended.code == 4
    assert ended.json()["error"]["kind"] == "interrupted"
    assert ended.err == ""


@pytest.mark.parametrize("command", ["validate", "run"])
def test_a_scenario_that_is_no_regular_file_is_rejected(osmef: Osmef, command: str) -> None:
    os.mkfifo(osmef.directory / "endless.yaml")
    ended = osmef(command, "endless.yaml")
    assert ended.code == 2
    assert "endless.yaml: can't be read: it is a named pipe" in ended.err
    assert "cure: name a regular file" in ended.err


@pytest.mark.parametrize("command", ["validate", "plan", "run", "campaign plan"])
def test_an_unreadable_scenario_is_an_error_with_a_cure(osmef: Osmef, command: str) -> None:
    (osmef.directory / "closed.yaml").touch(mode=0)
    ended = osmef(*command.split(), "closed.yaml", prefix=obeying_permissions())
    assert (ended.code, ended.out) == (2, "")
    assert "error: closed.yaml: can't be read: Permission denied" in ended.err
    assert "cure: check the path and the permissions" in ended.err
    if command != "run":
        ended = osmef(*command.split(), "closed.yaml", "--json", prefix=obeying_permissions())
        assert (ended.code, ended.err) == (2, "")
        found = ended.json()
        assert found.get("error", found)["where"] == "closed.yaml"


def test_the_cure_of_an_unreadable_run_is_to_check_its_permissions(osmef: Osmef) -> None:
    run = osmef.directory / "results" / "udp-1"
    run.mkdir(parents=True)
    (run / "lock").touch()
    (run / "summary.json").touch(mode=0)
    ended = osmef("show", "latest", prefix=obeying_permissions())
    assert ended.code == 4
    assert "results/udp-1/summary.json: can't read: Permission denied" in ended.err
    assert "cure: check the permissions: can you read it as this user?" in ended.err


def test_the_schemas_are_json_schemas(osmef: Osmef) -> None:
    schema = osmef("schema").json()
    assert osmef("schema", "scenario").json() == schema
    for document in (schema, osmef("schema", "summary").json()):
        Draft202012Validator.check_schema(document)
    Draft202012Validator(schema).validate({"name": "fine", "provider": "local"})
    assert list(Draft202012Validator(schema).iter_errors({"nam": "typo"}))
    assert osmef("schema", "nonsense").code == 2


def test_an_empty_reap_reports_nothing_left(osmef: Osmef) -> None:
    ended = osmef("reap")
    assert (ended.code, ended.out.strip()) == (0, "nothing left")
    nothing: dict[str, list[str]] = {
        name: [] for name in ("reaped", "left", "spared", "unread", "errors")
    }
    assert osmef("reap", "--json").json() == nothing


def test_a_closed_output_pipe_is_no_error(osmef: Osmef) -> None:
    process = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m osmef schema | head -n 1"],
        capture_output=True,
        check=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        cwd=osmef.directory,
    )
    assert process.stdout == b"{\n"
    assert process.stderr == b""


def test_the_version_is_printed(osmef: Osmef) -> None:
    shown = osmef("--version")
    assert shown.code == 0
    assert shown.out.startswith("osmef ")


def test_a_report_is_written_and_lists_unfinished_runs(osmef: Osmef) -> None:
    for name in ("ended", "killed"):
        shutil.copytree(SAMPLE, osmef.directory / name)
    (osmef.directory / "killed" / "summary.json").unlink()
    ended = osmef("report", "ended", "killed", "-o", "page.html", "--title", "Two runs")
    assert ended.code == 0, ended.err
    assert "killed has not ended" in ended.err
    assert ended.out.startswith("2 runs, ")
    assert "<h1>Two runs</h1>" in (osmef.directory / "page.html").read_text()


@pytest.mark.parametrize("command", ["compare", "statistics", "campaign run"])
def test_paragraphs_of_a_help_text_are_broken_by_the_terminal_alone(command: str) -> None:
    words = command.split()
    found: Any = get_group(make_app(words))
    for word in words:
        found = found.commands[word]
    assert found.help
    assert all("\n" not in one for one in found.help.split("\n\n"))


def test_an_export_replaces_no_file_of_a_run(osmef: Osmef) -> None:
    shutil.copytree(SAMPLE, osmef.directory / "run")
    trials = (osmef.directory / "run" / "trials.jsonl").read_bytes()
    ended = osmef("export", "csv", "run", "-o", "run/trials.jsonl")
    assert (ended.code, "this is a file of a run" in ended.err) == (2, True)
    assert (osmef.directory / "run" / "trials.jsonl").read_bytes() == trials
    assert osmef("export", "csv", "run", "-o", "run/new.csv").code == 0
    assert osmef("export", "csv", "run", "-o", "elsewhere.csv").code == 0
    assert osmef("export", "csv", "run", "-o", "elsewhere.csv").code == 0


def test_zero_columns_are_those_of_a_terminal_without_a_width(osmef: Osmef) -> None:
    shutil.copytree(SAMPLE, osmef.directory / "run")
    shown = [osmef("show", "run", prefix=("env", f"COLUMNS={width}")) for width in (0, 80)]
    assert [one.code for one in shown] == [0, 0]
    assert shown[0].out == shown[1].out


def test_a_reap_of_a_missing_directory_is_an_error(osmef: Osmef) -> None:
    osmef.write("", "file")
    for name in ("nowhere", "file"):
        ended = osmef("reap", "--out", name)
        assert (ended.code, "there is no such directory" in ended.err) == (2, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_unreadable_runs_are_listed_as_such_beside_the_others(tmp_path: Path) -> None:
    for name in ("good", "closed-20261101T000000Z-0a1b", "secret"):
        shutil.copytree(SAMPLE, tmp_path / name)
    for path in (*tmp_path.iterdir(), tmp_path, *list(tmp_path.parents)[:-2]):
        path.chmod(path.stat().st_mode | 0o755)
    (tmp_path / "closed-20261101T000000Z-0a1b").chmod(0)
    (tmp_path / "secret" / "summary.json").chmod(0)
    invoke("list", tmp_path, "--json")  # imports all, which that user may not be able to
    os.seteuid(65534)
    try:
        listed = invoke("list", tmp_path, "--json")
    finally:
        os.seteuid(0)
    assert listed.exit_code == 0, listed.output
    states = {one["name"]: one["state"] for one in json.loads(listed.stdout)["runs"]}
    assert states.pop("good") == "complete"
    assert [state.partition(":")[0] for state in states.values()] == ["unreadable"] * 2


@pytest.mark.parametrize(
    ("more", "text"), [(4, "and 1 more reason: "), (5, "and 2 more reasons: ")]
)
def test_the_most_frequent_reasons_of_failed_trials_are_shown(
    osmef: Osmef, more: int, text: str
) -> None:
    run = shutil.copytree(SAMPLE, osmef.directory / "run")
    log = run / "trials.jsonl"
    failed = json.loads(log.read_text().splitlines()[-1])
    lines = [
        failed | {"index": 10 + n, "failure": failed["failure"] | {"message": f"reason {n}"}}
        for n in range(more - 1)
    ]
    with log.open("a") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)
    shown = osmef("show", "run").out
    assert text in " ".join(shown.split())
    assert shown.count(" trials: ") == 3
