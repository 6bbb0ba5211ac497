"""``osmef campaign``: plan, run, start, status, pause, go-on, stop, log and serve."""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from osmef.campaigns.conductor.cleanup import ConductorContext
from osmef.campaigns.conductor.conductor import Conductor
from osmef.campaigns.conductor.service import start_in_background
from osmef.campaigns.process_identity import is_gone, process_of
from osmef.campaigns.schedule.calendar import Opening, late_before
from osmef.campaigns.schedule.load import LoadedCampaign, read_campaign
from osmef.campaigns.schedule.model import PlatformOrder
from osmef.campaigns.schedule.plan import Preview, past_notes, plan_campaign, preview
from osmef.campaigns.state import open_store, state_home
from osmef.campaigns.state.rows import (
    CampaignPhase,
    CampaignRow,
    SessionRow,
    SessionState,
    is_conducted,
)
from osmef.campaigns.watching.monitoring import metrics_file, read_live
from osmef.cli.campaign_install import install, uninstall
from osmef.cli.campaign_options import (
    STATE,
    CampaignName,
    ExecutorKind,
    ExecutorOption,
    Metrics,
    Parallel,
    Scheduler,
    StateUrl,
    check_executor,
    make_context,
    options_of,
)
from osmef.cli.campaign_results import (
    EXPORT_EPILOG,
    IMPORT_EPILOG,
    REPORT_EPILOG,
    export_command,
    import_command,
    report_command,
)
from osmef.cli.completion import complete_campaign
from osmef.cli.console import (
    AsJson,
    CampaignFile,
    Verbose,
    err,
    out,
    print_json,
    print_note,
    reporting,
    set_up_logging,
    stopping,
)
from osmef.engine.cancellation import CancellationToken, stop_on_signals
from osmef.errors import InputError, Interrupted
from osmef.files import real_path
from osmef.report.fit import column, folded, table
from osmef.results.files import writable
from osmef.units import counted, format_duration

if TYPE_CHECKING:
    from osmef.campaigns.state.store import Store


_LOOK_S = 3600.0
_RESULTS = Path("results")
_MOST_ENDED, _MOST_REASONS = 8, 3  # sessions in a status


def serve(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1; 0 takes a free one.")
    ] = 8700,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the access token of the page, created if it is missing. By default"
            " beside the database in your home.",
        ),
    ] = None,
    state: StateUrl = "",
) -> None:
    """Show campaigns in the browser: calendar, what runs, newest figures. Changes nothing."""
    with reporting():
        # jinja2 and the server are for this command alone
        from osmef.campaigns.watching.web import (  # noqa: PLC0415
            CampaignPages,
            StatusServer,
            read_token,
        )

        store = open_store(state, create=not state)  # threads read it, and see later campaigns
        token = read_token(token_file or state_home() / "token")
        with (
            stop_on_signals(lambda _text: None) as stop,
            StatusServer(port, CampaignPages(store), token) as server,
        ):
            out.print(f"{server.address}?token={token}", soft_wrap=True)
            err.print("Open it in a browser of this machine; Ctrl-C ends it.")
            thread = threading.Thread(target=server.serve_forever, name="page")
            thread.start()
            _wait(stop)
            server.shutdown()
            thread.join()
        store.close()


def _wait(stop: CancellationToken) -> None:
    with suppress(Interrupted):
        while True:
            stop.wait(_LOOK_S)


# So many openings, and so many sessions of each, are shown without --all.
_MOST_OPENINGS = 50
_MOST_PLATFORMS = 6
_PLAN_HEADS = ("day", "window", "open", "begins", "sessions, in this order")


def plan(
    file: CampaignFile,
    as_json: AsJson = False,
    whole: Annotated[
        bool,
        typer.Option("--all", help="Show every opening of a window, not only the first week's."),
    ] = False,
) -> None:
    """Show the calendar of a campaign, how long it takes, and what it costs. Creates nothing."""
    with reporting(as_json):
        found = preview(plan_campaign(read_campaign(file)))
        found = replace(found, notes=(*found.notes, *past_notes(found, datetime.now(UTC))))
        if as_json:
            print_json(found.record())
            return
        _print_calendar(found, whole=whole)
        _print_weeks(found)
        _print_sums(found)


