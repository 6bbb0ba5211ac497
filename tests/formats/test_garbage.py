"""Damaged output is an error, or what is still right of it: no traceback, and no invented number.

Of some programs a part looks like a whole; what is read of it then is right for the time that it is
of: an interval of iperf 2, the tests and passes of UnixBench, and the sizes of NetPIPE until it was
killed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.samples import SAMPLES, name_of, outcome

NUMBER = re.compile(r"(?<![\w.])[0-9]+(?:\.[0-9]+)?(?!xx)")  # not those of 2xx
WRONG = ("-1", "nan", "inf", "1e999", "9" * 400)
MOST = 60
"""So many numbers of a sample are made wrong."""
PARTS = {"iperf2", "unixbench"}
"""Programs of which a part may look like a whole."""
GOOD = [
    path for path in SAMPLES if "error" not in json.loads(path.with_suffix(".json").read_text())
]


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(one, f"{path}.{key}")
    else:
        yield path, value


def _checked(program: str, text: str) -> dict[str, Any]:
    """Return the leaves of what is read; each number is one that can be."""
    leaves = dict(_leaves(outcome(program, text)))
    for path, value in leaves.items():
        if isinstance(value, float | int):
            assert math.isfinite(value), path
            assert value >= 0, path
    return leaves


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines(keepends=True)


@pytest.mark.parametrize("path", GOOD, ids=name_of)
def test_truncated_output_gives_no_values_that_the_whole_output_lacks(path: Path) -> None:
    program, lines = path.parent.name, _lines(path)
    all_of_it = _checked(program, "".join(lines))
    for count in range(len(lines)):
        found = _checked(program, "".join(lines[:count]))
        if ".error" in found and found.keys() <= {".error", ".line"}:
            continue
        if program not in PARTS:
            told = {name: value for name, value in found.items() if value is not None}
            assert told.items() <= all_of_it.items(), f"line {count}"


@pytest.mark.parametrize("path", GOOD, ids=name_of)
def test_a_number_that_can_not_be_is_not_read_and_not_nought(path: Path) -> None:
    program, text = path.parent.name, path.read_text()
    nought = {name for name, value in _checked(program, text).items() if value == 0}
    places = list(NUMBER.finditer(text))
    for place in places[:: 1 + len(places) // MOST]:
        for wrong in WRONG:
            found = _checked(program, text[: place.start()] + wrong + text[place.end() :])
            new = {name for name, value in found.items() if value == 0 and value is not False}
            assert new <= nought, f"{place[0]} at {place.start()} is {wrong}"


@pytest.mark.parametrize("path", SAMPLES, ids=name_of)
def test_characters_that_are_not_utf_8_are_no_traceback(path: Path) -> None:
    data = path.read_bytes()
    for start in range(0, len(data), 1 + len(data) // 100):
        damaged = data[:start] + b"\xff\xfe" + data[start + 2 :]
        _checked(path.parent.name, damaged.decode(errors="replace"))


@pytest.mark.parametrize("program", sorted({path.parent.name for path in SAMPLES}))
@given(text=st.text())
def test_any_other_text_is_an_error(program: str, text: str) -> None:
    assert "error" in outcome(program, text)


@given(st.data())
def test_a_damaged_sample_is_read_or_refused(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(SAMPLES))
    text = path.read_text()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    inserted = data.draw(
        st.sampled_from(
            ["", "-1", "1e999", "\x00", '"', ",", "{}", "null", "0", "\n", "x", "\x1b["]
        )
    )
    _checked(path.parent.name, text[:start] + inserted + text[end:])
