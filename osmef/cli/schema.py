"""``osmef schema``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from osmef.cli.console import print_json
from osmef.results.summary import summary_schema
from osmef.scenario.schema import json_schema

EPILOG = """Examples:

osmef schema > osmef-scenario.schema.json    for your editor

osmef schema summary                         for readers of summary.json"""


class Document(StrEnum):
    """What has a schema."""

    SCENARIO = "scenario"
    SUMMARY = "summary"


def command(
    document: Annotated[Document, typer.Argument(help="Which file's schema.")] = Document.SCENARIO,
) -> None:
    """Print the JSON Schema of the scenario file or of summary.json."""
    print_json(json_schema() if document is Document.SCENARIO else summary_schema())
