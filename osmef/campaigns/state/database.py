"""Database of campaigns and its tables: SQLite, or any URL of SQLAlchemy."""

from __future__ import annotations

import datetime
import errno
import os
import sqlite3
import stat
import weakref
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Dialect,
    Engine,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    create_engine,
    event,
    inspect,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy import insert as put
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.schema import CreateColumn

from osmef.campaigns.schedule.model import redacted
from osmef.campaigns.state.rows import CampaignPhase, SessionState
from osmef.errors import InputError, PackageError, StorageError
from osmef.files import exists, make_private_directory, real_path

VERSION = 5
"""Of these tables. A new column needs a ``server_default`` or null, and the next number here."""


class _Utc(TypeDecorator[datetime.datetime]):
    """Column type of a time in UTC: not every database keeps a time zone."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime.datetime | None, _dialect: Dialect) -> Any:
        return value and value.astimezone(datetime.UTC).replace(tzinfo=None)

    def process_result_value(self, value: Any, _dialect: Dialect) -> datetime.datetime | None:
        return None if value is None else datetime.datetime.replace(value, tzinfo=datetime.UTC)


METADATA = MetaData()

SCHEMA = Table("schema_version", METADATA, Column("version", Integer, nullable=False))

CAMPAIGNS = Table(
    "campaigns",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", String(100), nullable=False, unique=True),
    Column("file", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("out", Text, nullable=False),
    Column("phase", String(20), nullable=False, default=CampaignPhase.ACTIVE.value),
    Column("created_at", _Utc, nullable=False),
    Column("holder", Text),
    Column("seen_at", _Utc),
)

SESSIONS = Table(
    "sessions",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("campaign", ForeignKey("campaigns.id"), nullable=False, index=True),
    Column("slot", String(200), nullable=False),
    Column("window", String(100), nullable=False),
    Column("opens", _Utc, nullable=False),
    Column("closes", _Utc, nullable=False),
    Column("due", _Utc, nullable=False, index=True),
    Column("place", Integer, nullable=False),
    Column("scenario", Text, nullable=False),
    Column("provider", String(100), nullable=False, default=""),
    Column("instance_class", String(100), nullable=False, default=""),
    Column("cloud", Text, nullable=False),
    Column("state", String(20), nullable=False, default=SessionState.PLANNED.value),
    Column("attempts", Integer, nullable=False, default=0),
    Column("directory", Text, unique=True),
    Column("holder", Text),
    Column("started_at", _Utc),
    Column("ended_at", _Utc),
    Column("trials_ok", Integer, nullable=False, default=0),
    Column("trials_failed", Integer, nullable=False, default=0),
    Column("cost", Float),
    Column("currency", String(3)),
    Column("why", Text),
    Column("token", Integer, nullable=False, default=0, server_default="0"),
    Column("paid", Float, nullable=False, default=0.0, server_default="0"),
    Column("expected", Float, nullable=False, default=0.0, server_default="0"),
    Column("uncleared", Text),
    Column("left_out", Text),
    Column("study", String(64), nullable=False, default="", server_default=""),
    UniqueConstraint("campaign", "opens", "slot", "scenario", "provider", "instance_class"),
    Index("sessions_by_due", "campaign", "state", "due"),
    Index("sessions_by_closes", "campaign", "state", "closes"),
    sqlite_autoincrement=True,
)

HOLDERS = Table(
    "holders",
    METADATA,
    Column("name", String(300), primary_key=True),
    Column("campaign", ForeignKey("campaigns.id"), primary_key=True),
    Column("until", _Utc, nullable=False),
)
"""The conductor of each campaign, and the expiry of its lease."""

HELD = Table(
    "held",
    METADATA,
    Column("name", String(500), primary_key=True),
    Column("session", Integer, nullable=False, index=True),
)
"""The exclusive resources in use, a row each: see SessionRow.exclusive_resources."""

RESULTS = Table(
    "results",
    METADATA,
    Column("session", ForeignKey("sessions.id"), primary_key=True),
    Column("metric", String(100), primary_key=True),
    Column("cell", Text, primary_key=True),
    Column("value", Float),
)
"""The median of a metric in a session, by the scenario's cells: what the stopping rule reads."""

GAPS = Table(
    "gaps",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("campaign", ForeignKey("campaigns.id"), nullable=False, index=True),
    Column("since", _Utc, nullable=False),
    Column("until", _Utc, nullable=False),
    Column("why", Text, nullable=False),
)

