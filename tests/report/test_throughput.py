"""The figures of throughput: bulk transfers and what limited them, UDP, and MPI programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from osmef.errors import InputError, NothingToDrawError
from osmef.report.data import limits_of
from osmef.report.options import PLAIN, Look
from osmef.report.style import COLOURS, broken, write
from osmef.report.summary import LIMITS
from osmef.report.throughput import (
    btc_connections,
    btc_distance,
    cpu,
    fairness,
    limits,
    scale_rate,
    scale_time,
    udp_jitter,
    udp_loss,
)
from osmef.results.summary import CellInfo, Summary
from osmef.results.trial import Bottleneck
from tests.report.drawn import legend, lines, texts, visible

MakeTrials = Callable[..., pd.DataFrame]
ALL = (btc_connections, btc_distance, fairness, cpu)


def caption(figure: Figure) -> str:
    return texts(figure)[-1]


def ticks(figure: Figure) -> list[str]:
    figure.draw_without_rendering()
    return [label.get_text() for label in visible(figure)[0].get_xticklabels()]


def test_aggregate_btc_has_a_line_each_place_and_a_point_each_count(paper: MakeTrials) -> None:
    figure = btc_connections(paper())
    assert legend(figure) == [
        "distance 0, same host, same tenant",
        "distance 2, different hosts, same tenant",
        "distance 4, same host, different tenants",
        "distance 4, different hosts, different tenants",
    ]
    assert texts(figure)[0] == "Aggregate BTC against connections"
    assert caption(figure) == (
        "Points: median of the trials. Bars with caps: exact 95 % interval of the median, each for"
        " itself (unpaired). "
        "Dots: single trials. vm-to-vm-20261121T031500Z-3f9a"
    )
    (axes,) = visible(figure)
    assert axes.get_ylabel() == "aggregate BTC in Gbit/s (logarithmic)"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    near = lines(axes, 6)[0]
    assert near[0] == pytest.approx([1, 5, 10, 20, 30, 50], rel=0.1)
    wanted = [11 * (1 - count / 400) * 0.99 for count in (1, 5, 10, 20, 30, 50)]
    assert near[1] == pytest.approx(wanted)
    assert ticks(figure) == ["1", "5", "10", "20", "30", "50"]


def test_each_trial_is_a_dot_beside_its_median(paper: MakeTrials) -> None:
    trials = paper()
    (axes,) = visible(btc_connections(trials))
    dots = [line for line in axes.lines if line.get_marker() == "."]
    drawn = sorted(float(y) for line in dots for y in np.asarray(line.get_ydata()))
    assert drawn == pytest.approx(sorted(trials["aggregate_btc_bps"] / 1e9))


def test_btc_against_distance_has_a_line_each_count(paper: MakeTrials) -> None:
    figure = btc_distance(paper())
    assert legend(figure)[:2] == ["1 connection", "5 connections"]
    (axes,) = visible(figure)
    assert axes.get_ylabel() == "BTC per connection in Gbit/s (logarithmic)"
    assert ticks(figure)[0] == "distance 0\nsame host\nsame tenant"
    x, y = lines(axes, 4)[0]
    assert [round(at) for at in x] == [0, 1, 2, 3]
    assert y[0] == pytest.approx(10.86, rel=0.01)


def test_both_directions_of_a_trial_are_series(make_trials: MakeTrials) -> None:
    trials = pd.concat([make_trials(connections=count) for count in (1, 4)], ignore_index=True)
    trials["reverse_aggregate_btc_bps"] = trials["aggregate_btc_bps"] / 2
    trials["reverse_connection_btc_bps"] = trials["connection_btc_bps"] / 2
    figure = btc_connections(trials, Look(names={"reverse": "back"}))
    assert [name.partition(",")[0] for name in legend(figure)] == ["back", "forward"]
    back, there = (y for _, y in lines(visible(figure)[0], 2))
    assert there == pytest.approx([2 * y for y in back])
    assert {tick.partition("\n")[0] for tick in ticks(btc_distance(trials))} == {
        "forward",
        "reverse",
    }
    assert legend(cpu(trials)) == legend(cpu(make_trials()))
    for draw in (btc_connections, btc_distance):
        with pytest.raises(InputError, match="several are called 'forward'"):
            draw(trials, Look(names={"reverse": "forward"}))


def test_fairness_ends_at_one(paper: MakeTrials) -> None:
    figure = fairness(paper(counts=(1, 10)))
    (axes,) = visible(figure)
    assert list(axes.get_ylim()) == pytest.approx([0, 1.08])
    assert axes.get_ylabel() == "Jain's fairness index"
    assert lines(axes, 2)[0][1] == [0.998, 0.998]


def test_cpu_has_a_panel_each_end(paper: MakeTrials) -> None:
    figure = cpu(paper(counts=(1, 10)))
    sender, receiver = visible(figure)
    assert [sender.get_title("left"), receiver.get_title("left")] == ["sender", "receiver"]
    assert (lines(sender, 2)[0][1], lines(receiver, 2)[0][1]) == ([21.4] * 2, [135.2] * 2)
    assert "threads" in texts(figure)[0]
    with pytest.raises(NothingToDrawError, match="no CPU load"):
        cpu(paper(counts=(1, 10)), whole=True)


def test_few_trials_have_bars_that_are_named_for_what_they_are(paper: MakeTrials) -> None:
    few = "Points: median of the trials. Thin bars: minimum to maximum, too few for an interval."
    assert few in caption(btc_connections(paper(trials=3)))
    ended = paper(trials=7).assign(repeat_until=0.05)  # whose interval needs 8
    assert few in caption(btc_connections(ended))


def test_flavors_get_a_panel_each_in_the_order_of_the_sweep(make_trials: MakeTrials) -> None:
    far = make_trials("different-host", flavor="b")
    near = make_trials("same-host", flavor="a")
    for draw in ALL[:2]:
        panels = visible(draw(pd.concat([far, near])))
        assert [axes.get_title("left") for axes in panels] == ["flavor b", "flavor a"]


def test_runs_are_lines_of_their_own(make_trials: MakeTrials) -> None:
    runs = [make_trials(run=f"{name}-1", scenario=name) for name in ("one", "other")]
    figure = btc_connections(pd.concat(runs))
    place = "distance 2, different hosts, same tenant"
    assert legend(figure) == [f"one, {place}", f"other, {place}"]
    assert caption(figure).endswith("2 runs of one, other")
    again = [make_trials(run=f"one-{n}", scenario="one") for n in (1, 2)]
    assert legend(btc_connections(pd.concat(again)))[0] == f"one-1, {place}"


def test_ends_of_one_run_are_series_beside_the_other_runs(make_trials: MakeTrials) -> None:
    """Of the other run no ends are told, so it has no place in panels of them."""
    ends = [
        make_trials(run="two-1", scenario="two", sender="10.0.0.1", receiver=f"10.0.0.{n}")
        for n in (2, 3)
    ]
    trials = pd.concat([make_trials(run="one-1", scenario="one"), *ends])
    trials.attrs = ends[0].attrs
    place = "distance 2, different hosts, same tenant"
    for draw in ALL[:2]:
        assert len(visible(draw(trials))) == 1
    assert legend(btc_connections(trials)) == [
        f"one, {place}",
        f"two, receiver 10.0.0.2, {place}",
        f"two, receiver 10.0.0.3, {place}",
    ]
    assert len(visible(btc_connections(trials[trials["run"] == "two-1"]))) == 2


def test_each_series_differs_in_colour_and_in_grey(make_trials: MakeTrials) -> None:
    runs = pd.concat([make_trials(run=f"r-{n}", scenario=f"s{n}") for n in range(28)])
    figure = btc_connections(runs, Look(width=20))
    drawn = [line for line in visible(figure)[0].lines if np.size(line.get_xdata()) == 1]
    looks = {(to_hex(li.get_color()), li.get_marker(), str(li.get_linestyle())) for li in drawn}
    assert len({(colour, marker) for colour, marker, _ in looks}) == 28
    assert {colour for colour, _, _ in looks} == {colour.lower() for colour in COLOURS}


def test_loopback_and_ticks_that_would_overlap(make_trials: MakeTrials) -> None:
    ends = {"senders": "vm-1", "receivers": "vm-1", "distance": 0}
    trials = pd.concat([make_trials(connections=n, **ends) for n in (1, 2, 100, 101, 128)])
    figure = btc_connections(trials)
    assert legend(figure) == ["distance 0, loopback"]
    assert ticks(figure) == ["1", "2", "100", "128"]


def test_a_place_that_was_not_asked_for_is_named(make_trials: MakeTrials) -> None:
    trials = make_trials(achieved_placement="same-host", distance=0)
    assert legend(btc_connections(trials)) == [
        "distance 0, same host, same tenant, asked for: different hosts"
    ]
    trials = make_trials(achieved_tenancy=None, tenancy="same-tenant")
    assert legend(btc_connections(trials)) == [
        "distance 2, different hosts, asked for: same tenant"
    ]


def test_an_unknown_distance_is_labelled_and_placed_last(make_trials: MakeTrials) -> None:
    trials = pd.concat([make_trials(distance=None), make_trials("same-host")])
    names = ticks(btc_distance(trials))
    assert [name.split("\n")[0] for name in names] == ["distance 0", "distance unknown"]


def test_a_cell_without_a_good_trial_is_a_gap(make_trials: MakeTrials) -> None:
    cells = [make_trials(connections=1), make_trials(connections=5, aggregate_bps=[None] * 6)]
    figure = btc_connections(pd.concat([*cells, make_trials(connections=10)]))
    assert "Gaps: no trial succeeded." in caption(figure)
    (_, y), *_ = lines(visible(figure)[0], 3)
    assert [value == value for value in y] == [True, False, True]  # noqa: PLR0124 - NaN


def test_a_rate_of_zero_is_drawn_all_the_same(make_trials: MakeTrials) -> None:
    zero = make_trials(aggregate_bps=[0.0] * 6)
    for trials in (zero, pd.concat([zero, make_trials(connections=2)])):
        for draw in ALL[:2]:
            draw(trials).draw_without_rendering()


def test_without_any_result_no_figure_is_drawn(make_trials: MakeTrials) -> None:
    for trials in (make_trials(aggregate_bps=[None]), make_trials(connections=None)):
        for draw in ALL:
            with pytest.raises(NothingToDrawError, match="give runs of `workload: btc`"):
                draw(trials)


def test_each_measured_count_has_a_tick_where_there_is_room(paper: MakeTrials) -> None:
    trials = paper()
    counts = {1: 1, 5: 5, 10: 10, 20: 25, 30: 35, 50: 50}
    trials["connections"] = trials["connections"].map(counts)
    assert ticks(btc_connections(trials)) == ["1", "5", "10", "25", "35", "50"]
    narrow = ticks(btc_connections(trials, Look(width=2.6, height=3)))
    assert (narrow[0], narrow[-1]) == ("1", "50"), "both ends stay"


def drawn(
    make_trials: MakeTrials,
    make_cell: Callable[..., CellInfo],
    make_summary: Callable[..., Summary],
    *verdicts: Mapping[Bottleneck, int],
) -> tuple[list[str], list[str], list[list[float]]]:
    """Return the legend, the names of the bars, and the widths of each limit's parts."""
    cells = [make_cell(connections=n, limited_by=found) for n, found in enumerate(verdicts, 1)]
    trials = pd.concat([make_trials(connections=n) for n in range(1, len(verdicts) + 1)])
    figure = limits(limits_of({trials["run"].iloc[0]: make_summary(*cells)}), trials)
    (axes,) = visible(figure)
    widths = [
        [bar.get_width() for bar in bars if isinstance(bar, Rectangle)] for bars in axes.containers
    ]
    return legend(figure), [text.get_text() for text in axes.get_yticklabels()], widths


