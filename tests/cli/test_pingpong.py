"""Ping-pong from the scenario file to the CSV of ppbench, on the local cloud."""

from __future__ import annotations

import csv
from collections.abc import Callable

import pandas as pd

from tests.cli.conftest import Osmef

TEXT = """
name: chain
endpoints: {sender: {count: 2}, receiver: {}}
workload: {kind: pingpong, coverage: 0.0001, repetitions: 2, connections: 2}
sweep: {relay: [true, false]}
repeat: 2
"""


def test_requests_become_a_table_figures_and_a_file_of_ppbench(
    osmef: Osmef, left_behind: Callable[[], list[str]]
) -> None:
    ended = osmef("run", osmef.write(TEXT), "--figures")
    assert ended.code == 0, ended.err
    assert left_behind() == []
    rows = pd.read_parquet(osmef.run / "requests.parquet")
    assert rows.groupby(["trial", "sender"]).size().to_dict() == {
        (trial, sender): 100
        for trial in (1, 2, 3, 4)
        for sender in ("sender-h1-t1", "sender-h1-t1-m2")
    }
    for name in ("transfer", "latency", "requests"):
        assert (osmef.run / f"pingpong-{name}.png").stat().st_size > 10_000
    shown = osmef("show", str(osmef.run))
    assert "requests" in shown.out
    assert "\ntrue " in shown.out
    assert "limit" not in shown.out
    exported = osmef("export", "ppbench", str(osmef.run), "-o", "chain.csv")
    assert exported.code == 0, exported.err
    with (osmef.directory / "chain.csv").open() as file:
        table = list(csv.DictReader(file))
    assert {(row["Experiment Tag"], row["Document Path"].split("/")[1]) for row in table} == {
        ("relay=true", "mping"),
        ("relay=false", "pong"),
    }
    assert len(table) == 2 * rows["size"].nunique()
    for row in table:
        size = int(row["Document Path"].rpartition("/")[2])
        assert float(row["Total transferred"]) == max(size, 4)
        assert (row["Failed requests"], row["Response Code"]) == ("0", "200")
