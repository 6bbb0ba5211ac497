"""Page of runs: read them, fill the template, write one file; with a section over all runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from osmef.analysis.diagnostics import FEWEST, cells, data_quality, pairwise_comparisons
from osmef.analysis.layers import LAYER, REFERENCE, comparable, layer_overheads
from osmef.analysis.replication import describe_replicates, has_sessions
from osmef.report.cells import cells_of, leading
from osmef.report.data import Data
from osmef.report.html.figures import Drawn, draw, draw_run
from osmef.report.html.layout import (
    Column,
    Emphasis,
    Field,
    Table,
    check_output,
    fill,
    number,
    scale_of,
    sort_key,
    text,
    write_page,
)
from osmef.report.html.results import (
    limits_table,
    measured,
    numbers_table,
    placement_table,
    results_table,
    trials_table,
)
from osmef.report.html.run import (
    ShownRun,
    changes_table,
    differences_table,
    endpoints_table,
    findings,
    read_run,
)
from osmef.report.options import PLAIN, FigureKind
from osmef.report.summary import (
    busy_cells,
    cost_text,
    doubts_of,
    needed_of,
    needs_more,
    platform_of,
    short_cells,
    short_names,
)
from osmef.results.frame import load
from osmef.results.measure import Measure
from osmef.results.rundir import find_runs
from osmef.results.summary import MetricSummary
from osmef.scenario.study import ALONE
from osmef.units import format_duration

_MOST_CELLS = 60  # a figure of more shows nothing
_MOST_NAMES = 6
_KINDS = (FigureKind.SESSIONS, FigureKind.COV, FigureKind.BTC_CONNECTIONS)
_NOTE = (
    "Large: the median. Below it: its exact 95 % interval; then n, and CoV, the coefficient of "
    "variation."
)
_MOST_BETWEEN = 24
"""The pairs of more cells are unreadable."""
_BETWEEN_NOTE = (
    "Paired: within each block of the random order, so that effects common to a block cancel: the "
    "ratio of Hodges and Lehmann with its interval below it, and p of Wilcoxon's signed ranks. "
    "Unpaired, where the run has no blocks: p of Mann and Whitney."
)
_LAYERS_NOTE = (
    "Paired: the layer and the bare network in each block of the random order, on the same "
    "endpoints; the ratio of Hodges and Lehmann, or the median of ratios where one is 0, with "
    "its 95 % interval below it, and p of Wilcoxon's signed ranks. Of several runs each counts as "
    "one. Unpaired, where there are no blocks: the ratio of medians, and p of Mann and Whitney. "
    "CPU per GB is that of both endpoints, the kernel's work included."
)
_TRUST_NOTE = (
    "Needed: how many values give the median to within 5 %. Autocorrelation: whether a value "
    "resembles the one before (Ljung and Box). Drift: Mann and Kendall. Both from {fewest} values "
    "on, with p after Holm's correction over all rows. Outliers, outside of Tukey's fences, are "
    "shown and never removed."
)


@dataclass(frozen=True)
class AllRunsSection:
    """The section over all runs; ``results`` is None for a single one.

    ``layers`` compares them with the bare network, ``between`` the cells of a single run.

    ``few`` says in which cells there are too few trials, and is empty for none.
    """

    results: Table | None
    layers: Table | None
    between: Table | None
    trust: Table | None
    few: str
    figures: Sequence[Drawn]


def all_runs_section(readings: Sequence[ShownRun], most: int) -> AllRunsSection:
    """Return the section over all runs with trials, in tables of up to ``most`` rows."""
    paths = [reading.path for reading in readings if reading.trials]
    if not paths:
        return AllRunsSection(None, None, None, None, "", ())
    data = Data(*paths)
    measures = leading(data.trials)
    several = len(paths) > 1
    figures = list(_figures(data)) if several else []
    names = _names_of(cells(data.trials), readings)
    results = _results(data.trials, measures, names).first(most) if several else None
    found = data_quality(data.trials, [one.name for one in measures])
    between = _between(data.trials, measures, most) if not several else None
    shown = _trust(found, data.trials, names)
    layers = layer_table(data.trials)
    layers = layers and layers.first(most)
    what = "sessions" if has_sessions(data.trials) else "trials"
    few = _few(found, names, {one.name: one.words for one in measures}, what)
    return AllRunsSection(results, layers, between, shown and shown.first(most), few, figures)


def _names_of(keys: Iterable[str], readings: Sequence[ShownRun]) -> dict[str, str]:
    """Return display names of cells: with number and name of their run where needed."""
    parts = {key: platform_of(key) for key in keys}
    short, _shared = short_cells(last for _before, last in parts.values())
    runs = {one.directory.id: f"{one.number} {one.name}" for one in readings}
    found = {}
    for key, (before, last) in parts.items():
        name = short[last] if short[last] != ALONE else ""
        found[key] = ", ".join(filter(None, [runs.get(before, before), name])) or key
    return found


def _results(trials: pd.DataFrame, measures: Sequence[Measure], names: Mapping[str, str]) -> Table:
    sessions = has_sessions(trials)
    groups = cells(trials)
    found = {
        one.name: {cell: describe_replicates(rows, one.name, by_session=sessions)
                   for cell, rows in groups.items()}
        for one in measures
    }  # fmt: skip
    heads, numbers = _numbers(measures, found, list(groups))
    columns = [
        Column("cell"),
        *(Column(head, number=True) for head in ("runs", "trials", "failed")[not sessions :]),
        *heads,
    ]
    rows = [
        [
            Field(names[cell]),
            *([Field(str(of["run"].nunique()))] if sessions else []),  # else it is of one
            Field(str(len(of))),
            _failed(of),
            *fields,
        ]
        for cell, of in groups.items()
        for fields in numbers[cell]
    ]
    unit = "n counts sessions, each the median of its trials." if sessions else "n counts trials."
    caption = "Each cell over all runs" if sessions else "Each cell of each run"
    return Table(caption, columns, rows, f"{_NOTE} {unit}")


def _numbers(
    measures: Sequence[Measure],
    found: Mapping[str, Mapping[str, MetricSummary]],
    keys: Sequence[str],
) -> tuple[list[Column], dict[str, list[list[Field]]]]:
    """Return the columns of the numbers, and the fields of each row by cell.

    Where cells have different measures, as runs of several workloads have, each number has a row
    that names its measure: a column for each would be dashes.
    """
    scales = {one.name: scale_of(one, list(found[one.name].values())) for one in measures}
    own = {key: [one for one in measures if found[one.name][key].median is not None]
           for key in keys}  # fmt: skip
    if len({tuple(one.name for one in of) for of in own.values() if of}) < 2:
        columns = [Column(scale.words, scale.unit, number=True) for scale in scales.values()]
        fields = {key: [[measured(found[name][key], scale) for name, scale in scales.items()]]
                  for key in keys}  # fmt: skip
        return columns, fields
    fields = {
        key: [
            [
                text(one.words),
                measured(found[one.name][key], replace(scales[one.name], by_row=True)),
            ]
            for one in of
        ]
        or [[text(None), measured(found[measures[0].name][key], scales[measures[0].name])]]
        for key, of in own.items()
    }
    return [Column("metric"), Column("median", number=True)], fields


def layer_table(trials: pd.DataFrame) -> Table | None:
    """Return what layers cost: the ratio of each number to that of the bare network."""
    if LAYER not in trials or not trials[LAYER].eq(REFERENCE).any():
        return None
    known, measures = comparable(trials)
    found = layer_overheads(known, [one.name for one in measures])
    if found.empty:
        return None
    words = {one.name: one for one in measures}
    others = found.attrs["by"]
    shown = [name for name in others if found[name].nunique(dropna=False) > 1]
    columns = [
        Column("layer"),
        *(Column(name) for name in short_names(shown).values()),
        Column("metric"),
        Column("n", number=True),
        *(Column(head, number=True) for head in (REFERENCE, "with the layer")),
        Column("ratio", f"to {REFERENCE}", number=True),
        Column("p", "after Holm", number=True),
        Column("compared"),
    ]
    rows = [
        [
            Field(str(row[LAYER])),
            *(Field(str(row[name])) for name in shown),
            Field(words[str(row["metric"])].words),
            Field(f"{row['n']} {row['unit']}"),
            *(_median(row[name], words[str(row["metric"])]) for name in _MEDIANS),
            _ratio(row),
            number(None if math.isnan(row["p_holm"]) else row["p_holm"]),
            Field(str(row["method"])),
        ]
        for row in found.to_dict("records")
    ]
    return Table("What layers cost", columns, rows, _LAYERS_NOTE)


_MEDIANS = ("reference_median", "median")


def _median(value: float, measure: Measure) -> Field:
    return Field(measure.with_unit(value), key=repr(value))


def _ratio(row: Mapping[Any, Any]) -> Field:
    low, high = row["ratio_low"], row["ratio_high"]
    interval = () if math.isnan(low) else (f"{low:.3g}..{high:.3g}",)
    return number(None if math.isnan(row["ratio"]) else row["ratio"], *interval)


def _between(trials: pd.DataFrame, measures: Sequence[Measure], most: int) -> Table | None:
    """Return the pairwise comparison of a run's cells, paired by blocks if there are any."""
    if has_sessions(trials) or not 1 < len(cells(trials)) <= _MOST_BETWEEN:
        return None
    found = pairwise_comparisons(trials, [one.name for one in measures])
    if found.empty:
        return None
    rows = [row for row in found.to_dict("records") if min(row["n_a"], row["n_b"]) > 1]
    names, shared = short_cells(str(row[end]) for row in rows for end in "ab")
    words = {one.name: one.words for one in measures}
    columns = [
        Column("cells"),
        Column("metric"),
        Column("n", number=True),
        Column("a / b", number=True),
        Column("p", "after Holm", number=True),
        Column("compared"),
    ]
    shown = [
        [
            Field(f"{names[str(row['a'])]} against {names[str(row['b'])]}"),
            Field(words[str(row["metric"])]),
            Field(f"{row['n_a']}, {row['n_b']}"),
            *_difference(row),
            Field(str(row["method"])),
        ]
        for row in rows
    ]
    alike = ", ".join(f"{words[name]} {p:.2g}" for name, p in found.attrs["friedman_p"].items()
                      if p is not None)  # fmt: skip
    note = _BETWEEN_NOTE + (f" All cells alike: p = {alike} (Friedman)." if alike else "")
    note += f" All cells: {shared}." if shared else ""
    caption = "How the cells of the run differ"
    return Table(caption, columns, shown, note).first(most) if shown else None


