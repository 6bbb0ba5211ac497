"""Commands on run directories: ``osmef list``, ``show``, ``report``, ``export`` and ``import``.

Also the display of a result: its figures, its table, and the paths of its files.
"""

from __future__ import annotations

import io
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.text import Text

from osmef.cli.completion import Runs
from osmef.cli.console import (
    PAGE_HELP,
    AsJson,
    Figures,
    Out,
    RunPath,
    err,
    note_left_out,
    note_trial_counts,
    out,
    print_json,
    print_note,
    print_text,
    reporting,
    set_up_logging,
)
from osmef.cli.console import out as console
from osmef.errors import InputError, PackageError, StorageError
from osmef.files import exists, is_directory
from osmef.report.fit import column, table
from osmef.report.summary import cost_text, expectations
from osmef.report.table import layer_table, summary_table
from osmef.results.files import is_held, write_atomically
from osmef.results.rundir import RESULTS, RunDirectory, begun_at, is_run, run_called, runs_in
from osmef.results.summary import Summary, Verdict
from osmef.results.trial import Status
from osmef.units import counted

if TYPE_CHECKING:
    import pandas as pd  # slow to load

    from osmef.importers import Imported  # pandas takes a while to load


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
        reported = PackageError.of(error)
        if reported is None:
            raise
        print_note(err, f"no figures and no page: {reported.cure}")
        return []
    return draw_figures(directory.path)


class Moment(Enum):
    """When a run is shown: while it measures, just after its end, or later."""

    RUN = "run"
    END = "end"
    LATER = "later"


def show(
    summary: Summary,
    directory: Path,
    figures: list[Path],
    *,
    whole: bool = False,
    moment: Moment = Moment.LATER,
) -> None:
    """Print the table of a run, its warnings, and the paths of its files.

    The table fits the terminal, unless the ``whole`` one is wanted. Of a run that has just ended,
    or is incomplete, the next command is named.
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
        _print_rest(directory, moment)
    for figure in figures:
        if figure.suffix == ".png":
            out.print(f"figure: {escape(str(figure))}")
    out.print(f"run: [bold]{escape(str(directory))}[/]")
    if moment is Moment.END:
        out.print(f"for a page with figures: osmef report {escape(shlex.quote(str(directory)))}")


def _print_rest(directory: Path, moment: Moment) -> None:
    """Print how an incomplete run goes on."""
    if moment is Moment.RUN:
        out.print("[yellow]still measuring[/]: these are its trials so far")
    else:
        out.print(
            f"[yellow]incomplete[/]; to go on: osmef resume {escape(shlex.quote(str(directory)))}"
        )


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
        yield f"and {counted(more, 'more reason')}: {directory / 'trials.jsonl'} has them all"


LIST_EPILOG = """Examples:

osmef list

osmef show latest

osmef report quickstart-2026

