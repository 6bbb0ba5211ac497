"""``osmef init`` and ``schema``: a scenario file to begin with, and the JSON Schemas."""

from __future__ import annotations

import json
import shlex
import textwrap
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from osmef.cli.completion import complete_workload
from osmef.cli.console import out, print_json, print_text, reporting
from osmef.errors import InputError
from osmef.files import exists
from osmef.kinds import WORKLOADS
from osmef.results.files import write_atomically
from osmef.results.summary import summary_schema
from osmef.scenario.base import keys_of
from osmef.scenario.schema import PLAIN, default_of, json_schema

INIT_EPILOG = """Examples:

osmef init

osmef init udp --output loss.yaml

Then: osmef validate FILE, osmef plan FILE, osmef run FILE."""

_SCHEMA = "osmef-scenario.schema.json"
_WIDE = 100
_COMMENT = 28  # the column of comments
_TEXT = """\
# yaml-language-server: $schema={schema}
# The line above lets an editor complete and check this file.
name: {name}
description: what this is for
{provider} # a small cloud on this machine; others are
{indent} # {others}

{workload}

repeat: 6                    # trials of each cell: the fewest with a 95 % interval of the median
order: random                # so that a drift does not look like a difference of cells
"""
_SWEEP = """
sweep:                       # every combination of these values is a cell
  placement: [same-host, different-host]"""
_OTHERS = "aws, azure, gce, openstack, libvirt, static"


def init_command(
    kind: Annotated[
        str,
        typer.Argument(
            help="The workload: one of those that `osmef workloads` lists.",
            autocompletion=complete_workload,
        ),
    ] = "btc",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write it; without, KIND.yaml. `-` is standard output.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a scenario with all settings of a workload as comments, to begin with."""
    with reporting():
        file = output or Path(f"{kind}.yaml")
        schema = file.parent / _SCHEMA
        text = scenario_text(kind)
        if output == Path("-"):
            print_text(text)
            return
        if exists(file):
            raise InputError(
                "this file exists already", where=str(file), cure="name another: -o FILE"
            )
        write_atomically(file, text.encode())
        if not exists(schema):
            write_atomically(schema, (json.dumps(json_schema(), indent=2) + "\n").encode())
    out.print(f"written: {escape(str(file))}, and {escape(str(schema))} for your editor")
    out.print(f"next: osmef run {escape(shlex.quote(str(file)))}")


def scenario_text(kind: str) -> str:
    """Return a scenario with a workload of this kind. Raises InputError where there is none."""
    if kind not in WORKLOADS.names:
        raise InputError(
            f"there is no workload {kind!r}", where="KIND", cure="osmef workloads lists them all"
        )
    lines = _work(kind).split("\n")
    if not {"endpoints:", "sweep:"} & {line.partition(" ")[0] for line in lines}:
        lines.append(_SWEEP)
    provider = next((line for line in lines if line.startswith("provider:")), "provider: local")
    return _TEXT.format(
        schema=_SCHEMA,
        name=f"my-{kind}",
        provider=provider.ljust(_COMMENT),
        indent=" " * max(_COMMENT, len(provider)),
        others=_OTHERS,
        workload="\n".join(line for line in lines if line != provider),
    )


def _work(kind: str) -> str:
    """Return the example of a workload, or its settings with defaults as comments."""
    if example := str(WORKLOADS.get(kind).example):
        return example.rstrip()
    lines = [f"workload:\n  kind: {kind}"]
    for key, field in keys_of(WORKLOADS.settings(kind)).items():
        if key != "kind" and not field.is_required():
            lines += _comment(key, default_of(field, PLAIN), str(field.description or ""))
    return "\n".join(lines)


def _comment(key: str, default: str, about: str) -> list[str]:
    reported = textwrap.wrap(about, _WIDE - 8)
    value = "null" if default == "none" else default
    return [f"  # {key}: {value}", *(f"  #     {line}" for line in reported)]


SCHEMA_EPILOG = """Examples:

osmef schema > osmef-scenario.schema.json    for your editor

osmef schema summary                         for readers of summary.json"""


class Document(StrEnum):
    """Document that has a schema."""

    SCENARIO = "scenario"
    SUMMARY = "summary"


def schema_command(
    document: Annotated[Document, typer.Argument(help="Which file's schema.")] = Document.SCENARIO,
) -> None:
    """Print the JSON Schema of the scenario file or of summary.json."""
    print_json(json_schema() if document is Document.SCENARIO else summary_schema())
