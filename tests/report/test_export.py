"""What other programs get of a run, read back by readers of theirs, and ppbench's files."""

from __future__ import annotations

import csv
import io
import json
import math
import shlex
import shutil
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from junitparser import Failure, JUnitXml, Skipped
from line_protocol_parser import parse_line  # type: ignore[import-untyped]
from prometheus_client import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from rocrate.rocrate import ROCrate  # type: ignore[import-untyped]

import osmef
from osmef.report.export import (
    write_csv,
    write_influx,
    write_junit,
    write_openmetrics,
    write_ppbench,
)
from osmef.results.frame import describe_columns, load_requests
from osmef.results.measure import Measure
from osmef.results.observations import Request
from osmef.results.rundir import RunDirectory
from osmef.results.summary import CellInfo, Summary
from osmef.results.tables import as_table
from tests.invoked import invoke
from tests.report.pingpong_run import BACKGROUND, request, write_run

SAMPLE = Path(__file__).parents[1] / "results/data/quickstart-20261121T031500Z-3f9a"
DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana.json"


def families_of(text: str) -> dict[str, Family]:
    read: Callable[[str], Iterable[Family]] = text_string_to_metric_families
    return {one.name: one for one in read(text)}


def export(form: str, *more: str) -> str:
    done = invoke("export", form, SAMPLE, *more)
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def expected() -> dict[tuple[int, str], float]:
    """Every number of every good trial, by the trial's number and the metric."""
    trials = osmef.load(SAMPLE)
    names = osmef.results.frame.measures_of(trials)
    good = trials[trials["status"] == "ok"]
    return {
        (int(row["trial"]), name): float(row[name])
        for row in good.to_dict("records")
        for name in names
        if not math.isnan(row[name])
    }


def test_csv_has_every_number_of_every_trial(expected: dict[tuple[int, str], float]) -> None:
    rows = list(csv.DictReader(io.StringIO(export("csv"))))
    assert {
        (int(row["label_trial"]), row["metric"]): float(row["value"]) for row in rows
    } == expected
    assert {row["unit"] for row in rows if row["metric"] == "aggregate_btc_bps"} == {"bit/s"}


def test_a_dash_is_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert export("csv", "-o", "-") == export("csv")
    assert not list(tmp_path.iterdir())


def test_newline_json_has_every_number_of_every_trial(
    expected: dict[tuple[int, str], float],
) -> None:
    rows = pd.read_json(io.StringIO(export("ndjson")), lines=True).to_dict("records")
    assert {(row["labels"]["trial"], row["metric"]): row["value"] for row in rows} == expected


def test_influx_lines_have_every_number_and_the_start(
    expected: dict[tuple[int, str], float],
) -> None:
    rows = [parse_line(line) for line in export("influx").splitlines()]
    assert {row["measurement"] for row in rows} == {"osmef"}
    found = {
        (int(row["tags"]["trial"]), name): value
        for row in rows
        for name, value in row["fields"].items()
    }
    assert found == expected
    started = osmef.load(SAMPLE)["started_at"].iloc[0]
    assert rows[0]["time"] == round(started.timestamp()) * 10**9


def test_opensearch_documents_have_every_number_and_ids_of_their_own(
    expected: dict[tuple[int, str], float],
) -> None:
    lines = [json.loads(line) for line in export("opensearch").splitlines()]
    actions, documents = lines[::2], lines[1::2]
    assert len({one["index"]["_id"] for one in actions}) == len(documents)
    found = {
        (one["labels"]["trial"], name): value
        for one in documents
        for name, value in one["metrics"].items()
    }
    assert found == expected


