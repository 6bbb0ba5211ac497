"""All figures by their names, and those of a run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from IPython.core.formatters import DisplayFormatter

from osmef.errors import InputError, NothingToDrawError, StorageError
from osmef.report import style
from osmef.report.data import Data
from osmef.report.figures import KINDS, draw_figures, figure, possible
from osmef.report.options import FigureKind
from osmef.report.style import METADATA, write
from osmef.report.throughput import btc_connections
from osmef.results.observations import Request
from osmef.results.summary import CellInfo, Summary
from tests.report.drawn import legend
from tests.report.pingpong_run import request, write_run

SAMPLE = Path(__file__).parents[1] / "results" / "data" / "quickstart-20261121T031500Z-3f9a"
PINGPONG = ("pingpong-transfer", "pingpong-latency", "pingpong-requests")


@pytest.fixture
def pingpong_run(
    make_cell: Callable[..., CellInfo], make_summary: Callable[..., Summary], tmp_path: Path
) -> Path:
    cells = [make_cell(workload="pingpong", key=f"{n}", metrics={}, connections=n) for n in (1, 4)]
    rows: list[list[Request]] = [[request(10, 1.0), request(20, 1.0)]] * 2
    return write_run(tmp_path, make_summary(*cells), rows)


@pytest.mark.parametrize("suffix", METADATA)
def test_one_figure_is_one_file(
    suffix: str, paper: Callable[..., pd.DataFrame], tmp_path: Path
) -> None:
    paths = [tmp_path / name / f"figure.{suffix}" for name in ("a", "b")]
    for path in paths:
        write(btc_connections(paper(counts=(1, 10))), path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert b"2026-" not in first


def test_a_notebook_shows_the_picture(paper: Callable[..., pd.DataFrame]) -> None:
    # Without pyplot, which alone registers what shows matplotlib's figures in notebooks.
    show = DisplayFormatter().format
    drawn, _ = show(btc_connections(paper(counts=(1, 10))))  # type: ignore[no-untyped-call]
    assert drawn["image/png"].startswith(b"\x89PNG")


def test_the_figures_of_a_run_are_called_as_the_kinds(pingpong_run: Path) -> None:
    names = {f"{name}{relative}" for name in PINGPONG for relative in ("", "-relative")}
    paths = draw_figures(pingpong_run)
    assert {path.name for path in paths} == {
        f"{name}.{suffix}" for name in names for suffix in ("png", "svg")
    }
    assert all(path.stat().st_size > 1000 for path in paths)


def test_only_possible_figures_are_offered() -> None:
    names = [one.name for one in possible(Data(SAMPLE))]
    assert {"btc-connections", "btc-distance", "fairness"} <= set(names)
    assert "fairness" not in [one.name for one in possible(Data(SAMPLE), own=True)]


def test_a_figure_by_its_name(pingpong_run: Path) -> None:
    assert legend(figure("btc-connections", SAMPLE))
    with pytest.raises(InputError, match="no figure 'pie'"):
        figure("pie", SAMPLE)
    with pytest.raises(NothingToDrawError, match="workload: btc"):
        figure("fairness", pingpong_run)


def test_the_trials_can_be_chosen(pingpong_run: Path) -> None:
    data = Data(pingpong_run, where={"connections": ["4"]})
    assert data.trials["cell"].tolist() == ["4"]
    assert set(data.requests["cell"]) == {"4"}
    with pytest.raises(InputError, match="no column 'size'"):
        _ = Data(pingpong_run, where={"size": ["4"]}).trials
    with pytest.raises(InputError, match=r"no trial of .* is left"):
        _ = Data(pingpong_run, where={"connections": ["5"]}).trials


def test_the_cure_of_too_many_series_is_a_choice_by_a_swept_value(
    make_cell: Callable[..., CellInfo], make_summary: Callable[..., Summary], tmp_path: Path
) -> None:
    rates = [f"{n} Mbit/s" for n in range(1, 30)]
    cells = [make_cell(workload="pingpong", metrics={}, values={"rate": rate}) for rate in rates]
    run = write_run(tmp_path, make_summary(*cells), [[request(10, 1.0)]] * 29)
    with pytest.raises(NothingToDrawError, match="29 series are too many") as caught:
        figure("pingpong-transfer", run)
    cure = str(caught.value.cure)
    assert cure == "choose some, such as with --where 'rate=1 Mbit/s'"
    (name, value) = shlex.split(cure)[-1].split("=")
    assert figure("pingpong-transfer", run, where={name: [value]})


def test_the_cure_of_too_many_runs_is_a_choice_by_run(
    make_cell: Callable[..., CellInfo], make_summary: Callable[..., Summary], tmp_path: Path
) -> None:
    summary = make_summary(make_cell(workload="pingpong", metrics={}))
    runs = [write_run(tmp_path, summary, [[request(10, 1.0)]]) for _ in range(29)]
    with pytest.raises(NothingToDrawError, match="29 series are too many") as caught:
        figure("pingpong-transfer", *runs)
    choices = {f"choose some, such as with --where run={run.name}" for run in runs}
    assert caught.value.cure in choices


def test_a_damaged_file_is_not_taken_for_missing_data(pingpong_run: Path) -> None:
    (pingpong_run / "requests.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="Parquet file is truncated"):
        list(possible(Data(pingpong_run)))


def test_every_kind_can_be_drawn() -> None:
    assert list(KINDS) == list(FigureKind)


def test_text_can_stay_text(
    paper: Callable[..., pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(style.RC, "svg.fonttype", "none")
    write(btc_connections(paper(counts=(1, 10))), tmp_path / "figure.svg")
    assert "aggregate BTC in Gbit/s (logarithmic)" in (tmp_path / "figure.svg").read_text()


def test_a_directory_that_cannot_be_written_is_a_storage_error(
    paper: Callable[..., pd.DataFrame], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="can't write: Not a directory"):
        write(btc_connections(paper()), tmp_path / "file" / "figures" / "x.png")


def test_drawing_uses_no_window_system_and_prints_nothing(tmp_path: Path) -> None:
    code = """
import pathlib, shutil, sys
from osmef.report.figures import draw_figures
run = shutil.copytree(sys.argv[1], sys.argv[2])
assert len(draw_figures(pathlib.Path(run))) >= 4
assert "matplotlib.pyplot" not in sys.modules
"""
    env = {**os.environ, "MPLCONFIGDIR": str(tmp_path / "cache"), "DISPLAY": ""}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, SAMPLE, tmp_path / "out"],
        capture_output=True,
        text=True,
        env=env,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_every_look_of_a_series_differs_without_its_marker() -> None:
    looks = [style.stroke(number) for number in range(28)]
    assert len({(one.colour, one.dashes) for one in looks}) == 28