def _print_calendar(found: Preview, *, whole: bool) -> None:
    """Print the openings of the first week that has any, or of all weeks."""
    campaign, shown = found.campaign, list(found.openings)
    if not whole:
        first = _week(campaign.start, shown[0])
        shown = [one for one in shown if _week(campaign.start, one) == first][:_MOST_OPENINGS]
    rows = []
    for day, those in groupby(shown, key=lambda one: one.day):
        reported = f"{day:%a %Y-%m-%d}" + " holiday" * (day in campaign.holidays)
        for one in those:
            again = "again " * one.opens.fold  # in the hour that the change of a clock repeats
            open_for = f"{again}{one.opens:%H:%M} to {_clock(one.closes, one.opens, '%H:%M')}"
            begins = _clock(one.due, one.opens, "%H:%M:%S")
            rows.append(
                (reported, one.window, open_for, begins, _listed(one.platforms, whole=whole))
            )
            reported = ""
    texts = zip(*folded(rows, _PLAN_HEADS, out.width), strict=True)
    columns = [
        column(head, each, rank=int(head == "open"))
        for head, each in zip(_PLAN_HEADS, texts, strict=True)
    ]
    out.print(table(columns, out.width, long=None))
    if more := len(found.openings) - len(shown):
        out.print(f"and {more} more until {found.openings[-1].day}: --all shows them")
    order = "in the order of the file"
    if campaign.order is PlatformOrder.RANDOM or campaign.jitter:
        jitter = f" and jitter of up to {format_duration(campaign.jitter)}" * bool(campaign.jitter)
        order = f"{campaign.order} order{jitter}, drawn with seed {campaign.seed}"
    out.print(f"times of {campaign.time_zone}; {order}")
    for change in found.clock_changes:
        out.print(
            f"{change.after:%a %Y-%m-%d}: the clock is set from {change.before:%H:%M} to"
            f" {change.after:%H:%M}"
        )
    last = campaign.start + timedelta(weeks=campaign.weeks)
    if free := sorted(one for one in set(campaign.holidays) if campaign.start <= one < last):
        out.print("holidays: " + ", ".join(f"{one:%a %Y-%m-%d}" for one in free))


def _week(start: date, one: Opening) -> int:
    return (one.day - start).days // 7


def _clock(moment: datetime, opens: datetime, how: str) -> str:
    """Return a local time, with its day and zone if they differ."""
    is_set = moment.utcoffset() != opens.utcoffset()
    day = f" {moment:%a}" * (moment.date() != opens.date())
    return f"{moment:{how}}{day}" + f" {moment:%Z}" * is_set


def _listed(names: Sequence[str], *, whole: bool) -> str:
    some = names if whole else names[:_MOST_PLATFORMS]
    more = f" and {len(names) - len(some)} more" * (len(some) < len(names))
    return ", ".join(some) + more


def _print_weeks(found: Preview) -> None:
    weeks = found.weeks
    columns = [
        column("week", [one.first.isoformat() for one in weeks]),
        *(
            column(
                window.replace("-", "\n"),
                [str(one.slots.get(window, 0)) for one in weeks],
                rank=1,
                right=True,
            )
            for window in found.campaign.windows
        ),
        column("sessions", [str(one.sessions) for one in weeks], right=True),
        column("time", [format_duration(one.seconds) for one in weeks], right=True),
    ]
    out.print()
    out.print(table(columns, out.width))
    out.print()


def _print_sums(found: Preview) -> None:
    for note in found.notes:
        print_note(out, note)
    out.print(
        f"{counted(found.sessions, 'session')} of {counted(found.platforms, 'platform')},"
        f" {found.first:%Y-%m-%d %H:%M} to {found.last:%Y-%m-%d %H:%M} UTC,"
        f" about [bold]{format_duration(found.seconds)}[/] of measuring"
    )
    for one in found.kept:
        out.print(
            f"{escape(one.name)}: its VMs are kept from {one.since:%Y-%m-%d %H:%M} to"
            f" {one.until:%Y-%m-%d %H:%M} UTC, {format_duration(one.seconds)}"
        )
    if found.charged or found.amounts or found.campaign.budget:
        out.print(f"cost: {escape(found.cost)}, without traffic, disks and addresses")


app = typer.Typer(
    help="Measure in sessions over weeks: plan, run, and follow campaigns.",
    no_args_is_help=True,
)

_HEADS = ("session", "platform", "state", "trials", "")  # of the table of `status`

app.command(epilog="Example:\n\nosmef campaign plan scenarios/campaigns/four-weeks.yaml")(plan)


