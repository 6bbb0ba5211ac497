"""The figures of rates and round trips over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

from osmef.errors import InputError, NothingToDrawError
from osmef.report.time_series import course, intervals, sum_rates
from tests.report.drawn import legend, texts, visible

MakeTrials = Callable[..., pd.DataFrame]


def rows(
    trials: pd.DataFrame, trial: int, flow: int, counts: Sequence[int], **changes: object
) -> pd.DataFrame:
    """Return a connection that got so many bytes, in intervals of 1 s each."""
    told = {
        "run": trials["run"].iloc[0], "cell": trials["cell"].iloc[0], "trial": trial,
        "purpose": "measured", "endpoint": "vm-2", "peer": "vm-1", "role": "receiver",
        "flow": flow, "start_s": np.arange(len(counts)), "length_s": 1.0, "warmup": False,
        "bytes": counts,
    }  # fmt: skip
    return pd.DataFrame({**told, **changes})


def steps(figure: Figure, panel: int = 0) -> list[tuple[list[float], list[float]]]:
    found = [patch for patch in visible(figure)[panel].patches if isinstance(patch, StepPatch)]
    return [(edges.tolist(), y.tolist()) for y, edges, _ in (one.get_data() for one in found)]


def test_a_line_each_trial_is_the_sum_of_its_connections(make_trials: MakeTrials) -> None:
    trials = make_trials(connections=2)
    table = [rows(trials, n, flow, [125 * n, 250 * n]) for n in (1, 2) for flow in (0, 1)]
    ends = {"endpoint": "vm-1", "peer": "vm-2", "role": "sender"}
    table += [rows(trials, 1, 0, [9999, 9999], **ends)]
    table += [rows(trials, 1, 0, [9999, 9999], purpose="background")]
    figure = intervals(pd.concat(table), trials)
    assert legend(figure) == ["median of the trials", "single trials"]
    assert steps(figure) == [([0, 1, 2], y) for y in ([2, 4], [4, 8], [3, 6])]
    trials_and_median = [one for one in visible(figure)[0].patches if isinstance(one, StepPatch)]
    assert len({one.get_edgecolor()[:3] for one in trials_and_median}) == 1


def test_the_median_is_of_the_trials_that_run_at_a_time(make_trials: MakeTrials) -> None:
    trials = make_trials()
    short, middle, long = [125, 125], [250, 250, 250], [500, 500, 500, 500]
    counts = enumerate((short, middle, long), start=1)
    figure = intervals(pd.concat([rows(trials, n, 0, one) for n, one in counts]), trials)
    assert steps(figure)[-1] == ([0, 1, 2, 3], [2, 2, 3])


def test_the_median_has_no_steps_between_the_ticks_of_its_trials(make_trials: MakeTrials) -> None:
    trials = make_trials()
    table = [
        rows(trials, n, 0, [125 * n, 250 * n], length_s=length)
        for n, length in enumerate((1.0, 1.02, 0.99), start=1)
    ]
    edges, rates = steps(intervals(pd.concat(table), trials))[-1]
    assert len(edges) == 3
    assert rates == pytest.approx([250 / 1.02 * 8 / 1000, 500 / 1.02 * 8 / 1000], rel=0.1)


def test_the_rate_has_a_unit_that_suits_it(make_trials: MakeTrials) -> None:
    trials = make_trials()
    figure = intervals(rows(trials, 1, 0, [125, 250]), trials)
    assert visible(figure)[0].get_ylabel() == "goodput in kbit/s"


def test_a_trial_without_a_rate_shows_that_of_its_background(make_trials: MakeTrials) -> None:
    """As latency beside bulk transfers, whose only intervals are the background's."""
    trials = make_trials(workload="latency", background="btc")
    table = [rows(trials, 1, flow, [125, 250], purpose="background") for flow in (0, 1)]
    figure = intervals(pd.concat(table), trials)
    assert [y for _, y in steps(figure)] == [[1, 2], [1, 2], [2, 4]]
    assert "that of the background" in texts(figure)[-1]


def test_a_trial_alone_shows_its_connections(make_trials: MakeTrials) -> None:
    trials = make_trials(connections=2)
    table = pd.concat([rows(trials, 1, flow, [125, 250]) for flow in (0, 1)])
    figure = intervals(table, trials)
    assert [y for _, y in steps(figure)] == [[1, 2], [1, 2], [2, 4]]
    assert figure.legends == []
    assert "Thin: single connections." in texts(figure)[-1]


def test_the_end_of_the_warmup(make_trials: MakeTrials) -> None:
    trials = make_trials()
    figure = intervals(rows(trials, 1, 0, [125, 250, 1], warmup=[True, True, False]), trials)
    ends = [np.asarray(line.get_xdata()).tolist() for line in visible(figure)[0].lines]
    assert ends == [[2, 2]]
    assert "warm-up" in texts(figure)[-1]