A RUN of any command may be called by the beginning of its name, and the newest one `latest`."""


@dataclass(frozen=True)
class _Listed:
    name: str
    began: datetime | None
    workloads: str
    cells: int | None
    trials: int | None
    failed: int
    state: str


def list_command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory that holds the run directories.")
    ] = RESULTS,
    as_json: AsJson = False,
) -> None:
    """List the runs of a directory, the newest last."""
    with reporting(as_json):
        if not is_directory(directory):
            raise InputError(
                "there is no such directory",
                where=str(directory),
                cure="osmef run SCENARIO makes results/; name another directory that holds runs",
            )
        found = list(_listed(directory))
        if as_json:
            print_json({"runs": [vars(one) | {"began": _iso(one.began)} for one in found]})
            return
    if not found:
        out.print(f"no run in {directory}/")
        return
    columns = [
        column("run", [one.name for one in found]),
        column("began, UTC", [_minute(one.began) for one in found], rank=3),
        column("workload", [one.workloads for one in found], rank=1),
        column("cells", [_count(one.cells) for one in found], rank=2, right=True),
        column("trials", [_count(one.trials) for one in found], right=True),
        column("failed", [_failed_count(one) for one in found], rank=1, right=True),
        column("state", [one.state for one in found]),
    ]
    out.print(table(columns, out.width, long=None))


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _minute(moment: datetime | None) -> str:
    return "-" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _count(count: int | None) -> str:
    return "-" if count is None else str(count)


def _failed_count(one: _Listed) -> Text:
    return Text(str(one.failed) if one.failed else "", style="red")


def _listed(directory: Path) -> Iterator[_Listed]:
    for path in runs_in(directory):
        try:
            yield _read(path)
        except (InputError, StorageError) as error:  # damaged, private, or of a newer version
            yield _Listed(path.name, begun_at(path), "-", None, None, 0, f"unreadable: {error}")


def _begun(run: RunDirectory) -> _Listed:
    """Return what there is of a run without a summary: it is running, or was interrupted."""
    trials = run.read_trials().trials if exists(run.trials) else []
    kinds = ", ".join(dict.fromkeys(trial.workload for trial in trials)) or "-"
    cells = len({trial.cell for trial in trials}) or None
    failed = sum(trial.status is Status.FAILED for trial in trials)
    state = "running" if is_held(run.path) else "interrupted"
    return _Listed(run.path.name, begun_at(run.path), kinds, cells, len(trials), failed, state)


def _read(path: Path) -> _Listed:
    run = RunDirectory.open(path)
    if not exists(run.summary):
        return _begun(run)
    summary = run.read_summary()
    note_trial_counts([run])
    kinds = dict.fromkeys(cell.workload for cell in summary.cells)
    failed = sum(cell.n_failed for cell in summary.cells)
    good = sum(cell.n_ok for cell in summary.cells)
    ended = "complete" if summary.run.complete else "incomplete"
    is_imported = summary.run.scenario_digest is None
    state = "imported" if is_imported else ended
    # The name of an imported run has the moment of its import.
    began = summary.run.started_at or (None if is_imported else begun_at(path))
    return _Listed(
        path.name, began, ", ".join(kinds), len(summary.cells), good + failed, failed, state
    )


SHOW_EPILOG = """Examples:

osmef show results/quickstart-20261121T031500Z-3f9a

osmef show RUN --json | jq '.cells[] | [.key, .metrics.aggregate_btc_bps.median]'"""


def show_command(
    run: RunPath,
    wide: Annotated[
        bool, typer.Option("--wide", help="Show all columns, also where lines exceed the width.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print a run's table; for an interrupted run, its trials so far."""
    with reporting(as_json):
        directory = RunDirectory.open(run_called(run))
        running = is_held(directory.path) is True
        summary = (
            directory.read_summary()
            if exists(directory.summary)
            else _so_far(directory, running=running)
        )
        note_trial_counts([directory])
        if as_json:
            print_json(summary.model_dump(mode="json"))
        else:
            figures = sorted(directory.path.glob("*.png"))
            moment = Moment.RUN if running else Moment.LATER
            show(summary, directory.path, figures, whole=wide, moment=moment)


def _so_far(directory: RunDirectory, *, running: bool) -> Summary:
    """Summarise an interrupted or running run from the trials that it has."""
    from osmef.engine.recovery import reopen  # noqa: PLC0415 - the engine is slow to load
    from osmef.engine.summarise import summarise  # noqa: PLC0415

    plan = reopen(directory)
    if not directory.read_trials().trials:
        raise InputError(
            "the run has no trial yet",
            where=str(directory.path),
            cure=f"if it was killed, go on with: osmef resume {shlex.quote(str(directory.path))}",
        )
    return summarise(plan, directory, running=running)


REPORT_EPILOG = """Examples:

osmef report results/quickstart-20261121T031500Z-3f9a -o report.html

osmef report results/vm-to-vm-* --title "Two weeks of one cloud" -o cloud.html

The page needs no network and no other file."""