@app.command(
    epilog="Example:\n\nosmef campaign run scenarios/campaigns/five-minutes.yaml\n\nCtrl-C ends it"
    " after cleaning up; run again it goes on. Exit codes: 0 ended, 1 some sessions failed or none"
    " measured anything, 4 stopped."
)
def run(  # noqa: PLR0913, PLR0917 - its options
    file: CampaignFile,
    directory: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Its runs go into DIR/NAME.")
    ] = _RESULTS,
    state: StateUrl = "",
    parallel: Parallel = 8,
    executor: ExecutorOption = ExecutorKind.THREADS,
    scheduler: Scheduler = "",
    metrics: Metrics = None,
    until_idle: Annotated[
        bool,
        typer.Option(
            "--until-idle",
            help="End while no window is open or opens within ten minutes; do nothing where"
            " another process conducts it.",
        ),
    ] = False,
    verbose: Verbose = 0,
) -> None:
    """Conduct a campaign in the foreground: each session at its time, until the last."""
    set_up_logging(verbose)
    with reporting():
        loaded = read_campaign(file)
        check_executor(executor, loaded)
        campaign_plan = plan_campaign(loaded)
        store = open_store(state, create=True)
        if until_idle and _is_held(store, loaded.campaign.name):
            return
        _refuse_second(store, loaded)
        name, into = loaded.campaign.name, writable(real_path(directory / loaded.campaign.name))
        about = {"file": str(file.resolve()), "text": loaded.text, "out": str(into)}
        now = datetime.now(UTC)
        late = late_before(campaign_plan.campaign.missed, now)
        store.register(name, about, campaign_plan.rows(), now, late)
        row = store.campaign(name)
        with stopping() as stop:
            context = make_context(executor, parallel, scheduler, stop, _notify)
            context = replace(context, until_idle=until_idle)
            try:
                with metrics_file(metrics, store, name, _notify):
                    phase = Conductor(store, row, campaign_plan, context, stop).run()
            except BaseException:
                stop.request("the campaign has failed")  # what runs is cleaned up before we leave
                raise
            finally:
                context.executor.close()
                _close_vm_pool(context)
        row, found = store.campaign(name), store.sessions(row.id)
        _print_end(phase, row, found, store.time(), _run_command(row, file, state))
    if phase is CampaignPhase.STOPPED:
        raise typer.Exit(0 if until_idle else Interrupted.exit_code)
    nothing = phase is CampaignPhase.ENDED and not any(
        one.state is SessionState.DONE for one in found
    )
    if nothing:
        err.print(f"[red]nothing was measured[/]: {escape(_why_nothing(found))}, and run it again")
    if nothing or any(one.state is SessionState.FAILED or one.trials_failed for one in found):
        raise typer.Exit(1)


def _why_nothing(found: Sequence[SessionRow]) -> str:
    """Return why no session was measured, and the cure."""
    reasons = [one.why for one in found if one.state is SessionState.CANCELLED and one.why]
    if budget := next((why for why in reasons if "budget" in why), None):
        return f"{budget}; raise it, or plan fewer or shorter trials"
    cure = "to measure, set start, and a date in cron, to what comes next"
    return f"`osmef campaign status` says why; {cure}"


def _run_command(row: CampaignRow, file: Path, state: str) -> str:
    """Return the command that goes on with a campaign, without a password of its database."""
    words = ["osmef", "campaign", "run", str(file)]
    results, here = Path(row.out).parent, Path.cwd()
    if results != _RESULTS.resolve():
        within = results.is_relative_to(here)
        words += ["--out", str(results.relative_to(here) if within else results)]
    if state and state != os.environ.get(STATE):
        words += ["--state", state if state.startswith("sqlite:") else "URL"]
    return shlex.join(words)


def _print_end(
    phase: CampaignPhase, row: CampaignRow, found: list[SessionRow], now: datetime, again: str
) -> None:
    """Print the status of a campaign whose conductor has ended in a phase, and how to go on."""
    _print_status(row, found, now)
    if phase is CampaignPhase.STOPPED and row.phase is not CampaignPhase.STOPPED:
        words = f"continue with: {again}"
        if row.phase is CampaignPhase.PAUSED:
            words += f"; and end its pause with: osmef campaign go-on {row.name}"
        err.print(f"[yellow]interrupted[/]; {escape(words)}")


def _close_vm_pool(context: ConductorContext) -> None:
    """Destroy the pool of a conductor that has failed."""
    for error in context.vm_pool.close() if context.vm_pool else []:
        _notify("failure", f"kept VMs not destroyed: {error}")


def _refuse_second(store: Store, loaded: LoadedCampaign) -> None:
    name = loaded.campaign.name
    if _is_held(store, name):
        raise InputError(
            f"another process conducts the campaign {name!r} already",
            where=str(loaded.path),
            cure=f"follow it with `osmef campaign status {name}`",
        )


