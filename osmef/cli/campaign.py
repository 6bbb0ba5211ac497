"""``osmef campaign``: plan, run, start, status, pause, go-on, stop, log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from osmef.campaigns.background import start_in_background
from osmef.campaigns.conduct import Conductor
from osmef.campaigns.holder import is_gone
from osmef.campaigns.metrics import metrics_file
from osmef.campaigns.outlook import Outlook, outlook
from osmef.campaigns.read import read_campaign
from osmef.campaigns.score import make_score
from osmef.campaigns.store import Session, Standing, Store, default_url
from osmef.campaigns.tables import Phase, State
from osmef.cli import campaign_archive, campaign_report
from osmef.cli.campaign_executor import ExecutorKind, Kind, Scheduler, make_means
from osmef.cli.campaign_serve import serve
from osmef.cli.campaign_state import StateUrl
from osmef.cli.console import AsJson, Verbose, err, out, print_json, reporting, set_up_logging
from osmef.engine.stop import stop_on_signals
from osmef.errors import InputError, Interrupted
from osmef.report.table import keep_whole
from osmef.units import format_duration

app = typer.Typer(
    help="Measure in sessions over weeks: plan, run, and follow campaigns.",
    no_args_is_help=True,
)
app.command("report", epilog=campaign_report.EPILOG)(campaign_report.command)
app.command("export", epilog=campaign_archive.EXPORT_EPILOG)(campaign_archive.export_command)
app.command("import", epilog=campaign_archive.IMPORT_EPILOG)(campaign_archive.import_command)

File = Annotated[
    Path, typer.Argument(help="Campaign file, YAML or JSON.", metavar="FILE", show_default=False)
]
Name = Annotated[str, typer.Argument(help="Name of a campaign.", metavar="NAME")]
Metrics = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Keep it up to date with metrics for Prometheus."),
]
Parallel = Annotated[
    int, typer.Option(metavar="N", min=1, max=1000, help="Sessions at once, on different clouds.")
]


@app.command(epilog="Example:\n\nosmef campaign plan scenarios/campaigns/four-weeks.yaml")
def plan(file: File, as_json: AsJson = False) -> None:
    """Show the calendar of a campaign, how long it takes, and what it costs. Creates nothing."""
    with reporting(as_json):
        found = outlook(make_score(read_campaign(file)))
        if as_json:
            print_json(found.record())
        else:
            _print_outlook(found)


@app.command(
    epilog="Example:\n\nosmef campaign run scenarios/campaigns/quick.yaml\n\nCtrl-C ends it after"
    " cleaning up; run again it goes on. Exit codes: 0 ended, 1 some sessions failed, 4 stopped."
)
def run(  # noqa: PLR0913, PLR0917 - its options
    file: File,
    directory: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Its runs go into DIR/NAME.")
    ] = Path("results"),
    state: StateUrl = "",
    parallel: Parallel = 8,
    executor: ExecutorKind = Kind.THREADS,
    scheduler: Scheduler = "",
    metrics: Metrics = None,
    verbose: Verbose = False,
) -> None:
    """Conduct a campaign in the foreground: each session at its time, until the last."""
    set_up_logging(verbose)
    with reporting():
        programme = read_campaign(file)
        score = make_score(programme)
        name = programme.campaign.name
        store = Store(state or default_url())
        place = {"file": str(file.resolve()), "text": programme.text}
        into = (directory / name).resolve()
        for one in store.campaigns():
            if one.name == name and one.holder and is_gone(one.holder) is False:
                raise InputError(
                    f"another process conducts the campaign {name!r} already",
                    where=str(file),
                    cure=f"follow it with `osmef campaign status {name}`",
                )
        store.enlist(name, {**place, "out": str(into)}, score.rows(), datetime.now(UTC))
        standing = store.campaign(name)
        with stop_on_signals(lambda text: err.print(f"[yellow]{text}[/]")) as stop:
            means = make_means(executor, parallel, scheduler, stop, _tell)
            with metrics_file(metrics, store, name, _tell):
                phase = Conductor(store, standing, score, means, stop).run()
            means.executor.close()
        found = store.sessions(standing.id)
        _print_status(standing.name, phase, found)
    if phase is not Phase.ENDED:
        raise typer.Exit(Interrupted.exit_code)
    if any(one.state is State.FAILED or one.trials_failed for one in found):
        raise typer.Exit(1)


@app.command(epilog="Example:\n\nosmef campaign start scenarios/campaigns/four-weeks.yaml")
def start(  # noqa: PLR0913, PLR0917 - its options
    file: File,
    directory: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Its runs go into DIR/NAME.")
    ] = Path("results"),
    state: StateUrl = "",
    parallel: Parallel = 8,
    executor: ExecutorKind = Kind.THREADS,
    scheduler: Scheduler = "",
    metrics: Metrics = None,
) -> None:
    """Conduct a campaign in the background; its log is DIR/NAME/campaign.log."""
    with reporting():
        campaign = read_campaign(file)
        make_score(campaign)
        log = directory / campaign.campaign.name / "campaign.log"
        options = ["--out", str(directory), "--parallel", str(parallel)]
        options += ["--executor", executor, *(["--scheduler", scheduler] if scheduler else [])]
        options += ["--metrics", str(metrics)] if metrics else []
        options += ["--state", state] if state else []
        number = start_in_background(["campaign", "run", str(file), *options], log)
        out.print(f"process {number} conducts it; log: {escape(str(log))}")
        out.print(f"follow it with: osmef campaign status {campaign.campaign.name}")


@app.command(epilog="Example:\n\nosmef campaign status four-weeks --json")
def status(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of them; all otherwise.")] = "",
    state: StateUrl = "",
    as_json: AsJson = False,
) -> None:
    """Show how far campaigns are, what runs, and what comes next."""
    with reporting(as_json):
        store = Store(state or default_url())
        known = [store.campaign(name)] if name else store.campaigns()
        found = [(one, store.sessions(one.id)) for one in known]
        if as_json:
            print_json([_record(one, rows) for one, rows in found])
            return
        if not found:
            out.print("no campaigns yet; begin with: osmef campaign run FILE")
        for one, rows in found:
            _print_status(one.name, one.phase, rows, one)


@app.command(epilog="Example:\n\nosmef campaign pause four-weeks")
def pause(name: Name, state: StateUrl = "") -> None:
    """Begin no more sessions until `go-on`; what runs goes on."""
    _set(name, state, Phase.PAUSED)


@app.command("go-on", epilog="Example:\n\nosmef campaign go-on four-weeks")
def go_on(name: Name, state: StateUrl = "") -> None:
    """End a pause."""
    _set(name, state, Phase.ACTIVE)


@app.command(epilog="Example:\n\nosmef campaign stop four-weeks")
def stop(name: Name, state: StateUrl = "") -> None:
    """Have its conductor end, once what runs has ended; `run` or `start` goes on."""
    _set(name, state, Phase.STOPPED)


@app.command(epilog="Example:\n\nosmef campaign log four-weeks")
def log(
    name: Name,
    last: Annotated[int, typer.Option(min=1, help="So many lines.")] = 50,
    state: StateUrl = "",
) -> None:
    """Show what happened: starts, ends, failures, gaps, what was missed."""
    with reporting():
        store = Store(state or default_url())
        for at, kind, text in store.log(store.campaign(name).id, last):
            out.print(f"{at:%Y-%m-%d %H:%M:%S}Z {kind:<8} {escape(text)}")


app.command(epilog="Example:\n\nosmef campaign serve --port 8700")(serve)


def _set(name: str, state: str, phase: Phase) -> None:
    with reporting():
        store = Store(state or default_url())
        standing = store.campaign(name)
        store.set_phase(standing.id, phase, standing.holder)
        out.print(f"{name}: {phase}")


def _tell(kind: str, text: str) -> None:
    colour = {"failure": "red", "missed": "yellow", "gap": "yellow", "budget": "yellow"}.get(kind)
    now = f"{datetime.now(UTC):%H:%M:%S}Z"
    shown = f"[{colour}]{kind}[/]" if colour else kind
    err.print(f"{now} {shown} {escape(text)}")


def _print_outlook(found: Outlook) -> None:
    table = Table("week", *found.windows, "sessions", "time", box=SIMPLE_HEAD)
    for week in found.weeks:
        counts = [str(week.slots.get(window, 0)) for window in found.windows]
        table.add_row(week.first.isoformat(), *counts, str(week.sessions), format_duration(week.s))
    out.print(keep_whole(table))
    for note in found.notes:
        out.print(f"[yellow]note[/]: {escape(note)}")
    out.print(
        f"{found.sessions} sessions of {found.platforms} platforms, {found.first:%Y-%m-%d %H:%M}"
        f" to {found.last:%Y-%m-%d %H:%M} UTC, about [bold]{format_duration(found.seconds)}[/] of"
        " measuring"
    )
    out.print(f"cost: {escape(found.cost)}, without traffic, disks and addresses")


def _print_status(
    name: str, phase: Phase, found: list[Session], standing: Standing | None = None
) -> None:
    counts = _counts(found)
    told = ", ".join(f"{count} {state}" for state, count in counts.items())
    alive = standing is None or _conducted(standing)
    note = "" if alive or phase is Phase.ENDED else " [yellow](nobody conducts it)[/]"
    out.print(f"[bold]{escape(name)}[/]: {phase}{note}; {told}")
    table = Table("session", "platform", "state", "trials", "", box=SIMPLE_HEAD)
    begun = [one for one in found if one.state is not State.PLANNED]
    coming = [one for one in found if one.state is State.PLANNED]
    for one in [*begun[-8:], *coming[:3]]:
        due = f"due {one.due:%Y-%m-%d %H:%M}Z" if one.state is State.PLANNED else one.why or ""
        trials = f"{one.trials_ok} ok" + (f", {one.trials_failed} failed" * bool(one.trials_failed))
        table.add_row(one.slot, one.platform, one.state, trials, escape(due.partition("\n")[0]))
    out.print(keep_whole(table))


def _counts(found: list[Session]) -> dict[str, int]:
    counts = {state: sum(one.state is state for one in found) for state in State}
    return {state.value: count for state, count in counts.items() if count}


def _conducted(standing: Standing) -> bool:
    return standing.holder is not None and is_gone(standing.holder) is not True


def _record(standing: Standing, found: list[Session]) -> dict[str, Any]:
    return {
        "name": standing.name,
        "phase": standing.phase.value,
        "conducted": _conducted(standing),
        "directory": standing.out,
        "counts": _counts(found),
        "sessions": [
            {
                key: value.isoformat() if isinstance(value, datetime) else value
                for key, value in vars(one).items()
            }
            for one in found
        ],
    }
