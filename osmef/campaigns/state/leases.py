"""Leases on sessions: claim, renew, release, and writes under a lease.

Every change is one transaction, so a kill at any moment leaves a session planned, running or ended,
and nothing in between. A claim gives the session a new token; what is written later carries it, and
is refused once another process has claimed the session, or planned it again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, func, select, update
from sqlalchemy import delete as remove
from sqlalchemy import insert as put

from osmef.campaigns.process_identity import is_gone
from osmef.campaigns.state.database import (
    CAMPAIGNS,
    EVENTS,
    HELD,
    HOLDERS,
    SESSIONS,
    ConflictError,
    Database,
)
from osmef.campaigns.state.rows import (
    LEASE,
    CampaignPhase,
    ClaimTerms,
    LogLine,
    Refusal,
    SessionRow,
    SessionState,
)

COLUMNS = [SESSIONS.c[field.name] for field in fields(SessionRow)]
ALONE = ClaimTerms()
# Databases let a query have only so many values.
MANY = 500
_AGAIN: Mapping[str, Any] = {"state": SessionState.PLANNED.value, "holder": None, "ended_at": None}


class _RefusedError(Exception):
    """Rolls back a claim."""

    def __init__(self, why: Refusal) -> None:
        self.why = why


class Leases(Database):
    """Leases of conductors on campaigns and sessions."""

    def claim(
        self,
        session: SessionRow,
        holder: str,
        now: datetime,
        terms: ClaimTerms = ALONE,
        line: LogLine | None = None,
    ) -> SessionRow | Refusal:
        """Claim a planned session, and return it; or return the reason of the refusal.

        Which cells it leaves out is noted with it (``SessionRow.left_out``).
        """
        try:
            with self._transaction() as connection:
                _check_budget(connection, session.campaign, terms)
                if terms.exclusive:
                    _hold(connection, session, now)
                begun = replace(
                    session,
                    state=SessionState.RUNNING,
                    holder=holder,
                    started_at=now,
                    token=session.token + 1,
                )
                if not _begin(connection, session, begun, terms):
                    raise _RefusedError(Refusal.TAKEN)
                _say_alive(connection, session.campaign, holder, now)
                _notify(connection, session.campaign, now, line)
        except _RefusedError as refused:
            return refused.why
        except ConflictError:  # another one was first to hold the cloud
            return Refusal.BUSY
        return begun

    def locate(self, session: SessionRow, directory: Path) -> bool:
        """Record a session's run directory; return False if the claim is lost.

        Orphans in its earlier directories are noted with it (``SessionRow.uncleared``), also for a
        lost session: they are destroyed at its end.
        """
        values = {"directory": str(directory), "uncleared": session.uncleared}
        query = update(SESSIONS).where(*_still(session)).values(**values)
        try:
            with self._transaction() as connection:
                return connection.execute(query).rowcount == 1
        except ConflictError:
            return False

    def finish(
        self,
        session: SessionRow,
        state: SessionState,
        now: datetime,
        line: LogLine | None = None,
        **values: Any,
    ) -> bool:
        """End or reschedule a session, and release its exclusive resources.

        False, and nothing is written, where another process has taken it over.
        """
        ended = {"holder": None, "ended_at": now, **values, "state": state.value}
        query = update(SESSIONS).where(*_still(session)).values(**ended)
        with self._transaction() as connection:
            if connection.execute(query).rowcount != 1:
                return False
            connection.execute(remove(HELD).where(HELD.c.session == session.id))
            _notify(connection, session.campaign, now, line)
        return True

    def skip(self, sessions: Sequence[int], state: SessionState, why: str, now: datetime) -> None:
        """Mark planned sessions as skipped. The reason of an earlier failure is kept.

        What they have left is to be destroyed from now on.
        """
        before, left, own = SESSIONS.c.why, SESSIONS.c.uncleared, SESSIONS.c.directory
        reason = case((before.is_(None), why), else_=why + "; before that: " + before)
        both = case((left.is_(None), own), (own.is_(None), left), else_=left + "\n" + own)
        values = {"state": state.value, "why": reason, "ended_at": now, "uncleared": both}
        planned = SESSIONS.c.state == SessionState.PLANNED.value
        with self._transaction() as connection:
            for start in range(0, len(sessions), MANY):
                some = SESSIONS.c.id.in_(sessions[start : start + MANY])
                connection.execute(update(SESSIONS).where(some, planned).values(**values))

    def conclude(self, session: SessionRow, **values: Any) -> None:
        """Record the result of a session that won't be resumed."""
        with self._transaction() as connection:
            connection.execute(update(SESSIONS).where(SESSIONS.c.id == session.id).values(**values))

    def uncleared(self, campaign: int) -> list[SessionRow]:
        """Return the sessions that don't run and have leftover resources."""
        where = (SESSIONS.c.campaign == campaign, SESSIONS.c.uncleared.is_not(None))
        query = select(*COLUMNS).where(*where, SESSIONS.c.state != SessionState.RUNNING.value)
        return self._sessions(query.order_by(*session_order()))

    def _sessions(self, query: Any) -> list[SessionRow]:
        with self._reading() as connection:
            return [session_of(row) for row in connection.execute(query).mappings()]

    def cleared(self, session: SessionRow, paths: Collection[str]) -> None:
        """Record that the leftover resources in some run directories of a session are destroyed."""
        mine = SESSIONS.c.id == session.id
        with self._transaction() as connection:
            before = connection.execute(select(SESSIONS.c.uncleared).where(mine)).scalar_one()
            left = [path for path in (before or "").splitlines() if path not in paths]
            values = {"uncleared": "\n".join(left) or None}
            connection.execute(update(SESSIONS).where(mine).values(**values))

    def release_idle_claims(
        self, campaign: int, holder: str, running: Collection[int]
    ) -> list[SessionRow]:
        """Release a holder's claims on sessions that it does not run; return those sessions."""
        with self._transaction() as connection:
            mine = _running(connection, campaign, SESSIONS.c.holder == holder)
            lost = [one for one in mine if one.id not in running]
            for one in lost:
                _release(connection, one)
        return lost

    def held(self, campaign: int, holder: str) -> dict[int, int]:
        """Return the sessions that a holder has claimed, with their tokens."""
        query = select(SESSIONS.c.id, SESSIONS.c.token).where(
            SESSIONS.c.campaign == campaign,
            SESSIONS.c.state == SessionState.RUNNING.value,
            SESSIONS.c.holder == holder,
        )
        with self._reading() as connection:
            return {row.id: row.token for row in connection.execute(query)}

    def recover(self, campaign: int, now: datetime) -> list[SessionRow]:
        """Release the claims of dead holders; return those sessions."""
        with self._reading() as connection:
            if not _lost(connection, campaign, now):
                return []
        with self._transaction() as connection:
            lost = _lost(connection, campaign, now)
            for one in lost:
                _release(connection, one)
        return lost

    def renew(self, campaign: int, holder: str, now: datetime) -> None:
        """Renew the lease of a holder as the campaign's conductor."""
        with self._transaction() as connection:
            _say_alive(connection, campaign, holder, now)
            where = CAMPAIGNS.c.id == campaign
            connection.execute(update(CAMPAIGNS).where(where).values(seen_at=now))

    def leave(self, campaign: int, holder: str, now: datetime, *, ended: bool = False) -> None:
        """Release the lease of a conductor, and record whether the campaign has ended.

        Else it stays as it is, also paused or stopped: another one may come, or be there.
        """
        with self._transaction() as connection:
            mine = (HOLDERS.c.campaign == campaign, HOLDERS.c.name == holder)
            connection.execute(remove(HOLDERS).where(*mine))
            other = active_holder(connection, campaign, now)
            values: dict[str, Any] = {"holder": other}
            if other is None:
                values["seen_at"] = now
            if ended:
                values |= {"phase": CampaignPhase.ENDED.value, "holder": None, "seen_at": now}
            connection.execute(update(CAMPAIGNS).where(CAMPAIGNS.c.id == campaign).values(**values))

    def resources_in_use(self, now: datetime) -> dict[str, str]:
        """Return the exclusive resources in use with their holders."""
        query = select(HELD.c.name, *COLUMNS).join(SESSIONS, SESSIONS.c.id == HELD.c.session)
        with self._reading() as connection:
            active = _ActiveHolders(connection, now)
            rows = [dict(row) for row in connection.execute(query).mappings()]
        found = {row.pop("name"): session_of(row) for row in rows}
        return {
            name: one.holder or ""
            for name, one in found.items()
            if one.state is SessionState.RUNNING and active.holds(one)
        }


