"""The figures of bulk transfers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from osmef.errors import NothingToDrawError
from osmef.report.options import Look
from osmef.report.style import COLOURS
from osmef.report.throughput import btc_connections, btc_distance, cpu, fairness
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
    told = caption(btc_connections(paper(trials=3)))
    assert "Points: median of the trials. Thin bars: minimum to maximum (n < 6)." in told


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


def test_what_is_not_known_is_called_so_and_comes_last(make_trials: MakeTrials) -> None:
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


def test_without_a_single_result_nothing_is_drawn(make_trials: MakeTrials) -> None:
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
