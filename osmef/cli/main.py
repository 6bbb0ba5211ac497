"""The ``osmef`` command."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

import osmef
from osmef.cli import (
    campaign,
    compare,
    export,
    image,
    import_,
    plan,
    plot,
    prices,
    reap,
    recommend,
    report,
    resume,
    run,
    schema,
    show,
    similarity,
    statistics,
    validate,
)

app = typer.Typer(
    name="osmef",
    help="Find out what a cloud's network really gives you.",
    epilog="First steps: osmef run scenarios/quickstart.yaml",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for module in (
    run, resume, reap, validate, plan, show, plot, compare, recommend, similarity, statistics,
    report, import_, export, schema,
):  # fmt: skip
    name = module.__name__.rpartition(".")[2].strip("_")  # import is a word of Python's
    app.command(name=name, epilog=module.EPILOG)(module.command)
app.add_typer(campaign.app, name="campaign")
app.add_typer(image.app, name="image")
app.add_typer(prices.app, name="prices")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"osmef {osmef.__version__}")
        raise typer.Exit


@app.callback()
def _callback(
    _version_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find out what a cloud's network really gives you."""


def main() -> None:
    """Run the command line; the process's exit code is as the documentation lists them."""
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
