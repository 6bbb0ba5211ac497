"""``osmef validate``."""

from __future__ import annotations

import typer
from rich.markup import escape

from osmef.cli.console import (
    AsJson,
    Overrides,
    ScenarioFile,
    error_record,
    out,
    parse_overrides,
    print_json,
    reporting,
)
from osmef.engine.check import check_study
from osmef.errors import InputError
from osmef.scenario.load import load

EPILOG = """Example:

osmef validate scenarios/quickstart.yaml

All problems are listed at once, as file:line:column with a cure. Exit codes: 0 valid, 2 not."""


def command(file: ScenarioFile, overrides: Overrides = [], as_json: AsJson = False) -> None:  # noqa: B006 - typer copies it
    """Check a scenario file, and whether its provider can do what it asks."""
    with reporting(as_json):
        try:
            study = load(file, parse_overrides(overrides))
            check_study(study)
        except InputError as error:
            if not as_json:
                raise
            print_json({"valid": False, **error_record(error)})
            raise typer.Exit(error.exit_code) from error
    if as_json:
        print_json({"valid": True, "cells": len(study.cells), "problems": []})
    else:
        count = len(study.cells)
        out.print(f"{escape(str(file))}: valid, {count} cell{'s' if count > 1 else ''}")
