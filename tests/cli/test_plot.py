"""`osmef plot`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from osmef.cli import plot
from osmef.report.figures import KINDS
from osmef.report.style import METADATA
from tests.cli.conftest import Osmef

SAMPLE = str(Path(__file__).parents[1] / "results/data/quickstart-20261121T031500Z-3f9a")
MAGIC = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}


def test_every_kind_and_ending_can_be_named() -> None:
    assert {kind.value for kind in plot.Kind} == set(KINDS)
    assert set(plot.ENDINGS) == {f".{suffix}" for suffix in METADATA}


@pytest.mark.parametrize("suffix", MAGIC)
def test_a_figure_is_written_as_its_ending_says(osmef: Osmef, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"btc{suffix}"
    done = osmef("plot", "btc-connections", SAMPLE, "-o", str(path), "--title", "Ours")
    assert (done.code, done.out.strip()) == (0, f"figure: {path}")
    assert path.read_bytes().startswith(MAGIC[suffix])


def test_the_options_reach_the_figure(osmef: Osmef, tmp_path: Path) -> None:
    names = tmp_path / "names.json"
    names.write_text(json.dumps({"machines": {"1 connection": "one"}}))
    words = ("--names", str(names), "--name", "loopback=itself", "--y-max", "9", "--no-legend")
    plain, other = tmp_path / "plain.svg", tmp_path / "other.svg"
    osmef("plot", "btc-distance", SAMPLE, "-o", str(plain))
    done = osmef("plot", "btc-distance", SAMPLE, "-o", str(other), *words)
    assert done.code == 0
    assert plain.read_bytes() != other.read_bytes()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("fairness", "nowhere"), "there is no such run"),
        (("fairness", SAMPLE, "-o", "x.gif"), "let the file end with .svg, .png, .pdf"),
        (("pingpong-latency", SAMPLE), "give runs of `workload: pingpong`"),
        (("ecdf", SAMPLE, "--metric", "x"), "no trial has a metric 'x'"),
        (("ecdf", SAMPLE, "--where", "connections"), "is not NAME=VALUE"),
        (("ecdf", SAMPLE, "--bands", "0"), "are no bands"),
        (("ecdf", SAMPLE, "--names", "nowhere.json"), "can't read the names"),
        (("price", SAMPLE), "give a CSV file with --prices"),
        (("price", SAMPLE, "--prices", "nowhere.csv"), "can't read this table"),
        (("similarity",), "give a CSV file of measurements with --machines"),
    ],
)
def test_what_is_wrong_is_said_with_a_cure(osmef: Osmef, words: tuple[str, ...], told: str) -> None:
    done = osmef("plot", *words)
    assert done.code == 2
    assert told in " ".join(done.err.split())
    assert "Traceback" not in done.err


def test_similarity_needs_no_run(osmef: Osmef, tmp_path: Path) -> None:
    table = tmp_path / "machines.csv"
    head = "provider,flavor,threads,cpu_s,memory_mb,memory_mb_per_s"
    more = "disk_read_mb_per_s,disk_write_mb_per_s,network_mb_per_s"
    table.write_text(f"{head},{more}\naws,a,1,2,3,4,5,6,7\ngce,b,7,6,5,4,3,2,1\n")
    done = osmef("plot", "similarity", "--machines", str(table), "-o", str(tmp_path / "s.svg"))
    assert done.code == 0
    table.write_text("provider,flavor\naws,a\n")
    done = osmef("plot", "similarity", "--machines", str(table), "-o", str(tmp_path / "s.svg"))
    assert "has no column threads" in " ".join(done.err.split())
