"""Which cells failed records are of, and those of many machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from osmef.importers import import_files
from osmef.results.rundir import RunDirectory
from tests.importers.samples import DATA
from tests.invoked import invoke

GOOD = (DATA / "iperf3-312-tcp.json").read_text()
REFUSED = (DATA / "iperf3-312-refused.json").read_text()


def _broken() -> str:
    """Return what iperf3 leaves when the way breaks while it measures."""
    document = json.loads(GOOD)
    return json.dumps({**document, "end": {}, "error": "control socket has closed unexpectedly"})


def _written(folder: Path, *texts: str) -> list[Path]:
    folder.mkdir()
    paths = [folder / f"{number}.json" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


@pytest.mark.parametrize("failed", [REFUSED, _broken()])
def test_a_failed_record_is_assigned_to_the_cell_that_matches_its_settings(
    failed: str, tmp_path: Path
) -> None:
    files = _written(tmp_path / "in", GOOD, failed, GOOD)
    (run,) = import_files("iperf3", files, tmp_path).runs
    (cell,) = run.read_summary().cells
    assert (cell.n_ok, cell.n_failed, cell.connections) == (2, 1, 1)


def test_a_failed_record_that_may_be_of_two_cells_is_of_neither(tmp_path: Path) -> None:
    other = GOOD.replace('"blksize":\t131072', '"blksize":\t1024')
    (run,) = import_files("iperf3", _written(tmp_path / "in", GOOD, other, REFUSED), tmp_path).runs
    cells = run.read_summary().cells
    assert sorted((one.n_ok, one.n_failed) for one in cells) == [(0, 1), (1, 0), (1, 0)]


def test_a_failed_record_is_assigned_to_the_endpoints_it_names(tmp_path: Path) -> None:
    other = GOOD.replace('"host":\t"127.0.0.1"', '"host":\t"server-2"')
    files = _written(tmp_path / "in", GOOD, other, _broken())
    (run,) = import_files("iperf3", files, tmp_path).runs
    assert sorted((one.n_ok, one.n_failed) for one in run.read_summary().cells) == [(1, 0), (1, 1)]


@pytest.mark.parametrize("good", [GOOD, GOOD.replace('"blksize":\t131072', '"blksize":\t1024')])
def test_failed_imports_are_a_regression(good: str, tmp_path: Path) -> None:
    """Of two good cells nobody knows of which the refused ones are: they count all the same."""
    for name, texts in (("a", [GOOD, good] * 6), ("b", [GOOD, good] * 6 + [REFUSED] * 14)):
        import_files("iperf3", _written(tmp_path / name, *texts), tmp_path / f"out-{name}")
    words = ["compare", str(tmp_path / "out-a"), str(tmp_path / "out-b"), "--json"]
    ended = invoke(*words, "--fail-on", "regression")
    assert ended.exit_code == 1
    (failure,) = json.loads(ended.stdout)["failures"]
    assert (failure["verdict"], failure["failed_b"]) == ("worse", 14)


def test_fresh_machines_each_time_may_be_one_cell(tmp_path: Path) -> None:
    texts = [GOOD.replace('"local_host":\t"127.0.0.1"', f'"local_host":\t"192.0.2.{number}"')
             for number in range(6)]  # fmt: skip
    assert len(set(texts)) == 6
    files = list(map(str, _written(tmp_path / "in", *texts)))
    words = ["import", "iperf3", *files, "--json", "--out", str(tmp_path)]
    apart = invoke(*words)
    assert apart.exit_code == 0
    assert "up to 6 pairs of machines" in json.loads(apart.stdout)["notes"][0]
    pooled = invoke(*words, "--pool-ends")
    assert json.loads(pooled.stdout)["notes"] == []
    runs = [Path(json.loads(one.stdout)["directories"][0]) for one in (apart, pooled)]
    cells = [RunDirectory(run).read_summary().cells for run in runs]
    assert [[cell.n_ok for cell in of] for of in cells] == [[1] * 6, [6]]
    assert len({trial.senders[0] for trial in RunDirectory(runs[1]).read_trials().trials}) == 6