def _difference(row: Mapping[Any, Any]) -> tuple[Field, Field]:
    """Return the ratio with its interval, and p."""
    if row["method"] != "paired":
        return text(None), number(row["mann_whitney_p_holm"])
    p = row["paired_p_holm"]
    return _ratio(row), number(None if math.isnan(p) else p)


def _failed(trials: pd.DataFrame) -> Field:
    count = int((trials["status"] != "ok").sum())
    return Field(str(count), emphasis=Emphasis.BAD if count else Emphasis.PLAIN)


def _few(found: pd.DataFrame, names: Mapping[str, str], words: Mapping[str, str], what: str) -> str:
    """Name the cells that need more of what counts for each metric, by ``data_quality``."""
    found = found[[bool(needs_more(row)) for row in found.to_dict("records")]]
    parts = []
    for metric, rows in found.groupby("metric", sort=False) if len(found) else ():
        of = [f"{names[str(row['cell'])]} ({needs_more(row)})"
              for row in rows.head(_MOST_NAMES).to_dict("records")]  # fmt: skip
        more = f" and {len(rows) - _MOST_NAMES} more" if len(rows) > _MOST_NAMES else ""
        parts.append(f"{words[str(metric)]} of {', '.join(of)}{more}")
    reported = "; ".join(parts)
    return (
        f"To know a median to within 5 %, more {what} are needed: {reported}." if reported else ""
    )


