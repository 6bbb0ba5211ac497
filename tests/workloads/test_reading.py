"""Numbers in what programs print."""

from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from osmef.errors import OutputError
from osmef.units import convert
from osmef.workloads.reading import OutputStream, Printed, Reading, find_all

DBENCH = b"""\
  Operation      Count    AvgLat    MaxLat
  NTCreateX      12345     0.012     4.567
Throughput 512.345 MB/sec  4 clients  4 procs  max_latency=12.301 ms
"""


def reading(**keys: object) -> Reading:
    return Reading.model_validate(keys)


def value(stdout: bytes | str, stderr: bytes = b"", **keys: object) -> float | None:
    data = stdout.encode() if isinstance(stdout, str) else stdout
    return reading(**keys).value(Printed(data, stderr))


@pytest.mark.parametrize(
    ("keys", "stdout", "expected"),
    [
        ({"pattern": r"Throughput ([0-9.]+) MB/sec"}, DBENCH, 512.345),
        (
            {"pattern": r"Throughput ([0-9.]+)", "unit": "bit/s", "written_in": "MB/s"},
            *(DBENCH, 512.345 * 8e6),
        ),
        ({"pattern": r"max_latency=(\S+) ms", "unit": "us", "written_in": "ms"}, DBENCH, 12301.0),
        ({"pattern": r"rate (\d+)"}, "rate 1\nrate 2\nrate 3\n", 3.0),
        ({"pattern": r"rate (\d+)", "which": "first"}, "rate 1\nrate 2\nrate 3\n", 1.0),
        ({"pattern": r"rate (\d+)", "which": "sum"}, "rate 1\nrate 2\nrate 3\n", 6.0),
        ({"pattern": r"rate (\d+)", "which": "mean"}, "rate 1\nrate 2\nrate 6\n", 3.0),
        ({"pattern": r"rate (\d+)", "which": "min"}, "rate 2\nrate 1\n", 1.0),
        ({"pattern": r"rate (\d+)", "which": "max"}, "rate 2\nrate 1\n", 2.0),
        ({"pattern": r"(?m)^x=(-?[0-9.e+-]+)$"}, "x=-1.5e-3\n", -0.0015),
        ({"pattern": r"(?m)^x=([0-9.]+)$"}, "x=1.5\r\ny=2\r\n", 1.5),
        ({"json": "end.sum.bps"}, '{"end": {"sum": {"bps": 12.5}}}', 12.5),
        ({"json": "a.0.b"}, '{"a": [{"b": 1}, {"b": 2}]}', 1.0),
        ({"json": "a.-1.b"}, '{"a": [{"b": 1}, {"b": 2}]}', 2.0),
        ({"json": "a", "which": "sum"}, '{"a": [1, 2, 3.5]}', 6.5),
        ({"json": "0"}, "[7]", 7.0),
        ({"json": "a"}, 'warning: old\n{"a": "42"}\nbye\n', 42.0),
        ({"json": "a"}, '[info] a\n[3] b\n[ 5] c\n{"a": 42}\n[info] bye', 42.0),
        ({"json": "a"}, '\n  {"a": 42}', 42.0),
        ({"json": "a"}, '{"a": 1}\n{"a": 2}\n{"b": 3}\n', 2.0),
        ({"json": "a", "which": "first"}, '{"a": 1}\n{"a": 2}\n', 1.0),
        ({"json": "a"}, '{"a": 1}{"a": 2}', 2.0),
        ({"json": "a"}, '{\n"a": 1\n}{\n"a": 2\n}\n', 2.0),
        ({"json": "a"}, '{"a": 1}\r{"a": 2}\r\n{"a": 3}, {"a": 4} [done]\n', 4.0),
        ({"json": "a"}, '\x1e{"a": 1}\n\x1e{"a": 2}\n', 2.0),
        ({"json": "a", "which": "sum"}, '{"a": [1, 2]}\n{"a": 4}\n', 7.0),
        ({"json": "-1.a"}, '[\n{"a": 1},\n{"a": 2}\n]\n', 2.0),
        ({"json": "a"}, '{"digest": ' + "9" * 6000 + ', "a": 4}', 4.0),
        ({"json": "a", "optional": True}, '{"a": null}', None),
        ({"json": "b", "optional": True}, '{"a": 1}', None),
        ({"pattern": "x(1)", "optional": True}, "nothing like it", None),
        ({"pattern": "é(\\d)"}, b"\xff\xfe \xc3\xa95", 5.0),
    ],
)
def test_a_number_is_found_and_converted(
    keys: dict[str, Any], stdout: bytes | str, expected: float | None
) -> None:
    found = value(stdout, **keys)
    assert found == (None if expected is None else pytest.approx(expected))


def test_it_may_be_printed_to_standard_error() -> None:
    assert value(b"1", b"took 3 s", pattern=r"took (\d) s", stream="stderr") == 3


