"""All of the published measurements; they are no part of this repository."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

import osmef
from osmef.importers import import_files

_BESIDE = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SHARED = Path(os.environ.get("OSMEF_PUBLISHED_DATA", _BESIDE))
pytestmark = pytest.mark.skipif(
    not SHARED.is_dir(),
    reason="the published data is not here; OSMEF_PUBLISHED_DATA says where",
)


def test_the_paper_of_2013(tmp_path: Path) -> None:
    done = import_files("osmef2013", [SHARED / "osmef-2013" / "runs.tar.gz"], tmp_path)
    assert (len(done.runs), done.files, done.trials) == (9, 360, 360)
    (odd,) = done.oddities
    assert odd.kept
    assert "btc.conn_44.rx: took 362.32 s of 360" in str(odd)
    frame = osmef.load(tmp_path)
    assert frame["status"].unique().tolist() == ["ok"]
    distances = frame.groupby("scenario")["distance"].first()
    assert distances.dropna().to_dict() == {
        "host_to_host": 2,
        "localhost": 0,
        "ovs": 2,
        "vm_localhost": 0,
        "vm_localhost_16cpu": 0,
        "vm_localhost_4cpu": 0,
        "vm_to_vm_1": 0,
        "vm_to_vm_2": 2,
    }
    medians = frame.groupby(["scenario", "connections"])["aggregate_btc_bps"].median()
    near, far = (medians[scenario].median() for scenario in ("vm_to_vm_1", "vm_to_vm_2"))
    assert near / far > 10
    rows = osmef.load_intervals(tmp_path, columns=["role"])
    assert rows["role"].value_counts().to_dict() == {"sender": 7317, "receiver": 7317}


def test_the_rows_of_2014(tmp_path: Path) -> None:
    path = SHARED / "sdvn-2014" / "logdata.csv"
    done = import_files("apachebench", [path], tmp_path)
    assert (done.trials, done.oddities) == (3, [])
    rows, told = osmef.load_requests(tmp_path), pd.read_csv(path)
    assert len(rows) == len(told) == 4344
    assert rows["duration_s"].sum() == pytest.approx(told["Time per request"].sum() / 1000)
    assert rows["size"].nunique() == 42


def test_the_sessions_of_2017_have_the_published_spread(tmp_path: Path) -> None:
    path = SHARED / "deval-2017" / "sessions.csv"
    done = import_files("sessions", [path], tmp_path)
    assert (len(done.runs), done.oddities) == (4, [])
    rows = pd.read_csv(path).to_dict("records")
    expected = {
        (row["platform"], row["instance_class"], row["metric"]): row["published_cov_percent"]
        for row in rows
    }
    found = {
        (summary.run.provider, cell.key.partition("=")[2], name.removesuffix("_score")): metric
        for summary in (run.read_summary() for run in done.runs)
        for cell in summary.cells
        for name, metric in cell.metrics.items()
    }
    assert found.keys() == expected.keys()
    for key, cov in expected.items():
        assert found[key].cov_percent == pytest.approx(cov, abs=0.011)
