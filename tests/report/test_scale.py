"""The figures of programs that endpoints run together."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from osmef.errors import NothingToDrawError
from osmef.report.throughput import scale_rate, scale_time
from tests.report.drawn import legend, lines, visible

MakeTrials = Callable[..., pd.DataFrame]


def cell(make: MakeTrials, count: int, **changes: object) -> pd.DataFrame:
    """Return the trials of one cell on so many nodes, twice as fast on twice as many."""
    nodes = ",".join(f"node-h{number}-t1" for number in range(1, count + 1))
    alone = {"achieved_placement": "same-host", "distance": 0} if count == 1 else {}
    told = {"workload": "npb", "senders": nodes, "receivers": nodes, "mops": 100.0 * count,
            "time_s": 12.0 / count, **alone}  # fmt: skip
    return make(connections=None, **{"endpoints.node.count": count, **told, **changes})


def test_rate_and_time_against_the_number_of_endpoints(make_trials: MakeTrials) -> None:
    trials = pd.concat([cell(make_trials, count) for count in (4, 1, 2)])
    (axes,) = visible(scale_rate(trials))
    ((x, y),) = lines(axes, 3)
    assert x == pytest.approx([1, 2, 4])
    assert y == pytest.approx([100, 200, 400])
    assert axes.get_ylabel() == "rate of all processes in Mop/s (logarithmic)"
    time = visible(scale_time(trials))[0]
    assert lines(time, 3)[0][1] == pytest.approx([12, 6, 3])
    assert time.get_ylabel() == "time in s (logarithmic)"


def test_what_else_was_swept_are_lines(make_trials: MakeTrials) -> None:
    trials = pd.concat(
        [
            cell(make_trials, count, **{"workload.benchmark": name})
            for count in (1, 2)
            for name in ("ft", "is")
        ]
    )
    figure = scale_rate(trials)
    assert legend(figure) == ["benchmark ft", "benchmark is"]
    other = {"workload.benchmark": "ft", "placement": "same-host"}
    both = pd.concat([trials, *(cell(make_trials, count, **other) for count in (1, 2))])
    assert len(legend(scale_rate(both))) == 3


def test_without_several_numbers_of_endpoints_nothing_is_drawn(make_trials: MakeTrials) -> None:
    for trials in (make_trials(), cell(make_trials, 2), cell(make_trials, 2, mops=None)):
        with pytest.raises(NothingToDrawError, match="several numbers of endpoints") as caught:
            scale_rate(trials)
        assert "endpoints.node.count" in str(caught.value.cure)
