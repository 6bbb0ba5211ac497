from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.engine.events import Ended, Provisioning, Released, Started
from osmef.engine.journal import Journal
from osmef.errors import StorageError
from osmef.providers.base import Resource
from osmef.results.files import append_line
from tests.journals import read_notes, write_note
from tests.set_clock import set_clock
from tests.small_files import small_files

SANDBOX = Resource("local", "sandbox", "one", run="r")
OTHER = replace(SANDBOX, name="two")


def test_an_intended_resource_is_listed_until_it_is_destroyed(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    assert journal.existing() == []
    journal.intend(SANDBOX)
    assert journal.existing() == [SANDBOX]
    made = replace(SANDBOX, id="pid:1:2")
    journal.created(made)
    journal.intend(OTHER)
    assert journal.existing() == [OTHER, made]
    journal.destroyed(made)
    assert journal.existing() == [OTHER]


def test_things_of_one_name_in_two_places_are_two(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    here, there = (replace(SANDBOX, access={"uri": uri}) for uri in ("qemu:///system", "b"))
    journal.intend(here)
    journal.intend(there)
    assert journal.existing() == [there, here]
    journal.destroyed(replace(here, id="known by now"))
    assert journal.existing() == [there]


def moment(minute: float) -> datetime:
    return datetime(2026, 11, 20, 12, tzinfo=UTC) + timedelta(minutes=minute)


DESTROYED = {"event": "destroyed", "resource": asdict(SANDBOX)}
EXTENDED = {"event": "extend", "repeat": 9}


@pytest.mark.parametrize(
    ("lines", "minutes"),
    [
        ([(0, "start"), (5, "end")], 5),
        ([(0, "start"), (5, "end"), (60, EXTENDED), (61, "start"), (64, "end")], 8),
        ([(0, "start"), (3, "gone"), (50, "start"), (54, "end")], 7),
        ([(0, "start"), (1, "gone"), (2, "end"), (90, "start")], 2),
        ([(0, "start"), (1, "held"), (90, DESTROYED)], 2),
        ([(0, "start"), (1, "held"), (90, "start"), (91, "end")], 3),
        ([(0, "start"), (5, "end"), (-60, "start"), (-57, "end")], 8),
        ([(0, "start"), (5, "gone"), (-60, "start"), (-57, "end")], 8),
        ([(7, "end")], 0),
    ],
    ids=[
        "once",
        "extended",
        "interrupted",
        "nothing missing",
        "reaped",
        "killed",
        "clock set back",
        "clock set back after an interruption",
        "damaged",
    ],
)
def test_a_run_is_worked_on_from_each_start_to_its_end(
    tmp_path: Path, lines: list[tuple[float, str | dict[str, Any]]], minutes: float
) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    for minute, told in lines:
        known = told if isinstance(told, dict) else {"event": told}
        extra = {"since": moment(0).isoformat(), "by": "x"} if told == "held" else {}
        line = {"at": moment(minute).isoformat(), **known, **extra}
        append_line(journal.path, json.dumps(line).encode())
    assert journal.history().worked_s([moment(2)]) == minutes * 60


def test_trials_of_a_resumed_run_are_no_work_of_the_controller_that_was_killed(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    for minute, told in ((0, "start"), (60, "start"), (120, "end")):
        line = {"at": moment(minute).isoformat(), "event": told}
        append_line(journal.path, json.dumps(line).encode())
    assert journal.history().worked_s([moment(2), moment(100)]) == (2 + 60) * 60


@pytest.mark.parametrize("hours", [-1, 25])
def test_a_clock_that_is_set_changes_no_length(
    hours: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.note(Started())
    journal.note(Provisioning({"vm": None}, {}))
    set_clock(monkeypatch, timedelta(hours=hours))
    journal.note(Released())
    journal.note(Ended())
    history = journal.history()
    (period,) = history.cost_periods
    assert timedelta(0) <= period.end - period.begin < timedelta(minutes=1)
    assert 0 <= history.worked_s() < 60


def test_vms_of_a_killed_run_cost_until_its_last_line_where_the_clock_was_set_back_then(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    provisioning = {"event": "provision", "prices": {"vm": None}, "most": {}}
    for minute, told in ((0, provisioning), (9, {"event": "end"}), (-50, DESTROYED)):
        line = {"at": moment(minute).isoformat(), **told}
        append_line(journal.path, json.dumps(line).encode())
    (period,) = journal.history().cost_periods
    assert period.end - period.begin == timedelta(minutes=9)


@given(cut=st.integers(0, 400))
def test_a_line_torn_by_a_crash_hides_no_other(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    journal = Journal(path)
    journal.intend(SANDBOX)
    whole = path.read_bytes()
    journal.created(replace(SANDBOX, id="pid:1:2"))
    path.write_bytes(path.read_bytes()[: len(whole) + cut])
    assert [r.name for r in journal.existing()] == ["one"]
    journal.destroyed(SANDBOX)
    assert journal.existing() == []


def test_garbage_in_the_journal_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.intend(SANDBOX)
    path.write_bytes(path.read_bytes() + b"\xff\x00garbage\n[1]\n")
    journal.intend(OTHER)
    assert journal.existing() == [OTHER, SANDBOX]


def test_things_of_one_name_in_two_clouds_are_two(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    here, there = (replace(SANDBOX, access={"region": name}) for name in ("here", "there"))
    for resource in (here, there):
        journal.intend(resource)
    journal.destroyed(here)
    assert journal.existing() == [there]


@pytest.mark.parametrize(
    "odd",
    [
        "{}",
        '{"resource": null}',
        '{"resource": {"name": "x"}}',
        '{"resource": {"provider": 1, "kind": "", "name": "", "run": ""}}',
        '{"resource": {"provider": "", "kind": "", "name": "", "run": "", "access": []}}',
        '{"resource": {"provider": "", "kind": "", "name": "", "run": "", "access": {"a": {}}}}',
        '{"resource": {"provider": "", "kind": "", "name": "", "run": "", "id": 7}}',
        '{"resource": {"provider": "", "kind": "", "name": "", "run": "", "deadline": "noon"}}',
        '{"resource": {"provider": "", "kind": "", "name": "", "run": "", "made": {}}}',
    ],
)
def test_a_note_of_nothing_known_hides_no_other(tmp_path: Path, odd: str) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.path.write_text(json.dumps({"event": "created", **json.loads(odd)}) + "\n")
    journal.intend(SANDBOX)
    assert journal.existing() == [SANDBOX]


def test_unknown_keys_of_a_newer_version_are_ignored(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    write_note(journal, "intend", resource={**asdict(SANDBOX), "colour": "blue"})
    assert journal.existing() == [SANDBOX]


def test_a_full_disk_stops_no_removal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.intend(SANDBOX)
    with small_files(journal.path.stat().st_size):
        with pytest.raises(StorageError):
            journal.intend(OTHER)
        journal.destroyed(SANDBOX)
        journal.destroyed(OTHER)
    assert journal.unnoted is not None
    assert "ulimit" in str(journal.unnoted.cure)
    assert journal.existing() == [SANDBOX]


BRACKETS = b"[" * 100_000 + b"\n"


@pytest.mark.parametrize(
    "line",
    [
        BRACKETS,
        b'{"a":' * 100_000 + b"\n",
        b"9" * 5000 + b"\n",
        b'"\\ud800"\n',
        b"[" + b" " * 33 * 1024**2 + b"]\n",
        b'{"at": 7, "event": "plan", "seed": 1, "digest": "x"}\n',
        b'{"at": "2026-01-01T00:00:00", "event": "end"}\n',
        b'{"at": "2026-01-01T00:00:00Z", "event": "provision"}\n',
        b'{"at": "2026-01-01T00:00:00Z", "event": "created", "resource": {"name": "x"}}\n',
    ],
    ids=["brackets", "braces", "digits", "half", "long", "plan", "time", "provision", "resource"],
)
def test_a_damaged_line_is_reported_and_hides_no_other_resource(
    tmp_path: Path, line: bytes
) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.intend(SANDBOX)
    with journal.path.open("ab") as file:
        file.write(line)
    journal.intend(OTHER)
    assert journal.existing() == [OTHER, SANDBOX]
    assert [note["event"] for note in read_notes(journal)] == ["intend", "intend"]
    (told,) = journal.history().damage()
    assert told.where == f"{journal.path}:2"
    assert "osmef reap --provider" in str(told.cure)


@pytest.mark.parametrize("name", ["vm", "x" * 5000, "../../../etc/passwd", "", "a\0b", ".."])
def test_an_endpoint_of_a_name_that_no_file_has_is_damage(tmp_path: Path, name: str) -> None:
    place: dict[str, Any] = {"requested": {}, "achieved": {}, "warnings": [], "facts": {}}
    none = dict.fromkeys(("kind", "flavor", "vcpus", "data_address", "agent_sha256"))
    journal = Journal(tmp_path / "journal.jsonl")
    write_note(journal, "endpoint", endpoint={"name": name, **place, **none})
    assert len(journal.history().damage()) == (name != "vm")


@pytest.mark.parametrize("rest", [b"[", b'{"at"', b"\xff"])
def test_an_unfinished_last_line_is_no_damage(tmp_path: Path, rest: bytes) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.intend(SANDBOX)
    with journal.path.open("ab") as file:
        file.write(rest)
    assert journal.history().damage() == []
    assert journal.existing() == [SANDBOX]


def test_a_damaged_time_hides_no_resource(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.intend(SANDBOX)
    journal.path.write_text(journal.path.read_text().replace('"at": "2', '"at": "X'))
    assert (journal.existing(), read_notes(journal)) == ([SANDBOX], [])
    assert len(journal.history().damage()) == 1


@pytest.mark.parametrize("odd", ["a\0b", "\x1b[2J", "x" * 5000, ""])
@pytest.mark.parametrize("key", ["kind", "name", "run", "id"])
def test_a_resource_of_a_name_that_none_has_is_damage(tmp_path: Path, key: str, odd: str) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    write_note(journal, "created", resource={**asdict(SANDBOX), key: odd})
    assert journal.existing() == []
    assert len(journal.history().damage()) == 1


def test_a_named_pipe_instead_of_a_journal_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "journal.jsonl")
    with pytest.raises(StorageError, match="no regular file"):
        read_notes(Journal(tmp_path / "journal.jsonl"))


def test_no_journal_has_no_damage(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    assert (read_notes(journal), journal.history().damage(), journal.existing()) == ([], [], [])