@pytest.fixture
def draw(
    make_trials: MakeTrials,
    make_cell: Callable[..., CellInfo],
    make_summary: Callable[..., Summary],
) -> Callable[..., tuple[list[str], list[str], list[list[float]]]]:
    return lambda *verdicts: drawn(make_trials, make_cell, make_summary, *verdicts)


Draw = Callable[..., tuple[list[str], list[str], list[list[float]]]]


def test_limits_have_a_bar_per_cell_and_a_legend_of_those_found(draw: Draw) -> None:
    names, bars, widths = draw(
        {Bottleneck.NETWORK: 6}, {Bottleneck.NETWORK: 20, Bottleneck.SENDER_CPU: 60}
    )
    assert names == ["sender CPU", "network"]
    assert bars == ["connections 1", "connections 2"]
    assert widths == [[0, 75], [100, 25]]


def test_every_limit_has_a_look(draw: Draw) -> None:
    names, _, widths = draw(dict.fromkeys(Bottleneck, 1))
    assert set(names) == {LIMITS[limit] for limit in Bottleneck}
    assert sum(width for (width,) in widths) == pytest.approx(100)


def test_cells_without_a_verdict_are_left_out(draw: Draw) -> None:
    assert draw({}, {Bottleneck.NETWORK: 6})[1] == ["connections 2"]
    with pytest.raises(NothingToDrawError, match="what limited them"):
        draw({}, {})


