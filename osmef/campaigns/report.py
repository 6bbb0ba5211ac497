"""Data for the report of a campaign: its state and its runs."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd

from osmef.analysis.seasons import session_trials
from osmef.campaigns.archive import CampaignRecord, read_record
from osmef.campaigns.schedule.load import parse_campaign
from osmef.campaigns.schedule.model import Campaign
from osmef.campaigns.state import default_url, open_store
from osmef.campaigns.state.rows import SessionRow, SessionState
from osmef.files import exists, is_directory
from osmef.report.campaign import (
    GAPS,
    LOST,
    PLANNED,
    CampaignData,
    listed_prices,
    recorded_prices,
    wanted_metrics,
)
from osmef.results.frame import load
from osmef.units import counted

_WEEKEND = (5, 6)


def campaign_data(
    name: str, state: str, metrics: Sequence[str] = (), prices: Path | None = None
) -> CampaignData:
    """Return the data of a campaign, by its name, or by the directory of its runs.

    ``state`` is the URL of the database (``open_store``), which also knows the calendar; a
    directory that it does not know, such as that of imported sessions, has none. ``prices`` is a
    CSV file (``listed_prices``) in the place of what the runs recorded. Raises InputError,
    StorageError.
    """
    directory = Path(name)
    record = _known(name, state)
    if record is not None:
        directory = Path(record.campaign.out)
    trials = session_trials(load(directory))
    campaign = None if record is None else _campaign(record)
    planned = None
    if record is not None and campaign is not None:
        measured = {
            (str(a), str(b)) for a, b in zip(trials["session"], trials["platform"], strict=True)
        }
        planned = planned_table(campaign, record.sessions, measured)
    return CampaignData(
        name=directory.resolve().name if record is None else record.campaign.name,
        trials=trials,
        metrics=wanted_metrics(trials, metrics),
        prices=recorded_prices(trials) if prices is None else listed_prices(prices, trials),
        planned=planned,
        gaps=pd.DataFrame(map(vars, record.gaps if record else []), columns=pd.Index(GAPS)),
        facts=tuple(_facts(directory, trials, record, campaign)),
    )


def _campaign(record: CampaignRecord) -> Campaign:
    return parse_campaign(record.campaign.text, Path(record.campaign.file))


def _known(name: str, state: str) -> CampaignRecord | None:
    """Return a campaign by its name or its directory; None for a directory without one."""
    directory = Path(name) if is_directory(Path(name)) else None
    if directory and (archived := read_record(directory)):
        return archived
    if directory and not _is_there(state):
        return None
    store = open_store(state)
    try:
        if directory:
            of = [one for one in store.campaigns() if Path(one.out) == directory.resolve()]
        else:
            of = [store.campaign(name)]
        return CampaignRecord(of[0], store.sessions(of[0].id), store.gaps(of[0].id)) if of else None
    finally:
        store.close()


def _is_there(state: str) -> bool:
    """Return whether a database exists: looking up a name creates none."""
    kind, _, path = (state or default_url()).partition(":///")
    return kind != "sqlite" or exists(Path(path))


def planned_table(
    campaign: Campaign, rows: Sequence[SessionRow], measured: Container[tuple[str, str]]
) -> pd.DataFrame:
    """Return the calendar with the outcome of each session: the columns ``PLANNED``.

    ``day`` is weekday or weekend, by the campaign's time zone and holidays, of the opening.
    ``measured`` are the time slots and platforms with trials: a session that is done and has none
    lost its run directory, which is its ``why``.
    """
    zone = ZoneInfo(campaign.time_zone)
    reported = [
        {
            "platform": one.platform,
            "session": one.slot,
            "window": one.window,
            "opens": one.opens,
            "state": one.state.value,
            "day": _day(campaign, one, zone),
            "trials_ok": one.trials_ok,
            "trials_failed": one.trials_failed,
            "cost": one.whole_cost,
            "currency": one.currency,
            "why": one.why if _has_trials(one, measured) else f"{LOST}: {one.directory}",
            "left_out": "; ".join(one.cells_left_out) or None,
        }
        for one in rows
    ]
    table = pd.DataFrame(reported, columns=pd.Index(PLANNED))
    table["opens"] = pd.to_datetime(table["opens"], utc=True)
    return table.astype({"cost": "float64"}).sort_values("opens", kind="stable", ignore_index=True)


def _has_trials(session: SessionRow, measured: Container[tuple[str, str]]) -> bool:
    return session.state is not SessionState.DONE or (session.slot, session.platform) in measured


def _day(campaign: Campaign, session: SessionRow, zone: ZoneInfo) -> str:
    day = session.opens.astimezone(zone).date()
    free = day.weekday() in _WEEKEND or day in campaign.holidays
    return "weekend" if free else "weekday"


def _facts(
    directory: Path,
    trials: pd.DataFrame,
    record: CampaignRecord | None,
    campaign: Campaign | None,
) -> list[tuple[str, str]]:
    """Return the head of the page: scenarios, period, and campaign file."""
    reported = [("Directory", str(directory)), ("Runs", str(trials["run"].nunique()))]
    reported += [("Trials", str(len(trials)))]
    kinds = sorted(map(str, trials["provider"].dropna().unique()))
    reported += [("Providers", ", ".join(kinds))] if kinds else []
    times = trials["started_at"].dropna()
    if len(times):
        span = f"{times.min():%Y-%m-%d %H:%M} to {times.max():%Y-%m-%d %H:%M} UTC"
        reported.append(("Measured", span))
    if record is None or campaign is None:
        return reported
    row, rows = record.campaign, record.sessions
    done = sum(one.state is SessionState.DONE for one in rows)
    about = [("What", campaign.description)] if campaign.description else []
    return [
        *about,
        ("Campaign file", row.file),
        (
            "Planned",
            f"{counted(campaign.weeks, 'week')} from {campaign.start}, {campaign.time_zone}",
        ),
        ("Sessions", f"{done} of {len(rows)} done; the campaign is {row.phase.value}"),
        ("Order", f"{campaign.order.value}, seed {campaign.seed}"),
        *reported,
    ]