def test_cells_are_panels_and_not_too_many(make_trials: MakeTrials) -> None:
    cells = [make_trials(connections=n) for n in range(1, 14)]
    table = [rows(one, 1, 0, [125]) for one in cells]
    figure = intervals(pd.concat(table[:2]), pd.concat(cells[:2]))
    assert [axes.get_title("left") for axes in visible(figure)] == [
        "connections 1",
        "connections 2",
    ]
    with pytest.raises(InputError, match="13 cells are too many"):
        intervals(pd.concat(table), pd.concat(cells))


def test_each_panel_shows_all_of_its_time(make_trials: MakeTrials) -> None:
    short, long = make_trials(connections=1), make_trials(connections=2)
    table = pd.concat([rows(short, 1, 0, [125]), rows(long, 1, 0, [125] * 30)])
    figure = intervals(table, pd.concat([short, long]))
    assert all(axes.get_xlim()[1] >= 30 for axes in visible(figure))


def test_nothing_is_drawn_of_nothing(make_trials: MakeTrials) -> None:
    trials = make_trials()
    with pytest.raises(NothingToDrawError, match="intervals"):
        intervals(rows(trials, 1, 0, []), trials)


def test_a_run_with_intervals_of_the_sender_only_is_drawn_as_sent(make_trials: MakeTrials) -> None:
    trials = make_trials()
    table = rows(trials, 1, 0, [125, 250], endpoint="vm-1", peer="vm-2", role="sender")
    figure = intervals(table, trials)
    assert [y for _, y in steps(figure)] == [[1, 2]]
    assert "as the senders sent them (receivers did not report)" in texts(figure)[-1]
    assert visible(figure)[0].get_ylabel() == "rate in kbit/s"


def test_each_direction_is_a_line(make_trials: MakeTrials) -> None:
    trials = make_trials()
    table = []
    for number in (1, 2):
        for one, other, count in (("vm-1", "vm-2", 125), ("vm-2", "vm-1", 375)):
            table += [
                rows(trials, number, 0, [count, count], endpoint=one, peer=other, role="sender"),
                rows(trials, number, 0, [count - 1, count - 1], endpoint=other, peer=one),
            ]
    figure = intervals(pd.concat(table), trials)
    median = "median of the trials"
    assert legend(figure) == [median, f"{median}, back", "single trials"]
    assert [y for _, y in steps(figure)] == 3 * [[0.992, 0.992]] + 3 * [[2.992, 2.992]]
    assert visible(figure)[0].get_ylabel() == "goodput in kbit/s"


def test_a_client_that_reports_both_directions_is_drawn_for_both(make_trials: MakeTrials) -> None:
    for server in ("vm-2", "vm-1"):  # also through its own loopback
        trials = make_trials(receivers=server)
        ends = {"endpoint": "vm-1", "peer": server}
        table = [
            rows(trials, 1, 0, [125], role="sender", **ends),
            rows(trials, 1, 1, [375], **ends),
        ]
        figure = intervals(pd.concat(table), trials)
        assert legend(figure) == ["there", "back"]
        assert [y for _, y in steps(figure)] == [[1], [3]]
        assert "or as sent where no receiver reported" in texts(figure)[-1]


def test_both_directions_of_a_loopback(make_trials: MakeTrials) -> None:
    trials = make_trials(receivers="vm-1", connections=2)
    flows = [rows(trials, 1, flow, [count, count], endpoint="vm-1", peer="vm-1")
             for count in (125, 375) for flow in (0, 1)]  # fmt: skip
    assert [y for _, y in steps(intervals(pd.concat(flows), trials))] == [[2, 2], [6, 6]]
    assert [y for _, y in steps(intervals(pd.concat(flows[:2]), trials))][-1] == [2, 2]


def test_a_reverse_only_transfer_is_one_line(make_trials: MakeTrials) -> None:
    trials = make_trials()
    table = pd.concat([rows(trials, n, 0, [125], endpoint="vm-1", peer="vm-2") for n in (1, 2)])
    assert legend(intervals(table, trials)) == ["median of the trials", "single trials"]