def _trust(found: pd.DataFrame, trials: pd.DataFrame, names: Mapping[str, str]) -> Table | None:
    if found.empty:
        return None
    heads = ("n", "needed", "autocorrelation, p", "of all cells, p", "drift", "drift, p")
    units = ("", "", "", "", "%", "")
    busy = busy_cells(cells(trials))
    columns = [
        Column("cell"),
        Column("metric"),
        *(Column(head, unit, number=True) for head, unit in zip(heads, units, strict=True)),
        *(Column(head) for head in ("steps at", "spread changes at", "outliers", "doubts")),
    ]
    rows = [
        [
            Field(names[str(row["cell"])]),
            Field(str(row["metric"])),
            Field(str(row["n"])),
            Field(needed_of(row), key=sort_key(row["repetitions"])),
            number(row["autocorrelation_p"]),
            number(row["common_memory_p"]),
            number(row["drift_percent"]),
            number(row["drift_p"]),
            _names(row["steps"]),
            _names(row["spreads"]),
            _names(row["outliers"]),
            Field(reported, emphasis=Emphasis.WARN) if reported else text(None),
        ]
        for row in found.to_dict("records")
        for reported in [doubts_of(row, busy=busy)]
    ]
    unit = "sessions" if has_sessions(trials) else "trials"
    note = f"Of {unit}, in the order of time. {_TRUST_NOTE.format(fewest=FEWEST)}"
    return Table("How far these numbers can be trusted", columns, rows, note)


def _names(names: Sequence[str]) -> Field:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return Field(", ".join(names[:_MOST_NAMES]) + more) if names else text(None)


def _figures(data: Data) -> Iterator[Drawn]:
    if len(cells_of(data.trials, PLAIN)) > _MOST_CELLS:
        return
    sessions = has_sessions(data.trials)
    wanted = [kind for kind in _KINDS if sessions or kind is not FigureKind.SESSIONS]
    yield from draw(data, wanted, "all", "above")


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
    together, parts = all_runs_section(readings, _MOST_ROWS), _parts(readings[:_MOST_PARTS])
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
    bytes_left = _MOST_FIGURES_BYTES
    parts = []
    for reading in readings:
        summary = reading.summary
        figures = []
        if bytes_left > 0 and reading.number <= _MOST_DRAWN:
            for drawn in draw_run(reading, whole=len(readings) <= _MOST_WHOLE):
                bytes_left -= len(drawn.svg or "")
                figures.append(drawn if bytes_left > 0 else Drawn(drawn.name, drawn.title, None))
                if bytes_left <= 0:
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