def session_of(row: Mapping[Any, Any]) -> SessionRow:
    """Return a row of the table of sessions as a SessionRow."""
    return SessionRow(**{**row, "state": SessionState(row["state"])})


def session_order() -> Sequence[ColumnElement[Any]]:
    """Return the sort key of sessions: due time, then the calendar's random order."""
    return (SESSIONS.c.due, SESSIONS.c.opens, SESSIONS.c.slot, SESSIONS.c.place)


def spent(connection: Connection, campaign: int) -> float:
    """Return the cost of a campaign: of ended sessions, and the planned cost of running ones."""
    known = func.coalesce(func.sum(func.coalesce(SESSIONS.c.cost, 0.0) + SESSIONS.c.paid), 0.0)
    mine = SESSIONS.c.campaign == campaign
    ended = connection.execute(select(known).where(mine)).scalar_one()
    running = (mine, SESSIONS.c.state == SessionState.RUNNING.value)
    coming = func.coalesce(func.sum(SESSIONS.c.expected), 0.0)
    return float(ended) + float(connection.execute(select(coming).where(*running)).scalar_one())


def active_holder(connection: Connection, campaign: int, now: datetime) -> str | None:
    """Return an active conductor of the campaign, if any."""
    return _ActiveHolders(connection, now, HOLDERS.c.campaign == campaign).first()