EVENTS = Table(
    "events",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("campaign", ForeignKey("campaigns.id"), nullable=False, index=True),
    Column("at", _Utc, nullable=False),
    Column("kind", String(50), nullable=False),
    Column("text", Text, nullable=False),
)


_OTHER = "name another database with --state or OSMEF_STATE"
_CURES = {
    "file is not a database": _OTHER,
    "unable to open database file": _OTHER,
    "readonly database": "make the file and its directory writable for you: its log is there",
    "database is locked": "another process is writing to it: wait for its end, or end it",
    "does not exist": f"create it there, or {_OTHER}",
    "authentication failed": "check the user and the password in --state or OSMEF_STATE",
    "has no equivalent in encoding": "make it in UTF8: createdb -E UTF8 -T template0 NAME",
}
"""Cures by what SQLite and PostgreSQL say."""


class ConflictError(StorageError):
    """A concurrent transaction has changed the same rows."""


class NoDatabaseError(InputError):
    """There is no file of a database, and none is to be created."""


class Database:
    """Connections, transactions, and tables in the version of this program.

    Without ``create`` a missing file is an InputError. Every method of its subclasses raises
    StorageError when the database does not do its part.
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        try:
            self._engine = create_engine(url, connect_args=_connect_args(url))
        except (ArgumentError, NoSuchModuleError, ImportError, ValueError) as error:
            missing = PackageError.of(error) if isinstance(error, ModuleNotFoundError) else None
            if missing:
                raise missing from error
            cure = "write it like sqlite:///campaigns.sqlite or postgresql+psycopg://HOST/NAME"
            raise InputError(f"no database: {error}", where="--state", cure=cure) from error
        # Without a close, Python would close each connection when it is collected, with a warning.
        weakref.finalize(self, self._engine.dispose).atexit = False
        self._file: _File | None = None
        if self._engine.dialect.name == "sqlite":
            path = _prepare_sqlite(self._engine, create=create)
            self._make_tables()
            if path is not None:
                with _opening(path, create=False):
                    _restrict(path)
                    self._file = _File.of(path)
        else:
            self._make_tables()

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Write transaction. Raises ConflictError if a concurrent one was first."""
        self._check_file()
        with self._translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Read transaction, beside writers."""
        self._check_file()
        with self._translated(), self._engine.connect() as connection:
            yield connection.execution_options(reading=True)

    def _check_file(self) -> None:
        """Raise StorageError if the file was deleted or replaced: SQLite would use the old one."""
        if self._file is not None and not self._file.is_there():
            raise StorageError(
                "the database was deleted or replaced while it was in use",
                where=str(self._file.path),
                cure="end this program, put the file back from a copy, and start it again",
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            kind = ConflictError if isinstance(error, IntegrityError) else StorageError
            raise kind(
                f"the database of campaigns: {error.orig}",
                where=self._engine.url.render_as_string(hide_password=True),
                cure=_cure(str(error.orig)),
            ) from error

    def _make_tables(self) -> None:
        with self._reading() as connection:
            version = _version(connection)
        if version == VERSION:
            return
        with self._transaction() as connection:
            if self._engine.dialect.name == "postgresql":  # two programs may begin at once
                connection.execute(text("SELECT pg_advisory_xact_lock(6748)"))
            version = _version(connection)
            if version is None and self._engine.dialect.name == "sqlite":
                where = str(self._engine.url.database)
                _refuse_others(inspect(connection).get_table_names(), where)
            if version is not None and version > VERSION:
                raise InputError(
                    f"a newer OSMeF has made this database: of version {version}, and this one"
                    f" knows {VERSION}",
                    where=self._engine.url.render_as_string(hide_password=True),
                    cure=f"use the newer OSMeF, or {_OTHER}",
                )
            if version != VERSION:
                _make_new(connection)


@dataclass(frozen=True)
class _File:
    """The file of an open database, by its device and inode."""

    path: Path
    device: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> _File:
        """Look at a file. Raises OSError."""
        found = path.absolute()  # not resolved: a link may be replaced, too
        about = found.stat()
        return cls(found, about.st_dev, about.st_ino)

    def is_there(self) -> bool:
        """Return whether the path still leads to this file."""
        try:
            return _File.of(self.path) == self
        except OSError:
            return False


def _check_ours(path: Path) -> None:
    """Raise InputError for another program's database, which is read only. Raises OSError.

    SQLite's own errors are reported by the first transaction.
    """
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as connection:
        named = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        _refuse_others([name for (name,) in named if not name.startswith("sqlite_")], str(path))


def _refuse_others(names: Iterable[str], where: str) -> None:
    if others := {*names} - {*METADATA.tables}:
        what = f"this is another program's database: it has the table {min(others)}"
        raise InputError(what, where=where, cure=_OTHER)


def _connect_args(url: str) -> dict[str, str]:
    """Return the arguments of a connection to a URL. Raises ArgumentError."""
    # Otherwise psycopg takes that of the database: of SQL_ASCII, what initdb makes where LANG is
    # C, it returns bytes, and of others it can't send all characters.
    of_psycopg = make_url(url).get_dialect().driver == "psycopg"
    return {"client_encoding": "UTF8"} if of_psycopg else {}


def _cure(message: str) -> str:
    """Return the cure of an error of the database."""
    usual = "free disk space, or restore the connection; what was recorded is kept"
    return next((cure for words, cure in _CURES.items() if words in message), usual)


def _version(connection: Connection) -> int | None:
    """Return the schema version; None for an empty or unversioned database."""
    if not inspect(connection).has_table(SCHEMA.name):
        return None
    version: int | None = connection.execute(select(SCHEMA.c.version)).scalar()
    return version


def _make_new(connection: Connection) -> None:
    """Create missing tables and columns. Existing rows stay."""
    METADATA.create_all(connection)
    for table in METADATA.sorted_tables:
        there = {column["name"] for column in inspect(connection).get_columns(table.name)}
        for column in table.columns:
            if column.name not in there:
                new = CreateColumn(column).compile(dialect=connection.dialect)
                connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {new}"))
        for index in table.indexes:
            index.create(connection, checkfirst=True)
    for number, file, old in connection.execute(
        select(CAMPAIGNS.c.id, CAMPAIGNS.c.file, CAMPAIGNS.c.text)
    ).all():  # versions before 5 kept the webhook
        where = CAMPAIGNS.c.id == number
        connection.execute(update(CAMPAIGNS).where(where).values(text=redacted(old, Path(file))))
    if connection.execute(update(SCHEMA).values(version=VERSION)).rowcount == 0:
        connection.execute(put(SCHEMA).values(version=VERSION))


def _prepare_sqlite(engine: Engine, *, create: bool) -> Path | None:
    """Let write transactions take the lock at once, so that none fails half-way.

    Returns the path of the file, None for a database in memory or a URI of SQLite.
    """
    named = engine.url.database
    path = None if not named or named.startswith((":memory:", "file:")) else Path(named)
    if path is not None:
        with _opening(path, create=create):
            if not create:
                _check_exists(path)
            _make_private(path)
            _check_ours(path)

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: object) -> None:  # sqlite3.Connection
        connection.isolation_level = None
        connection.execute("PRAGMA busy_timeout = 30000")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        reading = connection.get_execution_options().get("reading", False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return path


@contextmanager
def _opening(path: Path, *, create: bool) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"can't {'make' if create else 'open'} the database: {error.strerror}",
            where=str(path),
            cure=_OTHER,
        ) from error


def _check_exists(path: Path) -> None:
    """Check that a file exists. Raises NoDatabaseError, OSError."""
    if not exists(path):
        raise NoDatabaseError(
            "there is no database",
            where=str(path),
            cure="is the path right in --state or OSMEF_STATE? osmef campaign run FILE creates it",
        )


def _make_private(path: Path) -> None:
    """Create the file for its owner alone, if there is none.

    SQLite gives the files beside it the same mode. Raises OSError, also for another user's link.
    """
    make_private_directory(path.parent)
    if path.is_symlink() and path.lstat().st_uid not in {os.geteuid(), 0}:
        raise OSError(errno.ELOOP, "another user has made this link", str(path))
    real = real_path(path)
    with suppress(FileExistsError):
        os.close(os.open(real, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _restrict(path: Path) -> None:
    """Restrict a database of campaigns and its log to their owner. Raises OSError."""
    real = real_path(path)
    for end in ("", "-wal", "-shm"):
        file = real.with_name(real.name + end)
        with suppress(FileNotFoundError):
            about = file.lstat()
            # Not by a descriptor: to close one gives up the locks that SQLite has on the file.
            is_ours = about.st_uid == os.geteuid() and stat.S_ISREG(about.st_mode)
            if is_ours and about.st_mode & 0o077:
                file.chmod(0o600)
