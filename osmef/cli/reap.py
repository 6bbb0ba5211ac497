"""``osmef reap``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from osmef.cli.console import (
    AsJson,
    Out,
    Verbose,
    err,
    print_error,
    print_json,
    reporting,
    set_up_logging,
)
from osmef.cli.console import out as console
from osmef.engine.reap import Orphan, find_orphans, reap
from osmef.errors import OsmefError

EPILOG = """Examples:

osmef reap          lists what is left of dead runs under results/, and asks

osmef reap --yes    destroys it without asking

Only what a journal or our mark says is ours is destroyed; runs whose controller lives are left \
alone. Exit codes: 0 nothing is left, 1 something is, 3 the provider failed."""


def command(
    out: Out = Path("results"),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Destroy without asking.")] = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Destroy what killed runs have left behind."""
    set_up_logging(verbose)
    with reporting(as_json):
        orphans = find_orphans(out)
        if not as_json:
            for orphan in orphans:
                console.print(f"{escape(_describe(orphan))}")
        confirmed = yes or (bool(orphans) and not as_json and _confirm(len(orphans)))
        failed = _destroy(orphans) if confirmed else []
        left = failed if confirmed else orphans
        if as_json:
            reaped = [orphan for orphan in orphans if orphan not in left]
            print_json({"reaped": _records(reaped), "left": _records(left)})
        else:
            done = f"destroyed {len(orphans) - len(left)}, " if orphans else ""
            console.print(f"{done}{len(left) or 'nothing'} left")
        if left:
            raise typer.Exit(1)


def _confirm(count: int) -> bool:
    return typer.confirm(f"Destroy {'these' if count > 1 else 'this'} {count}?", err=True)


def _destroy(orphans: list[Orphan]) -> list[Orphan]:
    """Destroy all; return those that would not go."""
    failed = []
    for orphan in orphans:
        try:
            reap(orphan)
        except OsmefError as error:
            err.print(f"can't destroy {escape(_describe(orphan))}")
            print_error(error)
            failed.append(orphan)
    return failed


def _describe(orphan: Orphan) -> str:
    r = orphan.resource
    return (
        f"{r.provider} {r.kind} {r.name} ({r.id or 'id unknown'}) of run {r.run}: {orphan.reason}"
    )


def _records(orphans: list[Orphan]) -> list[dict[str, object]]:
    return [{**asdict(orphan.resource), "reason": orphan.reason} for orphan in orphans]
