"""Data files of flent that say less than usual."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from osmef.importers import import_files
from osmef.results.trial import Trial

BEGUN = 1_700_000_000.0


def points(first_s: float, count: int, value: float, **more: float) -> list[dict[str, float]]:
    return [{"t": BEGUN + first_s + 0.5 * n, "val": value, **more} for n in range(count)]


def imported(folder: Path, **uploads: list[dict[str, float]]) -> Path:
    """Return the run of a file without T0 that has echoes and these uploads."""
    series = {f"TCP upload {name}": (told, "Mbits/s") for name, told in uploads.items()}
    series["Ping (ms) ICMP"] = (points(0, 10, 2.0) + points(5, 20, 30.0), "ms")
    about = {name: {"UNITS": unit} for name, (_, unit) in series.items()}
    data = {
        "version": 4,
        "metadata": {"NAME": "rrul", "SERIES_META": about},
        "raw_values": {name: told for name, (told, _) in series.items()},
    }
    (folder / "a.flent").write_text(json.dumps(data))
    (run,) = import_files("flent", [folder / "a.flent"], folder / "out").runs
    return run.path


def uploads_of(run: Path) -> pd.DataFrame:
    rows = pd.read_parquet(run / "intervals.parquet")
    return rows[rows["purpose"] == "background"].sort_values(["flow", "start_s"])


def test_without_t0_all_series_begin_at_the_earliest_time(tmp_path: Path) -> None:
    run = imported(tmp_path, BE=points(5.5, 19, 40.0, dur=0.5))
    (line,) = (run / "trials.jsonl").read_text().splitlines()
    metrics = Trial.model_validate_json(line).metrics
    assert (metrics["idle_rtt_p50_us"], metrics["loaded_rtt_p50_us"]) == (2_000, 30_000)
    assert uploads_of(run)["start_s"].min() == 5.0


def test_a_rate_before_the_first_moment_is_no_interval(tmp_path: Path) -> None:
    """An interval of no length made a rate out of nothing, and two of one time overlap."""
    run = imported(tmp_path, BE=points(0, 5, 40.0, dur=0.5))
    found = uploads_of(run)
    assert found["start_s"].to_list() == [0.0, 0.5, 1.0, 1.5]
    assert set(found["length_s"]) == {0.5}
