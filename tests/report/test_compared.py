"""What ``osmef compare`` shows of its verdicts."""

from __future__ import annotations

import io
import re
from typing import Any

from rich.console import Console

from osmef.report.table import comparison
from tests.declared import measure

NAMES = ("aggregate_btc_bps", "retransmits", "rtt_min_us", "transfer_rate_bytes_per_s")
KNOWN = {one.name: one for one in map(measure, NAMES)}
NAN = float("nan")


def row(metric: str, **changes: object) -> dict[str, Any]:
    cell = "placement=same-host,connections=8"
    rates = {"median_a": 2e10, "median_b": 1.9e10, "difference": -1e9, "low": -2e9, "high": -5e8}
    told = {"n_a": 6, "n_b": 6, "p": 0.002, "verdict": "worse", "reason": None}
    return {"cell": cell, "metric": metric, **rates, **told, **changes}


def shown(*rows: dict[str, Any], width: int = 80, every: bool = False) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width, soft_wrap=True).print(
        comparison(rows, KNOWN, width, every=every)
    )
    return file.getvalue().splitlines()


def test_a_line_has_both_medians_in_one_unit() -> None:
    text = "\n".join(shown(row("aggregate_btc_bps", median_b=9e8)))
    assert "20 → 0.9 Gbit/s" in text
    assert "-5.0 %" in text
    assert "-10.0 to -2.5 %" in text
    assert "1 comparison: 1 worse." in text


def test_rates_in_bytes_have_the_prefix_of_the_larger_one() -> None:
    low = row("transfer_rate_bytes_per_s", median_b=9e8)
    below = row("transfer_rate_bytes_per_s", median_a=1e9, difference=-1e9)
    text = "\n".join(shown(low, below, every=True))
    assert "20 → 0.9 GB/s" in text
    assert "-2 to -0.5 GB/s" in text


def test_a_change_from_nearly_nothing_has_no_percent() -> None:
    ends = {"median_a": 1e-14, "median_b": 35.0, "difference": 35.0, "low": 30.0, "high": 40.0}
    text = "\n".join(shown(row("rtt_min_us", **ends), every=True))
    assert "+35 µs" in text
    assert "+30 to +40 µs" in text


def test_eighty_columns_have_the_interval_and_p_of_every_metric() -> None:
    cells = ("placement=same-host", "placement=different-host")
    rows = [
        {**row(metric), "cell": cell}
        for cell in cells
        for metric in ("aggregate_btc_bps", "retransmits")
    ]
    lines = shown(*rows)
    assert [lines.count(name) for name in ("same-host", "different-host")] == [1, 1]
    assert re.search(r"95 % interval +verdict +p", lines[0])
    assert sum(line.rstrip().endswith("0.002") for line in lines) == 4
    assert max(map(len, lines)) <= 80 or "Change:" in max(lines, key=len)


def test_no_count_falls_by_more_than_all_of_it() -> None:
    less = row(
        "retransmits", median_a=100.0, median_b=28.0, difference=-45.0, low=-218.0, high=56.0
    )
    text = "\n".join(shown(less))
    assert "-218 to +56" in text
    assert "218.0 %" not in text


def test_what_no_table_shows_and_did_not_change_is_counted_alone() -> None:
    other = row("rtt_min_us", verdict="same")
    text = "\n".join(shown(row("aggregate_btc_bps"), other))
    assert "RTT min" not in text
    assert "1 of other metrics" in text
    assert "RTT min" in "\n".join(shown(row("aggregate_btc_bps"), other, every=True))
    assert "RTT min" in "\n".join(shown(row("rtt_min_us", verdict="worse")))


def test_a_reason_is_marked_and_told_once() -> None:
    reason = "better alone, but among all verdicts p = 0.93"
    one = row("aggregate_btc_bps", verdict="inconclusive", reason=reason)
    text = "\n".join(shown(one, one))
    assert text.count("inconclusive*") == 2
    assert text.count("if looked at alone") == 1


def test_it_fits_80_columns() -> None:
    rows = [row(name) for name in KNOWN]
    lines = shown(*rows, every=True)
    assert max(len(line) for line in lines if "→" in line) <= 80


def test_what_is_not_known_is_no_number() -> None:
    (line,) = [one for one in shown(row("retransmits", median_a=NAN, low=NAN)) if " - → " in one]
    assert "nan" not in line
