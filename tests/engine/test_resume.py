from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from osmef.engine.journal import Journal
from osmef.engine.plan import extended, make_plan
from osmef.engine.recovery import (
    extend,
    extension_text,
    note_extension,
    note_plan,
    reopen,
    session_tag_of,
)
from osmef.errors import InputError
from osmef.results.rundir import RunDirectory
from osmef.results.trial import SCHEMA_VERSION, SessionTag, Status, Trial
from osmef.scenario.load import load_text
from tests.journals import write_note

TEXT = "name: pair\nworkload: {duration: 1s}\nrepeat: 2\n"


def test_a_resumed_run_keeps_its_session(tmp_path: Path) -> None:
    session_tag = SessionTag("2027-01-04 night", "night", "pair here")
    with RunDirectory.create(tmp_path, "pair", TEXT, ".yaml") as run:
        plan = make_plan(load_text(TEXT, run.scenario), 7)
        note_plan(run, plan, session_tag)
        assert reopen(run).seed == 7
        assert session_tag_of(Journal(run.journal).history()) == session_tag


def test_a_run_without_a_campaign_has_no_session(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path, "pair", TEXT, ".yaml") as run:
        assert session_tag_of(Journal(run.journal).history()) == SessionTag()
        note_plan(run, make_plan(load_text(TEXT, run.scenario), 7))
        assert session_tag_of(Journal(run.journal).history()) == SessionTag()


