"""``osmef campaign plan``: the calendar, the length and the cost of a campaign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from osmef.campaigns.schedule.calendar import Opening
from osmef.campaigns.schedule.load import read_campaign
from osmef.campaigns.schedule.model import PlatformOrder
from osmef.campaigns.schedule.plan import Preview, past_notes, plan_campaign, preview
from osmef.cli.console import AsJson, out, print_json, print_note, reporting
from osmef.report.fit import column, folded, table
from osmef.units import format_duration

# So many openings, and so many sessions of each, are shown without --all.
_MOST_OPENINGS = 50
_MOST_PLATFORMS = 6
_HEADS = ("day", "window", "open", "begins", "sessions, in this order")


def plan(
    file: Annotated[
        Path,
        typer.Argument(help="Campaign file, YAML or JSON.", metavar="FILE", show_default=False),
    ],
    as_json: AsJson = False,
    whole: Annotated[
        bool, typer.Option("--all", help="Show every opening of a window, not the first week's.")
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
        told = f"{day:%a %Y-%m-%d}" + " holiday" * (day in campaign.holidays)
        for one in those:
            open_for = f"{one.opens:%H:%M} to {_clock(one.closes, one.opens, '%H:%M')}"
            begins = _clock(one.due, one.opens, "%H:%M:%S")
            rows.append((told, one.window, open_for, begins, _listed(one.platforms, whole=whole)))
            told = ""
    texts = zip(*folded(rows, _HEADS, out.width), strict=True)
    columns = [
        column(head, each, rank=int(head == "open"))
        for head, each in zip(_HEADS, texts, strict=True)
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
        column("time", [format_duration(one.s) for one in weeks], right=True),
    ]
    out.print()
    out.print(table(columns, out.width))
    out.print()


def _print_sums(found: Preview) -> None:
    for note in found.notes:
        print_note(out, note)
    out.print(
        f"{found.sessions} session{'s' * (found.sessions != 1)} of {found.platforms}"
        f" platform{'s' * (found.platforms != 1)}, {found.first:%Y-%m-%d %H:%M}"
        f" to {found.last:%Y-%m-%d %H:%M} UTC, about [bold]{format_duration(found.seconds)}[/] of"
        " measuring"
    )
    for one in found.kept:
        out.print(
            f"{escape(one.name)}: its VMs are kept from {one.since:%Y-%m-%d %H:%M} to"
            f" {one.until:%Y-%m-%d %H:%M} UTC, {format_duration(one.seconds)}"
        )
    if found.charged or found.amounts or found.campaign.budget:
        out.print(f"cost: {escape(found.cost)}, without traffic, disks and addresses")