def test_long_names_leave_room_for_the_bars(
    make_trials: MakeTrials,
    make_cell: Callable[..., CellInfo],
    make_summary: Callable[..., Summary],
    tmp_path: Path,
) -> None:
    cells = [
        make_cell(
            key=f"cell {n}", limited_by={Bottleneck.NETWORK: 1}, values={"long": "word " * 40}
        )
        for n in range(2)
    ]
    trials = pd.concat([make_trials(cell=f"cell {n}", long=f"word {n} " * 30) for n in range(2)])
    figure = limits(limits_of({trials["run"].iloc[0]: make_summary(*cells)}), trials)
    write(figure, tmp_path / "limits.svg")
    (axes,) = visible(figure)
    assert axes.get_window_extent().width > 0.3 * figure.bbox.width
    assert "\n" in axes.get_yticklabels()[0].get_text()


def test_sessions_of_a_platform_are_one_bar(
    make_trials: MakeTrials,
    make_cell: Callable[..., CellInfo],
    make_summary: Callable[..., Summary],
) -> None:
    found = {"r1": {Bottleneck.NETWORK: 6}, "r2": {Bottleneck.NETWORK: 2, Bottleneck.SENDER_CPU: 8}}
    cell = make_cell()
    trials = pd.concat(
        make_trials(run=run, session=run, platform="p", cell=cell.key) for run in found
    )
    summaries = {run: make_summary(make_cell(limited_by=of)) for run, of in found.items()}
    (axes,) = visible(limits(limits_of(summaries), trials))
    bars = [bar for part in axes.containers for bar in part if isinstance(bar, Rectangle)]
    widths = [bar.get_width() for bar in bars]
    assert widths == [50, 50]


