import io
from collections.abc import Callable

import pytest
from rich.console import Console

from osmef.analysis.describe import describe, describe_pairs
from osmef.report.table import summary_table
from osmef.results.measure import Measure
from osmef.results.summary import CellInfo, Summary
from osmef.results.trial import Limit
from osmef.scenario.fields import Placement
from osmef.workloads.kinds.stream import Stream

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


def test_a_row_says_what_was_measured(make_cell: MakeCell, make_summary: MakeSummary) -> None:
    bps = [9.3e8, 9.4e8, 9.4e8, 9.4e8, 9.4e8, 9.5e8]
    expected = "other same 10 2 6/6 940 Mbit/s 930..950 94 Mbit/s 0.998 21 135 12 31250"
    text = lines(make_summary(make_cell(connections=10, aggregate_bps=bps)))
    assert expected.split() in [line.split() for line in text]


def test_what_went_back_has_a_column_of_its_own(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    cell = make_cell(aggregate_bps=[9.4e8] * 3)
    back = {"reverse_aggregate_btc_bps": describe([5e8] * 3)}
    both = cell.model_copy(update={"metrics": cell.metrics | back})
    rows = [" ".join(line.split()) for line in lines(make_summary(cell, both))]
    assert any(" 940 Mbit/s 940 Mbit/s - 0.998 " in row for row in rows)
    assert any(" 940 Mbit/s 940 Mbit/s 500 Mbit/s 0.998 " in row for row in rows)
    assert not any("reverse" in line for line in lines(make_summary(cell)))


def test_latency_says_how_many_exchanges_there_were_and_what_was_beside_them(
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


def test_what_limited_most_connections_is_named(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    alone = make_cell(connections=1, limited_by={Limit.NETWORK: 6})
    mixed = make_cell(connections=10, limited_by={Limit.NETWORK: 15, Limit.SENDER_CPU: 45})
    half = make_cell(connections=20, limited_by={Limit.NETWORK: 60, Limit.SHAPER: 60})
    unknown = make_cell(connections=30)
    rows = lines(make_summary(alone, mixed, half, unknown))
    last = [row.partition("31250")[2].strip() for row in rows if "31250" in row]
    assert last == ["net", "send CPU", "mixed", "-"]


def test_without_six_trials_there_is_no_interval_and_the_table_says_why(
    make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    text = "\n".join(lines(make_summary(make_cell(aggregate_bps=[1e9] * 5))))
    assert ".." not in text
    assert "interval of 95 %" in text
    assert "n < 6" in text


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
def test_it_fits_the_terminal_and_says_what_is_missing(
    paper_summary: MakeSummary, width: int
) -> None:
    text = lines(paper_summary(), width)
    rows = [line.split() for line in text if line.split()[:1] in (["same"], ["other"])]
    assert len(rows) == 24
    assert max(len(line) for line in text if "/" in line) <= width
    left = [line for line in text if line.startswith("Left out")]
    assert bool(left) is (width < 92)
    assert all("aggregate" not in line for line in left)


def test_what_is_spare_is_left_out_first(paper_summary: MakeSummary) -> None:
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


def test_what_all_imported_cells_share_stands_below(
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
    rows = lines(make_summary(cell, others=Stream.told))
    assert any(" ".join(row.split()).endswith(" 21.9 GB/s 21..22.5") for row in rows)
    assert not any("e+10" in row or row.endswith(" B/s") for row in rows)


def test_what_another_program_measured_has_an_interval(
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


def test_the_interval_of_one_pair_is_said_to_be_of_it(
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