def report_command(
    runs: Runs,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help=PAGE_HELP)] = Path(
        "report.html"
    ),
    title: Annotated[
        str | None,
        typer.Option(help="Title of the page. Default: the scenario's name.", show_default=False),
    ] = None,
) -> None:
    """Write one page with the results: findings, tables, figures and placement."""
    set_up_logging(verbose=0)
    with reporting():
        from osmef.report.html.page import write_report  # noqa: PLC0415 - matplotlib loads slowly

        readings = write_report(runs, output, title)
        note_left_out(runs)
    for reading in readings:
        if reading.summary is None:
            print_note(err, f"{reading.path} has not ended")
        if reading.missing is not None:
            print_note(err, f"{reading.directory.id}: {reading.missing}")
    size = output.stat().st_size / 1e6
    out.print(f"{counted(len(readings), 'run')}, {size:.1f} MB: {escape(str(output))}")


EXPORT_EPILOG = """Examples:

osmef export ppbench results/pingpong-20261121T031500Z-3f9a -o pingpong.csv

osmef export csv RUN | head -3

osmef export openmetrics RUN -o /var/lib/node_exporter/osmef.prom

osmef export ro-crate RUN -o run.zip --author 'Ada Lovelace'"""


class Format(StrEnum):
    """Export formats."""

    CSV = "csv"
    NDJSON = "ndjson"
    OPENMETRICS = "openmetrics"
    INFLUX = "influx"
    OPENSEARCH = "opensearch"
    PPBENCH = "ppbench"
    RO_CRATE = "ro-crate"


def export_command(
    form: Annotated[
        Format,
        typer.Argument(
            metavar="FORMAT",
            help="`csv` or `ndjson`: each metric of each trial, with unit and labels;"
            " `openmetrics`: medians of cells; `influx`: lines of trials; `opensearch`: trials for"
            " its bulk API; `ppbench`: CSV with a row a message size; `ro-crate`: a zip archive of"
            " the run with metadata and CITATION.cff.",
        ),
    ],
    run: RunPath,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write it; standard output without it, or with `-`.",
            show_default=False,
        ),
    ] = None,
    author: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Author of the data, for ro-crate. May be repeated.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write the numbers of a run in the format of another program."""
    output = None if output == Path("-") else output
    with reporting():
        if output is not None:
            _check_target(output)
        directory = _with_summary(run)
        note_trial_counts([directory])
        if form is Format.RO_CRATE:
            reported = _crate(directory, output, author or [])
        else:
            text, reported = _texts(directory, form)
            if output is None:
                print_text(text)
                return
            write_atomically(output, text.encode())
    err.print(f"{reported}: {escape(str(output))}")


def _check_target(output: Path) -> None:
    """Raise InputError for a file of a run, which must not be replaced."""
    if exists(output) and is_run(output.parent):
        raise InputError(
            "this is a file of a run, and would be replaced",
            where=str(output),
            cure="name another file",
        )


def _with_summary(run: Path) -> RunDirectory:
    directory = RunDirectory.open(run_called(run))
    if not exists(directory.summary):
        raise InputError(
            "the run has no summary yet",
            where=str(run),
            cure=f"if it was killed, go on with: osmef resume {shlex.quote(str(run))}",
        )
    return directory


def _texts(directory: RunDirectory, form: Format) -> tuple[str, str]:
    """Return the exported text, and the number of its items."""
    if form is Format.PPBENCH:
        return _ppbench(directory)
    if form is Format.OPENMETRICS:
        from osmef.report.export import write_openmetrics  # noqa: PLC0415

        summary = directory.read_summary()
        return "".join(write_openmetrics(summary)), counted(len(summary.cells), "cell")
    # pandas takes a while to load
    from osmef.report.export import (  # noqa: PLC0415
        write_csv,
        write_influx,
        write_ndjson,
        write_opensearch,
    )
    from osmef.results.frame import load  # noqa: PLC0415

    writers: Mapping[Format, Callable[[pd.DataFrame], Iterable[str]]] = {
        Format.CSV: write_csv,
        Format.NDJSON: write_ndjson,
        Format.INFLUX: write_influx,
        Format.OPENSEARCH: write_opensearch,
    }
    lines = list(writers[form](load(directory.path)))
    return "".join(lines), counted(len(lines), "line")


def _crate(directory: RunDirectory, output: Path | None, authors: list[str]) -> str:
    from osmef.report.export import write_crate  # noqa: PLC0415

    if output is None:
        raise InputError(
            "a zip archive goes to a file", where="--output", cure="add -o run.zip, for example"
        )
    counts: list[int] = []
    write_atomically(output, lambda file: counts.append(write_crate(file, directory, authors)))
    return counted(counts[-1], "file")


def _ppbench(directory: RunDirectory) -> tuple[str, str]:
    # pandas takes a while to load
    from osmef.report.export import write_ppbench  # noqa: PLC0415
    from osmef.results.frame import load_requests  # noqa: PLC0415

    text = io.StringIO()
    rows = write_ppbench(text, directory.read_summary(), load_requests(directory.path))
    return text.getvalue(), counted(rows, "row")


IMPORT_EPILOG = """Examples:

