"""The manual and the changelog name code that exists, in words that are terms."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs.test_source import RIDDLES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
ANALYSIS = sorted(path.stem for path in (ROOT / "osmef" / "analysis").glob("[a-z]*.py"))
DOTTED = re.compile(r"`([a-z_][a-z_0-9]*(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")
FILES = {"c", "csv", "h", "html", "json", "jsonl", "md", "out", "parquet", "png", "py", "yaml"}
"""Endings: `compare.html` is a page, and no name in a module."""

ELSEWHERE = {"context.check", "cpt.var", "swept.background", "trials.attrs"}
"""What pages name besides: members of an argument and of a frame, a column, a function of R."""


@cache
def names_of(module: str) -> frozenset[str]:
    """Return the names of the functions and classes that a module of osmef.analysis defines."""
    source = (ROOT / "osmef" / "analysis" / f"{module}.py").read_text(encoding="utf-8")
    kinds = (ast.FunctionDef, ast.ClassDef)
    return frozenset(node.name for node in ast.parse(source).body if isinstance(node, kinds))


def references(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each reference to osmef or osmef.analysis on a page, and its full name.

    One without the module that a name of osmef.analysis is in now counts, too: `ecdf.ecdf` was
    right until its module was renamed.
    """
    known = frozenset[str]().union(*map(names_of, ANALYSIS))
    for found in DOTTED.findall(path.read_text(encoding="utf-8")):
        first, *_others, last = found.split(".")
        if last in FILES or found in ELSEWHERE:
            continue
        if first == "osmef":
            yield found, found
        elif first in ANALYSIS or last in known or path.name == "methods.md":
            yield found, f"osmef.analysis.{found}"


def resolves(name: str) -> bool:
    """Return whether a dotted name is a module, or what a module has by that name."""
    module, _dot, attribute = name.rpartition(".")
    try:
        if importlib.util.find_spec(name) is not None:
            return True
    except ModuleNotFoundError:
        pass
    try:
        return hasattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError:
        return False


def prose(path: Path) -> str:
    """Return the text of a page in one line, without code: names in it are no words."""
    text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(text.split())


def test_each_reference_to_code_resolves() -> None:
    found = [(path.name, *one) for path in PAGES for one in references(path)]
    assert len(found) > 70
    assert [one[:2] for one in found if not resolves(one[2])] == []


def test_a_reference_to_a_module_that_was_renamed_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("By `ecdf.ecdf`, `quantiles.ecdf`, and `osmef.gone`; see `compare.html`.")
    assert [(one, resolves(name)) for one, name in references(page)] == [
        ("ecdf.ecdf", False),
        ("quantiles.ecdf", True),
        ("osmef.gone", False),
    ]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_has_no_obscure_wording(path: Path) -> None:
    text = prose(path)
    assert [text[max(0, m.start() - 60) : m.end() + 40] for m in RIDDLES.finditer(text)] == []


def test_the_tests_that_pages_name_exist() -> None:
    named = {
        name for page in PAGES for name in re.findall(r"`(test_[a-z]+_\w+)`", page.read_text())
    }
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 40
    assert named - {*re.findall(r"def (test_\w+)\(", sources)} == set()
