"""The source keeps what CONTRIBUTING.md asks for: short modules and functions, and plain words."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
RIDDLES = re.compile(
    r"\b(whoever|nobody|somebody|anew|heard of|speaks against|gone again|lets? us in|lets? in"
    r"|what (?:becomes|became) of|[Tt]ells? (?:whether|that|of)|told|untold|anybody)\b"
)
"""Words in the place of a term: retry, lease, orphan, recreate, unknown, return, report."""


def sources() -> list[Path]:
    return sorted((ROOT / "osmef").rglob("*.py"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the place of each docstring, also of an attribute, and its text."""
    for node in nodes(path):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value.value


def comments(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the place of each comment of a module of Python, and its text."""
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield f"{path.relative_to(ROOT)}:{token.start[0]}", token.string


def c_comments(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the place of each comment of a source in C, and its text."""
    text = path.read_text(encoding="utf-8")
    for found in re.finditer(r"/\*.*?\*/|//[^\n]*", text, re.DOTALL):
        yield f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, found.start()) + 1}", found[0]


def obscure(texts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the places of obscure words, and these."""
    return [(place, found[0]) for place, text in texts if (found := RIDDLES.search(text))]


def test_no_docstring_has_obscure_wording() -> None:
    texts = [one for path in sources() for one in docstrings(path)]
    assert len(texts) > 5000
    assert obscure(texts) == []


def test_no_comment_has_obscure_wording() -> None:
    python = [one for path in sources() for one in comments(path)]
    agents = sorted((ROOT / "agents" / "osmef-agent").glob("*.[ch]"))
    c = [one for path in agents for one in c_comments(path)]
    assert len(python) > 500
    assert len(c) > 500
    assert obscure([*python, *c]) == []


def test_no_test_has_an_obscure_name() -> None:
    names = [
        (str(path.relative_to(ROOT)), node.name.replace("_", " "))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert len(names) > 3500
    assert obscure(names) == []


def test_obscure_wording_is_found() -> None:
    for text in (
        "Take what became of a job; of one that was given up nobody wants to know it.",
        "Tell whether EC2 failed at something.",
        "Make a VM anew.",
    ):
        assert RIDDLES.search(text), text


def test_a_module_has_600_lines_at_most() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}
    assert {str(path): length for path, length in lengths.items() if length > 600} == {}


def test_a_function_has_less_than_60_lines() -> None:
    functions = [
        (f"{path.relative_to(ROOT)}: {node.name}", (node.end_lineno or 0) - node.lineno + 1)
        for path in sources()
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert len(functions) > 4000
    assert [one for one in functions if one[1] >= 60] == []


USER_FILES = ("campaigns", "cli", "engine", "importers", "remote", "report", "results", "scenario")


def test_no_file_of_the_user_that_may_not_be_looked_at_is_taken_for_an_absent_one() -> None:
    """``Path.exists`` and its like do so from Python 3.14 on; those of osmef.files raise."""
    rooms = [path for room in USER_FILES for path in (ROOT / "osmef" / room).rglob("*.py")]
    looks = re.compile(r"\.(exists|is_dir|is_file)\(\)")
    found = {path for path in rooms if looks.search(path.read_text(encoding="utf-8"))}
    assert found == {ROOT / "osmef/cli/completion.py"}  # which is silent on purpose
