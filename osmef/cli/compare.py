"""``osmef compare``."""

from __future__ import annotations

import itertools
import json
from collections.abc import Container, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from osmef.analysis.differences import MOVING, Difference, differences, flat, with_groups
from osmef.cli.completion import complete_metric, complete_run
from osmef.cli.console import (
    AsJson,
    Where,
    err,
    note_trial_counts,
    out,
    print_json,
    print_note,
    read_percent,
    reporting,
    set_up_logging,
    where_of,
)
from osmef.errors import InputError
from osmef.files import exists
from osmef.kinds import WORKLOADS
from osmef.report.table import (
    cells_of_one_side,
    comparison,
    failed_trials,
    fails_alone,
    is_lost,
)
from osmef.results.brief import brief_summary
from osmef.results.files import write_atomically
from osmef.results.measure import Better, Measure, merge_measures
from osmef.results.rundir import RunDirectory, find_runs
from osmef.scenario.load import load as load_scenario
from osmef.scenario.names import nearest_or_all
from osmef.units import counted

if TYPE_CHECKING:
    import pandas as pd  # slow to load

COMPARE_EPILOG = """Examples:

osmef compare results/baseline-20261101T031500Z-3f9a results/new-20261121T031500Z-81c2

osmef compare BASELINE RUN --metric aggregate_btc_bps --margin 3 --fail-on regression

osmef compare BASELINE latest -o compared.html

osmef compare 'results/october-*' 'results/november-*' --where connections=1,10"""

_Facts = dict[str, dict[str, dict[str, object]]]

_PATH = "path_mtu_bytes to "  # and an endpoint: what its packets may have
_MOST_NAMED = 3  # metrics in a note
_OF_SUMMARY = ("provider", "sender_flavors", "receiver_flavors", "price_per_hour")
_UNIT_NOTES = {
    "trials": "one run a side: a difference is one of these two runs, with their machines and their"
    " hour, and need not come from what was changed",
    "pairs": "a side has several pairs of endpoints: their medians are compared, for trials on one"
    " pair share its machines, and a side without several is on one; 4 pairs a side are needed",
    "runs": "a side has several runs: their medians are compared, for trials of one run share its"
    " machines and its hour; 4 runs a side are needed",
}


class BetterDirection(StrEnum):
    """Better direction of a metric, as a user may set it."""

    HIGHER = "higher"
    LOWER = "lower"


class FailOn(StrEnum):
    """Which verdicts make the exit code 1."""

    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


# The options of the command, by the names of its arguments.
_A = Annotated[
    Path,
    typer.Argument(
        metavar="A",
        autocompletion=complete_run,
        help="The baseline: a run, a directory of runs, or a pattern.",
    ),
]
_B = Annotated[
    Path,
    typer.Argument(
        metavar="B",
        autocompletion=complete_run,
        help="What to compare with it: a run, a directory of runs, or a pattern.",
    ),
]
_Metric = Annotated[
    list[str] | None,
    typer.Option(
        autocompletion=complete_metric,
        help="Only this metric. May be repeated. Default: all with a better direction.",
        show_default=False,
    ),
]
_Better = Annotated[
    BetterDirection | None,
    typer.Option(
        help="Whether higher or lower values of --metric are better, if the runs don't say.",
        show_default=False,
    ),
]
_Margin = Annotated[
    float,
    typer.Option(
        parser=read_percent,
        metavar="PERCENT",
        help="Changes below this percentage of A's median count as no change.",
    ),
]
_FailOn = Annotated[
    FailOn | None,
    typer.Option(
        help="Exit with code 1 on a regression: anything worse or lost, or trials that fail in B"
        " only. With inconclusive: also if anything is inconclusive.",
        show_default=False,
    ),
]
_Every = Annotated[bool, typer.Option("--all", help="Show every metric, also unchanged ones.")]
_Junit = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Also write the verdicts as JUnit XML, for CI servers.",
        show_default=False,
    ),
]
_Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="HTML page to write, too: a line a cell, a figure, and what differs in the hosts.",
        show_default=False,
    ),
]