def _is_held(store: Store, name: str) -> bool:
    """Return whether a living process conducts a campaign."""
    holders = [one.holder for one in store.campaigns() if one.name == name and one.holder]
    return any(is_gone(holder) is False for holder in holders)


@app.command(epilog="Example:\n\nosmef campaign start scenarios/campaigns/four-weeks.yaml")
def start(  # noqa: PLR0913, PLR0917 - its options
    file: CampaignFile,
    directory: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Its runs go into DIR/NAME.")
    ] = Path("results"),
    state: StateUrl = "",
    parallel: Parallel = 8,
    executor: ExecutorOption = ExecutorKind.THREADS,
    scheduler: Scheduler = "",
    metrics: Metrics = None,
) -> None:
    """Conduct a campaign in the background; its log is DIR/NAME/campaign.log."""
    with reporting():
        loaded = read_campaign(file)
        check_executor(executor, loaded)
        plan_campaign(loaded)
        name = loaded.campaign.name
        log = directory / name / "campaign.log"
        options = ["--out", str(directory)]
        options += options_of(executor, parallel, scheduler, metrics)
        store = open_store(state, create=True)
        _refuse_second(store, loaded)

        def begun(number: int) -> bool:
            holders = [one.holder or "" for one in store.campaigns() if one.name == name]
            return any(process_of(holder) == number for holder in holders)

        number = start_in_background(
            ["campaign", "run", str(file), *options], {STATE: state} if state else {}, log, begun
        )
        out.print(f"process {number} conducts it; log: {escape(str(log))}")
        out.print(f"follow it with: osmef campaign status {name}")


@app.command(epilog="Example:\n\nosmef campaign status four-weeks --json")
def status(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name of a campaign. Default: all campaigns.",
            autocompletion=complete_campaign,
        ),
    ] = "",
    state: StateUrl = "",
    as_json: AsJson = False,
) -> None:
    """Show how far campaigns are, what runs, and what comes next."""
    with reporting(as_json):
        store = open_store(state)
        known = [store.campaign(name)] if name else store.campaigns()
        found = [(one, store.sessions(one.id)) for one in known]
        if as_json:
            print_json([_record(one, rows, store.time()) for one, rows in found])
            return
        if not found:
            out.print("no campaigns yet; begin with: osmef campaign run FILE")
        for one, rows in found:
            _print_status(one, rows, store.time())


@app.command(epilog="Example:\n\nosmef campaign pause four-weeks")
def pause(name: CampaignName, state: StateUrl = "") -> None:
    """Begin no more sessions until `go-on`; running ones go on. A new start does not end it."""
    _set(name, state, CampaignPhase.PAUSED)


@app.command("go-on", epilog="Example:\n\nosmef campaign go-on four-weeks")
def go_on(name: CampaignName, state: StateUrl = "") -> None:
    """End a pause, or a stop for systemd and cron."""
    _set(name, state, CampaignPhase.ACTIVE)


@app.command(epilog="Example:\n\nosmef campaign stop four-weeks")
def stop(name: CampaignName, state: StateUrl = "") -> None:
    """Stop the conductor after the running sessions; `run` or `start` goes on."""
    _set(name, state, CampaignPhase.STOPPED)


@app.command(epilog="Example:\n\nosmef campaign log four-weeks")
def log(
    name: CampaignName,
    last: Annotated[int, typer.Option(min=1, help="Number of lines to show.")] = 50,
    state: StateUrl = "",
) -> None:
    """Show what happened: starts, ends, failures, gaps, what was missed."""
    with reporting():
        store = open_store(state)
        for at, kind, text in store.log(store.campaign(name).id, last):
            out.print(f"{at:%Y-%m-%d %H:%M:%S}Z {kind:<8} {escape(text)}")


app.command("report", epilog=REPORT_EPILOG)(report_command)
app.command("export", epilog=EXPORT_EPILOG)(export_command)
app.command("import", epilog=IMPORT_EPILOG)(import_command)
app.command(epilog="Example:\n\nosmef campaign serve --port 8700")(serve)
app.command(epilog="Example:\n\nosmef campaign install scenarios/campaigns/four-weeks.yaml")(
    install
)
app.command(epilog="Example:\n\nosmef campaign uninstall four-weeks")(uninstall)


