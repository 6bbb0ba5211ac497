from __future__ import annotations

import argparse

import pytest

from tests.bench.__main__ import whole_seconds


def test_durations_are_whole_seconds() -> None:
    assert [whole_seconds("1"), whole_seconds("20")] == [1, 20]


@pytest.mark.parametrize("text", ["0", "0.7", "1.5", "-1", "1e3", "two", ""])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="whole number of seconds"):
        whole_seconds(text)
