"""Store of campaigns: their sessions, logs and gaps.

What runs names its holder, the process that works on it: see ``osmef.campaigns.state.leases``.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, and_, case, func, or_, select, update
from sqlalchemy import delete as remove
from sqlalchemy import insert as put

from osmef.campaigns.schedule.plan import PlannedRow
from osmef.campaigns.state.database import (
    CAMPAIGNS,
    EVENTS,
    GAPS,
    HOLDERS,
    RESULTS,
    SESSIONS,
    ConflictError,
)
from osmef.campaigns.state.leases import (
    COLUMNS,
    MANY,
    Leases,
    active_holder,
    lease_time,
    session_order,
    spent,
)
from osmef.campaigns.state.rows import CampaignPhase, CampaignRow, Gap, SessionRow, SessionState
from osmef.errors import InputError
from osmef.files import exists

_KEY = ("opens", "slot", "scenario", "provider", "instance_class")
_CHANGING = ("closes", "due", "place", "cloud", "study")
_FINAL = {SessionState.DONE.value, SessionState.RUNNING.value}
_LEFT_OUT = {SessionState.MISSED.value, SessionState.CONVERGED.value, SessionState.CANCELLED.value}


class Store(Leases):
    """The store. Every method raises StorageError when the database fails."""

    def register(
        self,
        name: str,
        about: Mapping[str, str],
        rows: Sequence[PlannedRow],
        now: datetime,
        late: datetime | None = None,
    ) -> None:
        """Register a campaign, or its changed file: results stay, planned sessions are replaced.

        ``about`` holds file, text and out. What was left out comes back as long as its window has
        not closed: missed sessions always, unless they were due before ``late``; if the file or its
        scenario has changed, all unfinished and failed sessions, too. Raises InputError where the
        name is that of another file that is still there, where its runs are in another directory,
        and while it is conducted by a different file.
        """
        try:
            self._insert(name, about, rows, now, late)
        except ConflictError:  # another process has taken it in meanwhile
            self._insert(name, about, rows, now, late)

    def _insert(
        self,
        name: str,
        about: Mapping[str, str],
        rows: Sequence[PlannedRow],
        now: datetime,
        late: datetime | None,
    ) -> None:
        with self._transaction() as connection:
            found = connection.execute(select(CAMPAIGNS).where(CAMPAIGNS.c.name == name)).first()
            if found is None:
                query = put(CAMPAIGNS).values(name=name, created_at=now, **about)
                number = connection.execute(query.returning(CAMPAIGNS.c.id)).scalar_one()
                _replace_plans(connection, number, rows, now)
                return
            if found.file != about["file"] and exists(Path(found.file)):
                raise InputError(
                    f"there is another campaign {name!r}, of {found.file}",
                    where=about["file"],
                    cure="give this one another name, or move that file away",
                )
            if found.out != about["out"] and exists(Path(found.out)):
                out = shlex.quote(str(Path(found.out).parent))
                raise InputError(
                    f"the runs of the campaign {name!r} are in {found.out}, and would be in"
                    f" {about['out']} from now on",
                    where="--out",
                    cure=f"give --out {out}, or move them there first",
                )
            if found.text != about["text"] and active_holder(connection, found.id, now):
                raise InputError(
                    f"another process conducts the campaign {name!r}, by a file that was different",
                    where=about["file"],
                    cure=f"stop it with `osmef campaign stop {name}`, then run the changed one",
                )
            where = CAMPAIGNS.c.id == found.id
            connection.execute(update(CAMPAIGNS).where(where).values(**about))
            changed = _replace_plans(connection, found.id, rows, now)
            left_out = [SessionState.MISSED]
            if changed:
                text = "a scenario has changed: from now on sessions measure what it says now"
                row = {"campaign": found.id, "at": now, "kind": "note", "text": text}
                connection.execute(put(EVENTS).values(**row))
            if changed or found.text != about["text"]:
                left_out += [SessionState.FAILED, SessionState.CONVERGED, SessionState.CANCELLED]
                late = None
            _plan_again(connection, found.id, left_out, now, late)

    def campaigns(self) -> list[CampaignRow]:
        """Return all campaigns in the order of their creation."""
        return self._campaign_rows(_CAMPAIGN.order_by(CAMPAIGNS.c.id))

    def campaign(self, name: str) -> CampaignRow:
        """Return a campaign by name. Raises InputError for an unknown name."""
        for one in self._campaign_rows(_CAMPAIGN.where(CAMPAIGNS.c.name == name)):
            return one
        known = ", ".join(one.name for one in self.campaigns())
        cure = f"choose from: {known}" if known else "begin one with: osmef campaign run FILE"
        raise InputError(f"there is no campaign {name!r}", where="NAME", cure=cure)

    def time(self) -> datetime:
        """Return the time by which leases end: the server's, or this machine's with a file."""
        with self._reading() as connection:
            return lease_time(connection, datetime.now(UTC))

    def _campaign_rows(self, query: Any) -> list[CampaignRow]:
        with self._reading() as connection:
            rows = connection.execute(query).mappings()
            return [CampaignRow(**{**row, "phase": CampaignPhase(row["phase"])}) for row in rows]

    def set_phase(self, campaign: int, phase: CampaignPhase, holder: str | None = None) -> None:
        """Set the phase of a campaign, and its conductor."""
        with self._transaction() as connection:
            values = {"phase": phase.value, "holder": holder}
            connection.execute(update(CAMPAIGNS).where(CAMPAIGNS.c.id == campaign).values(**values))

    def sessions(
        self, campaign: int, states: Collection[SessionState] | None = None
    ) -> list[SessionRow]:
        """Return the sessions of a campaign in all or some states, in order of time."""
        query = select(*COLUMNS).where(SESSIONS.c.campaign == campaign)
        if states is not None:
            query = query.where(SESSIONS.c.state.in_([state.value for state in states]))
        return self._sessions(query.order_by(*session_order()))

    def due(
        self, campaign: int, now: datetime, most: int, but: Collection[str] = ()
    ) -> list[SessionRow]:
        """Return the first planned sessions that are due, except on some exclusive resources."""
        query = _planned(campaign).where(SESSIONS.c.due <= now, SESSIONS.c.closes > now)
        query = query.where(SESSIONS.c.cloud.not_in(list(but))).order_by(*session_order())
        return self._sessions(query.limit(most))

    def closed(
        self, campaign: int, now: datetime, late: datetime | None = None
    ) -> list[SessionRow]:
        """Return planned sessions whose window has closed, or that were due before ``late``."""
        over = SESSIONS.c.closes <= now
        if late is not None:
            over = or_(over, SESSIONS.c.due < late)
        return self._sessions(_planned(campaign).where(over).order_by(*session_order()))

    def next_time(self, campaign: int, now: datetime) -> datetime | None:
        """Return when the next planned session is due, or the next window closes."""
        columns = SESSIONS.c
        planned = (columns.campaign == campaign, columns.state == SessionState.PLANNED.value)
        due = select(func.min(columns.due)).where(*planned, columns.due > now)
        closes = select(func.min(columns.closes)).where(*planned)
        with self._reading() as connection:
            times = [connection.execute(query).scalar_one() for query in (due, closes)]
        return min((time for time in times if time is not None), default=None)

    def next_session(self, campaign: int, cell: tuple[str, str, str]) -> SessionRow | None:
        """Return the next planned session of a platform."""
        same = [SESSIONS.c[name] == value for name, value in zip(_KEY[2:], cell, strict=True)]
        query = _planned(campaign).where(*same).order_by(*session_order())
        return next(iter(self._sessions(query.limit(1))), None)

    def next_opening(self, campaign: int) -> datetime | None:
        """Return when the window of the next planned session opens or opened."""
        planned = (SESSIONS.c.campaign == campaign, SESSIONS.c.state == SessionState.PLANNED.value)
        with self._reading() as connection:
            query = select(func.min(SESSIONS.c.opens)).where(*planned)
            found: datetime | None = connection.execute(query).scalar_one()
        return found

    def counts(self, campaign: int) -> dict[SessionState, int]:
        """Return the number of sessions in each state."""
        query = select(SESSIONS.c.state, func.count()).where(SESSIONS.c.campaign == campaign)
        with self._reading() as connection:
            found = {row[0]: row[1] for row in connection.execute(query.group_by(SESSIONS.c.state))}
        return {state: found[state.value] for state in SessionState if state.value in found}

    def was_due(self, campaign: int, since: datetime, until: datetime) -> bool:
        """Return whether a planned session was due in a period."""
        between = (SESSIONS.c.due > since, SESSIONS.c.due <= until)
        return bool(self._sessions(_planned(campaign).where(*between).limit(1)))

    def is_pending(self, session: SessionRow, now: datetime) -> bool:
        """Return whether another conducted campaign has waited for the same resource for longer."""
        others = (
            select(SESSIONS.c.id)
            .join(CAMPAIGNS, CAMPAIGNS.c.id == SESSIONS.c.campaign)
            .join(HOLDERS, HOLDERS.c.campaign == CAMPAIGNS.c.id)
            .where(SESSIONS.c.campaign != session.campaign, SESSIONS.c.cloud == session.cloud)
            .where(
                SESSIONS.c.state == SessionState.PLANNED.value,
                CAMPAIGNS.c.phase == CampaignPhase.ACTIVE.value,
            )
            .where(SESSIONS.c.due < session.due, SESSIONS.c.due <= now, SESSIONS.c.closes > now)
        )
        with self._reading() as connection:
            active = HOLDERS.c.until > lease_time(connection, now)
            return connection.execute(others.where(active).limit(1)).first() is not None

    def spent(self, campaign: int) -> float:
        """Return the cost of a campaign, with the planned cost of running sessions."""
        with self._reading() as connection:
            return spent(connection, campaign)

    def pay(self, campaign: int, session: int, amount: float, currency: str) -> None:
        """Charge a session with the cost of its idle VMs."""
        mine = (SESSIONS.c.id == session, SESSIONS.c.campaign == campaign)
        known = func.coalesce(SESSIONS.c.currency, currency)
        query = update(SESSIONS).where(*mine)
        with self._transaction() as connection:
            connection.execute(query.values(paid=SESSIONS.c.paid + amount, currency=known))

    def max_session_cost(self, session: SessionRow) -> float:
        """Return the highest cost of a session of the same platform."""
        same = [SESSIONS.c[name] == getattr(session, name) for name in _KEY[2:]]
        query = select(func.max(SESSIONS.c.cost)).where(SESSIONS.c.campaign == session.campaign)
        with self._reading() as connection:
            return float(connection.execute(query.where(*same)).scalar_one() or 0.0)

    def plan_again(self, campaign: int, states: Collection[SessionState], now: datetime) -> int:
        """Reschedule sessions of some states whose window is still open; return their number."""
        with self._transaction() as connection:
            return _plan_again(connection, campaign, states, now)

    def record_medians(
        self, session: SessionRow, metric: str, values: Mapping[str, float | None]
    ) -> None:
        """Store the medians of a session by cell."""
        rows = [
            {"session": session.id, "metric": metric, "cell": cell, "value": value}
            for cell, value in values.items()
        ]
        with self._transaction() as connection:
            connection.execute(
                remove(RESULTS).where(RESULTS.c.session == session.id, RESULTS.c.metric == metric)
            )
            if rows:
                connection.execute(put(RESULTS), rows)

    def without_medians(self, campaign: int, metric: str) -> list[SessionRow]:
        """Return the finished sessions without stored medians."""
        known = select(RESULTS.c.session).where(RESULTS.c.metric == metric)
        done = (SESSIONS.c.campaign == campaign, SESSIONS.c.state == SessionState.DONE.value)
        return self._sessions(select(*COLUMNS).where(*done, SESSIONS.c.id.not_in(known)))

    def medians(
        self, campaign: int, platform: tuple[str, str, str], metric: str
    ) -> dict[str, list[float]]:
        """Return the medians of all sessions of a platform, by cell."""
        same = [SESSIONS.c[name] == value for name, value in zip(_KEY[2:], platform, strict=True)]
        query = (
            select(RESULTS.c.cell, RESULTS.c.value)
            .join(SESSIONS, SESSIONS.c.id == RESULTS.c.session)
            .where(SESSIONS.c.campaign == campaign, RESULTS.c.metric == metric, *same)
        )
        found: dict[str, list[float]] = {}
        with self._reading() as connection:
            for cell, value in connection.execute(query):
                found.setdefault(cell, []).extend([] if value is None else [value])
        return found

    def append_log(self, campaign: int, at: datetime, kind: str, text: str) -> None:
        """Append to the campaign's log."""
        with self._transaction() as connection:
            row = {"campaign": campaign, "at": at, "kind": kind, "text": text}
            connection.execute(put(EVENTS).values(**row))

    def log(self, campaign: int, last: int = 100) -> list[tuple[datetime, str, str]]:
        """Return the last lines of the campaign's log, oldest first."""
        query = select(EVENTS).where(EVENTS.c.campaign == campaign)
        query = query.order_by(EVENTS.c.id.desc()).limit(last)
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return [(row.at, row.kind, row.text) for row in reversed(rows)]

    def note_gap(self, campaign: int, gap: Gap) -> None:
        """Record a gap."""
        row = {"campaign": campaign, "since": gap.since, "until": gap.until, "why": gap.why}
        with self._transaction() as connection:
            connection.execute(put(GAPS).values(**row))

    def gaps(self, campaign: int) -> list[Gap]:
        """Return the gaps: periods with due sessions and no conductor."""
        query = select(GAPS).where(GAPS.c.campaign == campaign).order_by(GAPS.c.since)
        with self._reading() as connection:
            return [Gap(row.since, row.until, row.why) for row in connection.execute(query)]


