import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from osmef.facts.table import FACTS, INTERFACE_FACTS, Fact

DATA = Path(__file__).parent / "data"
KNOWN = {fact.key: fact for fact in FACTS} | {f"interface.{f.key}": f for f in INTERFACE_FACTS}
CASES = [
    pytest.param(path.stem, case["output"], case["expected"], id=f"{path.stem}: {case['source']}")
    for path in sorted(DATA.glob("*.json"))
    for case in json.loads(path.read_text())
]
OUTPUTS = [case.values[1] for case in CASES]


@pytest.mark.parametrize(("key", "output", "expected"), CASES)
def test_output_of_a_real_or_odd_system(key: str, output: str, expected: JsonValue) -> None:
    value = KNOWN[key].read(output)
    assert value == expected
    assert type(value) is type(expected)  # True is no 1


def test_every_fact_has_cases() -> None:
    assert {path.stem for path in DATA.glob("*.json")} == KNOWN.keys()


@pytest.mark.parametrize("fact", KNOWN.values(), ids=KNOWN.keys())
@given(text=st.text() | st.sampled_from(OUTPUTS) | st.text("0123456789 -,:=.\n\tcpue"))
def test_no_text_makes_a_parser_fail_or_give_what_json_cannot_hold(fact: Fact, text: str) -> None:
    value = fact.read(text)
    json.dumps(value, allow_nan=False)


@pytest.mark.parametrize("fact", KNOWN.values(), ids=KNOWN.keys())
def test_nothing_is_none_and_not_zero(fact: Fact) -> None:
    assert fact.read("") is None
    assert fact.read("\n") is None


@pytest.mark.parametrize("fact", KNOWN.values(), ids=KNOWN.keys())
def test_a_number_without_end_is_nothing_or_text(fact: Fact) -> None:
    value = fact.read("9" * 10_000)
    assert value is None or "9" in json.dumps(value)