def test_more_bars_than_can_be_seen_are_refused(draw: Draw) -> None:
    with pytest.raises(NothingToDrawError, match="301 cells are too many"):
        draw(*[{Bottleneck.NETWORK: 1}] * 301)


def test_long_names_are_broken_between_settings() -> None:
    names, lines = broken(["different hosts, different tenants, connections 8", "all"], PLAIN)
    assert names == ["different hosts, different tenants,\nconnections 8", "all"]
    assert lines == 2
    assert broken(["x" * 50], PLAIN)[1] == 2


def udp_cell(make: MakeTrials, mbps: float, **changes: object) -> pd.DataFrame:
    told = {"workload": "udp", "offered_bps": mbps * 1e6, "loss_percent": mbps / 10, "jitter_us": 7}
    return make(rate=f"{mbps:g}Mbit/s", **{**told, **changes})


def test_loss_and_jitter_against_the_offered_rate(make_trials: MakeTrials) -> None:
    trials = pd.concat([udp_cell(make_trials, mbps) for mbps in (100, 10, 50)])
    (axes,) = visible(udp_loss(trials))
    ((x, y),) = lines(axes, 3)
    assert x == pytest.approx([1e7, 5e7, 1e8])
    assert y == pytest.approx([1, 5, 10])
    assert axes.get_ylabel() == "loss in %"
    (axes,) = visible(udp_loss(trials, Look(x_log=False)))
    assert axes.get_xlabel() == "offered rate of payload, all flows together"
    assert axes.xaxis.get_major_formatter()(4e7) == "40 Mbit/s"
    first, last = axes.get_xlim()
    assert (first < 1e7, 1e8 < last < 1.1e8) == (True, True), "the ends are of a linear axis"
    jitter = udp_jitter(trials)
    assert lines(visible(jitter)[0], 3)[0][1] == [7, 7, 7]
    assert visible(jitter)[0].get_ylabel() == "jitter in µs"