_LEASE = and_(HOLDERS.c.campaign == CAMPAIGNS.c.id, HOLDERS.c.name == CAMPAIGNS.c.holder)
_CAMPAIGN = select(
    *(CAMPAIGNS.c[field.name] for field in fields(CampaignRow) if field.name != "held_until"),
    HOLDERS.c.until.label("held_until"),
).select_from(CAMPAIGNS.outerjoin(HOLDERS, _LEASE))


def _planned(campaign: int) -> Any:
    where = (SESSIONS.c.campaign == campaign, SESSIONS.c.state == SessionState.PLANNED.value)
    return select(*COLUMNS).where(*where)


def _plan_again(
    connection: Connection,
    campaign: int,
    states: Collection[SessionState],
    now: datetime,
    late: datetime | None = None,
) -> int:
    """Reschedule sessions, except those due before ``late``.

    Where every trial has failed, the next attempt is a run of its own.
    """
    columns = SESSIONS.c
    failed = and_(columns.trials_failed > 0, columns.trials_ok == 0)
    lost = case((failed, func.coalesce(columns.cost, 0.0)), else_=0.0)
    values = {
        "state": SessionState.PLANNED.value,
        "attempts": 0,
        "why": None,
        "ended_at": None,
        "paid": columns.paid + lost,
        "cost": case((failed, None), else_=columns.cost),
        "directory": case((failed, None), else_=columns.directory),
    }
    some = columns.state.in_([state.value for state in states])
    where = [columns.campaign == campaign, some, columns.closes > now]
    if late is not None:
        where.append(columns.due >= late)
    return connection.execute(update(SESSIONS).where(*where).values(**values)).rowcount


