"""A run of a workload that nobody here knows: its summary says what its numbers are."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from osmef.analysis.describe import describe
from osmef.results.measure import Measure
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Declared
from tests.cli.conftest import Osmef

SAMPLE = Path(__file__).parents[1] / "results/data/quickstart-20261121T031500Z-3f9a"
MEASURES = (
    Measure(
        name="render_time_s",
        unit="s",
        better="lower",
        help="of all scenes",
        label="render time",
        head="render\ntime\ns",
        digits=".2f",
        leading=True,
    ),
    Measure(
        name="frames_per_s",
        unit="1/s",
        better="higher",
        help="as POV-Ray has it",
        head="frames\n/s",
    ),
    Measure(name="score", unit="points", better="higher", help="as POV-Ray has it"),
    Measure(name="temperature", unit="°C", better="neither", help="of the CPU"),
)
SESSIONS = [f"day {number}" for number in range(6)]
MakeRun = Callable[..., str]


@pytest.fixture
def make_run(osmef: Osmef) -> MakeRun:
    """Return a function that makes a run of six trials in two cells, and gives its name."""

    def make(
        name: str,
        speed: float = 1.0,
        measures: tuple[Measure, ...] = MEASURES,
        with_summary: bool = True,
        **session: str,
    ) -> str:
        run = RunDirectory(Path(shutil.copytree(SAMPLE, osmef.directory / name)))
        (run.path / "scenario.yaml").write_text(
            "name: render\nworkload: {kind: povray, scenes: 3}\nsweep: {threads: [1, 2]}\n"
        )
        summary = run.read_summary()
        (of,) = summary.cells
        trial = run.read_trials().trials[0]
        cells, trials = [], []
        for threads in (1, 2):
            key = {"cell": f"threads={threads}", "values": {"threads": threads}}
            rows = [numbers(speed * threads * (1 + number / 100)) for number in range(6)]
            told = {one: describe(row[one] for row in rows) for one in rows[0]}
            cells.append(of.model_copy(update={
                "key": key["cell"], "values": key["values"], "workload": "povray",
                "connections": None, "metrics": told, "n_ok": 6, "n_failed": 0,
            }))  # fmt: skip
            trials += [
                trial.model_copy(update={
                    **key, **session, "workload": "povray", "index": 6 * threads + number,
                    "repetition": number, "metrics": row, "transfers": [], "connections": None,
                })
                for number, row in enumerate(rows)
            ]  # fmt: skip
        run.trials.write_text("".join(f"{one.model_dump_json()}\n" for one in trials))
        run.write_summary(
            summary.model_copy(update={"cells": cells, "measures": list(measures),
                                       "run": summary.run.model_copy(update={"id": name})})
        )  # fmt: skip
        if not with_summary:
            run.declare(Declared(measures=list(measures)))
            run.summary.unlink()
        return name

    return make


def numbers(speed: float) -> dict[str, float | None]:
    return {
        "render_time_s": 60 / speed,
        "frames_per_s": 24 * speed,
        "score": 1000 * speed,
        "temperature": 50.0,
    }


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_its_table_has_the_heads_and_formats_that_it_declares(
    osmef: Osmef, make_run: MakeRun
) -> None:
    shown = osmef("show", make_run("one"))
    assert shown.code == 0, shown.err
    (row,) = [row for row in rows(shown.out) if row[:1] == ["1"]]
    assert row[2:] == ["6/6", "58.54", "57.14..60.00", "24.6"]
    assert "points" not in shown.out.split()
    assert "interval of that of render time" in shown.out
    summary = osmef("show", "one", "--json").json()
    assert [one["name"] for one in summary["measures"]] == [one.name for one in MEASURES]


def test_without_column_heads_all_metrics_are_shown(osmef: Osmef, make_run: MakeRun) -> None:
    bare = tuple(one.model_copy(update={"head": None, "digits": None}) for one in MEASURES)
    shown = osmef("show", make_run("one", measures=bare))
    (row,) = [row for row in rows(shown.out) if row[:1] == ["2"]]
    assert row[3:] == ["29.269", "28.5714..30", "49.2", "2050", "50"]


def test_the_leading_one_is_shown_beside_those_with_a_head(osmef: Osmef, make_run: MakeRun) -> None:
    bare = (MEASURES[0].model_copy(update={"head": None}), *MEASURES[1:])
    shown = osmef("show", make_run("one", measures=bare))
    (row,) = [row for row in rows(shown.out) if row[:1] == ["1"]]
    assert row[2:] == ["6/6", "58.54", "57.14..60.00", "24.6"]


def axis(osmef: Osmef, kind: str, *words: str) -> str:
    done = osmef("plot", kind, "one", "-o", "figure.svg", *words)
    assert done.code == 0, done.err
    return (osmef.directory / "figure.svg").read_text()


def test_its_figures_have_its_units(osmef: Osmef, make_run: MakeRun) -> None:
    make_run("one")
    assert "render time in s" in axis(osmef, "ecdf")
    assert "score in points" in axis(osmef, "ecdf", "--metric", "score")
    assert "frames per s per second" in axis(osmef, "ecdf", "--metric", "frames_per_s")
    assert "render time" in axis(osmef, "cov")
    refused = osmef("plot", "btc-connections", "one")
    assert (refused.code, "workload: btc" in refused.err) == (2, True)


@pytest.mark.parametrize("with_summary", [True, False])
def test_its_page_has_its_units(osmef: Osmef, make_run: MakeRun, with_summary: bool) -> None:
    made = osmef("report", make_run("one", with_summary=with_summary), "-o", "page.html")
    assert made.code == 0, made.err
    page = (osmef.directory / "page.html").read_text()
    assert "render time" in page
    assert ("°C" in page) == with_summary, "which only the table of all numbers shows"


def test_the_direction_of_improvement_is_taken_from_the_metric_declarations(
    osmef: Osmef, make_run: MakeRun
) -> None:
    compared = osmef("compare", make_run("slow"), make_run("fast", 2.0), "--json")
    assert compared.code == 0, compared.err
    told = compared.json()
    verdicts = {(row["metric"], row["verdict"]) for row in told["rows"]}
    assert verdicts == {(one.name, "better") for one in MEASURES[:3]}
    assert told["not_judged"] == ["temperature"]
    assert any("povray is not known here" in note for note in told["notes"])
    regression = osmef("compare", "fast", "slow", "--fail-on", "regression")
    worse = re.findall(r"^threads=.* worse\b", regression.out, re.MULTILINE)
    assert (regression.code, len(worse)) == (1, 6)


def test_settings_with_an_unknown_background_are_not_compared(
    osmef: Osmef, make_run: MakeRun
) -> None:
    for name in ("one", "two"):
        run = osmef.directory / make_run(name)
        (run / "scenario.yaml").write_text("name: render\nbackground: {kind: povray}\n")
        edit(run, beside_povray)
    compared = osmef("compare", "one", "two", "--json")
    assert compared.code == 0, compared.err
    assert any("povray is not known here" in note for note in compared.json()["notes"])


def test_two_units_of_one_name_are_never_mixed(osmef: Osmef, make_run: MakeRun) -> None:
    percent = MEASURES[2].model_copy(update={"unit": "%"})
    make_run("points")
    make_run("share", measures=(*MEASURES[:2], percent, MEASURES[3]))
    for words in (("compare", "points", "share"), ("statistics", "points", "share"),
                  ("plot", "ecdf", "points", "share"), ("report", "points", "share")):  # fmt: skip
        refused = osmef(*words)
        assert refused.code == 2, words
        assert "score is in points in" in refused.err, words
        assert "and in % in" in refused.err


def test_its_statistics_are_of_what_leads(osmef: Osmef, make_run: MakeRun) -> None:
    told = osmef("statistics", make_run("one"), "--json")
    assert told.code == 0, told.err
    assert {row["metric"] for row in told.json()["cells"]} == {"render_time_s"}
    every = osmef("statistics", "one", "--metric", "score", "--pairs", "--json").json()
    assert [row["metric"] for row in every["pairs"]] == ["score"]


def test_price_performance_is_shown_for_metrics_that_are_better_higher_only(
    osmef: Osmef, make_run: MakeRun
) -> None:
    make_run("one")
    prices = "provider,flavor,price_per_hour,currency,region,date,source\n"
    osmef.write(f"{prices}local,small,0.5,USD,,2026-11-01,a list\n", "prices.csv")
    words = ("prices", "rank", "one", "--prices", "prices.csv", "--json")
    ranked = osmef(*words, "--metric", "frames_per_s").json()["ranking"]
    assert [row["per_price"] for row in ranked] == [pytest.approx(98.4), pytest.approx(49.2)]
    refused = osmef(*words)
    assert "render_time_s is better lower" in refused.json()["error"]["message"]


def test_its_sessions_have_tables_and_figures_in_its_units(osmef: Osmef, make_run: MakeRun) -> None:
    for number, session in enumerate(SESSIONS):
        place = {"session": session, "window": "night", "platform": "here"}
        make_run(f"weeks/s{number}", 1 + number / 1000, **place)
    words = ("campaign", "report", "weeks", "-o", "page.html", "--csv", "tables")
    made = osmef(*words, "--metric", "score", "--metric", "render_time_s")
    assert made.code == 0, made.err
    page = (osmef.directory / "page.html").read_text()
    for text in ("Score, threads=1", ">points<", "Render time, threads=2", ">s<"):
        assert text in page, text
    tables = (osmef.directory / "tables" / "platforms.csv").read_text()
    assert "here,threads=2,score,6" in tables
    assert "render_time_s" not in (osmef.directory / "tables" / "prices.csv").read_text()


def edit(run: Path, change: Callable[[Any], Mapping[str, Any]]) -> None:
    path = run / "summary.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def beside_povray(told: Any) -> Mapping[str, Any]:
    kinds = {"workload": "btc", "background": "povray"}
    return {**told, "cells": [cell | kinds for cell in told["cells"]]}


def test_a_summary_without_them_is_damaged(osmef: Osmef, make_run: MakeRun) -> None:
    make_run("one")
    edit(osmef.directory / "one", lambda told: {**told, "measures": told["measures"][1:]})
    refused = osmef("show", "one")
    assert refused.code == 2
    assert "nothing in measures says what these are: render_time_s" in " ".join(refused.err.split())
