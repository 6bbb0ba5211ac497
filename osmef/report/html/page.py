"""Page of runs: read them, fill the template, write one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from osmef.report.html.across import across
from osmef.report.html.figures import Drawn, draw_run
from osmef.report.html.findings import findings
from osmef.report.html.hosts import changes_table, differences_table, endpoints_table
from osmef.report.html.reading import ShownRun, read_run
from osmef.report.html.results import (
    limits_table,
    numbers_table,
    placement_table,
    results_table,
    trials_table,
)
from osmef.report.html.shell import check_output, fill, write_page
from osmef.report.html.table import Column, Emphasis, Field, Table, text
from osmef.report.sentences import cost_text
from osmef.results.find import find_runs
from osmef.results.frame import load
from osmef.units import format_duration

_MOST_NUMBERS = 4000  # rows of all runs together, some 3 MB
_MOST_ROWS = 3000  # of each other table of a run, of all runs together
_MOST_PARTS = 40  # runs that have a section of their own
_MOST_RUNS = 2000
_MOST_DRAWN = 12  # runs that have figures of their own, each of which takes seconds
_MOST_WHOLE = 4  # runs of a page on which each has all figures that say something of it
_MOST_FIGURES_BYTES = 12_000_000


@dataclass(frozen=True)
class RunSection:
    """A run's section; its summary is None before it has ended."""

    reading: ShownRun
    state: Field
    findings: Sequence[str] = ()
    results: Table | None = None
    placement: Table | None = None
    limits: Table | None = None
    endpoints: Table | None = None
    changes: Table | None = None
    numbers: Table | None = None
    figures: Sequence[Drawn] = ()
    cost: str | None = None


def write_report(
    paths: Sequence[str | PathLike[str]], output: Path, title: str | None = None
) -> list[ShownRun]:
    """Write the page of the runs that the paths name (``find_runs``), and return what was read.

    Raises InputError where a path leads to no run, a run is damaged, or there is a file that is no
    page of ours, and StorageError.
    """
    check_output(output)  # before figures are drawn for nothing
    readings = [read_run(n, run) for n, run in enumerate(find_runs(*paths), start=1)]
    page = render(readings, title)
    write_page(output, page)
    return readings


def render(readings: Sequence[ShownRun], title: str | None = None) -> str:
    """Return the page as text."""
    others = f" and {len(readings) - 1} more" if len(readings) > 1 else ""
    together, parts = across(readings, _MOST_ROWS), _parts(readings[:_MOST_PARTS])
    drawn = [*together.figures, *(one for part in parts for one in part.figures)]
    return fill(
        "page.html.jinja",
        title or f"{readings[0].name}{others}",
        live=any(one.live for one in drawn),
        overview=_overview(readings).first(_MOST_RUNS),
        across=together,
        hosts=differences_table(readings),
        parts=parts,
        left=len(readings) - _MOST_PARTS,
    )


def _parts(readings: Sequence[ShownRun]) -> list[RunSection]:
    numbers, rows = _MOST_NUMBERS // len(readings), _MOST_ROWS // len(readings)
    room = _MOST_FIGURES_BYTES
    parts = []
    for reading in readings:
        summary = reading.summary
        figures = []
        if room > 0 and reading.number <= _MOST_DRAWN:
            for drawn in draw_run(reading, whole=len(readings) <= _MOST_WHOLE):
                room -= len(drawn.svg or "")
                figures.append(drawn if room > 0 else Drawn(drawn.name, drawn.title, None))
                if room <= 0:
                    break
        if summary is None:
            results = trials_table(load(reading.path)).first(rows) if reading.trials else None
            parts.append(RunSection(reading, _state(reading), results=results, figures=figures))
            continue
        limits = limits_table(summary)
        trials = load(reading.path) if reading.trials else None
        part = RunSection(
            reading=reading,
            state=_state(reading),
            findings=findings(summary),
            results=results_table(summary, trials).first(rows),
            placement=placement_table(summary).first(rows),
            limits=limits.first(rows) if limits else None,
            endpoints=endpoints_table(summary).first(rows) if summary.endpoints else None,
            changes=changes_table(summary),
            numbers=numbers_table(summary, numbers),
            figures=figures,
            cost=cost_text(summary),
        )
        parts.append(part)
    return parts


def _overview(readings: Sequence[ShownRun]) -> Table:
    heads = ("run", "scenario", "provider", "workload", "began", "took")
    numbers = ("cells", "trials", "failed")
    columns = [
        *(Column(head) for head in heads),
        *(Column(head, number=True) for head in numbers),
        Column("state"),
    ]
    return Table("Runs", columns, [_run(reading) for reading in readings])


def _run(reading: ShownRun) -> list[Field]:
    summary = reading.summary
    name = Field(f"{reading.number}", (reading.directory.id,))
    failed = sum(one.count for one in reading.failed)
    bad = Field(str(failed), emphasis=Emphasis.BAD if failed else Emphasis.PLAIN)
    trials = Field(str(reading.trials))
    if summary is None:
        unknown = [text(None)] * 4
        return [name, Field(reading.name), *unknown, text(None), trials, bad, _state(reading)]
    run = summary.run
    workloads = dict.fromkeys(cell.workload for cell in summary.cells)
    seconds = run.worked_s
    if seconds is None and run.started_at and run.ended_at:
        seconds = (run.ended_at - run.started_at).total_seconds()
    took = None if seconds is None else Field(format_duration(seconds), key=repr(seconds))
    return [
        name,
        Field(run.scenario),
        text(run.provider),
        Field(", ".join(workloads)),
        text(run.started_at.strftime("%Y-%m-%d %H:%M:%S UTC") if run.started_at else None),
        took or text(None),
        Field(str(len(summary.cells))),
        trials,
        bad,
        _state(reading),
    ]


def _state(reading: ShownRun) -> Field:
    """Return the run's state: complete, incomplete, or imported."""
    summary = reading.summary
    if summary is None:
        return Field("not ended", emphasis=Emphasis.BAD)
    if not summary.run.complete:
        return Field("incomplete", emphasis=Emphasis.BAD)
    return Field("imported" if summary.run.scenario_digest is None else "complete")
