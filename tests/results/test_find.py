import os
import shutil
from pathlib import Path

import pytest

import osmef
from osmef.errors import InputError, StorageError
from osmef.results.rundir import find_runs, left_out

OLD_RUN = Path(__file__).parent / "data" / "quickstart-20261121T031500Z-3f9a"


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    for session in ("monday", "sunday"):
        for name in ("a", "b"):
            shutil.copytree(OLD_RUN, tmp_path / session / f"{session}-{name}")
    (tmp_path / "monday" / "notes.txt").write_text("nothing")
    return tmp_path


def _names(*paths: str | os.PathLike[str]) -> list[str]:
    return ["/".join(run.path.parts[-2:]) for run in find_runs(*paths)]


def test_a_directory_of_runs_at_any_depth(campaign: Path) -> None:
    assert _names(campaign) == [
        "monday/monday-a",
        "monday/monday-b",
        "sunday/sunday-a",
        "sunday/sunday-b",
    ]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*/*-a", ["monday/monday-a", "sunday/sunday-a"]),
        ("monday/*", ["monday/monday-a", "monday/monday-b"]),
        ("**/*-b/summary.json", ["monday/monday-b", "sunday/sunday-b"]),
        ("sun[dx]ay/sunday-?", ["sunday/sunday-a", "sunday/sunday-b"]),
    ],
)
def test_a_pattern(campaign: Path, pattern: str, found: list[str]) -> None:
    assert _names(campaign / pattern) == found


def test_each_run_counts_once_however_often_it_is_named(campaign: Path) -> None:
    one = campaign / "sunday" / "sunday-b"
    assert _names(one, campaign, one / "trials.jsonl")[0] == "sunday/sunday-b"
    assert len(_names(one, campaign, one / "trials.jsonl")) == 4


def test_a_run_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    shutil.copytree(OLD_RUN, tmp_path / "run[1]")
    assert len(find_runs(tmp_path / "run[1]")) == 1


def test_a_path_without_a_run_is_reported(campaign: Path) -> None:
    with pytest.raises(InputError, match="no run matches"):
        find_runs(campaign / "x*")
    with pytest.raises(InputError, match="no such run"):
        find_runs(campaign, campaign / "tuesday")
    with pytest.raises(InputError, match="no run was named"):
        osmef.load()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
@pytest.mark.parametrize("name", ["quick-20261121T031500Z-3f9a", "a-campaign"])
def test_a_run_that_may_not_be_read_is_not_left_out_silently(campaign: Path, name: str) -> None:
    run = campaign / "sunday" / name
    for closed in (run, campaign / "lost+found", campaign / ".cache"):
        closed.mkdir(mode=0)
    for path in (campaign, *list(campaign.parents)[:-2]):
        path.chmod(path.stat().st_mode | 0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(StorageError, match="can't look into: Permission denied") as refused:
            find_runs(campaign)
        assert refused.value.where == str(run)
        assert "Or name a directory that is closer to the runs" in str(refused.value.cure)
        assert len(find_runs(campaign / "monday")) == 2
        for named in (campaign / "lost+found", run / "trials.jsonl"):
            with pytest.raises(StorageError, match="can't look into: Permission denied") as refused:
                find_runs(named)
            assert refused.value.where == str(named)
    finally:
        os.seteuid(0)


def test_the_columns_of_many_runs_are_those_of_all(campaign: Path) -> None:
    trials = campaign / "monday" / "monday-a" / "trials.jsonl"
    text = trials.read_text()
    changed = text.replace('"connections":1', '"flavor":"small"').replace(
        '"jain_fairness"', '"new_metric_us"'
    )
    assert changed != text
    trials.write_text(changed)
    frame = osmef.load(campaign)
    assert frame.shape[0] == 12
    assert frame["scenario"].unique().tolist() == ["quickstart"]
    assert frame["provider"].unique().tolist() == ["local"]
    assert frame["flavor"].notna().sum() == 3
    assert frame["new_metric_us"].notna().sum() == 2
    assert frame["jain_fairness"].notna().sum() == 6


def test_two_runs_of_one_name_are_refused(tmp_path: Path) -> None:
    for place in ("results", "backup"):
        (tmp_path / place / "one").mkdir(parents=True)
        (tmp_path / place / "one" / "trials.jsonl").touch()
    with pytest.raises(InputError, match=r"two runs are called one: .*backup/one and .*results"):
        find_runs(tmp_path)
    assert len(find_runs(tmp_path / "backup", tmp_path / "backup" / "one")) == 1


def test_of_several_paths_a_run_without_trials_is_left_out(tmp_path: Path) -> None:
    for name in ("good", "cut"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lock").touch()
    (tmp_path / "good" / "trials.jsonl").touch()
    both = [tmp_path / "good", tmp_path / "cut"]
    assert [run.id for run in find_runs(*both)] == ["good"]
    assert left_out(both) == [tmp_path / "cut"]
    assert left_out(both[:1]) == left_out(both[1:]) == []
    with pytest.raises(InputError, match="has no trials yet"):
        find_runs(tmp_path / "cut")
    with pytest.raises(InputError, match="none of these runs has trials"):
        find_runs(tmp_path / "cut", tmp_path / "cut")
    with pytest.raises(InputError, match="no such run"):
        find_runs(tmp_path / "good", tmp_path / "missing")
