"""The state of campaigns in a database: SQLite, or whatever a URL of SQLAlchemy names.

Every change is one transaction, so a kill at any moment leaves a session planned, running or ended,
and nothing in between. What runs names its holder: the process that works on it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, select, update
from sqlalchemy import delete as remove
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError

from osmef.campaigns.calendar import PlannedSession
from osmef.campaigns.holder import is_gone
from osmef.campaigns.tables import CAMPAIGNS, EVENTS, LOCKS, METADATA, SESSIONS, Phase, State
from osmef.errors import InputError, StorageError

# A holder on another machine counts as gone when it has not said for so long that it lives.
LEASE = timedelta(minutes=10)
_BESIDE = ", "  # between the clouds of a session that measures several


@dataclass(frozen=True)
class Session:
    """A row of the table of sessions. Times are in UTC."""

    id: int
    slot: str
    window: str
    opens: datetime
    closes: datetime
    due: datetime
    place: int
    scenario: str
    provider: str
    instance_class: str
    cloud: str
    state: State
    attempts: int
    directory: str | None
    holder: str | None
    started_at: datetime | None
    ended_at: datetime | None
    trials_ok: int
    trials_failed: int
    cost: float | None
    currency: str | None
    why: str | None

    @property
    def cell(self) -> tuple[str, str, str]:
        """What is measured: the same in every slot."""
        return (self.scenario, self.provider, self.instance_class)

    @property
    def platform(self) -> str:
        """The cell, for people."""
        return " ".join(filter(None, (Path(self.scenario).stem, *self.cell[1:])))


@dataclass(frozen=True)
class Standing:
    """A row of the table of campaigns."""

    id: int
    name: str
    file: str
    text: str
    out: str
    phase: Phase
    created_at: datetime
    holder: str | None


def state_home() -> Path:
    """Return where this user's own state is, below XDG's directory of states."""
    home = os.environ.get("XDG_STATE_HOME")
    base = Path(home) if home else Path.home() / ".local" / "state"
    return base / "osmef"


def default_url() -> str:
    """Return the URL of this user's own database."""
    return f"sqlite:///{state_home() / 'campaigns.sqlite'}"


