"""YAML and JSON are read as their specifications say, with the place of every value."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.scenario.node import Node, SourceText
from osmef.scenario.text_file import read_json
from osmef.scenario.yaml_text import read_yaml, write_inline, write_yaml

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**18), 10**18),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(["yes", "1:30", "010", "1e3", "~", "null", "1_000", "2024-01-01", "0x1F", "="]),
)
DATA = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=15,
)


def yaml_data(text: str) -> object:
    node, builder = read_yaml(SourceText("f", text))
    assert builder.problems == []
    return node.plain() if node else None


@given(DATA, st.sampled_from([None, 1, "\t"]))
def test_json_is_parsed_as_by_the_standard_library(data: object, indent: int | str | None) -> None:
    text = json.dumps(data, indent=indent)
    node, builder = read_json(SourceText("f", text))
    assert node is not None
    assert builder.problems == []
    assert node.plain() == json.loads(text)


@given(DATA)
def test_every_json_node_has_the_position_of_its_value(data: object) -> None:
    text = json.dumps(data, indent=1)
    node, _builder = read_json(SourceText("f", text))

    def check(node: Node) -> None:
        value, _end = json.JSONDecoder().raw_decode(text, node.index)
        assert value == node.plain()
        for entry in node.entries.values():
            check(entry.key)
            check(entry.value)
        for item in node.items:
            check(item)

    assert node is not None
    check(node)


@given(DATA)
def test_yaml_is_read_back_as_written(data: object) -> None:
    assert yaml_data(write_yaml(data)) == data


@given(st.dictionaries(st.text(max_size=6), DATA, max_size=3))
def test_one_line_is_one_line(data: dict[str, object]) -> None:
    text = write_inline(data)
    assert "\n" not in text
    assert yaml_data(text) == data


def test_letters_of_all_languages_are_written_as_they_are() -> None:
    assert write_inline({"ort": "Zürich"}) == "{ort: Zürich}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yes", "yes"),
        ("On", "On"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("+7", 7),
        ("0", 0),
        ("True", True),
        ("~", None),
        (".inf", ".inf"),
        ("!!str 5", "5"),
        ("'5'", "5"),
    ],
)
def test_plain_words_follow_yaml_1_2(text: str, expected: object) -> None:
    assert yaml_data(text) == expected


def test_places_are_those_of_keys_and_values() -> None:
    node, _builder = read_yaml(SourceText("f", "a: 1\nb:\n  - x\n  - {c: d}\n"))
    assert node is not None
    inner = node.nearest(("b",)).items[1].entries["c"]
    places = [n.problem("", "") for n in (node.entries["b"].key, inner.key, inner.value)]
    assert [(p.line, p.column) for p in places] == [(2, 1), (4, 6), (4, 9)]
