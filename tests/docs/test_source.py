"""The source keeps what CONTRIBUTING.md asks for: short modules and functions, and plain words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
RIDDLES = re.compile(
    r"\b(whoever|nobody|somebody|anew|heard of|speaks against|gone again|lets? us in|lets? in"
    r"|what (?:becomes|became) of|[Tt]ells? (?:whether|that|of)|told|untold|anybody)\b"
)
"""Words in the place of a term: retry, lease, orphan, recreate, unknown, return, report."""

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> list[Path]:
    return sorted((ROOT / "osmef").rglob("*.py"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the place of each docstring, and its text."""
    for node in nodes(path):
        if isinstance(node, Documented) and (text := ast.get_docstring(node)):
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", text


def test_no_docstring_has_obscure_wording() -> None:
    texts = [one for path in sources() for one in docstrings(path)]
    assert len(texts) > 4000
    assert [(place, found[0]) for place, text in texts if (found := RIDDLES.search(text))] == []


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
