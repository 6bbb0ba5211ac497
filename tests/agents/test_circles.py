"""The agent's C files call each other in one direction: none leads back to where it came from."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from agents import build

# A function that other files can call, where it is defined: at the beginning of a line.
_DEFINED = re.compile(r"^(?!static\b)[a-z_][\w *]*?\b(\w+)\([^;{}]*\)\s*\{", re.MULTILINE)
# The same of a table, which other files can read.
_TABLE = re.compile(
    r"^(?!static\b|extern\b)[a-z_][\w *]*?\b(\w+)(?:\[\w*\])*\s*=\s*\{", re.MULTILINE
)
# The same of a variable.
_VARIABLE = re.compile(
    r"^(?!static\b|extern\b|typedef\b|return\b)[a-z_][\w *]*?\b(\w+)(?:\[\w*\])*(?:\s*=[^;{]*)?;",
    re.MULTILINE,
)
_NAME = re.compile(r"(?<![.\w])(?<!->)(\w+)\b(?!\s*=[^=])")
_ASIDE = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)


def calls(sources: dict[str, str]) -> dict[str, set[str]]:
    """Return which files each one calls, hands on a function of, or uses a variable of."""
    texts = {name: _ASIDE.sub(" ", text) for name, text in sources.items()}
    defined = {
        match: name
        for name, text in texts.items()
        for pattern in (_DEFINED, _TABLE, _VARIABLE)
        for match in pattern.findall(text)
    }
    return {
        name: {defined[used] for used in _NAME.findall(text) if used in defined} - {name}
        for name, text in texts.items()
    }


def circle(sources: dict[str, str]) -> list[str]:
    """Return files that call each other in a circle, or nothing."""
    try:
        TopologicalSorter(calls(sources)).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def read(paths: list[Path]) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def test_the_call_graph_has_no_cycles() -> None:
    sources = read(build.sources())
    assert sum(map(len, calls(sources).values())) > len(sources)  # the graph is not empty
    assert not circle(sources)


def test_header_includes_have_no_cycles() -> None:
    headers = read(sorted(build.SOURCES.glob("*.h")))
    included = {
        name: set(re.findall(r'^#include "(\w+\.h)"', text, re.MULTILINE))
        for name, text in headers.items()
    }
    TopologicalSorter(included).prepare()


@pytest.mark.parametrize(
    ("one", "two", "found"),
    [
        ("int ask(void)\n{\n    return tell();\n}\n", "int tell(void)\n{\n    ask();\n}\n", True),
        (
            "int ask(void)\n{\n    return tell();\n}\n",
            "int tell(void)\n{\n    /* ask() */\n}\n",
            False,
        ),
        (
            "int ask(void)\n{\n    run(tell);\n}\n",
            "int tell(int a)\n{\n    return o.ask;\n}\n",
            False,
        ),
        ("static int ask(void)\n{\n    tell();\n}\n", "int tell(void)\n{\n    ask();\n}\n", False),
    ],
)
def test_a_call_cycle_is_found(one: str, two: str, found: bool) -> None:
    assert bool(circle({"one.c": one, "two.c": two})) is found