@pytest.mark.parametrize(
    ("keys", "stdout", "said"),
    [
        ({"pattern": r"rate (\d+)"}, "the tail of it", r"nothing on its stdout matches rate (\d+)"),
        ({"pattern": r"rate (\d+)"}, "the tail of it", "the tail of it"),
        ({"pattern": r"rate (\d+)"}, "", "it printed: nothing"),
        ({"pattern": r"rate (\S+)"}, "rate inf", "'inf' is no number"),
        ({"pattern": r"rate (\S+)"}, "rate nan", "'nan' is no number"),
        ({"pattern": r"rate (\S+)"}, "rate 1e999", "'1e999' is no number"),
        ({"pattern": r"rate (\S+)"}, "rate " + "9" * 400, "is no number"),
        ({"pattern": r"rate (\S+)"}, "rate 1_000", "is no number"),
        ({"pattern": r"rate (\S+)"}, "rate ٣", "is no number"),
        ({"pattern": r"(\S+)", "which": "sum"}, "1e308 1e308", "the number is too large"),
        (
            {"pattern": r"(\S+)", "written_in": "GB/s", "unit": "B/s"},
            "1e308",
            "the number is too large",
        ),
        ({"json": "a"}, '{"a": true}', "'True' is no number"),
        ({"json": "a"}, '{"a": NaN}', "is no number"),
        ({"json": "a"}, '{"a": {"b": 1}}', "is no number"),
        ({"json": "a"}, '{"a": ' + "9" * 400 + "}", "is no number"),
        ({"json": "a"}, '{"a": ' + "9" * 6000 + "}", "'inf' is no number"),
        ({"json": "a"}, '{"a": null}', "the JSON on its stdout has no a\n"),
        ({"json": "a.b.c"}, '{"a": 1}', "has no a.b.c"),
        ({"json": "a.9"}, '{"a": [1]}', "has no a.9"),
        ({"json": "a"}, '{"a": 1', "no complete JSON"),
        ({"json": "a"}, "{" * 100_000, "no complete JSON"),
        ({"json": "a"}, "no JSON", "no complete JSON"),
        ({"json": "a"}, "[info] no JSON", "no complete JSON"),
        ({"json": "a"}, '{"b": [\n{"a": 1},\n{"a": 2},\n', "no complete JSON"),
        ({"json": "a"}, '[\n{"a": 1},\n{"a": 2},\n', "no complete JSON"),
        ({"json": "a"}, '{"a": 1}\n{"a": 2}\n{"a', "no complete JSON"),
        ({"json": "a"}, "\n[" * 100_000, "no complete JSON"),
    ],
)
def test_output_without_a_number_is_an_error_that_shows_its_end(
    keys: dict[str, Any], stdout: str, said: str
) -> None:
    with pytest.raises(OutputError) as caught:
        value(stdout, **keys)
    assert said in str(caught.value)
    assert "cure: " in str(caught.value)
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize(
    ("stdout", "stderr", "stream", "tail"),
    [
        (b"out", b"error", "stdout", "out"),
        (b"out", b"error", "stderr", "error"),
        (b" \n", b"error", "stdout", "error"),
        (b"", b"", "stdout", "nothing"),
        (b"a\r\nb\rrate \x1b[1m\x00\x00d\xff\xfe", b"", "stdout", "a\nb\nrate �[1m�d�"),
        (b"\x00" * 5000, b"", "stdout", "bytes that are no text"),
        (b"\xff \x00\n\xfe", b"", "stdout", "bytes that are no text"),
        (bytes(range(256)) * 3, b"", "stdout", "bytes that are no text"),
    ],
)
def test_the_end_of_what_it_printed_is_fit_to_be_shown(
    stdout: bytes, stderr: bytes, stream: str, tail: str
) -> None:
    assert Printed(stdout, stderr).tail_of(OutputStream(stream)) == tail


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, "found by a pattern or by a path"),
        ({"pattern": "(x)", "json": "x"}, "found by a pattern or by a path"),
        ({"pattern": "("}, "no regular expression"),
        ({"pattern": "x"}, "the pattern has 0 groups"),
        ({"pattern": "(x)(y)"}, "the pattern has 2 groups"),
        ({"pattern": "(x)", "unit": "s", "written_in": "MB"}, "MB can't be converted into s"),
        ({"pattern": "(x)", "unit": "furlong", "written_in": "s"}, "can't be converted"),
    ],
)
def test_an_invalid_metric_definition_is_rejected_before_the_run(
    keys: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError, match=said.replace("(", r"\(")):
        reading(**keys)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_output_gives_a_finite_number_or_an_error(stdout: bytes, stderr: bytes) -> None:
    for keys in ({"pattern": r"(\S+)"}, {"json": "a"}, {"pattern": "(.)", "stream": "stderr"}):
        try:
            found = reading(**keys).value(Printed(stdout, stderr))
        except OutputError:
            continue
        assert found is not None
        assert math.isfinite(found)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30))
def test_every_number_is_read_as_it_was_written(number: float) -> None:
    assert value(f"x {number!r} y", pattern="x (.+) y") == number
    assert value(json.dumps({"a": {"b": [number]}}), json="a.b.0") == number


@pytest.mark.parametrize(
    ("amount", "unit", "into", "expected"),
    [
        (1, "MB/s", "bit/s", 8e6),
        (1, "MiB/s", "B/s", 2**20),
        (8, "Mbit/s", "MB/s", 1),
        (2, "min", "s", 120),
        (3, "ms", "us", 3000),
        (60, "1/min", "1/s", 1),
        (1, "KiB", "B", 1024),
        (1, "Mb", "B", 125_000),
        (50, "%", "1", 0.5),
        (7, "frames", "frames", 7),
    ],
)
def test_units_convert(amount: float, unit: str, into: str, expected: float) -> None:
    assert convert(amount, unit, into) == pytest.approx(expected)


def test_a_pattern_that_would_take_years_is_ended_and_the_next_one_is_searched() -> None:
    endless = "a" * 41 + "b"
    with pytest.raises(TimeoutError):
        find_all(r"((?:a+)+)$", endless, limit_s=0)
    assert find_all("(a+)", endless) == ["a" * 41]


def test_a_search_that_was_killed_is_made_again() -> None:
    find_all("(a)", "a")
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    mine = [pid for pid in map(int, children.read_text().split()) if searches(pid)]
    for pid in mine:
        os.kill(pid, signal.SIGKILL)
    assert mine
    assert find_all("(b)", "abab") == ["b", "b"]


def searches(pid: int) -> bool:
    return b"re.findall" in Path(f"/proc/{pid}/cmdline").read_bytes()