def compare_command(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    a: _A, b: _B, metric: _Metric = None, better: _Better = None, margin: _Margin = 5.0,
    fail_on: _FailOn = None, where: Where = None, every: _Every = False, junit: _Junit = None,
    output: _Output = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Compare runs, cell by cell: better, worse, the same, or inconclusive.

    With several runs on a side, the medians of runs are compared, separately for each scenario and
    platform; with campaigns, the medians of sessions. If nothing differs by more than the margin,
    at most 5 % of comparisons report anything as worse, however many cells they have.
    """
    set_up_logging(verbose=0)
    with reporting(as_json):
        sides = find_runs(a), find_runs(b)
        note_trial_counts({run.path: run for run in (*sides[0], *sides[1])}.values())
        first, second = _trials(a, where), _trials(b, where)
        kept = {str(key) for key in (*first["cell"], *second["cell"])} if where else None
        _same_definition(*sides, kept)
        known = _measures(first, second)
        table = _compared((first, second), known, metric, margin, better)
        if fail_on is not None and better is None:
            _refuse_unknown_ways(table, known)
        table.attrs["differs"] = [one for one in table.attrs["differs"] if _is_known(one, sides)]
        facts = _facts(sides[0]), _facts(sides[1])
        hosts, notes = _hosts(*facts), [*_notes(sides, table, known), *_unpaired(*facts)]
        if junit is not None:
            _write_junit(junit, f"osmef compare {a} {b}", table)
        if output is not None:
            title = " → ".join(map(_called, (a, b), sides))
            all_rows = bool(metric) or every
            _write_page(output, title, table, (known, hosts, notes), every=all_rows)
        if as_json:
            print_json(_document(table, hosts, notes))
        else:
            _show(table, known, hosts, notes, every=bool(metric) or every)
        if fail_on is not None and _fails(table, fail_on):
            raise typer.Exit(1)


def _called(path: Path, runs: Sequence[RunDirectory]) -> str:
    """Return what a page calls a side: its run, for `latest` is another one tomorrow."""
    return runs[0].id if len(runs) == 1 else path.name


def _write_page(
    output: Path,
    title: str,
    table: pd.DataFrame,
    beside: tuple[Mapping[str, Measure], Mapping[str, Sequence[Difference]], Sequence[str]],
    *,
    every: bool,
) -> None:
    """Write the page; ``beside`` are the measures, what differs in the hosts, and the notes."""
    from osmef.report.html.compare import Compared, write_comparison  # noqa: PLC0415

    known, hosts, notes = beside
    reported = {name: [_changed(one) for one in found] for name, found in hosts.items()}
    rows = table.to_dict("records")
    trials = [failed_trials(one).plain for one in table.attrs["failures"]]
    cells = [*trials, *cells_of_one_side(table.attrs)]
    sides = list(zip(table.attrs["values"], table.attrs["intervals"], strict=True))
    page = Compared(title, rows, sides, known, notes, reported, cells)
    write_comparison(page, output, every=every)


def _write_junit(file: Path, name: str, table: pd.DataFrame) -> None:
    from osmef.report.export import write_junit  # noqa: PLC0415

    rows = _document(table, {}, [])["rows"]
    reported = write_junit(name, rows, table.attrs["failures"], table.attrs["lost"])
    write_atomically(file, reported.encode())


def _fails(table: pd.DataFrame, fail_on: FailOn) -> bool:
    """Return whether anything is worse or lost, or fails in B alone."""
    rows, failures = table.to_dict("records"), table.attrs["failures"]
    found = {str(row["verdict"]) for row in (*rows, *failures)}
    lost = bool(table.attrs["lost"]) or any(map(is_lost, rows))
    unclear = fail_on is FailOn.INCONCLUSIVE and "inconclusive" in found
    return "worse" in found or lost or any(map(fails_alone, failures)) or unclear


def _refuse_unknown_ways(table: pd.DataFrame, known: Mapping[str, Measure]) -> None:
    """Raise InputError for metrics without a better direction."""
    names = [str(name) for name in table["metric"].unique()]
    unknown = [name for name in names if known[name].better is Better.NEITHER]
    if unknown:
        raise InputError(
            f"whether {', '.join(unknown)} should be higher or lower is not known",
            where="--fail-on",
            cure="add --better higher or --better lower",
        )


def _trials(runs: Path, where: list[str] | None) -> pd.DataFrame:
    # pandas takes a while to load
    from osmef.report.data import Data  # noqa: PLC0415

    return Data(runs, where=where_of(where)).trials


def _measures(first: pd.DataFrame, second: pd.DataFrame) -> dict[str, Measure]:
    """Return the measures of both sides. Raises InputError for two definitions of a name."""
    from osmef.report.cells import measured  # noqa: PLC0415 - pandas takes a while to load

    return merge_measures([("A", measured(first)), ("B", measured(second))])


def _compared(
    sides: tuple[pd.DataFrame, pd.DataFrame],
    known: Mapping[str, Measure],
    metrics: list[str] | None,
    margin: float,
    better: BetterDirection | None,
) -> pd.DataFrame:
    # pandas takes a while to load
    from osmef.analysis.compare import compare  # noqa: PLC0415

    for name in metrics or ():
        if name not in known:
            raise InputError(
                f"neither run has a metric {name!r}",
                where="--metric",
                cure=nearest_or_all(name, known),
            )
    if better is not None and not metrics:
        raise InputError(
            "a better direction needs a metric", where="--better", cure="add --metric NAME"
        )
    reported = None if better is None else Better(better)
    table = compare(*sides, metrics or None, margin / 100, better=reported)
    if table.empty:
        raise InputError(
            "no metric of these cells has a better direction"
            if not metrics
            else f"no trial of these cells has {', '.join(metrics)}",
            where="--metric",
            cure="name one of those in `osmef show RUN --json`, and add --better higher or lower",
        )
    neither = [one.name for one in known.values() if one.better is Better.NEITHER]
    table.attrs["not_judged"] = [] if metrics else neither
    return table


def _same_definition(
    a: Sequence[RunDirectory], b: Sequence[RunDirectory], kept: Container[str] | None
) -> None:
    """Raise InputError where the settings of a cell differ between the sides."""
    known: dict[tuple[str, str], dict[str, object]] = {}
    names = len({_name(run) for run in a}) > 1 or len({_name(run) for run in b}) > 1
    problems: dict[str, dict[str, None]] = {}
    for run in (*a, *b):
        scenario = _name(run) if names else ""
        for cell, settings in _settings(run).items():
            if kept is not None and cell not in kept:
                continue
            first = known.setdefault((scenario, cell), settings)
            for one in differences(first, settings):
                problems.setdefault(f"{one.key} is {_shown(one.a)} and {_shown(one.b)}", {})[
                    cell
                ] = None
    if problems:
        reported = (f"  {what}, in {_cells(list(of))}" for what, of in problems.items())
        raise InputError(
            "these were measured in different ways:\n" + "\n".join(reported),
            cure="compare runs of one workload with the same settings",
        )


def _shown(value: object) -> object:
    return "not set" if value is None else value


def _cells(keys: Sequence[str]) -> str:
    return f"{len(keys)} cells such as {keys[0]}" if keys[1:] else f"cell {keys[0]}"


def _name(run: RunDirectory) -> str:
    return brief_summary(run).scenario


def _settings(run: RunDirectory) -> dict[str, dict[str, object]]:
    if not any(run.path.glob("scenario.*")) or _unknown_workloads(run):
        return {}  # it was imported, or measured with more than there is here
    cells = load_scenario(run.scenario).cells
    return {
        cell.key: cell.scenario.model_dump(
            mode="json", by_alias=True, include={"workload", "background"}
        )
        for cell in cells
    }


def _unknown_workloads(run: RunDirectory) -> set[str]:
    """Return the workloads of a run whose settings are unknown here."""
    if not exists(run.summary):
        return set()
    cells = run.read_summary().cells
    used = {kind for cell in cells for kind in (cell.workload, cell.background) if kind}
    return {kind for kind in used if WORKLOADS.working(kind) is None}


def _hosts(a: _Facts, b: _Facts) -> dict[str, list[Difference]]:
    """Return the facts of endpoints that differ between A and B, by endpoint."""
    found: dict[str, list[Difference]] = {}
    for name in [name for name in a if name in b]:
        first, second = a[name], b[name]
        for key in sorted({*first, *second}):
            if key.startswith(_PATH) and not (key in first and key in second):
                continue  # to an endpoint of one side alone
            old, new = (side.get(key, {"null": None}) for side in (first, second))
            more = [value for text, value in new.items() if text not in old]
            if more:
                reported = next(iter(old.values())), more[0]
                found.setdefault(name, []).append(Difference(key, *reported))
    return {name: with_groups(of) for name, of in found.items()}


def _unpaired(a: _Facts, b: _Facts) -> list[str]:
    """Return the endpoints without a counterpart on the other side."""
    known = [
        {end for end, facts in side.items() if any(set(of) != {"null"} for of in facts.values())}
        for side in (a, b)
    ]
    sides = (("A", sorted(known[0] - known[1])), ("B", sorted(known[1] - known[0])))
    reported = ", ".join(f"only {side} has {', '.join(ends)}" for side, ends in sides if ends)
    return [f"these endpoints' hosts were not compared: {reported}"] if reported else []


def _facts(runs: Sequence[RunDirectory]) -> _Facts:
    """Return the values of each fact of each endpoint over the runs, by JSON."""
    found: _Facts = {}
    for summary in (run.read_summary() for run in runs if exists(run.summary)):
        for end in summary.endpoints:
            of = found.setdefault(end.name, {})
            for when in ("before", "after"):
                facts = {**(end.facts.get(when) or {}), "flavor": end.flavor, "image": end.image}
                for key, value in flat(facts, (*MOVING, "hostname")):
                    of.setdefault(key, {})[json.dumps(value, sort_keys=True)] = value
            for peer, mtu in (end.facts.get("path_mtu_bytes") or {}).items():
                of.setdefault(f"{_PATH}{peer}", {})[str(mtu)] = mtu
    return found


def _notes(
    sides: Sequence[Sequence[RunDirectory]], table: pd.DataFrame, known: Mapping[str, Measure]
) -> list[str]:
    """Return the notes on the verdicts."""
    notes = []
    for name, runs in zip("AB", sides, strict=True):
        if not any(exists(run.summary) for run in runs):
            notes.append(f"no run of {name} has ended, so its hosts and settings are not known")
        elif any(not any(run.path.glob("scenario.*")) for run in runs):
            notes.append(f"{name} was imported: its cells alone say how it was measured")
    unknown = {kind for run in itertools.chain(*sides) for kind in _unknown_workloads(run)}
    notes += [
        f"the workload {kind} is not known here, so its settings were not compared"
        for kind in sorted(unknown)
    ]
    notes += [
        f"{name} has no sessions, and the other side has: each run of {name} counts as one session"
        for name in table.attrs["without_sessions"]
    ]
    differs = {(str(one["column"]), str(one["a"]), str(one["b"])) for one in table.attrs["differs"]}
    notes += [f"{column} is {a} in A and {b} in B" for column, a, b in sorted(differs)]
    notes += _memory_notes(table.attrs["memory"], table.attrs["memory_proved"], known)
    if left := table.attrs["not_judged"]:
        reported = ", ".join(known[name].words if name in known else name for name in left)
        notes.append(
            f"not judged, since neither direction is clearly better (use --better): {reported}"
        )
    return notes + [_UNIT_NOTES[unit] for unit in table["unit"].unique() if unit in _UNIT_NOTES]


def _is_known(differs: Mapping[str, str], sides: Sequence[Sequence[RunDirectory]]) -> bool:
    """Return whether both sides of a difference are known: without a summary, some are not."""
    return differs["column"] not in _OF_SUMMARY or all(
        differs[name] != "none" or any(exists(run.summary) for run in runs)
        for name, runs in zip("ab", sides, strict=True)
    )


def _memory_notes(
    allowed: Mapping[str, float], proved: Mapping[str, float], known: Mapping[str, Measure]
) -> list[str]:
    """Return notes on the metrics whose values are autocorrelated, and on those that may be."""
    likely = {name: memory for name, memory in allowed.items() if name not in proved}
    kinds = {
        "values are autocorrelated, so intervals are too narrow; verdicts allow for it: ": proved,
        "too few values to rule out autocorrelation; verdicts allow for it: ": likely,
    }
    return [what + _largest(of, known) for what, of in kinds.items() if of]


def _largest(memory: Mapping[str, float], known: Mapping[str, Measure]) -> str:
    """Return the metrics with the largest autocorrelation."""
    names = sorted(memory, key=lambda name: -memory[name])
    reported = [f"{known[name].words} {memory[name]:.2g}" for name in names[:_MOST_NAMED]]
    if more := len(names) - len(reported):
        reported.append(f"{counted(more, 'other metric')} less")
    return ", ".join(reported)


def _show(
    table: pd.DataFrame,
    known: Mapping[str, Measure],
    hosts: dict[str, list[Difference]],
    notes: Sequence[str],
    *,
    every: bool,
) -> None:
    out.print(comparison(table.to_dict("records"), known, out.width, every=every))
    for one in table.attrs["failures"]:
        err.print(failed_trials(one))
    for cell in cells_of_one_side(table.attrs):
        err.print(f"[yellow]{escape(cell)}[/]")
    for note in notes:
        print_note(err, note)
    for name, changed in hosts.items():
        for fact in changed:
            err.print(escape(f"{name}: {_changed(fact)}"))


def _changed(fact: Difference) -> str:
    was, now = ("unknown" if side is None else side for side in (fact.a, fact.b))
    return f"{fact.key} was {was}, is {now}"


def _document(
    table: pd.DataFrame, hosts: dict[str, list[Difference]], notes: Sequence[str]
) -> dict[str, Any]:
    known = table.astype(object).where(table.notna(), None)
    return {
        "rows": known.to_dict("records"),
        **{str(name): value for name, value in table.attrs.items()},
        "hosts": {name: [vars(one) for one in changed] for name, changed in hosts.items()},
        "notes": list(notes),
    }
