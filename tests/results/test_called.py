"""What users call their runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from osmef.errors import InputError, StorageError
from osmef.results.rundir import RunDirectory, find_runs, run_called, runs_in

OLD, NEW, OTHER = (
    f"{name}Z-0a1b" for name in ("a-20261101T000000", "a-20261102T000000", "b-20261101T120000")
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (NEW, OLD, OTHER):
        (tmp_path / "results" / name).mkdir(parents=True)
        (tmp_path / "results" / name / "trials.jsonl").touch()
    (tmp_path / "results" / "notes").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_newest_is_the_last(here: Path) -> None:
    assert [path.name for path in runs_in(here / "results")] == [OLD, OTHER, NEW]


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("latest", NEW),
        ("results/latest", NEW),
        ("b", OTHER),
        ("results/b-2026", OTHER),
        ("a-20261102", NEW),
        (OLD, OLD),
        (f"results/{OLD}", OLD),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_run_by_what_is_enough_of_its_name(name: str, run: str) -> None:
    assert run_called(name).name == run
    assert [one.id for one in find_runs(name)] == [run]


@pytest.mark.usefixtures("here")
def test_a_name_of_several_is_an_error_that_lists_them() -> None:
    with pytest.raises(
        InputError, match=f"2 runs begin so, the newest first: {NEW}, {OLD}"
    ) as told:
        run_called("a")
    assert NEW in (told.value.cure or "")


@pytest.mark.parametrize(("name", "meant"), [("latst", "latest"), ("results/Latest", "latest")])
@pytest.mark.usefixtures("here")
def test_a_wrong_name_is_answered_with_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(InputError, match="there is no such run") as told:
        run_called(name)
    assert f"did you mean {meant!r}?" in (told.value.cure or "")


@pytest.mark.usefixtures("here")
def test_a_name_like_that_of_a_scenario_is_answered_with_it(here: Path) -> None:
    (here / "results/load-20261103T000000Z-0a1b").mkdir()
    (here / "results/load-20261103T000000Z-0a1b/trials.jsonl").touch()
    with pytest.raises(InputError) as told:
        run_called("lodd")
    assert "did you mean 'load'?" in (told.value.cure or "")


def test_nothing_is_found_where_nothing_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_called("quick") == Path("quick")
    with pytest.raises(InputError, match="there is no run in results"):
        run_called("latest")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_a_run_that_may_not_be_entered_is_among_the_others(here: Path) -> None:
    for path in (here / "results" / OLD, *list((here / "results" / OLD).parents)[:-2]):
        path.chmod(path.stat().st_mode | 0o755)
    (here / "results" / NEW).chmod(0)
    (here / "results" / "private").mkdir(0o700)
    os.seteuid(65534)
    try:
        assert [path.name for path in runs_in(here / "results")] == [OLD, OTHER, NEW]
        with pytest.raises(StorageError, match="Permission denied"):
            RunDirectory.open(here / "results" / NEW)
    finally:
        os.seteuid(0)
