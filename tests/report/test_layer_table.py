"""What layers cost, as the terminal shows it."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from osmef.report.layer_table import layer_table
from osmef.results.summary import CellInfo, LayerCost, Summary

MakeCell = Callable[..., CellInfo]
MakeSummary = Callable[..., Summary]

BTC, CPU = "aggregate_btc_bps", "cpu_s_per_gb"


def cost(layer: str, metric: str = BTC, ratio: float | None = 0.9, **more: Any) -> LayerCost:
    told = {
        "values": {}, "reference": "bare", "unit": "bit/s", "n": 6, "compared": "blocks",
        "reference_median": 1e9, "median": 9e8, "ci95_low": 0.85, "ci95_high": 0.95,
        "p": 0.03, "p_holm": 0.06,
    }  # fmt: skip
    return LayerCost(layer=layer, metric=metric, ratio=ratio, **(told | more))


@pytest.fixture
def shown(make_cell: MakeCell, make_summary: MakeSummary) -> Callable[..., list[str]]:
    def show(*costs: LayerCost, width: int | None = None) -> list[str]:
        summary = make_summary(make_cell()).model_copy(update={"layers": list(costs)})
        file = io.StringIO()
        console = Console(file=file, width=40, soft_wrap=True, highlight=False)
        if (table := layer_table(summary, width)) is not None:
            console.print(table)
        return [" ".join(line.split()) for line in file.getvalue().splitlines()]

    return show


def test_each_layer_has_a_row_with_the_ratio_and_interval_of_each_number(
    shown: Callable[..., list[str]],
) -> None:
    rows = shown(cost("vxlan"), cost("vxlan", CPU, 1.5, ci95_low=1.4, ci95_high=1.75),
                 cost("ipsec", CPU, 4.0))  # fmt: skip
    assert "vxlan 0.9 [0.85..0.95] 1.5 [1.4..1.75]" in rows
    assert "ipsec - 4 [0.85..0.95]" in rows
    assert "Times that of bare" in rows
    assert any("same block" in row for row in rows)


def test_what_is_not_known_is_no_number(shown: Callable[..., list[str]]) -> None:
    none: dict[str, Any] = {"ci95_low": None, "ci95_high": None}
    rows = shown(cost("vxlan", ratio=0.7, **none), cost("gre", ratio=None, **none))
    assert "vxlan 0.7" in rows
    assert "gre -" in rows
    assert any("Too few for an interval" in row for row in rows)


def test_what_else_was_swept_stands_beside_the_layer(shown: Callable[..., list[str]]) -> None:
    rows = shown(*(cost("vxlan", ratio=n / 8, values={"connections": n}) for n in (1, 4)))
    assert any(row.startswith("vxlan 1 0.125 ") for row in rows)
    assert any(row.startswith("vxlan 4 0.5 ") for row in rows)


def test_where_there_is_little_room_the_leading_number_stays(
    shown: Callable[..., list[str]],
) -> None:
    costs = [cost("vxlan", name) for name in ("rtt_mean_us", BTC, CPU)]
    text = "\n".join(shown(*costs, width=45))
    assert "vxlan 0.9 [0.85..0.95] 0.9 [0.85..0.95]" in text
    assert "Left out, as 45 columns have no room: RTT" in text


def test_a_long_label_stands_above_its_rows_and_leaves_room_for_numbers(
    shown: Callable[..., list[str]],
) -> None:
    rows = shown(
        *(
            cost(layer, values={"workload": f"{{kind: {kind}, sizes: [100B, 100kB]}}"})
            for layer in ("vxlan", "container(engine=crun)")
            for kind in ("btc", "pingpong")
        ),
        width=50,
    )
    at = rows.index("{kind: btc, sizes: [100B, 100kB]}")
    assert rows[at + 1 : at + 3] == [
        "vxlan 0.9 [0.85..0.95]",
        "container(engine=crun) 0.9 [0.85..0.95]",
    ]
    assert rows[at + 3] == "{kind: pingpong, sizes: [100B, 100kB]}"


def test_a_run_without_layers_has_no_such_table(shown: Callable[..., list[str]]) -> None:
    assert shown() == []
