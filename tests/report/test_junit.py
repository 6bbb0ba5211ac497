"""The verdicts of a comparison as CI servers read them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from junitparser import Failure, JUnitXml, Skipped

from osmef.report.export import write_junit
from tests.invoked import invoke

SAMPLE = Path(__file__).parents[1] / "results/data/quickstart-20261121T031500Z-3f9a"


def row(verdict: str, cell: str = "connections=1", metric: str = "x_bps") -> dict[str, Any]:
    return {"cell": cell, "metric": metric, "verdict": verdict, "reason": None,
            "median_a": 2.0, "median_b": 1.0, "n_a": 6, "n_b": 6}  # fmt: skip


def read(text: str) -> list[tuple[str, str, list[type]]]:
    document = JUnitXml.fromstring(text.encode())
    return [(case.classname, case.name, [type(one) for one in case.result])
            for suite in document for case in suite]  # fmt: skip


def test_each_verdict_is_a_case() -> None:
    rows = [row("worse"), row("same", metric="y_s"), row("inconclusive", metric="z_s")]
    trials = [{"cell": "connections=1", "verdict": "worse", "failed_a": 0, "trials_a": 6,
               "failed_b": 6, "trials_b": 6}]  # fmt: skip
    text = write_junit("a and b", rows, trials, ["connections=2"])
    assert read(text) == [
        ("connections=1", "x_bps", [Failure]),
        ("connections=1", "y_s", []),
        ("connections=1", "z_s", [Skipped]),
        ("connections=1", "failed trials", [Failure]),
        ("connections=2", "cell", [Failure]),
    ]
    suite = next(iter(JUnitXml.fromstring(text.encode())))
    assert (suite.tests, suite.failures, suite.skipped, suite.errors) == (5, 3, 1, 0)


def test_what_only_one_side_has_is_a_case_too() -> None:
    lost = row("inconclusive") | {"median_b": None, "n_b": 0}
    new = row("inconclusive", metric="y_s") | {"median_a": None, "n_a": 0}
    text = write_junit("a and b", [lost, new], [], [])
    assert [(name, kinds) for _, name, kinds in read(text)] == [
        ("x_bps", [Failure]),
        ("y_s", [Skipped]),
    ]
    assert "medians 2 and -, n = 6 and 0" in text


def test_a_verdict_is_told_before_its_reason() -> None:
    text = write_junit("a and b", [row("better") | {"reason": "A's median is 0"}], [], [])
    assert "better, A's median is 0: medians" in text


def test_trials_that_fail_in_b_alone_have_failed_as_for_the_exit_code() -> None:
    few = {"cell": "connections=1", "verdict": "inconclusive", "trials_a": 6, "trials_b": 6}
    half, third, both = (few | {"failed_a": a, "failed_b": b} for a, b in ((0, 3), (0, 2), (1, 3)))
    text = write_junit("a and b", [], [half, third, both], [])
    assert [kinds for *_, kinds in read(text)] == [[Failure], [], []]


@given(cell=st.text(), metric=st.text())
def test_any_name_is_xml(cell: str, metric: str) -> None:
    ((found, _, _),) = read(write_junit("x", [row("worse", cell, metric)], [], []))
    assert len(found) == len(cell)


def test_compare_writes_it(tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("a", "b")]
    for run in runs:
        shutil.copytree(SAMPLE, run)
    file = tmp_path / "verdicts.xml"
    done = invoke("compare", *runs, "--junit", file)
    assert done.exit_code == 0, done.stderr
    assert ("connections=1", "aggregate_btc_bps", [Skipped]) in read(file.read_text())
