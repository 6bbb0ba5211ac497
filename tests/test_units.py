from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.units import (
    DURATION_UNITS,
    RATE_UNITS,
    counted,
    format_duration,
    format_prefixed,
    format_rate,
    format_size,
    format_time,
    parse_count,
    parse_duration,
    parse_rate,
    parse_size,
    rate_unit,
)

NUMBERS = st.decimals(min_value=0, max_value=10**9, allow_nan=False, places=3).map(str)
PARSERS = (parse_duration, parse_rate, parse_size)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("360s", 360),
        ("500ms", 0.5),
        ("250us", 250e-6),
        ("250µs", 250e-6),
        ("100ns", 1e-7),
        ("2min", 120),
        ("5m", 300),
        ("1.5h", 5400),
        (" 2 d ", 172800),
        ("0", 0),
        ("0.0", 0),
    ],
)
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-12)


@given(st.integers(0, 10**6))
def test_a_small_unit_gives_the_float_that_is_nearest(count: int) -> None:
    assert parse_duration(f"{count}ms") == count / 1000
    assert parse_duration(f"{count}us") == count / 10**6
    assert parse_duration(f"{count}ns") == count / 10**9


@pytest.mark.parametrize(
    ("text", "bits_per_second"),
    [
        ("1Gbit/s", 1e9),
        ("100 Mbps", 1e8),
        ("125MB/s", 1e9),
        ("8kb/s", 8000),
        ("1Kibit/s", 1024),
        ("1KiB/s", 8192),
        ("2.5Gbit", 2.5e9),
    ],
)
def test_a_rate_is_read_in_bits_per_second(text: str, bits_per_second: float) -> None:
    assert parse_rate(text) == bits_per_second


@pytest.mark.parametrize(
    ("text", "count"), [("128KiB", 131072), ("1.5MB", 1_500_000), ("7B", 7), ("1GiB", 2**30)]
)
def test_a_size_is_read_in_bytes(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "s",
        "-5s",
        "1:30",
        "1_0s",
        "1e3s",
        "10 parsec",
        "\u0661s",
        "1.s",
        ".5s",
        "nan",
        "inf s",
    ],
)
def test_an_ambiguous_quantity_is_rejected_with_a_cure(parse: object, text: str) -> None:
    assert callable(parse)
    with pytest.raises(ValueError, match=r".+; write it as '"):
        parse(text)


def test_bits_and_bytes_do_not_mix() -> None:
    with pytest.raises(ValueError, match="'Mbit/s' is not one of a size"):
        parse_size("1Mbit/s")
    with pytest.raises(ValueError, match="'MB' is not one of a rate"):
        parse_rate("1MB")
    assert parse_rate("1MB/s") == 8 * parse_rate("1Mb/s")


def test_numbers_beyond_floats_are_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        parse_duration("9" * 400 + "s")


@given(NUMBERS, st.sampled_from(DURATION_UNITS), st.sampled_from(["", " "]))
def test_a_duration_grows_with_its_number(number: str, unit: str, space: str) -> None:
    one = parse_duration(f"1{unit}")
    assert parse_duration(f"{number}{space}{unit}") == pytest.approx(float(number) * one)


@given(NUMBERS, st.sampled_from(RATE_UNITS))
def test_a_rate_grows_with_its_number(number: str, unit: str) -> None:
    assert parse_rate(f"{number}{unit}") == pytest.approx(float(number) * parse_rate(f"1{unit}"))


@given(st.text(max_size=30))
def test_any_text_is_a_finite_number_or_a_value_error(text: str) -> None:
    for parse in PARSERS:
        try:
            value = parse(text)
        except ValueError:
            continue
        assert math.isfinite(value)
        assert value >= 0


@given(st.floats(min_value=1, max_value=1e14))
def test_a_printed_rate_is_read_back_within_its_three_digits(rate: float) -> None:
    assert parse_rate(format_rate(rate)) == pytest.approx(rate, rel=0.006)


