"""The ``osmef`` command."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Annotated

import typer

import osmef

_COMMANDS = (
    "run", "resume", "reap", "validate", "plan", "show", "plot", "compare", "recommend",
    "similarity", "statistics", "report", "import", "export", "schema",
)  # fmt: skip
_GROUPS = ("campaign", "image", "prices")


def make_app(words: Sequence[str] = ()) -> typer.Typer:
    """Return the command line, for the words that it will read if these are known.

    Only what they need is imported: all commands together take seconds.
    """
    app = typer.Typer(
        name="osmef",
        help="Find out what a cloud's network really gives you.",
        epilog="First steps: osmef run scenarios/quickstart.yaml",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
    )
    app.callback()(_callback)
    first = words[0] if words else ""
    one = (first,) if first in {*_COMMANDS, *_GROUPS} else ()
    for name in () if first == "--version" else one or (*_COMMANDS, *_GROUPS):
        # import is a word of Python's
        module = import_module(f"osmef.cli.{name if name != 'import' else 'import_'}")
        if name in _GROUPS:
            app.add_typer(module.app, name=name)
        else:
            app.command(name=name, epilog=module.EPILOG)(module.command)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"osmef {osmef.__version__}")
        raise typer.Exit


def _callback(
    _version_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find out what a cloud's network really gives you."""


def load(words: Sequence[str]) -> Callable[[], None]:
    """Return the program for its words, loaded: the process's exit code is as documented."""
    return partial(_run, make_app(words))


def _run(app: typer.Typer) -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # not every terminal has a µ
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has what it wanted; Python's own flush at exit must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
