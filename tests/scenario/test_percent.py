"""Percentages: each usual way to write one is read, or refused with what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmef.errors import InputError
from osmef.scenario.load import load_text
from osmef.scenario.workload import UntilKnown

TEXT = "name: a\nrepeat: {{until: {}}}\n"


@pytest.mark.parametrize("written", ["5%", "5 %", "'5%'", "'5 %'", '"5.0 %"'])
def test_a_share_is_written_in_percent(written: str) -> None:
    repeat = load_text(TEXT.format(written), Path("a.yaml")).scenario.repeat
    assert isinstance(repeat, UntilKnown)
    assert repeat.until == 0.05


@pytest.mark.parametrize(
    ("written", "cure"),
    [
        ("0.05", "write 5 % for a share of 0.05"),
        ("5", "write 5 %"),
        ("'5'", "write 5 %"),
        ("five", "write a percentage from 0.01 % to 100 %, such as 5 %"),
        ("500 %", "write a percentage from 0.01 % to 100 %, such as 5 %"),
    ],
)
def test_another_notation_is_rejected_with_the_right_one(written: str, cure: str) -> None:
    with pytest.raises(InputError) as caught:
        load_text(TEXT.format(written), Path("a.yaml"))
    (problem,) = caught.value.problems
    assert problem.cure == cure


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("name: a\nworkload: {kind: pingpong, coverage: 5%}\n", "write 0.05"),
        ("name: a\nworkload: {kind: fio, read_percent: 50 %}\n", "write 50, without %"),
    ],
)
def test_a_number_has_no_percent_sign(text: str, cure: str) -> None:
    with pytest.raises(InputError) as caught:
        load_text(text, Path("a.yaml"))
    assert cure in [problem.cure for problem in caught.value.problems]
