"""The page on methods, and the options of ppbench in the page on figures, name what there is."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
import typer

from osmef.cli.main import make_app
from osmef.report.options import FigureKind

ROOT = Path(__file__).parents[2]
METHODS = (ROOT / "docs" / "methods.md").read_text()
FIGURES = (ROOT / "docs" / "figures.md").read_text()


NO_METHODS = {
    *("differences", "finite", "check", "cells", "machine_name"),
    *("distributions", "chi_squared_sf", "chi_squared_quantiles"),
    *("fill_platforms", "is_loopback", "has_sessions", "has_pairs", "has_runs", "independent"),
    *("session_medians", "platform_columns", "place_columns", "cell_names", "platform_names"),
}
"""Modules and functions that sort, name and check, and compute nothing; what tables would hold."""


def named() -> list[tuple[str, str]]:
    """Return the functions of the tables, by module and name."""
    found = []
    for line in METHODS.splitlines():
        if not line.startswith("|"):
            continue
        module = ""
        for one in re.findall(r"`([a-z_0-9.]+)`", line):
            own, _, name = one.rpartition(".")
            module = own or module
            if module and (ROOT / f"osmef/analysis/{module}.py").exists():
                found.append((module, name))
    return found


def public() -> list[tuple[str, str]]:
    """Return all functions of ``osmef.analysis`` that others use, by module and name."""
    found = []
    for path in sorted((ROOT / "osmef/analysis").glob("*.py")):
        if path.stem not in NO_METHODS:
            body = ast.parse(path.read_text()).body
            names = [one.name for one in body if isinstance(one, ast.FunctionDef)]
            found += [(path.stem, name) for name in names if name[0] != "_"]
    return [one for one in found if one[1] not in NO_METHODS]


def test_there_are_functions() -> None:
    assert len(named()) > 20
    assert len(public()) > 60


def test_the_page_names_functions_that_there_are() -> None:
    assert {one for one in named() if one[0] not in NO_METHODS} <= {*public()}


@pytest.mark.parametrize(("module", "name"), public(), ids=str)
def test_an_analysis_function_documents_its_assumptions_and_source(module: str, name: str) -> None:
    told = getattr(importlib.import_module(f"osmef.analysis.{module}"), name).__doc__
    words = " ".join(told.split())
    assert re.search(r"[Aa]ssum|takes the values .* for independent", words), "what it assumes"
    assert "Source:" in told, "where it is from"


def test_every_option_of_ppbench_has_a_name_that_there_is() -> None:
    table = FIGURES.split("| ppbench | OSMeF |")[1].split("\n\n")[0]
    commands = typer.main.get_group(make_app()).commands["plot"].params
    known = {option for one in commands for option in (*one.opts, *one.secondary_opts)}
    wanted = set(
        re.findall(
            r"(?<![a-z])--?[a-z][a-z-]*",
            " ".join(row.split("|")[2] for row in table.splitlines()[2:]),
        )
    )
    assert wanted >= {"--window", "--bands", "--no-points", "--names", "-o"}
    assert wanted <= known
    kinds = set(re.findall(r"pingpong-[a-z]+", table))
    assert kinds <= {kind.value for kind in FigureKind}
