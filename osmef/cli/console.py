"""What every command shares: options, consoles, errors as text or JSON."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from osmef.cli.later import later
from osmef.cli.streams import failure_of
from osmef.cli.terminal import PlainConsole, PlainFormatter, plain
from osmef.engine.stop import Stop, stop_on_signals
from osmef.errors import InputError, Interrupted, OsmefError

# A word between colons, as in an IPv6 address, is no name of an emoji.
out = PlainConsole(highlight=False, soft_wrap=True, emoji=False)
"""Standard output: results."""

err = PlainConsole(stderr=True, highlight=False, soft_wrap=True, emoji=False)
"""Standard error: progress, warnings, errors."""

# For help and wrong command lines, and slow to load.
later("typer.rich_utils").Console = PlainConsole  # type: ignore[attr-defined]

ScenarioFile = Annotated[
    Path, typer.Argument(help="Scenario file, YAML or JSON.", metavar="FILE", show_default=False)
]
RunPath = Annotated[
    Path,
    typer.Argument(
        help="A run: its directory, the beginning of its name in results/, or `latest`.",
        metavar="RUN",
    ),
]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Directory that holds the run directories.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Tell every step, and log the SSH connections.")
]
Figures = Annotated[
    bool,
    typer.Option(
        "--figures/--no-figures",
        help="Draw the figures into the run directory, which takes some seconds; `osmef plot` and"
        " `osmef report` draw them at any time.",
    ),
]
Overrides = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Use another value than the file's, such as workload.duration=1s or"
        " connections=[1,10]. May be repeated.",
        show_default=False,
    ),
]


def parse_overrides(texts: list[str]) -> dict[str, str]:
    """Return the ``--set`` options by name. Raises InputError."""
    overrides = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(
                f"{text!r} is not NAME=VALUE",
                where="--set",
                cure="write, for example: --set workload.duration=1s",
            )
        overrides[name.strip()] = value
    return overrides


def print_json(value: Any) -> None:  # whatever JSON can hold
    """Print a value as JSON, plainly, for machines."""
    text = json.dumps(value, indent=2).replace("\x7f", "\\u007f")  # the only one that it lets pass
    print(text)  # noqa: T201 - no markup, no wrapping


def print_text(text: str) -> None:
    """Print a text for the next program; what a terminal would obey only where there is none."""
    print(plain(text) if sys.stdout.isatty() else text, end="")  # noqa: T201 - no markup


def set_up_logging(verbose: bool) -> None:
    """Log to standard error if wanted; a library's warnings are not the user's otherwise."""
    level = logging.INFO if verbose else logging.CRITICAL
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter("%(asctime)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    logging.captureWarnings(capture=not verbose)


def stopping() -> AbstractContextManager[Stop]:
    """Turn signals into a request to stop, as ``stop_on_signals`` does, and tell of it."""
    return stop_on_signals(lambda text: err.print(f"[yellow]{text}[/]"))


@contextmanager
def reporting(as_json: bool = False) -> Iterator[None]:
    """Turn an error into what the user reads, and into the exit code of its kind."""
    try:
        yield
    except (OsmefError, KeyboardInterrupt) as caught:
        error = caught if isinstance(caught, OsmefError) else Interrupted("stopped by SIGINT")
        if as_json:
            print_json({"error": error_record(error)})
        if not as_json or failure_of(sys.stdout) is not None:
            print_error(error)
        raise typer.Exit(error.exit_code) from caught


def error_record(error: OsmefError) -> Mapping[str, Any]:
    """Return an error for machines."""
    problems = error.problems if isinstance(error, InputError) else ()
    more = error.more if isinstance(error, InputError) else 0
    return {
        "kind": error.kind,
        "message": error.message,
        "where": error.where,
        "cure": error.cure,
        "problems": [vars(problem) for problem in problems],
        **({"more_problems": more} if more else {}),
    }


def print_error(error: OsmefError) -> None:
    """Print an error for people: what failed, where, why, and what to do."""
    if isinstance(error, InputError) and error.problems:
        for problem in error.problems:
            place = f"{problem.file}:{problem.line}:{problem.column}"
            err.print(f"[bold]{escape(place)}[/]: {escape(problem.message)}")
            err.print(f"  [green]cure[/]: {escape(problem.cure)}")
        if error.more:
            err.print(f"and {error.more} more")
        count = len(error.problems) + error.more
        err.print(f"[bold red]{count} problem{'s' if count > 1 else ''}[/]")
        return
    where = f"[bold]{escape(error.where)}[/]: " if error.where else ""
    err.print(f"[bold red]error[/]: {where}{escape(error.message)}")
    if error.cure:
        err.print(f"  [green]cure[/]: {escape(error.cure)}")