osmef import osmef2013 runs.tar.gz --out published

osmef import iperf3 *.json --provider aws --name placement-group

osmef import nuttcp results.txt && osmef show results/nuttcp-*

Exit codes: 0 everything was imported, 1 something was unusual or left out and was reported, \
2 nothing could be read."""


class ImportKind(StrEnum):
    """Formats that can be imported."""

    OSMEF2013 = "osmef2013"
    PPBENCH = "ppbench"
    APACHEBENCH = "apachebench"
    IPERF3 = "iperf3"
    NUTTCP = "nuttcp"
    NETPERF = "netperf"
    NETPIPE = "netpipe"
    SESSIONS = "sessions"
    CWB2018 = "cwb2018"
    PKB = "pkb"
    SHAKER = "shaker"
    FLENT = "flent"
    SIEGE = "siege"


def import_command(  # noqa: PLR0913, PLR0917 - its options
    kind: Annotated[
        ImportKind,
        typer.Argument(help=f"Format of the files: {', '.join(ImportKind)}.", metavar="KIND"),
    ],
    files: Annotated[
        list[Path],
        typer.Argument(help="Files, directories of them, or tar archives.", metavar="FILES"),
    ],
    out: Out = Path("results"),
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the scenario; by default as in the files, or the kind.",
            show_default=False,
        ),
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option(help="The kind of cloud, where the files do not say.", show_default=False),
    ] = None,
    pool_ends: Annotated[
        bool,
        typer.Option(
            "--pool-ends",
            help="Take outputs of the same settings as one cell, whichever machines they are of,"
            " such as fresh VMs each time.",
        ),
    ] = False,
    figures: Figures = True,
    as_json: AsJson = False,
) -> None:
    """Make run directories of the results of another program."""
    set_up_logging(verbose=0)
    with reporting(as_json):
        # pandas takes a while to load
        from osmef.importers import import_files  # noqa: PLC0415
        from osmef.importers.write import shortened  # noqa: PLC0415

        done = import_files(kind.value, files, out, name, provider, pool_ends=pool_ends)
        for run in done.runs if figures else []:
            draw(run)
    for note in (*shortened(done.oddities), *done.notes):
        print_note(err, note)
    if as_json:
        print_json(_document(done))
    else:
        _show(done)
    if done.oddities:
        raise typer.Exit(1)


def _document(done: Imported) -> dict[str, object]:
    return {
        "directories": [str(run.path) for run in done.runs],
        "files": done.files,
        "trials": done.trials,
        "oddities": [vars(oddity) for oddity in done.oddities],
        "notes": done.notes,
    }


def _show(done: Imported) -> None:
    """Print the run directories, the number of trials, and the oddities."""
    for run in done.runs:
        console.print(f"run: [bold]{escape(str(run.path))}[/]")
    left = sum(not oddity.kept for oddity in done.oddities)
    reported = [counted(done.files, "file"), counted(done.trials, "trial")]
    if odd := len(done.oddities) - left:
        reported.append(f"{odd} with something unusual")
    if left:
        reported.append(f"{left} not imported")
    console.print(", ".join(reported))