def test_openmetrics_has_the_medians_of_every_cell() -> None:
    summary = RunDirectory(SAMPLE).read_summary()
    families = families_of(export("openmetrics"))
    for cell in summary.cells:
        for name, metric in cell.metrics.items():
            if metric.median is None:
                assert f"osmef_{name}" not in families
                continue
            family = families[f"osmef_{name}"]
            values = [one.value for one in family.samples if one.labels["cell"] == cell.key]
            assert values == [metric.median]
    told = {
        name: families[f"osmef_aggregate_btc_bps{name}"].documentation for name in ("", "_trials")
    }
    begin = "median of a cell: over trials, or over the medians of pairs or sessions, in bit/s"
    assert told == {"": begin, "_trials": "trials that have it"}  # a count has no such unit
    (one,) = families["osmef_cell_trials_failed"].samples
    assert one.value == summary.cells[0].n_failed


def test_a_switch_is_written_as_in_the_scenario() -> None:
    assert labels_with("one", {"relay": True})["relay"] == "true"
    trials = osmef.load(SAMPLE).assign(relay=False)
    described = describe_columns(
        trials, osmef.results.frame.measures_of(trials).values(), ["relay"]
    )
    row, *_ = csv.DictReader(io.StringIO("".join(write_csv(described))))
    assert row["label_relay"] == "false"
    assert {parse_line(line)["tags"]["relay"] for line in write_influx(described)} == {"false"}


def test_a_metric_may_be_called_as_the_number_of_trials_of_another() -> None:
    summary = RunDirectory(SAMPLE).read_summary()
    cell, first = summary.cells[0], summary.measures[0]
    other = first.model_copy(update={"name": f"{first.name}_trials"})
    metrics = {first.name: cell.metrics[first.name], other.name: cell.metrics[first.name]}
    cell = cell.model_copy(update={"metrics": metrics})
    told = summary.model_copy(update={"cells": [cell], "measures": [first, other]})
    families = families_of("".join(write_openmetrics(told)))
    value = families[f"osmef_{other.name}"].samples[0].value
    assert value == metrics[first.name].median
    assert families[f"osmef_{other.name}_2"].samples[0].value == metrics[first.name].n


@pytest.mark.parametrize("names", [("p99.9_us", "p99_9_us"), ("cell_trials_ok", "x")])
def test_no_two_metrics_are_called_alike(names: tuple[str, str]) -> None:
    """Nor one as the trials of a cell; a name has letters, digits and lines only."""
    summary = RunDirectory(SAMPLE).read_summary()
    cell, first = summary.cells[0], summary.measures[0]
    measures = [first.model_copy(update={"name": name}) for name in names]
    cell = cell.model_copy(update={"metrics": dict.fromkeys(names, cell.metrics[first.name])})
    told = summary.model_copy(update={"cells": [cell], "measures": measures})
    assert len(families_of("".join(write_openmetrics(told)))) == 2 * len(names) + 2


def test_a_help_has_no_escape_that_the_text_format_lacks() -> None:
    summary = RunDirectory(SAMPLE).read_summary()
    first = summary.measures[0].model_copy(update={"unit": 'the "size" \\ line\nbreak'})
    text = "".join(write_openmetrics(summary.model_copy(update={"measures": [first]})))
    told = families_of(text)[f"osmef_{first.name}"].documentation
    assert told.endswith("the 'size' \\ line\nbreak")
    assert not any('"' in line for line in text.splitlines() if line.startswith("# HELP"))


def test_runs_of_several_workloads_have_the_same_helps() -> None:
    """Else node_exporter leaves out what the second file has, with an error."""
    summary = RunDirectory(SAMPLE).read_summary()
    defined = [one.model_copy(update={"help": "as others do"}) for one in summary.measures]
    other = summary.model_copy(update={"measures": defined})
    helps = [
        [line for line in "".join(write_openmetrics(one)).splitlines() if line.startswith("# HELP")]
        for one in (summary, other)
    ]
    assert helps[0] == helps[1]


def labels_with(key: str, values: dict[str, str | int]) -> dict[str, str]:
    """Return the labels of the sample's first cell, were it called so, and had it these values."""
    summary = RunDirectory(SAMPLE).read_summary()
    cell = summary.cells[0].model_copy(update={"key": key, "values": values})
    text = "".join(write_openmetrics(summary.model_copy(update={"cells": [cell]})))
    labels: dict[str, str] = next(iter(families_of(text).values())).samples[0].labels
    return labels


