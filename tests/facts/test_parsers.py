import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from osmef.facts.collect import FACTS, INTERFACE_FACTS, Fact

DATA = Path(__file__).parent / "data"
KNOWN = {fact.key: fact for fact in FACTS} | {f"interface.{f.key}": f for f in INTERFACE_FACTS}
CASES = [
    pytest.param(path.stem, case["output"], case["expected"], id=f"{path.stem}: {case['source']}")
    for path in sorted(DATA.glob("*.json"))
    for case in json.loads(path.read_text())
]
OUTPUTS = [case.values[1] for case in CASES]
ODD = ["\0", "\x1b[2J", "\ud800", "٣", "²", "1_0", "-1", "0x10", "1e308", "inf", "nan", "9" * 5000]


def spoilt(pair: tuple[object, str, int]) -> str:
    """Put something odd into the output of a real system, in the place of a word."""
    output, odd, place = pair
    words = re.split(r"([ \t\n:=,/]+)", str(output))
    words[2 * place % len(words)] = odd
    return "".join(words)


HOSTILE = (
    st.text(st.characters())
    | st.sampled_from(OUTPUTS)
    | st.text("0123456789 -,:=.\n\tcpue")
    | st.tuples(st.sampled_from(OUTPUTS), st.sampled_from(ODD) | st.text(), st.integers(0)).map(
        spoilt
    )
)


def leaves(value: JsonValue) -> Iterator[JsonValue]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from leaves(one)
    else:
        yield value


@pytest.mark.parametrize(("key", "output", "expected"), CASES)
def test_output_of_a_real_or_odd_system(key: str, output: str, expected: JsonValue) -> None:
    value = KNOWN[key].read(output)
    assert value == expected
    assert type(value) is type(expected)  # True is no 1


def test_every_fact_has_cases() -> None:
    assert {path.stem for path in DATA.glob("*.json")} == KNOWN.keys()


@pytest.mark.parametrize("fact", KNOWN.values(), ids=KNOWN.keys())
@given(text=HOSTILE)
def test_no_text_makes_a_parser_fail_or_give_what_nothing_can_hold(fact: Fact, text: str) -> None:
    value = fact.read(text)
    json.dumps(value, allow_nan=False)
    for leaf in leaves(value):
        assert not isinstance(leaf, int) or -(2**63) <= leaf < 2**64
        assert not isinstance(leaf, float) or abs(leaf) < 1e18
        assert not isinstance(leaf, str) or len(leaf) <= 1000


@pytest.mark.parametrize("fact", KNOWN.values(), ids=KNOWN.keys())
def test_an_empty_fact_is_none_and_not_zero(fact: Fact) -> None:
    assert fact.read("") is None
    assert fact.read("\n") is None


@pytest.mark.parametrize("fact", KNOWN.values(), ids=KNOWN.keys())
def test_a_number_without_end_is_nothing(fact: Fact) -> None:
    assert fact.read("9" * 10_000) is None


@pytest.mark.parametrize("fact", KNOWN.values(), ids=KNOWN.keys())
@pytest.mark.parametrize(
    "output", ["qdisc x 0: dev eth0 root\n", "x: on\n", "a=b\n", "0,", "a: b\n"]
)
def test_long_repetitive_output_is_parsed_quickly(fact: Fact, output: str) -> None:
    began = time.process_time()
    fact.read(output * (900_000 // len(output)))
    assert time.process_time() - began < 3
