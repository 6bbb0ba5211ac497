"""Display of a result: its figures, its table, and the paths of its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.markup import escape

from osmef.cli.console import err, out, print_note
from osmef.errors import PackageError
from osmef.report.summary import cost_text, expectations
from osmef.report.table import layer_table, summary_table
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary, Verdict

_MOST_REASONS = 3
_COLOURS = {Verdict.MET: "green", Verdict.MISSED: "red", Verdict.UNDECIDED: "yellow"}
_MOST_CHARACTERS = 300


def draw(directory: RunDirectory) -> list[Path]:
    """Draw the figures of a run into its directory, and return their paths.

    Where what draws them is not installed, it says so, and there are none.
    """
    try:
        # matplotlib takes a while to load, and only the end of a run needs it
        from osmef.report.figures import draw_figures  # noqa: PLC0415
    except ModuleNotFoundError as error:
        told = PackageError.of(error)
        if told is None:
            raise
        print_note(err, f"no figures and no page: {told.cure}")
        return []
    return draw_figures(directory.path)


def show(
    summary: Summary,
    directory: Path,
    figures: list[Path],
    *,
    whole: bool = False,
    ended: bool = False,
) -> None:
    """Print the table of a run, its warnings, and the paths of its files.

    The table fits the terminal, unless the ``whole`` one is wanted. Of a run that has just
    ``ended`` the next command is named.
    """
    width = None if whole else out.width
    out.print(summary_table(summary, width))
    if (layers := layer_table(summary, width)) is not None:
        out.print(layers)
    for verdict, text in expectations(summary):
        print_note(out, text, f"[{_COLOURS[verdict]}]expected[/]")
    for text in _failures(summary, directory):
        print_note(out, text, "[red]failed[/]")
    for text in summary.run.warnings:
        print_note(out, text)
    if cost := cost_text(summary):
        out.print(f"cost: {escape(cost)}")
    if not summary.run.complete:
        out.print(f"[yellow]incomplete[/]; to go on: osmef resume {escape(str(directory))}")
    for figure in figures:
        if figure.suffix == ".png":
            out.print(f"figure: {escape(str(figure))}")
    out.print(f"run: [bold]{escape(str(directory))}[/]")
    if ended:
        out.print(f"for a page with figures: osmef report {escape(str(directory))}")


def _failures(summary: Summary, directory: Path) -> Iterator[str]:
    """Yield the reasons of failed trials, the most frequent first."""
    if not any(cell.n_failed for cell in summary.cells):
        return
    trials = RunDirectory.open(directory).read_trials().trials
    reasons = Counter(trial.failure.shown for trial in trials if trial.failure is not None)
    for reason, count in reasons.most_common(_MOST_REASONS):
        short = reason if len(reason) <= _MOST_CHARACTERS else f"{reason[:_MOST_CHARACTERS]}…"
        yield f"{count} of {len(trials)} trials: {short}"
    if (more := len(reasons) - _MOST_REASONS) > 0:
        yield f"for {more} more reasons: {directory / 'trials.jsonl'} has them all"
