"""What other programs get of a run, read back by readers of theirs."""

from __future__ import annotations

import csv
import io
import json
import math
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from line_protocol_parser import parse_line  # type: ignore[import-untyped]
from prometheus_client import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from rocrate.rocrate import ROCrate  # type: ignore[import-untyped]

import osmef
from osmef.report.export import write_influx, write_openmetrics
from osmef.results.frame import describe_columns
from osmef.results.measure import Measure
from osmef.results.rundir import RunDirectory
from tests.invoked import invoke

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


def test_csv(expected: dict[tuple[int, str], float]) -> None:
    rows = list(csv.DictReader(io.StringIO(export("csv"))))
    assert {
        (int(row["label_trial"]), row["metric"]): float(row["value"]) for row in rows
    } == expected
    assert {row["unit"] for row in rows if row["metric"] == "aggregate_btc_bps"} == {"bit/s"}


def test_a_dash_is_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert export("csv", "-o", "-") == export("csv")
    assert not list(tmp_path.iterdir())


def test_newline_json(expected: dict[tuple[int, str], float]) -> None:
    rows = pd.read_json(io.StringIO(export("ndjson")), lines=True).to_dict("records")
    assert {(row["labels"]["trial"], row["metric"]): row["value"] for row in rows} == expected


def test_influx(expected: dict[tuple[int, str], float]) -> None:
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


def test_opensearch(expected: dict[tuple[int, str], float]) -> None:
    lines = [json.loads(line) for line in export("opensearch").splitlines()]
    actions, documents = lines[::2], lines[1::2]
    assert len({one["index"]["_id"] for one in actions}) == len(documents)
    found = {
        (one["labels"]["trial"], name): value
        for one in documents
        for name, value in one["metrics"].items()
    }
    assert found == expected


def test_openmetrics() -> None:
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
    assert told[""].startswith("median over the trials of a cell, in bit/s: ")
    assert told["_trials"].startswith("trials that have it: ")  # a count has no such unit
    (one,) = families["osmef_cell_trials_failed"].samples
    assert one.value == summary.cells[0].n_failed


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


def test_ro_crate(tmp_path: Path) -> None:
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
    ("more", "said"), [((), "add -o run.zip"), (("-o", "x.zip"), "add --author")]
)
def test_what_a_crate_needs_is_told(
    more: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoke("export", "ro-crate", SAMPLE, *more)
    assert (done.exit_code, said in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


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
