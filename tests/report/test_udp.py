from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from osmef.analysis.describe import describe
from osmef.report.figures import draw_figures
from osmef.report.table import summary_table
from osmef.report.udp import udp_charts
from osmef.results.summary import CellInfo, Summary

MakeCell = Callable[..., CellInfo]
MakeSummary = Callable[..., Summary]


def udp_cell(
    make_cell: MakeCell, rate: float | None, loss: float | None, size: int = 1200, **changes: object
) -> CellInfo:
    metrics = {
        "offered_bps": describe([rate] * 6),
        "sent_bps": describe([rate] * 6),
        "goodput_bps": describe([9.9e6] * 6),
        "loss_percent": describe([loss] * 6),
        "jitter_us": describe([12.5] * 6),
        "receiver_drops": describe([3.0] * 6),
    }
    values = {"workload.rate": rate or 0, "workload.size": size}
    cell = make_cell(workload="udp", metrics=metrics, **changes)
    return cell.model_copy(update={"values": values, "key": f"{rate},{size}"})


def test_each_rate_is_a_point_and_other_values_a_panel(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    cells = [
        udp_cell(make_cell, rate, loss, size)
        for size in (200, 1200)
        for rate, loss in ((2e7, 50.0), (1e7, 0.0))
    ]
    charts = udp_charts(make_summary(*cells))
    assert list(charts) == ["udp-loss", "udp-jitter"]
    (line,) = charts["udp-loss"].lines
    assert [dict(panel) for panel in line.points] == [
        {"workload.size": 200},
        {"workload.size": 1200},
    ]
    for points in line.points.values():
        assert [(point.x, point.median) for point in points] == [(1e7, 0.0), (2e7, 50.0)]
    assert charts["udp-loss"].unit == "%"
    assert charts["udp-jitter"].ticks == {1e7: "10 Mbit/s", 2e7: "20 Mbit/s"}


def test_connections_are_lines(make_cell: MakeCell, make_summary: MakeSummary) -> None:
    cells = [udp_cell(make_cell, count * 1e7, 1.0, connections=count) for count in (1, 4)]
    labels = [line.label for line in udp_charts(make_summary(*cells))["udp-loss"].lines]
    assert [label.rpartition(", ")[2] for label in labels] == ["1 connections", "4 connections"]


def test_only_what_can_be_shown_is_drawn(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    assert udp_charts(make_summary(make_cell())) == {}
    assert udp_charts(make_summary(udp_cell(make_cell, None, 3.0))) == {}
    no_loss = udp_cell(make_cell, 1e7, None)
    assert list(udp_charts(make_summary(no_loss))) == ["udp-jitter"]
    paths = draw_figures(make_summary(udp_cell(make_cell, 1e7, 0.0)), tmp_path)
    assert {path.name for path in paths} == {
        f"udp-{name}.{suffix}" for name in ("loss", "jitter") for suffix in ("png", "svg")
    }


def test_the_table_has_the_columns_of_what_was_measured(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    file = io.StringIO()
    table = summary_table(make_summary(udp_cell(make_cell, 1e7, 1.25)))
    Console(file=file, width=100, soft_wrap=True).print(table)
    text = file.getvalue()
    assert "BTC" not in text
    row = next(line for line in text.splitlines() if "6/6" in line).split()
    assert {"9.9", "9.9..9.9", "10", "1.25", "3", "12.5"} <= set(row)
