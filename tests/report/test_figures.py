import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from osmef.errors import StorageError
from osmef.report import style
from osmef.report.figures import draw_figures
from osmef.results.summary import CellInfo, Summary

MakeCell = Callable[..., CellInfo]
MakeSummary = Callable[..., Summary]

COUNTS = {"1", "5", "10", "20", "30", "50"}
NAMES = ["btc-connections.png", "btc-connections.svg", "btc-distance.png", "btc-distance.svg"]


@pytest.fixture
def readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep text as text in the SVG, so that a test can read what the figure says."""
    monkeypatch.setitem(style.RC, "svg.fonttype", "none")


def texts(path: Path) -> list[str]:
    svg = ElementTree.parse(path)  # noqa: S314 - we wrote it
    return [node.text or "" for node in svg.iter("{http://www.w3.org/2000/svg}text")]


def png_size(path: Path) -> tuple[int, int]:
    header = path.read_bytes()[:24]
    assert header.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", header[16:24])
    return width, height


@pytest.mark.usefixtures("readable")
def test_the_papers_programme_in_two_figures(programme: MakeSummary, tmp_path: Path) -> None:
    paths = draw_figures(programme(), tmp_path)
    assert [path.name for path in paths] == NAMES
    assert sorted(path.name for path in tmp_path.iterdir()) == NAMES
    connections, distance = texts(paths[1]), texts(paths[3])
    for label in (
        "Aggregate BTC against connections",
        "distance 0, same host, same tenant",
        "distance 2, different hosts, same tenant",
        "distance 4, same host, different tenants",
        "distance 4, different hosts, different tenants",
        "aggregate BTC in Gbit/s (logarithmic)",
        "Points: median of the trials. Bars with caps: exact 95 % interval of the median.",
        "vm-to-vm-20261121T031500Z-3f9a",
    ):
        assert label in connections
    ticks = [text for text in connections if text in COUNTS]
    assert ticks[:6] == ["1", "5", "10", "20", "30", "50"]
    for label in ("1 connection", "50 connections", "distance 0", "distance 2", "distance 4"):
        assert label in distance
    assert "BTC per connection in Gbit/s (logarithmic)" in distance


@pytest.mark.usefixtures("readable")
def test_with_few_trials_the_bars_are_named_for_what_they_are(
    programme: MakeSummary, tmp_path: Path
) -> None:
    paths = draw_figures(programme(trials=3), tmp_path)
    caption = "Points: median of the trials. Thin bars: minimum to maximum (n < 6)."
    assert caption in texts(paths[1])


def test_the_same_summary_gives_the_same_files(programme: MakeSummary, tmp_path: Path) -> None:
    first = draw_figures(programme(counts=(1, 10)), tmp_path / "first")
    second = draw_figures(programme(counts=(1, 10)), tmp_path / "second")
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert b"2026-" not in one.read_bytes()


@pytest.mark.usefixtures("readable")
def test_flavors_get_a_panel_each(programme: MakeSummary, tmp_path: Path) -> None:
    summary = programme(flavors=("small", "large", "xlarge"), counts=(1, 10))
    paths = draw_figures(summary, tmp_path)
    for path in (paths[1], paths[3]):
        for title in ("flavor small", "flavor large", "flavor xlarge"):
            assert title in texts(path)
    one = draw_figures(programme(counts=(1, 10)), tmp_path / "one")
    assert png_size(paths[0]) > png_size(one[0])


@pytest.mark.usefixtures("readable")
def test_both_figures_have_their_panels_in_the_order_of_the_sweep(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    # The nearest place, which is the first line of one figure, stands in the last panel.
    far = make_cell("different-host", distance=2, values={"flavor": "b"})
    near = make_cell("same-host", distance=0, values={"flavor": "a"})
    paths = draw_figures(make_summary(far, near), tmp_path)
    for path in (paths[1], paths[3]):
        assert [t for t in texts(path) if t.startswith("flavor")] == ["flavor b", "flavor a"]


@pytest.mark.usefixtures("readable")
def test_a_single_cell(make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path) -> None:
    paths = draw_figures(make_summary(make_cell()), tmp_path)
    assert "aggregate BTC in Mbit/s" in texts(paths[1])
    assert "Points: median of the trials." in texts(paths[1])


@pytest.mark.usefixtures("readable")
def test_loopback_alone(make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path) -> None:
    ends = {"senders": ["vm-1"], "receivers": ["vm-1"], "distance": 0}
    cells = [make_cell(connections=n, **ends) for n in (1, 2, 3, 4, 100, 101, 128)]
    paths = draw_figures(make_summary(*cells), tmp_path)
    assert "distance 0, loopback" in texts(paths[1])
    assert "loopback" in texts(paths[3])
    # Ticks that would overlap are left out.
    assert [text for text in texts(paths[1]) if text in {"100", "101", "128"}] == ["100"]


@pytest.mark.usefixtures("readable")
def test_a_cell_without_a_good_trial_is_a_gap_that_the_caption_names(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    cells = [make_cell(connections=1), make_cell(connections=5, aggregate_bps=[None] * 6)]
    paths = draw_figures(make_summary(*cells, make_cell(connections=10)), tmp_path)
    assert "Points: median of the trials. Gaps: no trial succeeded." in texts(paths[1])


@pytest.mark.usefixtures("readable")
def test_an_unknown_distance_is_called_unknown(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    cells = [make_cell(distance=None), make_cell("same-host")]
    paths = draw_figures(make_summary(*cells), tmp_path)
    labels = texts(paths[3])
    assert labels.index("distance 0") < labels.index("distance unknown")


def test_a_rate_of_zero_is_drawn_all_the_same(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    cells = [make_cell(aggregate_bps=[0.0] * 6), make_cell(connections=2)]
    assert len(draw_figures(make_summary(*cells), tmp_path)) == 4
    assert len(draw_figures(make_summary(cells[0]), tmp_path)) == 4


def test_without_a_single_result_nothing_is_drawn(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    failed = make_cell(aggregate_bps=[None])
    other = make_cell(metrics={})
    for summary in (make_summary(failed), make_summary(other), make_summary()):
        assert draw_figures(summary, tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_a_storage_error(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="can't write: Not a directory"):
        draw_figures(make_summary(make_cell()), tmp_path / "file" / "figures")


def test_drawing_uses_no_window_system_and_prints_nothing(tmp_path: Path) -> None:
    code = """
import pathlib, sys
from osmef.report import style
from osmef.report.figures import draw_figures
from osmef.results.rundir import RunDirectory
run = RunDirectory.open(pathlib.Path(sys.argv[1]))
draw_figures(run.read_summary(), pathlib.Path(sys.argv[2]))
assert "matplotlib.pyplot" not in sys.modules
"""
    run = Path(__file__).parents[1] / "results" / "data" / "quickstart-20261121T031500Z-3f9a"
    env = {**os.environ, "MPLCONFIGDIR": str(tmp_path / "cache"), "DISPLAY": ""}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, run, tmp_path / "out"],
        capture_output=True,
        text=True,
        env=env,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert len(list((tmp_path / "out").iterdir())) == 4