def _set(name: str, state: str, phase: CampaignPhase) -> None:
    """Set the phase of a campaign that has not ended, and print its effect."""
    with reporting():
        store = open_store(state)
        row = store.campaign(name)
        if row.phase is CampaignPhase.ENDED:
            raise InputError(
                f"the campaign {name!r} has ended",
                where="NAME",
                cure="to measure more, make weeks larger in its file and run it again",
            )
        store.set_phase(row.id, phase, row.holder)
        again = _run_command(row, Path(row.file), state)
        how = "" if is_conducted(row, store.time()) else f"; no conductor is running: {again}"
        out.print(f"{name}: {phase}{escape(how)}", soft_wrap=True)


def _notify(kind: str, text: str) -> None:
    colour = {"failure": "red", "missed": "yellow", "gap": "yellow", "budget": "yellow"}.get(kind)
    now = f"{datetime.now(UTC):%H:%M:%S}Z"
    shown = f"[{colour}]{kind}[/]" if colour else kind
    err.print(f"{now} {shown} {escape(text)}")


def _print_status(row: CampaignRow, found: list[SessionRow], now: datetime) -> None:
    """Print how far a campaign is; ``now`` is that of ``Store.time``."""
    counts = _counts(found)
    reported = ", ".join(f"{count} {state}" for state, count in counts.items())
    quiet = row.phase is CampaignPhase.ENDED or is_conducted(row, now)
    note = "" if quiet else " [yellow](no conductor is running)[/]"
    out.print(f"[bold]{escape(row.name)}[/]: {row.phase}{note}; {reported}")
    rows = []
    for one in _newest(found):
        due = _due_of(one, now) if one.state is SessionState.PLANNED else _result_of(one)
        rows.append(
            (one.slot, one.platform, one.state.value, _trials_of(one), due.partition("\n")[0])
        )
    texts = zip(*folded(rows, _HEADS, out.width), strict=True)
    out.print(table(list(map(column, _HEADS, texts)), out.width, long=None))


def _trials_of(session: SessionRow) -> str:
    """Return how many trials of a session have ended; a running one tells it in its directory."""
    if session.state is SessionState.RUNNING:
        live = read_live(Path(session.directory)) if session.directory else None
        return f"{live.ended} of {live.trials}" if live and live.trials else "-"
    failed = f", {session.trials_failed} failed" * bool(session.trials_failed)
    return f"{session.trials_ok} ok{failed}"


def _due_of(session: SessionRow, now: datetime) -> str:
    """Return when a planned session is due, or until when it could have begun."""
    closes = f"{session.closes:%Y-%m-%d %H:%M}Z"
    if session.closes <= now:
        return f"its window closed {closes}"
    if session.is_retried_late:
        return f"its window closes {closes}, before its retry is due"
    return f"due {session.due:%Y-%m-%d %H:%M}Z"


def _result_of(session: SessionRow) -> str:
    """Return the description of a session that has begun or ended."""
    count = len(session.cells_left_out)
    without = f"without {counted(count, 'known cell')}" if count else ""
    return "; ".join(filter(None, (without, session.why)))


def _newest(found: list[SessionRow]) -> list[SessionRow]:
    """Return the last ended sessions, the running ones, and the next.

    Of skipped sessions, which may be hundreds, it is the last one for each reason.
    """
    coming = [one for one in found if one.state is SessionState.PLANNED]
    runs = [one for one in found if one.state is SessionState.RUNNING]
    over = [one for one in found if one.state not in {SessionState.PLANNED, SessionState.RUNNING}]
    over.sort(key=lambda one: (one.ended_at or one.due, one.due))
    skipped = {SessionState.CONVERGED, SessionState.CANCELLED}
    was = [one for one in over if one.state not in skipped][-_MOST_ENDED:]
    last: dict[str | None, SessionRow] = {}
    for one in over:
        if one.state in skipped:
            last.pop(one.why, None)  # so that the last of each reason is in the order of time
            last[one.why] = one
    shown = sorted([*was, *list(last.values())[-_MOST_REASONS:]], key=over.index)
    return [*shown, *runs, *coming[:3]]


def _counts(found: list[SessionRow]) -> dict[str, int]:
    counts = {state: sum(one.state is state for one in found) for state in SessionState}
    return {state.value: count for state, count in counts.items() if count}


def _record(row: CampaignRow, found: list[SessionRow], now: datetime) -> dict[str, Any]:
    return {
        "name": row.name,
        "phase": row.phase.value,
        "conducted": is_conducted(row, now),
        "directory": row.out,
        "counts": _counts(found),
        "sessions": [
            {
                key: value.isoformat() if isinstance(value, datetime) else value
                for key, value in vars(one).items()
            }
            | {"left_out": list(one.cells_left_out)}
            for one in found
        ],
    }
