from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from osmef.engine.journal import Journal, is_at_work, refuse_second, this_controller
from osmef.engine.reap import Orphan, Search, find_orphans, reap
from osmef.errors import InputError, ReachError, StorageError
from osmef.kinds import PROVIDERS
from osmef.providers.base import Access, EndpointRequest, Resource, RunContext
from osmef.providers.local.provider import LocalProvider
from osmef.remote.login import KeyPair
from osmef.results import files
from osmef.results.rundir import RunDirectory
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.fields import EndpointKind
from tests.engine.memory_cloud import DOWN, MemoryCloud, Site, thing
from tests.invoked import invoke
from tests.journals import read_notes, write_note
from tests.small_files import small_files
from tests.unique import unique


@contextmanager
def cloud(run: str, journal: Journal, deadline: float) -> Iterator[LocalProvider]:
    provider = LocalProvider(LocalSettings())
    request = EndpointRequest("vm", "sender", EndpointKind.VM, None, "host-1", "tenant-1")
    try:
        provider.create(RunContext(run, [request], KeyPair.generate("test"), journal, deadline))
        yield provider
    finally:
        provider.close()


@pytest.fixture
def run() -> str:
    return f"reap-{unique()}-{time.monotonic_ns()}"


def found(out: Path, run: str) -> list[str]:
    return [orphan.reason for orphan in orphans(out, run)]


def orphans(out: Path, run: str, **search: Any) -> list[Orphan]:
    """List what is found of one run: other tests, and users, have clouds on this machine, too."""
    return [o for o in find_orphans(Search(out, **search)).orphans if o.resource.run == run]


@pytest.mark.parametrize(("left_s", "reasons"), [(600, []), (-60, ["its deadline has passed"])])
def test_resources_in_no_journal_are_reaped_by_their_mark_after_their_deadline(
    tmp_path: Path, run: str, left_s: float, reasons: list[str]
) -> None:
    with cloud(run, Journal(tmp_path / "elsewhere.jsonl"), time.time() + left_s):
        assert found(tmp_path, run) == reasons
        if reasons:
            assert reap(orphans(tmp_path, run)) == []
            assert found(tmp_path, run) == []


def test_a_run_is_reaped_only_when_its_controller_is_dead(
    tmp_path: Path,
) -> None:
    with RunDirectory.create(tmp_path, "reap", "name: reap\n", ".yaml") as directory:
        journal = Journal(directory.journal)
        with cloud(directory.id, journal, time.time() - 60):
            assert found(tmp_path, directory.id) == []
            directory.close()  # as the death of the controller does
            assert found(tmp_path, directory.id) == ["its controller no longer exists"]
            assert reap(orphans(tmp_path, directory.id)) == []
            assert LocalProvider.owned({}, directory.id) == []
            assert journal.existing() == []


def test_resources_already_gone_are_recorded_as_destroyed(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path, "reap", "name: reap\n", ".yaml") as directory:
        journal = Journal(directory.journal)
        with cloud(directory.id, journal, time.time() + 60):
            existing = journal.existing()
        journal.created(existing[0])
        directory.close()
        assert len(orphans(tmp_path, directory.id)) == 1
        assert reap(orphans(tmp_path, directory.id)) == []
        assert found(tmp_path, directory.id) == []


def test_older_resources_are_reaped_before_their_deadline_on_request(
    tmp_path: Path, run: str
) -> None:
    with cloud(run, Journal(tmp_path / "elsewhere.jsonl"), time.time() + 600):
        assert orphans(tmp_path, run, older_than_s=300) == []
        (orphan,) = orphans(tmp_path, run, older_than_s=0)
        assert orphan.reason == "it was made long ago"
        assert orphan.resource.made is not None
        assert abs(orphan.resource.made - time.time()) < 60


# --- a cloud that is elsewhere

LAB, FAR = "lab", "far"


def now(later_s: float) -> float:
    return time.time() + later_s


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> dict[str, Site]:
    monkeypatch.setitem(PROVIDERS.classes, "memory", MemoryCloud)
    monkeypatch.setattr(MemoryCloud, "sites", {LAB: Site(), FAR: Site()})
    monkeypatch.setattr(MemoryCloud, "calls", [])
    return MemoryCloud.sites


def add(sites: dict[str, Site], *resources: Resource) -> None:
    for resource in resources:
        sites[resource.access["cloud"]].things[resource.name] = resource


def names(search: Search) -> list[str]:
    return [o.resource.name for o in find_orphans(search).orphans if o.resource.kind == "vm"]