# --- what is damaged

Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run of which one trial is measured."""
    with RunDirectory.create(tmp_path, "pair", TEXT, ".yaml") as made:
        plan = make_plan(load_text(TEXT, made.scenario), 7)
        note_plan(made, plan)
        write_note(Journal(made.journal), "start", seed=7)
        made.append_trial(trial_of(plan.trials[0].index))
    return made


def trial_of(index: int, cell: str = "all", repetition: int = 1) -> Trial:
    known = {"index": index, "cell": cell, "repetition": repetition, "group": 1, "values": {}}
    ends = {"senders": ["a"], "receivers": ["b"], "placement": None, "tenancy": None}
    rest = {"distance": None, "workload": "btc", "started_at": None, "wall_s": None}
    return Trial.model_validate({**known, **ends, **rest, "status": Status.OK})


def change(run: RunDirectory, event: str, how: Change) -> None:
    """Change the notes of an event in the journal."""
    notes = [json.loads(line) for line in run.journal.read_text().splitlines()]
    for note in notes:
        if note["event"] == event:
            how(note)
    run.journal.write_text("".join(json.dumps(note) + "\n" for note in notes))


@pytest.mark.parametrize(
    "how",
    [
        lambda note: note.pop("digest"),
        lambda note: note.pop("seed"),
        lambda note: note.update(seed="7"),
        lambda note: note.update(seed=True),
        lambda note: note.update(digest=note["digest"][:-1]),
        lambda note: note.update(digest=None),
        lambda note: note.update(left_out="all"),
        lambda note: note.update(session=7),
        lambda note: note.update(event="plam"),
    ],
    ids=["digest", "seed", "text", "bool", "short", "null", "left out", "session", "event"],
)
def test_a_damaged_plan_is_reported_as_such(run: RunDirectory, how: Change) -> None:
    assert reopen(run).seed == 7
    change(run, "plan", how)
    with pytest.raises(InputError, match="1 measured trial kept") as caught:
        reopen(run)
    assert "has no plan any more" in caught.value.message
    assert "osmef report" in str(caught.value.cure)


@pytest.mark.parametrize("summary", [None, "", "{}"])
def test_a_lost_journal_is_reported_with_the_number_of_measured_trials(
    run: RunDirectory, summary: str | None
) -> None:
    run.journal.unlink()
    if summary is not None:
        run.summary.write_text(summary)
    with pytest.raises(InputError, match="1 measured trial kept"):
        reopen(run)
    run.trials.unlink()
    with pytest.raises(
        InputError, match="nothing was measured" if summary is None else "0 measured trials"
    ):
        reopen(run)


def test_a_damaged_journal_is_reported_with_its_line(run: RunDirectory) -> None:
    run.journal.write_bytes(b"[" * 100_000 + b"\n")
    with pytest.raises(InputError, match=r"journal.jsonl:1 is damaged"):
        reopen(run)


def test_a_run_that_died_before_its_plan_may_be_removed(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path, "pair", TEXT, ".yaml") as made:
        with pytest.raises(InputError, match="nothing was measured") as caught:
            reopen(made)
        assert "remove the directory" in str(caught.value.cure)


@pytest.mark.parametrize("seed", [6, 8])
def test_a_seed_of_another_order_is_not_gone_on_with(run: RunDirectory, seed: int) -> None:
    change(run, "plan", lambda note: note.update(seed=seed))
    with pytest.raises(InputError, match="two seeds"):
        reopen(run)


def test_a_run_whose_summary_a_newer_version_wrote_is_not_resumed(run: RunDirectory) -> None:
    run.summary.write_text(json.dumps({"schema_version": SCHEMA_VERSION + 1}))
    with pytest.raises(InputError, match="a newer OSMeF wrote this") as caught:
        reopen(run)
    assert caught.value.where == str(run.summary)
    assert "install a newer OSMeF" in str(caught.value.cure)


@pytest.mark.parametrize("summary", ['{"schema_version": 3', "[]", '{"schema_version": true}', ""])
def test_a_run_with_a_damaged_summary_is_resumed(run: RunDirectory, summary: str) -> None:
    run.summary.write_text(summary)
    assert reopen(run).seed == 7


@pytest.mark.parametrize(
    ("index", "cell", "repetition"), [(3, "all", 1), (2, "other", 2), (2, "all", 1), (-1, "all", 1)]
)
def test_a_trial_that_is_not_of_the_plan_ends_it(
    run: RunDirectory, index: int, cell: str, repetition: int
) -> None:
    run.append_trial(trial_of(index, cell, repetition))
    with pytest.raises(InputError, match=f"trial {index} is not in the plan"):
        reopen(run)


@pytest.mark.parametrize("text", ["", "name: pair\n", "name: [", "\0", TEXT.replace("2", "3")])
def test_a_changed_scenario_is_reported_as_such(run: RunDirectory, text: str) -> None:
    run.scenario.write_text(text)
    with pytest.raises(InputError, match="is not the one that the journal of the run names"):
        reopen(run)


def test_a_journal_of_another_scenario_does_not_blame_the_file(run: RunDirectory) -> None:
    change(run, "plan", lambda note: note.update(digest="0" * 64))
    with pytest.raises(InputError, match="or one of the two is damaged"):
        reopen(run)


# --- more trials


@pytest.mark.parametrize("order", ["random", "sequential"])
def test_more_trials_follow_those_that_there_are(order: str) -> None:
    text = f"name: pair\nrepeat: 2\norder: {order}\nsweep: {{connections: [1, 2, 3]}}\n"
    short = make_plan(load_text(text, Path("a.yaml")), 7)
    longer = extended(extended(short, 3), 5)
    told = [(one.index, one.cell.key, one.repetition, one.group) for one in longer.trials]
    assert told[: len(short.trials)] == [
        (one.index, one.cell.key, one.repetition, one.group) for one in short.trials
    ]
    assert [index for index, *_ in told] == list(range(1, 16))
    assert len({(key, repetition) for _, key, repetition, _ in told}) == 15
    groups = [group for *_, group in told]
    assert groups == sorted(groups)
    assert not set(groups[:6]) & set(groups[6:])


def test_an_extended_run_is_resumed_with_all_of_its_trials(run: RunDirectory) -> None:
    plan = reopen(run)
    longer = extend(run, plan, 4)
    assert len(reopen(run).trials) == len(plan.trials)
    note_extension(run, longer)
    assert reopen(run).trials == longer.trials
    assert len(longer.trials) == 2 * len(plan.trials)
    (told,) = extension_text(Journal(run.journal).history())
    assert "to 4 of each cell" in told


def test_a_run_that_cannot_be_extended_is_reported(run: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has 2 trials already"):
        extend(run, reopen(run), 2)
    for text, session_tag, words in (
        ("name: pair\nrepeat: {until: 5 %}\n", SessionTag(), "repeat is a stopping rule"),
        (TEXT, SessionTag("s", "w", "p"), "session of a campaign"),
    ):
        with RunDirectory.create(tmp_path, "pair", text, ".yaml") as made:
            plan = make_plan(load_text(text, made.scenario), 7)
            note_plan(made, plan, session_tag)
            with pytest.raises(InputError, match=words):
                extend(made, plan, 100)
