"""Export of a run's requests as a CSV file of ppbench."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import TextIO

import pandas as pd

from osmef.analysis.pingpong import by_size
from osmef.results.observations import Purpose
from osmef.results.summary import CellInfo, Summary

COLUMNS = (
    "Machine Tag",
    "Experiment Tag",
    "Document Path",
    "Failed requests",
    "Concurrency Level",
    "Total transferred",
    "Time per request",
    "Transfer rate",
    "Requests per second",
    "Retries",
    "Response Code",
)
"""What ppbench writes, in its order (Kratzke and Quint, CLOSER 2016; Kratzke 2015)."""


def write_ppbench(file: TextIO, summary: Summary, requests: pd.DataFrame) -> int:
    """Write a row for each cell and message size, and return the number of rows.

    ``requests`` is what ``osmef.results.frame.load_requests`` gives. All trials of a cell count as
    repetitions. The machine is the flavor of its first sender, or the endpoint's name without one;
    the experiment is the cell, with semicolons for its commas. Total transferred is, other than its
    name says, the median length of one message: ppbench draws all else against it. The time is the
    mean in milliseconds, the transfer rate sum(length) * 1000 / sum(time) in bytes per second,
    requests per second 1000 / time: all of the requests that went well. They are empty where there
    are none.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for cell in summary.cells:
        rows = requests[requests["cell"] == cell.key]
        for row in _rows(cell, summary, rows[rows["purpose"] == Purpose.MEASURED.value]):
            writer.writerow(row)
            count += 1
    return count


def _rows(cell: CellInfo, summary: Summary, requests: pd.DataFrame) -> Iterator[list[object]]:
    if requests.empty:
        return
    machine = cell.senders[0]
    flavors = {end.name: end.flavor for end in summary.endpoints}
    path = "mping" if requests["relay_s"].notna().any() else "pong"
    codes = _codes(requests)
    for size in by_size(requests).to_dict("records"):
        retries = size["retries"]
        yield [
            _tag(flavors.get(machine) or machine),
            _tag(cell.key),
            f"/{path}/{size['size']}",
            size["failed"],
            cell.connections,
            _number(size["length_median_bytes"]),
            _number(size["time_mean_us"] / 1000),
            _number(size["transfer_rate_bytes_per_s"]),
            _number(size["requests_per_s"]),
            0 if pd.isna(retries) else int(retries),
            _number(codes[size["size"]]),
        ]


def _tag(name: str) -> str:
    """Return a name without commas, which separate tags in ppbench's options."""
    return name.replace(",", ";")


def _number(value: float) -> str:
    """Format a number without binary rounding noise."""
    return "" if pd.isna(value) else f"{value:.12g}"


def _codes(requests: pd.DataFrame) -> pd.Series[float]:
    """Return by size the first status code other than 200, else 200; NaN without any."""
    any_code = requests.groupby("size")["code"].first()
    bad = requests[requests["code"] != 200].groupby("size")["code"].first()
    return bad.combine_first(any_code).astype("float64")