@example(key="", name="connections")
@given(key=st.text(max_size=30), name=st.text(min_size=1, max_size=20))
def test_any_label_comes_back(key: str, name: str) -> None:
    without = labels_with(key, {})
    assert without["cell"] == key
    labels = labels_with(key, {name: key})
    assert without.items() <= labels.items()
    assert [labels[one] for one in labels.keys() - without.keys()] in ([key], [])
    assert key in labels.values()


def test_a_swept_value_has_its_label_also_by_the_name_of_another() -> None:
    labels = labels_with("a", {"run": 1, "connections": 1})
    assert labels["run"].startswith("quickstart")
    assert labels["run_2"] == "1"
    assert "connections_2" not in labels


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


# The reader takes no number that is below all normal ones.
numbers = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)


@given(cell=words, name=words, value=numbers)
def test_any_tag_and_number_make_one_line(cell: str, name: str, value: float) -> None:
    row = {"run": "r", "cell": cell, "trial": 1, "status": "ok", "x_s": value, name: cell,
           "started_at": pd.Timestamp("2026-11-21", tz="UTC")}  # fmt: skip
    frame = describe_columns(
        pd.DataFrame([row]), [Measure(name="x_s", unit="s", better="lower")], [name]
    )
    lines = list(write_influx(frame))
    if frame["status"][0] != "ok" or "x_s" not in frame or frame["x_s"].dtype != float:
        return  # the swept value has taken the place of a column
    (line,) = lines
    assert line.count("\n") == 1
    back = parse_line(line.rstrip("\n"))
    assert back["fields"]["x_s"] == value
    assert back["tags"]["trial"] == "1"


def test_influx_has_no_key_of_its_own_name_for_time() -> None:
    row = {"run": "r", "trial": 1, "status": "ok", "started_at": pd.NaT, "time": 2.0, "swept": 1}
    measure = Measure(name="time", unit="s", better="lower")
    (line,) = write_influx(describe_columns(pd.DataFrame([row]), [measure], ["swept"]))
    assert parse_line(line)["fields"] == {"time_": 2.0}
    frame = pd.DataFrame([{**row, "x_s": 1.0}])
    other = Measure(name="x_s", unit="s", better="lower")
    (line,) = write_influx(describe_columns(frame, [other], ["time"]))
    assert parse_line(line)["tags"]["time_"] == "2"


