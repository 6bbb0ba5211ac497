"""The figures of UDP."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from osmef.errors import NothingToDrawError
from osmef.report.throughput import udp_jitter, udp_loss
from tests.report.drawn import legend, lines, visible

MakeTrials = Callable[..., pd.DataFrame]


def cell(make: MakeTrials, mbps: float, **changes: object) -> pd.DataFrame:
    told = {"workload": "udp", "offered_bps": mbps * 1e6, "loss_percent": mbps / 10, "jitter_us": 7}
    return make(rate=f"{mbps:g}Mbit/s", **{**told, **changes})


def test_loss_and_jitter_against_the_offered_rate(make_trials: MakeTrials) -> None:
    trials = pd.concat([cell(make_trials, mbps) for mbps in (100, 10, 50)])
    (axes,) = visible(udp_loss(trials))
    ((x, y),) = lines(axes, 3)
    assert x == pytest.approx([1e7, 5e7, 1e8])
    assert y == pytest.approx([1, 5, 10])
    assert axes.get_ylabel() == "loss in %"
    jitter = udp_jitter(trials)
    assert lines(visible(jitter)[0], 3)[0][1] == [7, 7, 7]
    assert visible(jitter)[0].get_ylabel() == "jitter in µs"


def test_connections_are_lines_and_other_values_panels(make_trials: MakeTrials) -> None:
    trials = pd.concat(
        [cell(make_trials, 10, connections=n, size=s) for n in (1, 4) for s in (100, 1400)]
    )
    figure = udp_loss(trials)
    assert [axes.get_title("left") for axes in visible(figure)] == ["size 100", "size 1400"]
    assert [name.rpartition(", ")[2] for name in legend(figure)] == [
        "1 connections",
        "4 connections",
    ]


def test_without_a_rate_nothing_is_drawn(make_trials: MakeTrials) -> None:
    for trials in (make_trials(), cell(make_trials, 10, offered_bps=None)):
        with pytest.raises(NothingToDrawError, match="workload: udp"):
            udp_loss(trials)
