"""Directories that programs get for a trial: made where the scenario says, and gone with it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from osmef.errors import AgentError, EndpointError, InputError, ProgramError
from osmef.facts.collect import read_file_system
from osmef.remote.session import SshSession
from osmef.remote.workdir import clear, scratch_prefix
from osmef.scenario.load import load_text
from osmef.workloads.trial_workload import TrialWorkload
from tests.sshd import OPTIONS, Sshd
from tests.workloads.conftest import MakeHosts, Victim
from tests.workloads.test_program import measure, sh

WRITES = "mkdir -p a/b/c; head -c 100000 /dev/zero >a/b/c/file; chmod 0 a/b; "
SIZE = {"size": {"pattern": "size ([0-9]+)"}}


@pytest.fixture
def two(hosts: MakeHosts) -> list[Victim]:
    return hosts("sender", "receiver")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "else where"
    folder.mkdir()
    (folder / "kept").touch()
    return folder


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_it_runs_in_a_directory_of_its_own_there(two: list[Victim], elsewhere: Path) -> None:
    script = f"{WRITES} ls -d '{elsewhere}'/.osmef-*+sender+*/a >&2; echo size $(ls -A | wc -l)"
    found = measure(two, sh(script, directory=str(elsewhere), room="1MB"), metrics=SIZE)
    assert found["size"] == 1
    assert files(elsewhere) == ["kept"]


def test_no_files_are_left_in_the_run_directory(two: list[Victim]) -> None:
    home = Path.home() / two[0].directory
    before = files(home)
    argument = {"pattern": "in ([0-9]+)"}
    script = f"{WRITES} test -d {{dir}}/a; echo in $?"
    assert measure(two, sh(script, directory="{dir}"), metrics={"in": argument})["in"] == 0
    assert files(home) == before


def test_several_pairs_have_a_directory_each(hosts: MakeHosts, elsewhere: Path) -> None:
    three = hosts("sender", "receiver", "other")
    run = sh("mkdir mine && echo size 1", directory=str(elsewhere))
    assert measure(three, run, metrics=SIZE)["size"] == 1
    assert files(elsewhere) == ["kept"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (f"{WRITES} exit 3", "exit status 3"),
        (f"{WRITES} exec sleep 600", "still ran after"),
        (f"{WRITES} head -c 100000000 /dev/zero", "printed more than 100000 bytes"),
    ],
)
def test_a_failed_program_leaves_no_files(
    two: list[Victim], elsewhere: Path, script: str, said: str
) -> None:
    run = sh(script, directory=str(elsewhere))
    with pytest.raises(ProgramError, match=said):
        measure(two, run, deadline="500ms", most_output="100kB")
    assert files(elsewhere) == ["kept"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"directory": "/no/such/place"}, "can't make the directory /no/such/place/.osmef-"),
        ({"directory": "/proc"}, "can't make the directory /proc/.osmef-"),
        ({"directory": "/var", "room": "1000TB"}, "needs 1000000000.0 MB in /var"),
        ({"directory": "{dir}", "room": "1000TB"}, "MB are missing"),
    ],
)
def test_an_unusable_scratch_directory_is_reported_before_the_run(
    two: list[Victim], keys: dict[str, object], said: str
) -> None:
    with pytest.raises(AgentError) as caught:
        measure(two, sh("true", **keys))
    assert said in str(caught.value)
    assert caught.value.where == "sender"
    assert caught.value.cure


@pytest.mark.parametrize("directory", ["home", "../x", "{dir}/x", "", "/a\nb"])
def test_an_invalid_directory_is_an_error(tmp_path: Path, directory: str) -> None:
    run = f"{{on: sender, argv: [x], directory: {json.dumps(directory)}}}"
    text = f"name: x\nworkload: {{kind: program, run: [{run}]}}"
    with pytest.raises(InputError, match="directory"):
        load_text(text, tmp_path / "x.yaml")


def test_room_without_a_directory_is_an_error(tmp_path: Path) -> None:
    text = "name: x\nworkload: {kind: program, run: [{on: sender, argv: [x], room: 1GB}]}"
    with pytest.raises(InputError, match="there is none"):
        load_text(text, tmp_path / "x.yaml")


def test_a_trial_workload_lists_its_directories_by_end(tmp_path: Path) -> None:
    runs = (
        "{on: both, argv: [x], directory: /a}, {on: sender, argv: [x], directory: '{dir}'},"
        " {on: sender, argv: [y], directory: /a}, {on: receiver, argv: [z]}"
    )
    study = load_text(f"name: x\nworkload: {{kind: program, run: [{runs}]}}", tmp_path / "x.yaml")
    workload = TrialWorkload(study.scenario)
    assert workload.directories("sender") == ("/a", "{dir}")
    assert workload.directories("receiver") == ("/a",)


PREFIX = scratch_prefix("a-run", "host-1")


def test_only_what_a_run_has_left_at_an_endpoint_is_cleared(
    session: SshSession, elsewhere: Path
) -> None:
    for name in (f"{PREFIX}1", f"{PREFIX}2"):
        (elsewhere / name / "deep" / "er").mkdir(parents=True)
        (elsewhere / name / "deep" / "file").touch()
        (elsewhere / name / "link").symlink_to(elsewhere)
    others = [scratch_prefix("a-run", "host-10") + "1", scratch_prefix("a-run-2", "host-1") + "1"]
    for name in others:
        (elsewhere / name).mkdir()
    clear(session, PREFIX, str(elsewhere))
    clear(session, PREFIX, str(elsewhere / "not there"))
    assert sorted(files(elsewhere)) == sorted(["kept", *others])


def test_a_scratch_prefix_is_not_expanded_as_a_glob_pattern(
    session: SshSession, elsewhere: Path
) -> None:
    (elsewhere / ".osmef-ab+x+1").mkdir()
    (elsewhere / ".osmef-[a]*+x+1").mkdir()
    clear(session, scratch_prefix("[a]*", "x"), str(elsewhere))
    assert sorted(files(elsewhere)) == [".osmef-ab+x+1", "kept"]


def test_a_directory_that_cannot_be_cleared_is_reported(session: SshSession) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has something that it can't remove: in /proc")
    with pytest.raises(EndpointError, match="can't be removed: /proc/"):
        clear(session, "self", "/proc")


def test_a_directory_is_cleared_without_find_where_nothing_is_left(
    tmp_path: Path, elsewhere: Path
) -> None:
    sshd = Sshd(tmp_path, options=f"{OPTIONS}\nSetEnv PATH=/nowhere")
    session = SshSession.open(sshd.login())
    clear(session, PREFIX, str(elsewhere))
    (elsewhere / f"{PREFIX}1").mkdir()
    with pytest.raises(EndpointError, match=r"no find\(1\)") as raised:
        clear(session, PREFIX, str(elsewhere))
    assert f"{elsewhere}/{PREFIX}* by hand" in str(raised.value.cure)
    session.close()
    sshd.close()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ext2/ext3 4096 100 50\n", {"type": "ext2/ext3", "total_bytes": 409600,
                                     "available_bytes": 204800}),
        ("", None), ("tmpfs 4096", None), ("tmpfs x 1 1", None), ("a b c d e", None),
    ],
)  # fmt: skip
def test_a_file_system_line_is_parsed_or_unknown(text: str, found: object) -> None:
    assert read_file_system(text) == found


def test_a_station_reports_the_file_systems_of_its_directories(
    two: list[Victim], elsewhere: Path
) -> None:
    two[0].station.register_program_directories(["{dir}", str(elsewhere), "/no/such/place"])
    told = two[0].station.facts()["file_systems"]
    assert told["/no/such/place"] is None
    assert told["{dir}"]["total_bytes"] > told["{dir}"]["available_bytes"] >= 0
    assert told[str(elsewhere)]["type"]
