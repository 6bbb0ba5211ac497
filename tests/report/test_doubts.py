"""What to think of a number."""

from __future__ import annotations

import pytest

from osmef.report.doubts import doubts_of

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
