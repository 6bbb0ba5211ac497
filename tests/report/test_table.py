"""What the terminal shows of a run, of what layers cost, and of the verdicts of a comparison."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from osmef.analysis.describe import describe, describe_pairs
from osmef.report.table import comparison, layer_table, summary_table
from osmef.results.measure import Measure
from osmef.results.summary import CellInfo, LayerCost, Summary
from osmef.results.trial import Bottleneck
from osmef.scenario.fields import Placement
from osmef.workloads.kinds.stream import Stream
from tests.declared import measure

MakeCell = Callable[..., CellInfo]
MakeSummary = Callable[..., Summary]


def lines(summary: Summary, width: int | None = None) -> list[str]:
    """Return what is printed where there is no terminal, in so many columns."""
    file = io.StringIO()
    console = Console(file=file, width=40, soft_wrap=True, highlight=False)
    console.print(summary_table(summary, width))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_the_papers_experiments_fit_100_columns_and_is_plain(paper_summary: MakeSummary) -> None:
    text = lines(paper_summary(), 100)
    assert max(len(line) for line in text) <= 100
    assert "\x1b" not in "".join(text)
    assert "…" not in "".join(text)
    assert text[0] == "vm-to-vm  The four placements"
    rows = [line.split() for line in text if line.split()[:1] in (["same"], ["other"])]
    assert len(rows) == 24
    assert rows[-1][:5] == ["other", "other", "50", "4", "6/6"]


def test_a_row_shows_the_measured_values(make_cell: MakeCell, make_summary: MakeSummary) -> None:
    bps = [9.3e8, 9.4e8, 9.4e8, 9.4e8, 9.4e8, 9.5e8]
    expected = "other same 10 2 6/6 940 Mbit/s 930..950 94 Mbit/s 0.998 21 135 12 31250"
    text = lines(make_summary(make_cell(connections=10, aggregate_bps=bps)))
    assert expected.split() in [line.split() for line in text]


def test_the_reverse_rate_has_its_own_column(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    cell = make_cell(aggregate_bps=[9.4e8] * 3)
    back = {"reverse_aggregate_btc_bps": describe([5e8] * 3)}
    both = cell.model_copy(update={"metrics": cell.metrics | back})
    rows = [" ".join(line.split()) for line in lines(make_summary(cell, both))]
    assert any(" 940 Mbit/s 940 Mbit/s - 0.998 " in row for row in rows)
    assert any(" 940 Mbit/s 940 Mbit/s 500 Mbit/s 0.998 " in row for row in rows)
    assert not any("reverse" in line for line in lines(make_summary(cell)))


def test_a_latency_row_shows_the_exchange_rate_and_the_background_rate(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    values = {
        "loaded_rtt_p50_us": 250.0,
        "loaded_exchanges_per_s": 4000.0,
        "background_goodput_bps": 2e8,
    }
    cell = make_cell(workload="latency", background="udp").model_copy(
        update={"metrics": {name: describe([value] * 3) for name, value in values.items()}}
    )
    rows = [" ".join(line.split()) for line in lines(make_summary(cell))]
    assert any(row.endswith(" 250 4000 200 Mbit/s") for row in rows)


def test_the_limit_of_most_connections_is_named(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    alone = make_cell(connections=1, limited_by={Bottleneck.NETWORK: 6})
    mixed = make_cell(
        connections=10, limited_by={Bottleneck.NETWORK: 15, Bottleneck.SENDER_CPU: 45}
    )
    half = make_cell(connections=20, limited_by={Bottleneck.NETWORK: 60, Bottleneck.SHAPER: 60})
    unknown = make_cell(connections=30)
    rows = lines(make_summary(alone, mixed, half, unknown))
    last = [row.partition("31250")[2].strip() for row in rows if "31250" in row]
    assert last == ["net", "send CPU", "mixed", "-"]


def test_with_fewer_than_six_trials_the_table_explains_the_missing_interval(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    text = "\n".join(lines(make_summary(make_cell(aggregate_bps=[1e9] * 5))))
    assert ".." not in text
    assert "interval of 95 %" in text
    assert "n < 6" in text


def test_trials_that_their_values_end_need_eight_for_an_interval(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    cell = make_cell(aggregate_bps=[1e9] * 7).model_copy(update={"repeat_until": 0.05})
    few = {name: one.model_copy(update={"ci95_low": None, "ci95_high": None})
           for name, one in cell.metrics.items()}  # fmt: skip
    cell = cell.model_copy(update={"metrics": few})
    assert "Medians of the trials; too few (n < 8) for an interval of 95 %." in " ".join(
        lines(make_summary(cell))
    )


def test_failed_trials_are_counted_and_unknown_is_no_zero(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    text = lines(make_summary(make_cell(aggregate_bps=[None, None])))
    assert ["other", "same", "1", "2", "0/2", *["-"] * 7] in [line.split() for line in text]


@pytest.mark.parametrize(("achieved", "shown"), [(None, "? not 2"), (0, "0 not 2")])
def test_a_distance_that_was_not_asked_for_stands_out(
    make_cell: MakeCell, make_summary: MakeSummary, achieved: int | None, shown: str
) -> None:
    assert shown in "\n".join(lines(make_summary(make_cell(distance=achieved))))


def test_the_table_shows_what_was_achieved(make_cell: MakeCell, make_summary: MakeSummary) -> None:
    on_one = {"achieved_placement": Placement.SAME_HOST, "distance": 0}
    wrong = make_cell("different-host", **on_one, mismatch=["placement", "distance"])
    hidden = make_cell("same-host", achieved_placement=None, mismatch=["placement"])
    decided = make_cell("any", **on_one, requested_distance=None)
    rows = [" ".join(line.split()) for line in lines(make_summary(wrong, hidden, decided))]
    assert any(row.startswith("same not other same 1 0 not 2 6/6") for row in rows)
    assert any(row.startswith("? not same same 1 0 6/6") for row in rows)
    assert any(row.startswith("any: same same 1 0 6/6") for row in rows)


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_the_table_fits_the_terminal_and_lists_omitted_columns(
    paper_summary: MakeSummary, width: int
) -> None:
    text = lines(paper_summary(), width)
    rows = [line.split() for line in text if line.split()[:1] in (["same"], ["other"])]
    assert len(rows) == 24
    assert max(len(line) for line in text if "/" in line) <= width
    left = [line for line in text if line.startswith("Left out")]
    assert bool(left) is (width < 92)
    assert all("aggregate" not in line for line in left)


def test_less_important_columns_are_omitted_first(paper_summary: MakeSummary) -> None:
    (told,) = [line for line in lines(paper_summary(), 80) if line.startswith("Left out")]
    assert told == "Left out, as 80 columns have no room: BTC per connection, J."


def test_latency_beside_a_background_has_its_interval(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    values = {"loaded_rtt_p50_us": [250.0, 251, 252, 253, 254, 255], "idle_rtt_p50_us": [9.0] * 6}
    metrics = {name: describe(of) for name, of in values.items()}
    cell = make_cell(workload="latency", background="btc").model_copy(update={"metrics": metrics})
    text = "\n".join(lines(make_summary(cell)))
    assert "250..255" in text
    assert "too few" not in text


def test_markup_in_a_value_is_only_text(make_cell: MakeCell, make_summary: MakeSummary) -> None:
    summary = make_summary(make_cell(values={"flavor": "[red]m1[/red]"}))
    assert "[red]m1[/red]" in "\n".join(lines(summary))


def test_a_run_without_cells_is_an_empty_table(make_summary: MakeSummary) -> None:
    assert lines(make_summary())[0] == "vm-to-vm  The four placements"


def test_the_sites_of_a_run_are_named(make_cell: MakeCell, make_summary: MakeSummary) -> None:
    summary = make_summary(make_cell())
    run = summary.run.model_copy(update={"sites": {"ec2": "aws", "office": "static"}})
    assert (
        lines(summary.model_copy(update={"run": run}))[-1] == "Sites: ec2 (aws), office (static)."
    )
    assert not any("Sites" in line for line in lines(summary))


def test_values_shared_by_all_imported_cells_are_shown_below_the_table(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    cells = [make_cell(connections=n, values={"mss_bytes": 1448}) for n in (1, 10)]
    foreign = {"workload": "connect", "metrics": {"connects_per_s": describe([7000.0])}}
    cells.append(make_cell(values={"mss_bytes": 1448}).model_copy(update=foreign))
    summary = make_summary(*cells)
    run = summary.run.model_copy(update={"scenario_digest": None})
    text = lines(summary.model_copy(update={"run": run}))
    shared = "All cells: placement other, tenancy same, mss_bytes 1448."
    assert text[-1].strip() == shared
    assert "mss_bytes" not in "".join(text[:-1])
    assert any("connects" in line for line in text)
    assert any(line.split()[-1] == "7000" for line in text if line.strip())
    assert "All cells" not in "".join(lines(summary))


def test_the_interval_is_in_the_unit_of_its_column(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    slow = {"rtt_p50_us": describe([1400.0, 1450.0, 1500.0, 1500.0, 1550.0, 1600.0])}
    latency = make_cell(workload="latency").model_copy(update={"metrics": slow})
    rows = [" ".join(line.split()) for line in lines(make_summary(latency))]
    assert any(row.endswith(" 1500 1400..1600") for row in rows)


def test_rates_in_bytes_have_a_prefix_as_those_in_bits(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    rates = {"triad_bytes_per_s": describe([2.1e10, 2.15e10, 2.19e10, 2.19e10, 2.2e10, 2.25e10])}
    cell = make_cell().model_copy(update={"workload": "stream", "metrics": rates})
    rows = lines(make_summary(cell, others=Stream.output_measures))
    assert any(" ".join(row.split()).endswith(" 21.9 GB/s 21..22.5") for row in rows)
    assert not any("e+10" in row or row.endswith(" B/s") for row in rows)


def test_metrics_of_other_programs_have_intervals(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    scores = {"score": describe([1410.5, 1450.0, 1500.0, 1500.0, 1550.0, 1600.0])}
    rows = [
        " ".join(line.split())
        for line in lines(
            make_summary(
                make_cell().model_copy(update={"workload": "session", "metrics": scores}),
                others=[Measure(name="score", unit="points", better="higher")],
            )
        )
    ]
    assert any(row.endswith(" 1500 1410.5..1600") for row in rows)
    assert not any("too few" in row for row in rows)


def test_the_interval_of_a_single_pair_is_noted_as_such(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    cell = make_cell(aggregate_bps=[9.3e8, 9.4e8, 9.4e8, 9.4e8, 9.4e8, 9.5e8])
    assert "another pair may differ" in "\n".join(lines(make_summary(cell)))
    several = cell.model_copy(
        update={
            "metrics": {
                name: metric.model_copy(update={"pairs": 6})
                for name, metric in cell.metrics.items()
            }
        }
    )
    assert "another pair may differ" not in "\n".join(lines(make_summary(several)))


def test_pairs_show_what_they_differ_by_and_why_there_is_no_interval(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    def of(pairs: int) -> Summary:
        values = {pair: [1e8 * pair, 1e8 * pair + 1e7] for pair in range(1, 1 + pairs)}
        cell = make_cell()
        nested = {"aggregate_btc_bps": describe_pairs(values)}
        return make_summary(cell.model_copy(update={"metrics": cell.metrics | nested}))

    few, enough = (" ".join(" ".join(lines(of(pairs))).split()) for pairs in (5, 6))
    assert " 305 Mbit/s 52 2.3 " in few
    assert "Medians of the medians of pairs; 5 pairs are too few for an interval of 95 %" in few
    assert " 355 Mbit/s 105..605 53 2 " in enough
    assert "Medians of the medians of pairs, with the 95 % interval of that of" in enough
    assert "`osmef statistics RUN`" in few
    assert "between pairs %" not in " ".join(lines(make_summary(make_cell())))


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


def test_an_unknown_layer_cost_is_shown_without_a_number(shown: Callable[..., list[str]]) -> None:
    none: dict[str, Any] = {"ci95_low": None, "ci95_high": None}
    rows = shown(cost("vxlan", ratio=0.7, **none), cost("gre", ratio=None, **none))
    assert "vxlan 0.7" in rows
    assert "gre -" in rows
    assert any("Too few for an interval" in row for row in rows)


def test_other_swept_values_are_shown_beside_the_layer(shown: Callable[..., list[str]]) -> None:
    rows = shown(*(cost("vxlan", ratio=n / 8, values={"connections": n}) for n in (1, 4)))
    assert any(row.startswith("vxlan 1 0.125 ") for row in rows)
    assert any(row.startswith("vxlan 4 0.5 ") for row in rows)


def test_in_a_narrow_table_the_leading_metric_is_kept(
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


NAMES = ("aggregate_btc_bps", "retransmits", "rtt_min_us", "transfer_rate_bytes_per_s")
KNOWN = {one.name: one for one in map(measure, NAMES)}
NAN = float("nan")


def row(metric: str, **changes: object) -> dict[str, Any]:
    cell = "placement=same-host,connections=8"
    rates = {"median_a": 2e10, "median_b": 1.9e10, "difference": -1e9, "low": -2e9, "high": -5e8}
    told = {"n_a": 6, "n_b": 6, "p": 0.002, "verdict": "worse", "reason": None}
    return {"cell": cell, "metric": metric, **rates, **told, **changes}


def shown_comparison(*rows: dict[str, Any], width: int = 80, every: bool = False) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width, soft_wrap=True).print(
        comparison(rows, KNOWN, width, every=every)
    )
    return file.getvalue().splitlines()


def test_a_line_has_both_medians_in_one_unit() -> None:
    text = "\n".join(shown_comparison(row("aggregate_btc_bps", median_b=9e8)))
    assert "20 → 0.9 Gbit/s" in text
    assert "-5.0 %" in text
    assert "-10.0 to -2.5 %" in text
    assert "1 comparison: 1 worse." in text


def test_rates_in_bytes_have_the_prefix_of_the_larger_one() -> None:
    low = row("transfer_rate_bytes_per_s", median_b=9e8)
    below = row("transfer_rate_bytes_per_s", median_a=1e9, difference=-1e9)
    text = "\n".join(shown_comparison(low, below, every=True))
    assert "20 → 0.9 GB/s" in text
    assert "-2 to -0.5 GB/s" in text


def test_a_change_from_nearly_nothing_has_no_percent() -> None:
    ends = {"median_a": 1e-14, "median_b": 35.0, "difference": 35.0, "low": 30.0, "high": 40.0}
    text = "\n".join(shown_comparison(row("rtt_min_us", **ends), every=True))
    assert "+35 µs" in text
    assert "+30 to +40 µs" in text


@pytest.mark.parametrize(
    ("metric", "of", "shift", "reach"),
    [
        ("aggregate_btc_bps", 2e10, 0.0, 3e10),
        ("aggregate_btc_bps", 2e10, -20.0, 1e6),  # rounded away
        ("aggregate_btc_bps", 0.0, 0.0, 0.0),
        ("retransmits", 0.0, 0.0, 5.0),
        ("retransmits", 100.0, 0.0, 5.0),
    ],
)
def test_no_change_is_written_in_one_way(
    metric: str, of: float, shift: float, reach: float
) -> None:
    ends = {"difference": shift, "low": -reach, "high": reach, "verdict": "same"}
    text = "\n".join(shown_comparison(row(metric, median_a=of, median_b=of, **ends), every=True))
    assert " +0.0 % " in text
    assert "-0.0" not in text


def test_eighty_columns_have_the_interval_and_p_of_every_metric() -> None:
    cells = ("placement=same-host", "placement=different-host")
    rows = [
        {**row(metric), "cell": cell}
        for cell in cells
        for metric in ("aggregate_btc_bps", "retransmits")
    ]
    lines = shown_comparison(*rows)
    assert [lines.count(name) for name in ("same-host", "different-host")] == [1, 1]
    assert re.search(r"95 % interval +verdict +p", lines[0])
    assert sum(line.rstrip().endswith("0.002") for line in lines) == 4
    assert max(map(len, lines)) <= 80 or "Change:" in max(lines, key=len)


def test_no_count_falls_by_more_than_all_of_it() -> None:
    less = row(
        "retransmits", median_a=100.0, median_b=28.0, difference=-45.0, low=-218.0, high=56.0
    )
    text = "\n".join(shown_comparison(less))
    assert "-218 to +56" in text
    assert "218.0 %" not in text


def test_unchanged_metrics_in_no_table_are_only_counted() -> None:
    other = row("rtt_min_us", verdict="same")
    text = "\n".join(shown_comparison(row("aggregate_btc_bps"), other))
    assert "RTT min" not in text
    assert "1 of other metrics" in text
    assert "RTT min" in "\n".join(shown_comparison(row("aggregate_btc_bps"), other, every=True))
    assert "RTT min" in "\n".join(shown_comparison(row("rtt_min_us", verdict="worse")))


def test_a_reason_is_marked_and_explained_once() -> None:
    reason = "better alone, but among all verdicts p = 0.93"
    one = row("aggregate_btc_bps", verdict="inconclusive", reason=reason)
    text = "\n".join(shown_comparison(one, one))
    assert text.count("inconclusive*") == 2
    assert text.count("significant on its own") == 1


def test_reasons_of_several_kinds_have_marks_of_their_own() -> None:
    few = [f"n = {n}; 95 % needs n >= 6" for n in (5, 3)]
    rows = [row("aggregate_btc_bps", verdict="inconclusive", reason=one) for one in (*few, few[0])]
    lines = shown_comparison(*rows, row("retransmits"))
    marks = re.findall(r"inconclusive(\S*)", "\n".join(lines[:-1]))
    assert [mark for mark in marks if mark.startswith("*")] == ["*1", "*2", "*1"]
    assert [line for line in lines if line.startswith("*")] == [f"*1 {few[0]}", f"*2 {few[1]}"]


@pytest.mark.parametrize(
    ("a", "b", "shown"),
    [(0.5, 0.0, "0.5 → 0"), (1.5, 1.0, "1.5 → 1"), (10.5, 9.0, "10 → 9"), (NAN, 0.5, "- → 0.5")],
)
def test_a_median_between_two_small_counts_is_not_rounded(a: float, b: float, shown: str) -> None:
    ends = {"median_a": a, "median_b": b, "difference": b - a, "low": NAN, "high": NAN}
    assert f" {shown} " in "\n".join(shown_comparison(row("retransmits", **ends)))


def test_it_fits_80_columns() -> None:
    rows = [row(name) for name in KNOWN]
    lines = shown_comparison(*rows, every=True)
    assert max(len(line) for line in lines if "→" in line) <= 80


def test_an_unknown_median_is_no_number() -> None:
    (line,) = [
        one for one in shown_comparison(row("retransmits", median_a=NAN, low=NAN)) if " - → " in one
    ]
    assert "nan" not in line