def test_both_directions_of_datagrams_are_lines(make_trials: MakeTrials) -> None:
    trials = pd.concat([udp_cell(make_trials, mbps) for mbps in (10, 50)], ignore_index=True)
    trials = trials.assign(reverse_loss_percent=2 * trials["loss_percent"], reverse_jitter_us=9)
    figure = udp_loss(trials)
    assert [name.partition(",")[0] for name in legend(figure)] == ["forward", "reverse"]
    assert [y for _, y in lines(visible(figure)[0], 2)] == [[1, 5], [2, 10]]
    assert [y for _, y in lines(visible(udp_jitter(trials))[0], 2)] == [[7, 7], [9, 9]]


def test_connections_are_lines_and_other_values_panels(make_trials: MakeTrials) -> None:
    trials = pd.concat(
        [udp_cell(make_trials, 10, connections=n, size=s) for n in (1, 4) for s in (100, 1400)]
    )
    figure = udp_loss(trials)
    assert [axes.get_title("left") for axes in visible(figure)] == ["size 100", "size 1400"]
    assert [name.rpartition(", ")[2] for name in legend(figure)] == [
        "1 connections",
        "4 connections",
    ]


def test_without_a_rate_nothing_is_drawn(make_trials: MakeTrials) -> None:
    rates = [udp_cell(make_trials, 10, offered_bps=rate) for rate in (None, 0.0)]
    for trials in (make_trials(), *rates):
        with pytest.raises(NothingToDrawError, match="workload: udp"):
            udp_loss(trials)


def scale_cell(make: MakeTrials, count: int, **changes: object) -> pd.DataFrame:
    """Return the trials of one cell on so many nodes, twice as fast on twice as many."""
    nodes = ",".join(f"node-h{number}-t1" for number in range(1, count + 1))
    alone = {"achieved_placement": "same-host", "distance": 0} if count == 1 else {}
    told = {"workload": "npb", "senders": nodes, "receivers": nodes, "mops": 100.0 * count,
            "time_s": 12.0 / count, **alone}  # fmt: skip
    return make(connections=None, **{"endpoints.node.count": count, **told, **changes})


def test_rate_and_time_against_the_number_of_endpoints(make_trials: MakeTrials) -> None:
    trials = pd.concat([scale_cell(make_trials, count) for count in (4, 1, 2)])
    (axes,) = visible(scale_rate(trials))
    ((x, y),) = lines(axes, 3)
    assert x == pytest.approx([1, 2, 4])
    assert y == pytest.approx([100, 200, 400])
    assert axes.get_ylabel() == "rate of all processes in Mop/s (logarithmic)"
    time = visible(scale_time(trials))[0]
    assert lines(time, 3)[0][1] == pytest.approx([12, 6, 3])
    assert time.get_ylabel() == "time in s (logarithmic)"


def test_other_swept_values_are_separate_lines(make_trials: MakeTrials) -> None:
    trials = pd.concat(
        [
            scale_cell(make_trials, count, **{"workload.benchmark": name})
            for count in (1, 2)
            for name in ("ft", "is")
        ]
    )
    figure = scale_rate(trials)
    assert legend(figure) == ["benchmark ft", "benchmark is"]
    other = {"workload.benchmark": "ft", "placement": "same-host"}
    both = pd.concat([trials, *(scale_cell(make_trials, count, **other) for count in (1, 2))])
    assert len(legend(scale_rate(both))) == 3


def test_without_several_numbers_of_endpoints_nothing_is_drawn(make_trials: MakeTrials) -> None:
    for trials in (
        make_trials(),
        scale_cell(make_trials, 2),
        scale_cell(make_trials, 2, mops=None),
    ):
        with pytest.raises(NothingToDrawError, match="several numbers of endpoints") as caught:
            scale_rate(trials)
        assert "endpoints.node.count" in str(caught.value.cure)