def _replace_plans(
    connection: Connection, campaign: int, rows: Sequence[PlannedRow], now: datetime
) -> bool:
    """Replace the planned sessions by a calendar; return whether a study has changed.

    What has begun or ended stays as it is.
    """
    names = ("id", "state", "attempts", "directory", *_KEY, *_CHANGING)
    query = select(*(SESSIONS.c[name] for name in names)).where(SESSIONS.c.campaign == campaign)
    there = {tuple(row[name] for name in _KEY): row for row in connection.execute(query).mappings()}
    new, changed = [], False
    for values in (_values(campaign, row) for row in rows):
        old = there.pop(tuple(values[name] for name in _KEY), None)
        if old is None:
            new.append(values)
        elif old["state"] not in _FINAL and any(old[name] != values[name] for name in _CHANGING):
            changed = changed or old["study"] != values["study"]
            tried = old["attempts"] > 0  # an outage has rescheduled it
            moved = {name: values[name] for name in _CHANGING if not (tried and name == "due")}
            connection.execute(update(SESSIONS).where(SESSIONS.c.id == old["id"]).values(**moved))
    gone = [row["id"] for row in there.values() if _never_started(row, now)]
    for start in range(0, len(gone), MANY):
        connection.execute(remove(SESSIONS).where(SESSIONS.c.id.in_(gone[start : start + MANY])))
    if new:
        connection.execute(put(SESSIONS), new)
    return changed


def _never_started(row: Mapping[Any, Any], now: datetime) -> bool:
    """Return whether a session that left the calendar has never begun."""
    left_out = row["state"] in _LEFT_OUT and row["closes"] > now
    return not row["directory"] and (row["state"] == SessionState.PLANNED.value or left_out)


def _values(campaign: int, row: PlannedRow) -> dict[str, Any]:
    planned = row.session
    return {
        "campaign": campaign,
        "slot": planned.slot.name,
        "window": planned.slot.window,
        "opens": planned.slot.opens,
        "closes": planned.slot.closes,
        "due": planned.due,
        "place": planned.place,
        "scenario": planned.platform.scenario,
        "provider": planned.platform.provider or "",
        "instance_class": planned.platform.instance_class or "",
        "cloud": row.cloud,
        "study": row.study,
    }
