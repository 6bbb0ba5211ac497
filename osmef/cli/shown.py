"""Show a result: its figures, its table, and where everything is."""

from __future__ import annotations

from pathlib import Path

from rich.markup import escape

from osmef.cli.console import out
from osmef.report.cost import cost_text
from osmef.report.table import summary_table
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary


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