def dead_run(out: Path, *resources: Resource) -> None:
    """Leave the directory of a run whose controller died after it made these."""
    directory = out / resources[0].run
    directory.mkdir()
    for resource in resources:
        Journal(directory / "journal.jsonl").intend(replace(resource, id=None))


def test_a_cloud_is_searched_only_if_it_is_named_with_its_location(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    add(
        memory,
        thing("old", "run", deadline=now(-60)),
        thing("more", "run", FAR, deadline=now(-60)),
    )
    assert names(Search(tmp_path)) == []
    assert names(Search(tmp_path, "memory", {"cloud": LAB})) == ["old"]
    nowhere = find_orphans(Search(tmp_path, "memory"))
    assert nowhere.orphans == []
    assert [error.kind for error in nowhere.errors] == ["credentials"]


def test_other_clouds_named_in_journals_are_searched_too(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    first = thing("first", "run-1", FAR, deadline=now(600))
    hidden = thing("hidden", "run-1", FAR, deadline=now(600))  # of that run, and not in its journal
    other = thing("other", "run-2", FAR, deadline=now(-600))
    add(memory, first, hidden, other)
    dead_run(tmp_path, first)
    search = Search(tmp_path, "memory", {"cloud": LAB})
    assert names(search) == ["first", "hidden", "other"]
    assert names(Search(tmp_path)) == ["first"]
    assert names(Search(tmp_path, "local")) == []
    assert reap(find_orphans(search).orphans) == []
    assert memory[FAR].things == {}
    assert names(search) == []


def test_an_unreachable_cloud_hides_no_other_orphans(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    first = thing("first", "run-1", LAB, deadline=now(600))
    far = thing("far", "run-2", DOWN, deadline=now(600))
    hidden = thing("hidden", "run-1", LAB, deadline=now(600))
    add(memory, first, hidden)
    dead_run(tmp_path, far)
    dead_run(tmp_path, first)
    result = find_orphans(Search(tmp_path, "memory", {"cloud": DOWN}))
    assert sorted(o.resource.name for o in result.orphans) == ["far", "first", "hidden"]
    assert [type(error) for error in result.errors] == [ReachError]


def test_things_of_one_name_in_two_places_are_both_destroyed(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    here, there = (thing("pool", "run", place) for place in (LAB, FAR))
    add(memory, here, there)
    dead_run(tmp_path, here, there)
    assert reap(find_orphans(Search(tmp_path)).orphans) == []
    assert (memory[LAB].things, memory[FAR].things) == ({}, {})
    assert names(Search(tmp_path)) == []


def test_resources_of_a_newer_version_do_not_block_destroying_others(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    first, known, odd = (thing("one", run, deadline=now(600)) for run in ("a", "b", "c"))
    add(memory, known)
    dead_run(tmp_path, replace(first, provider="cloud-nine"))
    dead_run(tmp_path, known)
    times: dict[str, Any] = {"deadline": "noon"}
    dead_run(tmp_path, replace(odd, **times))
    orphans = find_orphans(Search(tmp_path)).orphans
    (left,) = reap([one for one in orphans if one.directory is not None])
    assert (left.orphan.resource.run, left.error.kind) == ("a", "provider")
    assert memory[LAB].things == {}


def test_a_place_that_is_named_in_two_ways_has_each_thing_once(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    one = thing("one", "run")
    add(memory, one)
    (tmp_path / "run").mkdir()
    Journal(tmp_path / "run" / "journal.jsonl").created(one)
    memory["another name of it"] = memory[LAB]
    search = Search(tmp_path, "memory", {"cloud": "another name of it"})
    memory["another name of it"].things["one"] = replace(one, access=search.access)
    assert names(search) == ["one"]


@pytest.mark.parametrize(
    ("times", "older", "taken"),
    [
        ((-7200, 600), None, False),
        ((-7200, 600), 3600, True),
        ((-60, 600), 3600, False),
        ((-60, -30), 3600, True),
        ((None, 600), 0, False),
        ((None, None), None, False),
    ],
)
def test_resources_in_no_journal_are_reaped_only_when_due(
    tmp_path: Path,
    memory: dict[str, Site],
    times: tuple[float | None, float | None],
    older: float | None,
    taken: bool,
) -> None:
    made, deadline = (None if ago is None else now(ago) for ago in times)
    add(memory, thing("one", "run", made=made, deadline=deadline))
    search = Search(tmp_path, "memory", {"cloud": LAB}, older)
    assert names(search) == (["one"] if taken else [])


def test_a_live_run_is_never_touched_whatever_its_age(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    with RunDirectory.create(tmp_path, "live", "name: live\n", ".yaml") as directory:
        resource = thing("one", directory.id, made=now(-9999), deadline=now(-999))
        Journal(directory.journal).created(resource)
        add(memory, resource)
        assert names(Search(tmp_path, "memory", {"cloud": LAB}, 0)) == []


# --- a copy of the directory of a run


@dataclass
class Copied:
    """A run at work, and a copy of its directory in ``out``."""

    run: RunDirectory
    out: Path

    @property
    def journal(self) -> Journal:
        return Journal(self.out / self.run.id / "journal.jsonl")

    def say(self, **changes: object) -> None:
        """Have the copy's journal say otherwise who works on the run."""
        notes = read_notes(self.journal)
        notes[0]["controller"] |= changes
        self.journal.path.write_text("".join(json.dumps(note) + "\n" for note in notes))


@pytest.fixture
def copied(tmp_path: Path, memory: dict[str, Site]) -> Iterator[Copied]:
    with RunDirectory.create(tmp_path / "there", "copied", "name: copied\n", ".yaml") as run:
        journal = Journal(run.journal)
        write_note(journal, "start", controller=asdict(this_controller(run)))
        write_note(journal, "provision", prices={}, deadline=now(600))
        one = thing("one", run.id, deadline=now(600))
        rule = replace(one, name="rule", deadline=None)  # some marks have no room for a deadline
        add(memory, one, rule)
        for resource in (one, rule):
            journal.created(resource)
        shutil.copytree(run.path, tmp_path / "here" / run.id)
        yield Copied(run, tmp_path / "here")


ELSEWHERE = {"host": "far", "machine": "m", "boot": "b", "lock": "1:1"}


@pytest.mark.parametrize("named", [None, "memory"])
def test_a_copy_of_a_living_run_is_left_alone(copied: Copied, named: str | None) -> None:
    found = find_orphans(Search(copied.out, named, {"cloud": LAB} if named else {}))
    assert (found.orphans, found.skipped) == ([], [])
    with pytest.raises(StorageError, match="of which this directory is a copy"):
        refuse_second(RunDirectory(copied.out / copied.run.id), is_dead=True)


@pytest.mark.parametrize(
    "says",
    [
        ELSEWHERE,
        {**ELSEWHERE, "machine": None},
        {"boot": "another", "host": "a clone of this machine"},
        {"processes": "pid:[1]"},
    ],
    ids=["another machine", "of no id", "of the same id", "another container"],
)
@pytest.mark.parametrize("named", [None, "memory"])
def test_a_run_copied_from_another_machine_may_still_be_running_there(
    copied: Copied, named: str | None, says: dict[str, object]
) -> None:
    copied.say(**says)
    host = str(says.get("host", socket.gethostname()))
    search = Search(copied.out, named, {"cloud": LAB} if named else {})
    found = find_orphans(search)
    assert found.orphans == []
    assert [(one.run, one.machine, len(one.resources)) for one in found.skipped] == [
        (copied.run.id, host, 2)
    ]
    with pytest.raises(InputError, match=host):
        refuse_second(RunDirectory(copied.out / copied.run.id), is_dead=False)
    refuse_second(RunDirectory(copied.out / copied.run.id), is_dead=True)
    said = find_orphans(replace(search, controllers_are_dead=True)).orphans
    assert sorted(one.resource.name for one in said) == ["one", "rule"]
    assert {one.reason for one in said} == {f"its controller on {host} is dead, as you say"}


def test_a_run_copied_from_another_machine_is_reaped_after_its_deadline(copied: Copied) -> None:
    copied.say(**ELSEWHERE)
    notes = read_notes(copied.journal)
    notes[1]["deadline"] = notes[2]["resource"]["deadline"] = now(-1)
    copied.journal.path.write_text("".join(json.dumps(note) + "\n" for note in notes))
    found = find_orphans(Search(copied.out))
    assert sorted(one.resource.name for one in found.orphans) == ["one", "rule"]
    assert {one.reason for one in found.orphans} == {"its controller on far is past its deadline"}
    assert found.skipped == []
    refuse_second(RunDirectory(copied.out / copied.run.id), is_dead=False)


@pytest.mark.parametrize(
    "says",
    [
        {"pid": 2**22 + 1},
        {"began": 1},
        {"boot": "before the machine was started anew"},
    ],
    ids=["its process is gone", "another has its number", "started anew"],
)
def test_a_copy_of_a_run_that_died_on_this_machine_is_reaped(
    copied: Copied, says: dict[str, object]
) -> None:
    if "boot" in says and read_notes(copied.journal)[0]["controller"]["machine"] is None:
        pytest.skip("this machine has no id: machine-id(5)")
    copied.say(**says)
    assert {one.reason for one in find_orphans(Search(copied.out)).orphans} == {
        "its controller no longer exists"
    }
    refuse_second(RunDirectory(copied.out / copied.run.id), is_dead=False)


def test_a_dead_run_of_a_living_process_is_reaped(copied: Copied) -> None:
    """A campaign's process has many runs, one after the other; the lock tells of which it died."""
    copied.run.close()
    found = find_orphans(Search(copied.run.path.parent))
    assert {one.reason for one in found.orphans} == {"its controller no longer exists"}
    refuse_second(copied.run, is_dead=False)


def test_a_run_of_an_ended_container_is_reaped_from_the_next_one(copied: Copied) -> None:
    """Of another name, and without a view of the other's processes."""
    copied.run.close()
    journal = Journal(copied.run.journal)
    notes = read_notes(journal)
    notes[0]["controller"] |= {"host": "3f2a", "machine": None, "processes": "pid:[1]"}
    journal.path.write_text("".join(json.dumps(note) + "\n" for note in notes))
    found = find_orphans(Search(copied.run.path.parent))
    assert {one.reason for one in found.orphans} == {"its controller no longer exists"}


def by_older(copied: Copied) -> Path:
    """Let the run be one of a version that took a flock, and return its lock."""
    copied.run.close()
    path = copied.run.path / "lock"
    path.chmod(0o644)
    journal = Journal(copied.run.journal)
    notes = read_notes(journal)
    notes[0]["controller"]["lock"] = files.identity(copied.run.path)
    journal.path.write_text("".join(json.dumps(note) + "\n" for note in notes))
    return path


@pytest.mark.parametrize("said", [{}, {"host": "3f2a", "machine": None, "processes": "pid:[1]"}])
def test_a_run_of_an_older_version_is_reaped_once_its_lock_is_free(
    copied: Copied, said: dict[str, object]
) -> None:
    by_older(copied)
    notes = read_notes(Journal(copied.run.journal))
    notes[0]["controller"] |= said
    copied.run.journal.write_text("".join(json.dumps(note) + "\n" for note in notes))
    found = find_orphans(Search(copied.run.path.parent))
    assert {one.reason for one in found.orphans} == {"its controller no longer exists"}
    refuse_second(copied.run, is_dead=False)


def test_a_living_run_of_an_older_version_is_left_alone(copied: Copied) -> None:
    with by_older(copied).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert find_orphans(Search(copied.run.path.parent)).orphans == []
        copied.run.acquire()  # nothing keeps a newer version from it
        with pytest.raises(StorageError, match="an older version"):
            refuse_second(copied.run, is_dead=True)


def test_a_foreign_lock_on_a_dead_older_run_does_not_block_reaping(copied: Copied) -> None:
    path = by_older(copied)
    notes = read_notes(Journal(copied.run.journal))
    notes[0]["controller"]["began"] = 1
    copied.run.journal.write_text("".join(json.dumps(note) + "\n" for note in notes))
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert len(find_orphans(Search(copied.run.path.parent)).orphans) == 2
        refuse_second(copied.run, is_dead=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
@pytest.mark.parametrize(("lives", "skipped"), [(True, 2), (False, 0)])
def test_a_run_whose_lock_one_may_not_read_is_known_by_its_process(
    copied: Copied, lives: bool, skipped: int
) -> None:
    notes = read_notes(Journal(copied.run.journal))
    notes[0]["controller"]["began"] += not lives
    copied.run.journal.write_text("".join(json.dumps(note) + "\n" for note in notes))
    for path in (copied.run.path, *list(copied.run.path.parents)[:-2]):
        path.chmod(path.stat().st_mode | 0o755)
    copied.run.journal.chmod(0o644)
    os.seteuid(65534)
    try:
        assert copied.run.is_live() is None
        assert is_at_work(copied.run) is lives
        found = find_orphans(Search(copied.run.path.parent))
        assert (len(found.orphans), found.errors) == (2 - skipped, [])
        assert {one.error.kind for one in reap(found.orphans)} <= {"storage"}
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("end", ["gone", "end"])
def test_a_run_that_has_ended_elsewhere_may_go_on_here(copied: Copied, end: str) -> None:
    copied.say(**ELSEWHERE)
    write_note(copied.journal, end)
    refuse_second(RunDirectory(copied.out / copied.run.id), is_dead=False)
    assert len(find_orphans(Search(copied.out)).orphans) == 2


@pytest.mark.parametrize(
    "odd", [{"kind": "wm"}, {"kind": "vm ", "id": None}, {"provider": "memori"}], ids=str
)
def test_a_resource_unknown_to_its_provider_does_not_block_reaping_others(
    tmp_path: Path, memory: dict[str, Site], odd: dict[str, Any]
) -> None:
    one, other = thing("one", "run"), thing("other", "run")
    add(memory, one, other)
    dead_run(tmp_path, replace(one, **odd), other)
    left = reap(find_orphans(Search(tmp_path)).orphans)
    assert [each.error.kind for each in left] == ["provider"]
    assert set(memory[LAB].things) == {"one"}


def test_an_unreadable_mark_is_reported_and_does_not_end_the_reaping(
    tmp_path: Path, memory: dict[str, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    add(memory, thing("old", "run", deadline=now(-60)))
    monkeypatch.setattr(MemoryCloud, "unreadable", ["vm x: its mark can't be read: [red]'²'"])
    where = ["--out", str(tmp_path), "--provider", "memory", "--cloud", LAB]
    code, text = reap_command(*where, "--yes")
    assert (code, memory[LAB].things) == (0, {})
    assert "left alone: vm x: its mark can't be read: [red]'²'" in text
    assert json.loads(reap_command(*where, "--json")[1])["unread"] == MemoryCloud.unreadable


def test_what_a_cloud_lists_before_it_fails_is_reaped(
    tmp_path: Path, memory: dict[str, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    add(memory, thing("old", "run", deadline=now(-60)))
    owned = MemoryCloud.owned

    def failing(access: Access, run: str | None = None, **_: Any) -> Iterator[Resource]:
        yield from owned(access, run)
        raise ReachError("no route", where=LAB)

    monkeypatch.setattr(MemoryCloud, "owned", failing)
    found = find_orphans(Search(tmp_path, "memory", {"cloud": LAB}))
    assert [orphan.resource.name for orphan in found.orphans] == ["old"]
    assert [error.kind for error in found.errors] == ["reach"]


def test_a_run_that_can_t_be_read_hides_no_other(tmp_path: Path, memory: dict[str, Site]) -> None:
    one = thing("one", "run")
    add(memory, one)
    dead_run(tmp_path, one)
    (tmp_path / "broken" / "journal.jsonl").mkdir(parents=True)
    found = find_orphans(Search(tmp_path))
    assert [orphan.resource.name for orphan in found.orphans] == ["one"]
    assert [error.kind for error in found.errors] == ["storage"]


def test_a_damaged_journal_is_reported_and_hides_no_other_run(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    one, other = thing("one", "broken"), thing("other", "whole")
    add(memory, one, other)
    dead_run(tmp_path, one)
    dead_run(tmp_path, other)
    with (tmp_path / "broken" / "journal.jsonl").open("ab") as file:
        file.write(b"[" * 100_000 + b"\n")
    found = find_orphans(Search(tmp_path, controllers_are_dead=True))
    assert [orphan.resource.name for orphan in found.orphans] == ["one", "other"]
    assert [str(error.where) for error in found.errors] == [f"{tmp_path}/broken/journal.jsonl:2"]
    assert reap(found.orphans) == []


def test_damage_that_hides_no_resource_is_not_reported_by_reap(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    """As what a newer version writes of an endpoint."""
    one = thing("one", "run")
    add(memory, one)
    dead_run(tmp_path, one)
    journal = Journal(tmp_path / "run" / "journal.jsonl")
    write_note(journal, "endpoint", endpoint={"colour": "blue"})
    found = find_orphans(Search(tmp_path))
    assert ([orphan.resource.name for orphan in found.orphans], found.errors) == (["one"], [])
    write_note(journal, "created", resource={"colour": "blue"})
    assert len(find_orphans(Search(tmp_path)).errors) == 1


def test_a_start_that_can_t_be_read_may_be_one_elsewhere(copied: Copied) -> None:
    """Of a copy: the lock of the run's own directory tells all that its journal says no more."""
    journal = copied.journal
    journal.path.write_text(journal.path.read_text().replace('{"at"', '{"at', 1))
    found = find_orphans(Search(copied.out))
    assert (found.orphans, [one.run for one in found.skipped]) == ([], [copied.run.id])
    with pytest.raises(InputError, match="that its damaged journal does not name"):
        refuse_second(RunDirectory(copied.out / copied.run.id), is_dead=False)
    write_note(journal, "end")
    assert len(find_orphans(Search(copied.out)).orphans) == 2


def test_damage_after_the_start_does_not_block_reaping_the_runs_own_directory(
    copied: Copied,
) -> None:
    copied.run.close()
    with copied.run.journal.open("ab") as file:
        file.write(b"[\n")
    assert len(find_orphans(Search(copied.run.path.parent)).orphans) == 2
    refuse_second(copied.run, is_dead=False)


def test_resources_without_our_mark_are_not_destroyed(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    mine, reused = (
        thing("mine", "run", deadline=now(-1)),
        thing("reused", "run", deadline=now(-1)),
    )
    add(memory, mine)
    memory[LAB].things["somebody else's"] = None
    memory[LAB].things["reused"] = None  # what the journal names is another's by now
    dead_run(tmp_path, mine, reused)
    search = Search(tmp_path, "memory", {"cloud": LAB}, 0)
    assert reap(find_orphans(search).orphans) == []
    assert set(memory[LAB].things) == {"somebody else's", "reused"}
    assert Journal(tmp_path / "run" / "journal.jsonl").existing() == []


def test_all_resources_of_a_location_are_destroyed_at_once_and_failures_reported(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    here = [thing(f"a{n}", "run", deadline=now(-1)) for n in range(3)]
    there = [thing(f"b{n}", "run", FAR, deadline=now(-1)) for n in range(2)]
    add(memory, *here, *there)
    memory[LAB].stuck = {"a1"}
    dead_run(tmp_path, *here, *there)
    left = reap(find_orphans(Search(tmp_path)).orphans)
    assert sorted(MemoryCloud.calls) == [(FAR, ("b1", "b0")), (LAB, ("a2", "a1", "a0"))]
    assert [(one.orphan.resource.name, one.error.kind) for one in left] == [("a1", "api")]
    assert names(Search(tmp_path)) == ["a1"]
    memory[LAB].stuck = set()
    assert reap(find_orphans(Search(tmp_path)).orphans) == []


def test_things_of_one_name_at_two_places_are_two(tmp_path: Path, memory: dict[str, Site]) -> None:
    both = [thing("net", "run", place) for place in (LAB, FAR)]
    add(memory, *both)
    dead_run(tmp_path, *both)
    assert names(Search(tmp_path)) == ["net", "net"]
    assert reap(find_orphans(Search(tmp_path)).orphans) == []
    assert memory[LAB].things == memory[FAR].things == {}
    assert Journal(tmp_path / "run" / "journal.jsonl").existing() == []


def test_a_resource_reachable_by_two_accesses_is_listed_once(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    resource = thing("one", "run")
    add(memory, resource)
    dead_run(tmp_path, resource)
    as_written = replace(resource, access={**resource.access, "region": "x"})
    Journal(tmp_path / "run" / "journal.jsonl").destroyed(resource)
    Journal(tmp_path / "run" / "journal.jsonl").created(as_written)
    found = find_orphans(Search(tmp_path, "memory", {"cloud": LAB})).orphans
    assert [one.resource for one in found] == [as_written]
    assert reap(found) == []
    assert memory[LAB].things == {}


def test_a_full_disk_stops_no_removal_and_is_reported(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    things = [thing(name, "run") for name in ("one", "two")]
    add(memory, *things)
    dead_run(tmp_path, *things)
    found = find_orphans(Search(tmp_path)).orphans
    with small_files((tmp_path / "run" / "journal.jsonl").stat().st_size):
        left = reap(found)
    assert memory[LAB].things == {}
    assert [one.error.kind for one in left] == ["storage", "storage"]
    assert reap(find_orphans(Search(tmp_path)).orphans) == []


def test_a_run_that_is_taken_up_meanwhile_is_left_alone(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    resource = thing("one", "run")
    add(memory, resource)
    dead_run(tmp_path, resource)
    found = find_orphans(Search(tmp_path)).orphans
    with RunDirectory(tmp_path / "run") as resumed:
        resumed.acquire()
        (left,) = reap(found)
    assert left.error.kind == "storage"
    assert MemoryCloud.calls == []


# --- a journal that tells of another run


def told_by(out: Path, name: str, *resources: Resource) -> Path:
    """Leave the directory of a dead run whose journal names these; return it."""
    (out / name).mkdir()
    for resource in resources:
        Journal(out / name / "journal.jsonl").created(resource)
    return out / name


def test_resources_of_another_run_in_a_journal_are_destroyed_only_if_the_user_allows(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    theirs, mine = (thing(run, run, deadline=now(600)) for run in ("theirs", "mine"))
    add(memory, theirs, mine)
    told_by(tmp_path, "mine", theirs, mine)
    found = find_orphans(Search(tmp_path)).orphans
    (left,) = reap(found)
    assert (left.orphan.resource.run, left.error.kind) == ("theirs", "input")
    assert left.error.cure
    assert set(memory[LAB].things) == {"theirs"}
    assert reap(find_orphans(Search(tmp_path)).orphans, allow_foreign=True) == []
    assert memory[LAB].things == {}
    assert find_orphans(Search(tmp_path)).orphans == []


def test_resources_of_another_run_are_spared_while_it_is_running(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    with RunDirectory.create(tmp_path, "live", "name: live\n", ".yaml") as live:
        one = thing("one", live.id, deadline=now(-1))
        Journal(live.journal).created(one)
        add(memory, one)
        told_by(tmp_path, "zzz", one)
        assert find_orphans(Search(tmp_path)).orphans == []
        assert find_orphans(Search(tmp_path, "memory", {"cloud": LAB}, 0)).orphans == []
    assert reap(find_orphans(Search(tmp_path)).orphans) == []


def test_resources_named_by_other_journals_are_reaped_by_their_own_journal_or_mark(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    own, marked = (thing(run, run, deadline=now(-1)) for run in ("own", "marked"))
    add(memory, own, marked)
    told_by(tmp_path, "aaa", own, marked)
    told_by(tmp_path, "own", own)
    told_by(tmp_path, "zzz", own, marked)
    assert reap(find_orphans(Search(tmp_path, "memory", {"cloud": LAB})).orphans) == []
    assert memory[LAB].things == {}


def test_a_renamed_directory_is_asked_about_and_a_link_to_one_is_not(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    one = thing("one", "run", deadline=now(600))
    add(memory, one)
    directory = told_by(tmp_path, "run", one)
    directory.rename(tmp_path / "renamed")
    assert [left.error.kind for left in reap(find_orphans(Search(tmp_path)).orphans)] == ["input"]
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "renamed").rename(tmp_path / "run")
    elsewhere.mkdir()
    (elsewhere / "latest").symlink_to(tmp_path / "run")
    assert reap(find_orphans(Search(elsewhere)).orphans) == []
    assert memory[LAB].things == {}


def test_an_unusable_access_does_not_block_reaping_others(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    bad = replace(
        thing("bad", "run"), provider="libvirt", access={"uri": "qemu+ext:///system?command=x"}
    )
    none = replace(thing("none", "run"), provider="libvirt", access={})
    good = thing("good", "run")
    add(memory, good)
    told_by(tmp_path, "run", bad, good, none)
    left = reap(find_orphans(Search(tmp_path)).orphans, allow_foreign=True)
    assert {one.orphan.resource.name: one.error.kind for one in left} == {
        "bad": "input",
        "none": "input",
    }
    assert all("journal.jsonl" in str(one.error.where) for one in left)
    assert memory[LAB].things == {}


# --- the command


def reap_command(*arguments: str) -> tuple[int, str]:
    done = invoke("reap", *arguments)
    return done.exit_code, done.output


OLD = "memory vm old (id-old) at cloud lab of run run: it was made long ago"


def test_the_command_lists_before_it_destroys(tmp_path: Path, memory: dict[str, Site]) -> None:
    add(memory, thing("old", "run", made=now(-7200), deadline=now(600)))
    where = ["--out", str(tmp_path), "--provider", "memory", "--cloud", LAB]
    assert reap_command(*where) == (0, "nothing left\n")
    code, text = reap_command(*where, "--older-than", "1h", "--json")
    listed = json.loads(text)
    assert (code, listed["reaped"], listed["errors"]) == (1, [], [])
    assert [(one["name"], one["access"]) for one in listed["left"]] == [("old", {"cloud": LAB})]
    assert set(memory[LAB].things) == {"old"}
    refused = invoke("reap", *where, "--older-than", "1h", answers="n\n")
    assert refused.exit_code == 1
    assert refused.stdout.endswith("\ndestroyed nothing, 1 left\n")
    unanswered = invoke("reap", *where, "--older-than", "1h", answers="")
    assert unanswered.exit_code == 1
    assert unanswered.stderr.endswith("\nno answer: add --yes to destroy without asking\n")
    assert unanswered.stdout.endswith("destroyed nothing, 1 left\n")
    assert set(memory[LAB].things) == {"old"}
    code, text = reap_command(*where, "--older-than", "1h", "--yes")
    assert code == 0
    assert OLD in text
    assert memory[LAB].things == {}


def test_a_terminal_that_closes_ends_no_reap(
    tmp_path: Path, memory: dict[str, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    destroy = MemoryCloud.destroy

    def closing(resources: Sequence[Resource], gone: Callable[[Resource], None]) -> None:
        signal.raise_signal(signal.SIGHUP)
        destroy(resources, gone)

    monkeypatch.setattr(MemoryCloud, "destroy", closing)
    add(memory, thing("old", "run", made=now(-7200), deadline=now(-600)))
    where = ["--out", str(tmp_path), "--provider", "memory", "--cloud", LAB]
    code, text = reap_command(*where, "--yes")
    assert (code, memory[LAB].things) == (0, {})
    assert "SIGHUP: stopping and cleaning up\n" in text


def test_reap_lists_spared_resources_and_destroys_them_only_if_the_user_allows(
    copied: Copied, memory: dict[str, Site]
) -> None:
    copied.say(**ELSEWHERE)
    out = ["--out", str(copied.out)]
    code, text = reap_command(*out, "--yes")
    assert code == 0
    assert f"left alone: 2 resources of run {copied.run.id}" in " ".join(text.split())
    assert len(memory[LAB].things) == 2
    skipped = json.loads(reap_command(*out, "--json")[1])["spared"]
    assert skipped == [{"run": copied.run.id, "machine": "far", "count": 2}]
    assert reap_command(*out, "--yes", "--controller-is-dead")[0] == 0
    assert memory[LAB].things == {}


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--provider", "openstak"], 2, "there is no provider"),
        (["--cloud", "lab"], 2, "--cloud needs --provider"),
        (["--uri", "qemu:///system"], 2, "--uri needs --provider"),
        (["--older-than", "2"], 2, "--older-than"),
        (["--provider", "memory"], 3, "no credentials"),
        (["--provider", "memory", "--region", "r"], 2, "or use --cloud"),
        (["--provider", "local", "--uri", "qemu:///system"], 2, "--uri: local has no such place"),
        (["--provider", "static", "--region", "r"], 2, "--region: static has no such place"),
        (["--provider", "static"], 2, "no machine is named"),
    ],
)
def test_wrong_reap_arguments_are_reported_with_a_cure(
    tmp_path: Path, memory: dict[str, Site], arguments: list[str], code: int, told: str
) -> None:
    ended, text = reap_command("--out", str(tmp_path), *arguments)
    assert ended == code
    assert told in text
    assert "cure" in text


def test_the_places_in_journals_need_no_name(tmp_path: Path, memory: dict[str, Site]) -> None:
    """Static hosts have no place of their own: journals name them, or the user."""
    host = {"host": "a", "ssh": "127.0.0.1:1"}
    lost = replace(thing("one", "run"), provider="static", kind="directory", access=host)
    dead_run(tmp_path, lost)
    (error,) = find_orphans(Search(tmp_path, "static")).errors
    assert "127.0.0.1" in str(error.where) or "127.0.0.1" in error.message


def test_a_journal_without_a_place_does_not_hide_that_none_was_looked_at(
    tmp_path: Path, memory: dict[str, Site]
) -> None:
    lost = replace(thing("one", "run"), provider="static", kind="directory", access={})
    dead_run(tmp_path, lost)
    assert [one.message for one in find_orphans(Search(tmp_path, "static")).errors] == [
        "no machine is named"
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_a_run_that_may_not_be_entered_is_an_error_of_the_reap(copied: Copied) -> None:
    for path in list(copied.run.path.parents)[:-2]:
        path.chmod(path.stat().st_mode | 0o755)
    copied.run.path.chmod(0)
    os.seteuid(65534)
    try:
        found = find_orphans(Search(copied.run.path.parent))
    finally:
        os.seteuid(0)
    assert (found.orphans, [one.where for one in found.errors]) == ([], [str(copied.run.path)])