def test_a_run_of_the_first_version_names_no_peer(make_trials: MakeTrials) -> None:
    trials = make_trials()
    table = [rows(trials, 1, 0, [125], peer=None),
             rows(trials, 1, 0, [999], peer=None, endpoint="vm-1", role="sender")]  # fmt: skip
    assert [y for _, y in steps(intervals(pd.concat(table), trials))] == [[1]]


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1), st.lists(st.tuples(st.floats(0.1, 2), st.floats(0, 1e9)), min_size=1)
        ),
        min_size=1,
        max_size=5,
    )
)
def test_no_byte_is_lost_or_made(flows: list[tuple[float, list[tuple[float, float]]]]) -> None:
    known = [
        (np.array([start, *(start + np.cumsum([length for length, _ in each]))]),
         np.array([rate for _, rate in each]))
        for start, each in flows
    ]  # fmt: skip
    edges, rate = sum_rates(known)
    moved = sum(float(np.sum(one * np.diff(at))) for at, one in known)
    assert float(np.sum(rate * np.diff(edges))) == pytest.approx(moved, rel=1e-9, abs=1e-3)


def test_the_rate_falls_only_from_when_the_first_connection_has_ended() -> None:
    flows = [([0.0, 1.0, 2.0], [8.0, 8.0]), ([0.0, 1.0, 2.5], [8.0, 8.0])]
    edges, rate = sum_rates([(np.array(at), np.array(one)) for at, one in flows])
    assert edges.tolist() == [0, 1, 2, 2.5]
    assert rate.tolist() == pytest.approx([16, 16, 8])


def of_rates(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a background of two connections each way that began 2 s after the first start."""
    told = {"purpose": "background", "began_s": 2.0, "rtt_us": np.nan, "rtt_p99_us": np.nan}
    back = {"endpoint": "vm-1", "peer": "vm-2"}
    return pd.concat(
        [rows(trials, 1, flow, [125, 250], **told) for flow in (0, 1)]
        + [rows(trials, 1, flow, [375, 375], **told, **back) for flow in (0, 1)]
    )


def of_times(trials: pd.DataFrame) -> pd.DataFrame:
    ends = {"endpoint": "vm-1", "peer": "vm-2", "role": "sender", "protocol": None, "lost": np.nan}
    idle = {"began_s": 0.0, "rtt_us": [500.0, 600.0], "rtt_p99_us": [900.0, 900.0]}
    loaded = {"began_s": 3.0, "rtt_us": [5000.0, 6000.0], "rtt_p99_us": [9000.0, 9000.0]}
    return pd.concat([rows(trials, 1, 0, [10, 10], **{**ends, **told}) for told in (idle, loaded)])


def test_rates_and_round_trips_share_the_time_of_the_trial(make_trials: MakeTrials) -> None:
    trials = make_trials(workload="latency", background="btc")
    figure = course(of_rates(trials), of_times(trials), trials)
    assert steps(figure, 0) == [([2, 3, 4], [2, 4]), ([2, 3, 4], [6, 6])]
    assert steps(figure, 1) == [
        ([0, 1, 2], [0.9, 0.9]), ([0, 1, 2], [0.5, 0.6]),
        ([3, 4, 5], [9, 9]), ([3, 4, 5], [5, 6]),
    ]  # fmt: skip
    assert [axes.get_ylabel() for axes in visible(figure)] == [
        "rate in kbit/s",
        "round-trip time in ms",
    ]
    assert legend(figure) == ["from senders to receivers", "back", "round trips"]


def test_each_protocol_has_a_line_and_crosses_where_it_lost(make_trials: MakeTrials) -> None:
    trials = make_trials(workload="latency", background="btc")
    ends = {"endpoint": "vm-1", "peer": "vm-2", "role": "sender", "began_s": 0.0}
    times = {"rtt_us": [500.0, 600.0], "rtt_p99_us": [900.0, 900.0]}
    asked = [
        rows(trials, 1, 0, [10, 10], **ends, **times, protocol=name, lost=lost)
        for name, lost in (("udp", [0.0, 2.0]), ("tcp", [np.nan, np.nan]))
    ]
    figure = course(of_rates(trials), pd.concat(asked), trials)
    assert legend(figure)[2:] == ["round trips, udp", "round trips, tcp"]
    assert len(steps(figure, 1)) == 4
    (crosses,) = visible(figure)[1].lines
    assert np.asarray(crosses.get_xdata()).tolist() == [1.5]
    assert "A cross is an interval" in " ".join(text.get_text() for text in figure.texts)


def test_a_cell_without_either_is_left_out(make_trials: MakeTrials) -> None:
    trials = make_trials(workload="latency", background="btc")
    none = of_times(trials).iloc[:0]
    with pytest.raises(NothingToDrawError, match="background"):
        course(of_rates(trials), none, trials)
    many = [make_trials(connections=n, workload="latency") for n in range(1, 5)]
    with pytest.raises(InputError, match="4 cells are too many"):
        course(pd.concat(map(of_rates, many)), pd.concat(map(of_times, many)), pd.concat(many))