@given(st.integers(min_value=1, max_value=9 * 10**14))
def test_a_printed_size_is_read_back_within_its_three_digits(size: int) -> None:
    assert parse_size(format_size(size)) == pytest.approx(size, rel=0.006)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.35, "350 ms"),
        (0.9996, "1.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (245, "4 min 05 s"),
        (3599.7, "1 h"),
        (7380, "2 h 03 min"),
    ],
)
def test_a_duration_is_printed_in_readable_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.floats(min_value=0, max_value=1e6))
def test_printed_durations_keep_their_order_of_magnitude(seconds: float) -> None:
    units = {"ms": 1e-3, "s": 1, "min": 60, "h": 3600}
    parts = re.findall(r"([0-9.]+) (ms|s|min|h)", format_duration(seconds))
    total = sum(float(number) * units[unit] for number, unit in parts)
    assert total == pytest.approx(seconds, rel=0.06, abs=0.0005)


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (0, "0 bit/s"),
        (999, "999 bit/s"),
        (9.41e9, "9.41 Gbit/s"),
        (999.6e6, "1 Gbit/s"),
        (5e15, "5000 Tbit/s"),
    ],
)
def test_a_rate_is_printed_with_its_prefix(rate: float, text: str) -> None:
    assert format_rate(rate) == text


@pytest.mark.parametrize(
    ("rate", "unit"),
    [
        (0, (1, "bit/s")),
        (999.4, (1, "bit/s")),
        (999.6, (1e3, "kbit/s")),
        (9.41e9, (1e9, "Gbit/s")),
        (5e15, (1e12, "Tbit/s")),
    ],
)
def test_the_unit_of_a_table(rate: float, unit: tuple[float, str]) -> None:
    assert rate_unit(rate) == unit
    assert rate_unit(rate, "B/s") == (unit[0], unit[1].replace("bit/s", "B/s"))


@given(st.floats(min_value=0.1, max_value=1e14))
def test_a_rate_is_printed_in_the_unit_of_its_table(rate: float) -> None:
    divisor, unit = rate_unit(rate)
    assert format_rate(rate) == f"{rate / divisor:.3g} {unit}"
    assert format_prefixed(rate, "B/s") == format_rate(rate).replace("bit/s", "B/s")


@pytest.mark.parametrize("text", ["²", "٣", "1_0", "+1", "-1", " 1", "1\n", "", "1" * 16, 1, None])
def test_only_digits_are_a_count(text: object) -> None:
    assert parse_count(text) is None


@given(st.integers(0, 10**15 - 1))
def test_a_count_is_read_back(count: int) -> None:
    assert parse_count(str(count)) == count


@pytest.mark.parametrize(
    ("parse", "text", "words"),
    [
        (parse_duration, "-5s", "'-5s' is negative, and a duration is not"),
        (parse_rate, "5MBit/s", "did you mean 5Mbit/s?"),
        (parse_size, "1.5kib", "did you mean 1.5KiB?"),
        (parse_duration, "10S", "did you mean 10s?"),
        (parse_duration, "10sec", "did you mean 10s?"),
        (parse_duration, "2 hours", "did you mean 2h?"),
        (parse_duration, "5minutes", "did you mean 5min?"),
        (parse_rate, "10mbit", "did you mean 10Mbit/s?"),
        (parse_rate, "10M", "did you mean 10Mbit/s?"),
        (parse_rate, "1.5Gbits/sec", "did you mean 1.5Gbit/s?"),
        (parse_size, "64K", "did you mean 64kB?"),
    ],
)
def test_the_intended_quantity_is_suggested(
    parse: Callable[[str], float], text: str, words: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 µs"),
        (46.24e-6, "46.2 µs"),
        (999.4e-6, "999 µs"),
        (999.6e-6, "1 ms"),
        (10.879e-3, "10.9 ms"),
        (1.204, "1.2 s"),
    ],
)
def test_a_short_time_is_printed_with_its_prefix(seconds: float, text: str) -> None:
    assert format_time(seconds) == text


def test_a_count_is_in_the_plural_unless_it_is_one() -> None:
    assert [counted(n, "trial") for n in range(3)] == ["0 trials", "1 trial", "2 trials"]
