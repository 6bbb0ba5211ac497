"""`osmef plot`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from osmef.cli import plot
from osmef.report.options import FigureKind
from osmef.report.style import METADATA
from tests.cli.conftest import ROOT, Osmef

SAMPLE = str(Path(__file__).parents[1] / "results/data/quickstart-20261121T031500Z-3f9a")
MAGIC = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}


def test_every_ending_can_be_written() -> None:
    assert set(plot.ENDINGS) == {f".{suffix}" for suffix in METADATA}


@pytest.mark.parametrize("suffix", MAGIC)
def test_a_figure_is_written_in_the_format_of_its_file_suffix(
    osmef: Osmef, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"btc{suffix}"
    done = osmef("plot", "btc-connections", SAMPLE, "-o", str(path), "--title", "Ours")
    assert (done.code, done.out.strip()) == (0, f"figure: {path}")
    assert path.read_bytes().startswith(MAGIC[suffix])


def test_the_options_reach_the_figure(osmef: Osmef, tmp_path: Path) -> None:
    names = tmp_path / "names.json"
    names.write_text(json.dumps({"machines": {"1 connection": "one"}}))
    words = ("--names", str(names), "--name", "distance 2=near", "--y-max", "2e3", "--no-legend")
    plain, other = tmp_path / "plain.svg", tmp_path / "other.svg"
    osmef("plot", "btc-distance", SAMPLE, "-o", str(plain))
    done = osmef("plot", "btc-distance", SAMPLE, "-o", str(other), *words)
    assert done.code == 0
    assert plain.read_bytes() != other.read_bytes()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("fairness", "nowhere"), "there is no such run"),
        (("fairness", SAMPLE, "-o", "x.gif"), "let the name end with one of .svg, .png, .pdf"),
        (("pingpong-latency", SAMPLE), "give runs of `workload: pingpong`"),
        (("ecdf", SAMPLE, "--metric", "x"), "no trial has a metric 'x'"),
        (("ecdf", SAMPLE, "--where", "connections"), "is not NAME=VALUE"),
        (("pingpong-latency", SAMPLE, "--bands", "0"), "are no bands"),
        (
            ("fairness", SAMPLE, "--name", "distance 3=x"),
            "did you mean 'distance 2'? choose from: ",
        ),
        (("fairness", SAMPLE, "--name", "x=y"), "--name: no series is called 'x'"),
        (("ecdf", SAMPLE, "--names", "nowhere.json"), "can't read the names"),
        (("price", SAMPLE), "give a price list or a CSV file with --prices"),
        (("price", SAMPLE, "--prices", "nowhere.csv"), "nowhere.csv: there is no such file"),
        (("price", SAMPLE, "--prices", "."), "can't read this table"),
        (("similarity", "nowhere.csv"), "nowhere.csv: there is no such file"),
        (("similarity",), "no run was named"),
        (("similarity", SAMPLE), "give runs of two flavors, or a CSV file"),
        (("fairness",), "no run was named"),
        (("fairness", SAMPLE, "--relative"), "--relative: the figure fairness has nothing for"),
        (("limits", SAMPLE, "--y-log"), "--y-log: the figure limits has nothing for"),
        (("fairness", SAMPLE, "--y-min", "3"), "the axis of y would go from 3 to 1.08"),
        (("fairness", SAMPLE, "--height", "1"), "the figure is too small"),
        (("fairness", SAMPLE, "--where", "size=1"), "the trials have no column 'size'"),
        (("fairness", SAMPLE, "--where", "plcement=x"), "did you mean 'placement'?"),
        (("ecdf", SAMPLE, "--metric", "agregate_btc_bps"), "did you mean 'aggregate_btc_bps'?"),
    ],
)
def test_wrong_plot_arguments_are_reported_with_a_cure(
    osmef: Osmef, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    done = osmef("plot", *words)
    assert done.code == 2
    assert list(tmp_path.iterdir()) == []
    assert told in " ".join(done.err.split())
    assert "Traceback" not in done.err


def test_a_file_that_can_not_be_written_keeps_what_it_was(osmef: Osmef, tmp_path: Path) -> None:
    (tmp_path / "x.svg").mkdir()
    done = osmef("plot", "fairness", SAMPLE, "-o", str(tmp_path / "x.svg"))
    assert done.code == 4
    assert "can't write" in done.err
    assert [one.name for one in tmp_path.iterdir()] == ["x.svg"]


def test_an_unknown_figure_kind_is_rejected_and_the_known_ones_are_listed(osmef: Osmef) -> None:
    done = osmef("plot", "pie", SAMPLE)
    assert done.code == 2
    assert "btc-connections" in done.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_kinds_are_completed(shell: str) -> None:
    words = {"COMP_WORDS": "osmef plot ping", "_TYPER_COMPLETE_ARGS": "osmef plot ping"}
    how = {"_OSMEF_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    script = "import sys; sys.argv[0] = 'osmef'; from osmef.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **words, **how, "COMP_CWORD": "2", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert all(kind in done.stdout for kind in FigureKind if kind.startswith("ping"))
    assert "fairness" not in done.stdout


def test_similarity_needs_no_run(osmef: Osmef, tmp_path: Path) -> None:
    table = tmp_path / "machines.csv"
    head = "provider,flavor,threads,cpu_s,memory_mb,memory_mb_per_s"
    more = "disk_read_mb_per_s,disk_write_mb_per_s,network_mb_per_s"
    table.write_text(f"{head},{more}\naws,a,1,2,3,4,5,6,7\ngce,b,7,6,5,4,3,2,1\n")
    done = osmef("plot", "similarity", str(table), "-o", str(tmp_path / "s.svg"))
    assert done.code == 0, done.err
    words = "Components: threads, CPU time, memory, memory rate, disk read, disk write, network."
    assert words in " ".join(re.findall("<!-- (.*) -->", (tmp_path / "s.svg").read_text()))
    done = osmef("plot", "similarity", str(table), SAMPLE, "-o", str(tmp_path / "t.svg"))
    assert (done.code, "a table of measurements can't be combined" in done.err) == (2, True)
    table.write_text("provider,flavor\naws,a\n")
    done = osmef("plot", "similarity", str(table), "-o", str(tmp_path / "s.svg"))
    assert "has no column threads" in " ".join(done.err.split())
    table.write_text("provider,threads,cpu_s\naws,1,2\n")
    done = osmef("plot", "similarity", str(table), "-o", str(tmp_path / "s.svg"))
    assert "has no column flavor" in " ".join(done.err.split())


def test_an_unknown_figure_kind_is_reported_with_the_nearest(osmef: Osmef) -> None:
    done = osmef("plot", "btc-conections", "anything")
    assert (done.code, "btc-connections" in done.err) == (2, True)
