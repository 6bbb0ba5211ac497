"""The cells of a frame of trials, as figures call them."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from osmef.errors import NothingToDrawError
from osmef.report.cells import cells_of, chosen
from osmef.report.options import PLAIN
from osmef.results.frame import describe_columns

MakeTrials = Callable[..., pd.DataFrame]


def test_a_swept_workload_is_named_once_in_the_label(make_trials: MakeTrials) -> None:
    kinds = ("btc", "udp", "stress-ng")
    told = {kind: f"{{kind: {kind}, duration: 1s}}" for kind in kinds}
    trials = pd.concat(
        make_trials(workload=kind, **{"swept.workload": told[kind]}) for kind in kinds
    )
    assert [cell.label for cell in cells_of(trials, PLAIN)] == list(told.values())


def test_of_trials_without_any_metric_none_can_be_named(make_trials: MakeTrials) -> None:
    with pytest.raises(NothingToDrawError, match="these runs have no metric"):
        chosen(describe_columns(make_trials(), []), "goodput_bps")
