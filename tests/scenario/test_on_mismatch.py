from __future__ import annotations

from collections.abc import Callable

import pytest

from osmef.scenario.fields import tries_of
from osmef.scenario.study import Study


@pytest.mark.parametrize(
    ("text", "tries"), [("fail", 0), ("record", 0), ("retry 1", 1), ("retry 20", 20)]
)
def test_the_number_of_retries_is_read_from_on_mismatch(
    read: Callable[[str], Study], text: str, tries: int
) -> None:
    assert tries_of(read(f"name: a\non_mismatch: {text}").scenario.on_mismatch) == tries


@pytest.mark.parametrize(
    "text", ["retry", "retry 0", "retry 21", "retry x", "no", "3", "[fail]", ""]
)
def test_other_words_are_refused_with_a_cure(
    problems: Callable[[str], list[str]], text: str
) -> None:
    (problem,) = problems(f"name: a\non_mismatch: {text}")
    assert problem.startswith("file.yaml:2:")
    assert "on_mismatch" in problem
