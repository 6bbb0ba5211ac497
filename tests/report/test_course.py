"""The figure of rate and round trips over one axis of time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from osmef.errors import InputError, NothingToDrawError
from osmef.report.time_series import course
from tests.report.drawn import legend, visible
from tests.report.test_intervals import rows, steps

MakeTrials = Callable[..., pd.DataFrame]


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
