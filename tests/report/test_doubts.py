"""What to think of a number."""

from __future__ import annotations

import pandas as pd
import pytest

from osmef.report.doubts import busy_cells, doubts_of

ROW: dict[str, object] = {"n": 6, "repetitions": 6.0, "doubts": ""}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"repetitions": 169.0}, "too few for ±5 %: 6 of 169"),
        ({"repetitions": float("nan")}, ""),
        ({"repetitions": None}, ""),
        ({"doubts": "the level changes"}, "the level changes"),
        (
            {"repetitions": 169.0, "doubts": "the level changes"},
            "too few for ±5 %: 6 of 169; the level changes",
        ),
    ],
)
def test_too_few_trials_are_the_first_doubt(changes: dict[str, object], words: str) -> None:
    assert doubts_of(ROW | changes) == words


def test_the_wanted_error_is_named() -> None:
    assert doubts_of(ROW | {"repetitions": 40}, 2.5) == "too few for ±2.5 %: 6 of 40"


def test_a_cell_beside_which_others_worked_is_doubted() -> None:
    trials = pd.DataFrame({"cpu_others_percent": [40.0, 50.0, None], "cpu_steal_percent": None})
    busy = busy_cells({"a": trials, "b": pd.DataFrame({"cpu_others_percent": [1.0]})})
    assert list(busy) == ["a"]
    assert "other programs used 40 %" in doubts_of(ROW | {"cell": "a"}, busy=busy)
    assert doubts_of(ROW | {"cell": "b"}, busy=busy) == ""
