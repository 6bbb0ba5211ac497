"""The figure of rates over time."""

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
from osmef.report.time_series import intervals, together
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


def test_what_has_no_rate_shows_that_of_its_background(make_trials: MakeTrials) -> None:
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


def test_nothing_is_drawn_of_nothing(make_trials: MakeTrials) -> None:
    trials = make_trials()
    with pytest.raises(NothingToDrawError, match="intervals"):
        intervals(rows(trials, 1, 0, []), trials)


def test_a_run_of_which_only_the_sender_told(make_trials: MakeTrials) -> None:
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


def test_a_client_that_told_what_it_sent_and_got(make_trials: MakeTrials) -> None:
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


def test_what_only_went_back_is_one_line(make_trials: MakeTrials) -> None:
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
    edges, rate = together(known)
    moved = sum(float(np.sum(one * np.diff(at))) for at, one in known)
    assert float(np.sum(rate * np.diff(edges))) == pytest.approx(moved, rel=1e-9, abs=1e-3)


def test_the_rate_falls_only_from_when_the_first_connection_has_ended() -> None:
    flows = [([0.0, 1.0, 2.0], [8.0, 8.0]), ([0.0, 1.0, 2.5], [8.0, 8.0])]
    edges, rate = together([(np.array(at), np.array(one)) for at, one in flows])
    assert edges.tolist() == [0, 1, 2, 2.5]
    assert rate.tolist() == pytest.approx([16, 16, 8])
