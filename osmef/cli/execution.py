"""Run a plan in its directory and show the result: what ``run`` and ``resume`` share."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.markup import escape

from osmef.cli.console import err, out, print_json
from osmef.cli.progress import progress_for
from osmef.engine.plan import Plan
from osmef.engine.run import Run
from osmef.engine.stop import stop_on_signals
from osmef.errors import OsmefError
from osmef.report.cost import cost_text
from osmef.report.table import summary_table
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary


def execute(plan: Plan, directory: RunDirectory, *, verbose: bool, as_json: bool) -> None:
    """Run what the directory lacks of the plan, draw the figures, print the table.

    Raises what ``Run.execute`` does; exits with 1 when trials have failed.
    """
    with stop_on_signals(lambda text: err.print(f"[yellow]{text}[/]")) as stop:
        try:
            with progress_for(err, verbose, as_json) as observer:
                summary = Run(plan, directory, observer, stop).execute()
        except OsmefError as error:
            resume = f"osmef resume {directory.path} goes on with the run"
            error.cure = f"{error.cure}; {resume}" if error.cure else resume
            raise
        # A signal now has nothing left to stop, and the figures take a second.
        figures = draw(directory)
    if as_json:
        print_json({"directory": str(directory.path), "summary": summary.model_dump(mode="json")})
    else:
        show(summary, directory.path, figures)
    if any(cell.n_failed for cell in summary.cells):
        raise typer.Exit(1)


def draw(directory: RunDirectory) -> list[Path]:
    """Draw the figures of a run into its directory, and return the paths of the files."""
    # matplotlib takes a while to load, and only the end of a run needs it
    from osmef.report.figures import draw_figures  # noqa: PLC0415

    return draw_figures(directory.path)


def show(summary: Summary, directory: Path, figures: list[Path]) -> None:
    """Print the table of a run, its warnings, and where everything is."""
    out.print(summary_table(summary))
    for text in summary.run.warnings:
        out.print(f"[yellow]note[/]: {escape(text)}")
    if cost := cost_text(summary):
        out.print(f"cost: {escape(cost)}")
    if not summary.run.complete:
        out.print(f"[yellow]incomplete[/]; to go on: osmef resume {escape(str(directory))}")
    for figure in figures:
        if figure.suffix == ".png":
            out.print(f"figure: {escape(str(figure))}")
    out.print(f"run: [bold]{escape(str(directory))}[/]")