def _check_budget(connection: Connection, campaign: int, terms: ClaimTerms) -> None:
    if terms.budget is None:
        return
    # Two conductors count one budget one after the other.
    mine = select(CAMPAIGNS.c.id).where(CAMPAIGNS.c.id == campaign)
    connection.execute(mine.with_for_update())
    if spent(connection, campaign) + terms.expected > terms.budget:
        raise _RefusedError(Refusal.BUDGET)


def _still(
    session: SessionRow, state: SessionState = SessionState.RUNNING
) -> tuple[ColumnElement[bool], ColumnElement[bool], ColumnElement[bool]]:
    """Return the condition that a session's claim is still valid."""
    columns = SESSIONS.c
    return (
        columns.id == session.id,
        columns.token == session.token,
        columns.state == state.value,
    )


def _hold(connection: Connection, session: SessionRow, now: datetime) -> None:
    """Acquire the exclusive resources of a session, also from a dead holder."""
    taken = select(HELD.c.session).where(HELD.c.name.in_(session.exclusive_resources))
    for number in connection.execute(taken).scalars().all():
        query = select(*COLUMNS).where(SESSIONS.c.id == number)
        row = connection.execute(query).mappings().first()
        other = None if row is None else session_of(row)
        if other is not None and other.state is SessionState.RUNNING:
            if _ActiveHolders(connection, now).holds(other):
                raise _RefusedError(Refusal.BUSY)
            _release(connection, other)
        connection.execute(remove(HELD).where(HELD.c.session == number))
    rows = [{"name": name, "session": session.id} for name in sorted(session.exclusive_resources)]
    connection.execute(put(HELD), rows)


def _begin(
    connection: Connection, planned: SessionRow, begun: SessionRow, terms: ClaimTerms
) -> bool:
    values = {"state": begun.state.value, "holder": begun.holder, "started_at": begun.started_at}
    query = update(SESSIONS).where(*_still(planned, SessionState.PLANNED))
    query = query.values(**values, token=begun.token, expected=terms.expected)
    query = query.values(left_out=begun.left_out)
    return connection.execute(query).rowcount == 1


def _running(connection: Connection, campaign: int, *more: ColumnElement[bool]) -> list[SessionRow]:
    where = (SESSIONS.c.campaign == campaign, SESSIONS.c.state == SessionState.RUNNING.value, *more)
    rows = connection.execute(select(*COLUMNS).where(*where)).mappings()
    return [session_of(row) for row in rows]


def _lost(connection: Connection, campaign: int, now: datetime) -> list[SessionRow]:
    active = _ActiveHolders(connection, now)
    return [one for one in _running(connection, campaign) if not active.holds(one)]


def _release(connection: Connection, session: SessionRow) -> None:
    """Reschedule a running session whose holder is dead, or does not run it."""
    connection.execute(update(SESSIONS).where(*_still(session)).values(**_AGAIN))
    connection.execute(remove(HELD).where(HELD.c.session == session.id))


def _say_alive(connection: Connection, campaign: int, holder: str, now: datetime) -> None:
    mine = (HOLDERS.c.campaign == campaign, HOLDERS.c.name == holder)
    until = lease_time(connection, now) + LEASE
    if connection.execute(update(HOLDERS).where(*mine).values(until=until)).rowcount == 0:
        row = {"campaign": campaign, "name": holder, "until": until}
        connection.execute(put(HOLDERS).values(**row))


def _notify(connection: Connection, campaign: int, at: datetime, line: LogLine | None) -> None:
    if line is not None:
        row = {"campaign": campaign, "at": at, "kind": line.kind, "text": line.text}
        connection.execute(put(EVENTS).values(**row))


def lease_time(connection: Connection, now: datetime) -> datetime:
    """Return the time for leases: the database server's, as machines' clocks may differ."""
    if connection.dialect.name != "postgresql":
        return now
    time: datetime = connection.execute(select(func.now())).scalar_one()
    return time


class _ActiveHolders:
    """Liveness of lease holders: by process on this machine, by lease on others."""

    def __init__(self, connection: Connection, now: datetime, *where: ColumnElement[bool]) -> None:
        rows = connection.execute(select(HOLDERS).where(*where))
        self._leases = {(row.name, row.campaign): row.until for row in rows}
        self._now = lease_time(connection, now)
        self._is_shared = connection.dialect.name != "sqlite"
        self._gone: dict[str, bool | None] = {}

    def holds(self, session: SessionRow) -> bool:
        """Return whether a running session has an active holder."""
        holder = session.holder or ""
        return bool(holder) and self._lives(holder, session.campaign)

    def first(self) -> str | None:
        """Return the first active holder, if any."""
        return next((name for name, campaign in self._leases if self._lives(name, campaign)), None)

    def _lives(self, holder: str, campaign: int) -> bool:
        if holder not in self._gone:
            self._gone[holder] = is_gone(holder, is_shared=self._is_shared)
        gone = self._gone[holder]
        if gone is not None:
            return not gone
        until = self._leases.get((holder, campaign))
        return until is not None and until > self._now
