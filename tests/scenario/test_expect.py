"""What a scenario expects of a metric."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.engine.check import check_study
from osmef.errors import InputError
from osmef.scenario.fields import Bound, read_bound
from osmef.scenario.load import load_text


@pytest.mark.parametrize(
    ("text", "unit", "bound"),
    [
        (">= 5 Gbit/s", "bit/s", 5e9),
        ("<=500us", "us", 500),
        ("<= 0.5 ms", "us", 500),
        ("<= 500 µs", "us", 500),
        (">= 0.9", "1", 0.9),
        ("<= 3", None, 3),
        ("<= 0.1 %", "%", 0.1),
        (">= 100 MB/s", "B/s", 1e8),
    ],
)
def test_a_bound_is_in_the_unit_of_its_metric(text: str, unit: str | None, bound: float) -> None:
    assert read_bound(text).within(unit) == pytest.approx(bound)


@given(st.floats(0, 1e9, allow_nan=False).map(lambda x: round(x, 3)), st.booleans())
def test_a_bound_is_read_as_it_is_written(value: float, at_least: bool) -> None:
    text = f"{'>=' if at_least else '<='} {value:.3f} bit/s"
    assert read_bound(text) == Bound(at_least, value, "bit/s")


def test_a_unit_may_begin_with_a_digit() -> None:
    assert read_bound(">= 100 1/s") == Bound(at_least=True, value=100, unit="1/s")


@pytest.mark.parametrize(
    "text",
    ["5 Gbit/s", "> 5", "== 5", ">= ", ">= -5 us", ">= 5; rm", ">= 1e9", ">= 12e9", ">= 1 e9"],
)
def test_an_invalid_bound_is_reported_with_a_cure(text: str) -> None:
    with pytest.raises(InputError, match=r"(?s)a.yaml:2:.*write it as '>= 5 Gbit/s'"):
        load_text(f"name: a\nexpect: {{rtt_min_us: '{text}'}}\n", Path("a.yaml"))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("agregate_btc_bps: '>= 5 Gbit/s'", "did you mean 'aggregate_btc_bps'?"),
        ("aggregate_btc_bps: '<= 500 us'", "write the bound in bit/s"),
        ("rtt_mean_us: '>= 1 Gbit/s'", "rtt_mean_us is in us"),
    ],
)
def test_an_expectation_that_fits_no_metric_is_reported_at_its_position(
    line: str, told: str
) -> None:
    study = load_text(f"name: a\nexpect:\n  {line}\n", Path("a.yaml"))
    with pytest.raises(InputError) as caught:
        check_study(study)
    assert told in str(caught.value)
    assert [problem.line for problem in caught.value.problems] == [3]