class Store:
    """The database. Every method raises StorageError when it does not do its part."""

    def __init__(self, url: str) -> None:
        try:
            self._engine = create_engine(url)
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            cure = "write it like sqlite:///campaigns.sqlite or postgresql+psycopg://HOST/NAME"
            raise InputError(f"no database: {error}", where="--state", cure=cure) from error
        if self._engine.dialect.name == "sqlite":
            _prepare_sqlite(self._engine)
        with self._transaction() as connection:
            METADATA.create_all(connection)

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except DBAPIError as error:
            raise StorageError(
                f"the database of campaigns: {error.orig}",
                where=self._engine.url.render_as_string(hide_password=True),
                cure="make room on the disk or mend the connection; what was noted is kept",
            ) from error

    def enlist(
        self, name: str, about: Mapping[str, str], rows: Sequence[PlannedRow], now: datetime
    ) -> None:
        """Take a campaign in, or its changed file: what was measured stays, plans are made anew.

        ``about`` holds file, text and out.
        """
        with self._transaction() as connection:
            found = connection.execute(select(CAMPAIGNS).where(CAMPAIGNS.c.name == name)).first()
            if found is None:
                query = insert(CAMPAIGNS).values(name=name, created_at=now, **about)
                number = connection.execute(query.returning(CAMPAIGNS.c.id)).scalar_one()
            elif found.text == about["text"]:
                return
            else:
                number = found.id
                where = (CAMPAIGNS.c.id == number,)
                connection.execute(update(CAMPAIGNS).where(*where).values(**about))
            _replace_plans(connection, number, rows)

    def campaigns(self) -> list[Standing]:
        """Return all campaigns in the order in which they were made."""
        with self._transaction() as connection:
            rows = connection.execute(select(CAMPAIGNS).order_by(CAMPAIGNS.c.id)).mappings()
            return [Standing(**{**row, "phase": Phase(row["phase"])}) for row in rows]

    def campaign(self, name: str) -> Standing:
        """Return a campaign. Raises InputError where there is none of this name."""
        known = self.campaigns()
        for one in known:
            if one.name == name:
                return one
        names = ", ".join(one.name for one in known) or "none yet: begin with `osmef campaign run`"
        raise InputError(f"there is no campaign {name!r}", where="NAME", cure=f"known are: {names}")

    def set_phase(self, campaign: int, phase: Phase, holder: str | None = None) -> None:
        """Say what a campaign does, and who conducts it."""
        with self._transaction() as connection:
            values = {"phase": phase.value, "holder": holder}
            connection.execute(update(CAMPAIGNS).where(CAMPAIGNS.c.id == campaign).values(**values))

    def sessions(self, campaign: int) -> list[Session]:
        """Return the sessions of a campaign in the order in which they are due."""
        columns = [SESSIONS.c[field.name] for field in fields(Session)]
        order = (SESSIONS.c.due, SESSIONS.c.opens, SESSIONS.c.slot, SESSIONS.c.place)
        query = select(*columns).where(SESSIONS.c.campaign == campaign).order_by(*order)
        with self._transaction() as connection:
            rows = connection.execute(query).mappings()
            return [Session(**{**row, "state": State(row["state"])}) for row in rows]

    def claim(self, session: Session, holder: str, now: datetime, *, exclusive: bool) -> bool:
        """Begin a planned session; False where another has it, or measures one of its clouds.

        Without ``exclusive`` the clouds may be measured by others at the same time.
        """
        names = session.cloud.split(_BESIDE) if exclusive else [f"{session.cloud} {session.id}"]
        begun = {"state": State.RUNNING.value, "holder": holder, "started_at": now}
        is_planned = (SESSIONS.c.id == session.id, SESSIONS.c.state == State.PLANNED.value)
        try:
            with self._transaction() as connection:
                for name in names:
                    _break_dead_lock(connection, name, now)
                    lock = {"name": name, "holder": holder, "session": session.id}
                    connection.execute(insert(LOCKS).values(**lock, until=now + LEASE))
                more = {"attempts": SESSIONS.c.attempts + 1, **begun}
                done = connection.execute(update(SESSIONS).where(*is_planned).values(**more))
                if done.rowcount != 1:
                    connection.rollback()
                return bool(done.rowcount == 1)
        except IntegrityError:  # the lock is there
            return False

    def locate(self, session: int, directory: Path) -> bool:
        """Note where a session's run directory is to be; False where that is another session's."""
        query = update(SESSIONS).where(SESSIONS.c.id == session)
        try:
            with self._transaction() as connection:
                connection.execute(query.values(directory=str(directory)))
        except IntegrityError:
            return False
        return True

    def finish(self, session: int, state: State, now: datetime, **values: Any) -> None:
        """End a session, or plan it again, and give its lock back."""
        with self._transaction() as connection:
            ended = {"state": state.value, "holder": None, "ended_at": now, **values}
            connection.execute(update(SESSIONS).where(SESSIONS.c.id == session).values(**ended))
            connection.execute(remove(LOCKS).where(LOCKS.c.session == session))

    def skip(self, sessions: Sequence[int], state: State, why: str, now: datetime) -> None:
        """Say of planned sessions that they won't be."""
        values = {"state": state.value, "why": why, "ended_at": now}
        planned = SESSIONS.c.state == State.PLANNED.value
        with self._transaction() as connection:
            for number in sessions:
                query = update(SESSIONS).where(SESSIONS.c.id == number, planned)
                connection.execute(query.values(**values))

    def recover(self, campaign: int, now: datetime) -> list[Session]:
        """Plan the sessions again whose holders are gone, and return them as they were."""
        lost = []
        with self._transaction() as connection:
            leases = {row.session: row for row in connection.execute(select(LOCKS))}
        for session in self.sessions(campaign):
            lease = leases.get(session.id)
            if session.state is State.RUNNING and (
                lease is None or _is_dead(lease.holder, lease.until, now)
            ):
                self.finish(session.id, State.PLANNED, now, ended_at=None)
                lost.append(session)
        return lost

    def renew(self, holder: str, now: datetime) -> None:
        """Say that a holder lives."""
        with self._transaction() as connection:
            query = update(LOCKS).where(LOCKS.c.holder == holder)
            connection.execute(query.values(until=now + LEASE))

    def tell(self, campaign: int, at: datetime, kind: str, text: str) -> None:
        """Write a line into the campaign's log."""
        with self._transaction() as connection:
            row = {"campaign": campaign, "at": at, "kind": kind, "text": text}
            connection.execute(insert(EVENTS).values(**row))

    def log(self, campaign: int, last: int = 100) -> list[tuple[datetime, str, str]]:
        """Return the last lines of the campaign's log: time, kind and text, oldest first."""
        query = select(EVENTS).where(EVENTS.c.campaign == campaign)
        query = query.order_by(EVENTS.c.id.desc()).limit(last)
        with self._transaction() as connection:
            rows = connection.execute(query).all()
        return [(row.at, row.kind, row.text) for row in reversed(rows)]


@dataclass(frozen=True)
class PlannedRow:
    """A session to be, and the clouds that it measures."""

    session: PlannedSession
    clouds: tuple[str, ...]


def _replace_plans(connection: Connection, campaign: int, rows: Sequence[PlannedRow]) -> None:
    """Put the sessions of a calendar beside those that have begun or ended."""
    mine = SESSIONS.c.campaign == campaign
    planned = SESSIONS.c.state == State.PLANNED.value
    untouched = (mine, planned, SESSIONS.c.attempts == 0)
    connection.execute(remove(SESSIONS).where(*untouched))
    keys = [SESSIONS.c[name] for name in _KEY]
    there = {tuple(row) for row in connection.execute(select(*keys).where(mine))}
    new = [_values(campaign, row) for row in rows]
    new = [one for one in new if tuple(one[name] for name in _KEY) not in there]
    if new:
        connection.execute(insert(SESSIONS), new)


_KEY = ("opens", "slot", "scenario", "provider", "instance_class")


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
        "cloud": _BESIDE.join(row.clouds),
    }


def _break_dead_lock(connection: Connection, name: str, now: datetime) -> None:
    lock = connection.execute(select(LOCKS).where(LOCKS.c.name == name)).first()
    if lock is not None and _is_dead(lock.holder, lock.until, now):
        connection.execute(remove(LOCKS).where(LOCKS.c.name == name, LOCKS.c.holder == lock.holder))


def _is_dead(holder: str, until: datetime, now: datetime) -> bool:
    """Tell whether a holder is gone: known on this machine, by his lease elsewhere."""
    gone = is_gone(holder)
    return until <= now if gone is None else gone


def _prepare_sqlite(engine: Engine) -> None:
    """Have transactions begin with the right to write, so that none fails half way for a lock."""
    path = engine.url.database
    if path and path != ":memory:":
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"can't make the directory of the database: {error.strerror}",
                where=path,
                cure="name another database with --state",
            ) from error

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: object) -> None:  # sqlite3.Connection
        connection.isolation_level = None
        connection.execute("PRAGMA busy_timeout = 30000")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