def test_an_ro_crate_lists_every_file_and_its_authors(tmp_path: Path) -> None:
    file = tmp_path / "run.zip"
    export("ro-crate", "-o", str(file), "--author", "Ada Lovelace", "--author", 'A "B" C: d')
    crate = ROCrate(str(file))
    assert crate.root_dataset["name"] == SAMPLE.name
    assert [one["name"] for one in crate.root_dataset["author"]] == ["Ada Lovelace", 'A "B" C: d']
    with zipfile.ZipFile(file) as archive:
        names = set(archive.namelist())
        assert archive.read("trials.jsonl") == (SAMPLE / "trials.jsonl").read_bytes()
        citation = yaml.safe_load(archive.read("CITATION.cff").decode())
    assert {one.id for one in crate.data_entities} == names - {"ro-crate-metadata.json"}
    assert citation["cff-version"] == "1.2.0"
    assert [one["name"] for one in citation["authors"]] == ["Ada Lovelace", 'A "B" C: d']


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "add -o run.zip"),
        (("-o", "x.zip"), "add --author"),
        (("-o", "x.zip", "--author", "Ada Lovelace", "--author", " "), "add --author"),
    ],
)
def test_missing_options_of_a_ro_crate_export_are_reported(
    more: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoke("export", "ro-crate", SAMPLE, *more)
    assert (done.exit_code, said in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_command_in_a_cure_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "of may, it's new", "btc", "name: btc\n", ".yaml") as run:
        done = invoke("export", "openmetrics", str(run.path))
    command = done.stderr.partition("go on with: ")[2]
    assert shlex.split(command) == ["osmef", "resume", str(run.path)]


def test_the_dashboard_shows_what_is_exported() -> None:
    families = set(families_of(export("openmetrics")))
    dashboard = json.loads(DASHBOARD.read_text())
    wanted = {
        target["expr"].partition("{")[0]
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    }
    told = {name for name in wanted if not name.endswith(("_low", "_high"))}
    assert {"osmef_aggregate_btc_bps", "osmef_jain_fairness"} <= told
    known = {f"osmef_{one}" for one in osmef_metrics()}
    assert all(name.removesuffix("_ci95_low").removesuffix("_ci95_high") in known | families
               for name in wanted)  # fmt: skip


def osmef_metrics() -> set[str]:
    from tests.declared import WORKLOADS  # noqa: PLC0415

    return {one.name for measures in WORKLOADS.values() for one in measures}


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


def test_a_metric_of_one_side_only_is_a_junit_case() -> None:
    lost = row("inconclusive") | {"median_b": None, "n_b": 0}
    new = row("inconclusive", metric="y_s") | {"median_a": None, "n_a": 0}
    text = write_junit("a and b", [lost, new], [], [])
    assert [(name, kinds) for _, name, kinds in read(text)] == [
        ("x_bps", [Failure]),
        ("y_s", [Skipped]),
    ]
    assert "medians 2 and -, n = 6 and 0" in text


def test_a_verdict_is_written_before_its_reason() -> None:
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


def test_compare_writes_its_verdicts_as_junit(tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("a", "b")]
    for run in runs:
        shutil.copytree(SAMPLE, run)
    file = tmp_path / "verdicts.xml"
    done = invoke("compare", *runs, "--junit", file)
    assert done.exit_code == 0, done.stderr
    assert ("connections=1", "aggregate_btc_bps", [Skipped]) in read(file.read_text())


MakeCell = Callable[..., CellInfo]
MakeSummary = Callable[..., Summary]

HEAD = (
    "Machine Tag,Experiment Tag,Document Path,Failed requests,Concurrency Level,Total transferred,"
    "Time per request,Transfer rate,Requests per second,Retries,Response Code"
)
FAILED = {"duration_s": None, "relay_s": None, "code": None, "length": None, "retries": None}


def of_two_cells(make_cell: MakeCell, make_summary: MakeSummary) -> Summary:
    cells = [
        make_cell(workload="pingpong", connections=count, key=f"c={count}") for count in (1, 4)
    ]
    summary: Summary = make_summary(*cells)
    flavored = summary.endpoints[0].model_copy(update={"flavor": "m3.large"})
    return summary.model_copy(update={"endpoints": [flavored, summary.endpoints[1]]})


def export_ppbench(*arguments: str) -> tuple[int, str, str]:
    done = invoke("export", *arguments)
    return done.exit_code, done.stdout, done.stderr


def test_each_size_of_each_cell_is_a_row(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    run = write_run(
        tmp_path,
        of_two_cells(make_cell, make_summary),
        [
            [
                request(5000, 1.0, retries=3), request(5000, 3.0), request(20, 0.5),
                request(7, 9.0, purpose=BACKGROUND),
            ],
            [
                request(20, 0.25), request(20, 9.0, code=503, length=0, retries=10, error="status"),
                request(30, 1.0, **FAILED, error="timeout"),
            ],
        ],
    )  # fmt: skip
    wanted = [
        HEAD,
        "m3.large,c=1,/mping/20,0,1,20,0.5,40000,2000,0,200",
        "m3.large,c=1,/mping/5000,0,1,5000,2,2500000,500,3,200",
        "m3.large,c=4,/mping/20,1,4,20,0.25,80000,4000,10,503",
        "m3.large,c=4,/mping/30,1,4,,,,,0,",
    ]
    code, out, _ = export_ppbench("ppbench", str(run))
    assert (code, out.splitlines()) == (0, wanted)
    file = tmp_path / "pingpong.csv"
    code, out, err = export_ppbench("ppbench", str(run), "-o", str(file))
    assert (code, out) == (0, "")
    assert "4 rows" in err
    assert file.read_text().splitlines() == wanted


def test_without_ping_the_exported_path_is_that_of_pong(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    cell = make_cell(workload="pingpong", key="a=1,b=2")
    rows = [request(20, 0.5, relay_s=None, retries=None)]
    code, out, _ = export_ppbench("ppbench", str(write_run(tmp_path, make_summary(cell), [rows])))
    assert code == 0
    (row,) = csv.DictReader(io.StringIO(out))
    assert (row["Machine Tag"], row["Experiment Tag"]) == ("vm-1", "a=1;b=2")
    assert (row["Document Path"], row["Time per request"]) == ("/pong/20", "1")
    assert row["Retries"] == "0"


def test_a_run_that_cannot_be_exported_is_reported(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    run = RunDirectory.create(tmp_path, "btc", "name: btc\n", ".yaml")
    with run:
        code, _, err = export_ppbench("ppbench", str(run.path))
        assert (code, "no summary yet" in err) == (2, True)
        run.write_summary(make_summary(make_cell()))
    code, _, err = export_ppbench("ppbench", str(run.path))
    assert code == 2
    assert "no trials yet" in err
    run.trials.touch()
    code, _, err = export_ppbench("ppbench", str(run.path))
    assert "made no requests" in err
    assert "workload: pingpong" in err
    whole = write_run(tmp_path, make_summary(make_cell(workload="pingpong")), [[request(1, 1.0)]])
    code, _, err = export_ppbench(
        "ppbench", str(whole), "-o", str(tmp_path / "none" / "deep" / "x.csv")
    )
    assert code == 4
    assert "can't write" in err
    assert not (tmp_path / "none").exists()


@given(rows=st.lists(st.tuples(st.integers(1, 3), st.floats(0.001, 1e4)), min_size=1, max_size=20))
def test_the_exported_numbers_are_those_of_ppbench(
    make_cell: MakeCell, make_summary: MakeSummary, rows: Sequence[tuple[int, float]]
) -> None:
    cell = make_cell(workload="pingpong", key="all")
    requests: list[Request] = [request(1000 * size, ms) for size, ms in rows]
    frame = as_table("requests", requests).to_pandas().assign(cell="all")
    text = io.StringIO()
    count = write_ppbench(text, make_summary(cell), frame)
    text.seek(0)
    found = {row["Document Path"]: row for row in csv.DictReader(text)}
    assert count == len(found) == len({size for size, _ in rows})
    for size in {size for size, _ in rows}:
        times = [ms for one, ms in rows if one == size]
        row = found[f"/mping/{1000 * size}"]
        mean = sum(times) / len(times)
        assert float(row["Time per request"]) == pytest.approx(mean)
        assert float(row["Requests per second"]) == pytest.approx(1000 / mean)
        rate = 1000 * size * len(times) * 1000 / sum(times)
        assert float(row["Transfer rate"]) == pytest.approx(rate)
        assert float(row["Total transferred"]) == 1000 * size


def test_a_damaged_parquet_file_is_reported(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    run = write_run(tmp_path, make_summary(make_cell(workload="pingpong")), [[request(1, 1.0)]])
    (run / "requests.parquet").write_bytes(b"PAR1 and nothing more")
    code, _, err = export_ppbench("ppbench", str(run))
    assert code == 2
    assert "Parquet file is truncated" in err


def test_requests_know_their_cell(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    summary = of_two_cells(make_cell, make_summary)
    run = write_run(tmp_path, summary, [[request(1, 1.0)], [request(2, 1.0), request(3, 1.0)]])
    frame = load_requests(run)
    assert frame.groupby("cell")["size"].apply(list).to_dict() == {"c=1": [1], "c=4": [2, 3]}
