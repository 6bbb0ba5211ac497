"""The agent's reader of numbers against Python's."""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.agents import shared

Read = Callable[[str], tuple[float, str] | None]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    function = shared.load(tmp_path_factory.mktemp("number"), "number.c").number_read
    function.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_double)]
    function.restype = ctypes.c_void_p

    def call(text: str) -> tuple[float, str] | None:
        value = ctypes.c_double()
        buffer = ctypes.create_string_buffer(text.encode())
        end = function(buffer, ctypes.byref(value))
        if end is None:
            return None
        return value.value, text[end - ctypes.addressof(buffer) :]

    return call


@given(number=st.floats(allow_nan=False, allow_infinity=False) | st.integers())
@example(number=5e-324)
@example(number=1.7976931348623157e308)
@example(number=-0.0)
@example(number=10**400)
def test_numbers_written_by_json_are_parsed(read: Read, number: float) -> None:
    text = json.dumps(number)
    found = read(text)
    assert found is not None
    value, rest = found
    assert rest == ""
    try:
        assert math.isclose(value, float(text), rel_tol=1e-14, abs_tol=1e-322)
    except OverflowError:
        assert math.isinf(value)


@given(digits=st.integers(0, 10**15 - 1), exponent=st.integers(-22, 22))
def test_short_numbers_are_exact(read: Read, digits: int, exponent: int) -> None:
    text = f"{digits}e{exponent}"
    assert read(text) == (float(text), "")


@pytest.mark.parametrize("text", ["", "-", "+1", ".5", "01", "1.", "1.e5", "1e", "1e+", "x", " 1"])
def test_invalid_numbers_are_rejected(read: Read, text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(("text", "value", "rest"), [("0x1", 0, "x1"), ("12,5", 12, ",5")])
def test_the_text_after_a_number_is_left_unread(
    read: Read, text: str, value: float, rest: str
) -> None:
    assert read(text) == (value, rest)
