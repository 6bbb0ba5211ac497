"""The database of campaigns: SQLite, or whatever a URL of SQLAlchemy names."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, select, text, update
from sqlalchemy import insert as put
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.schema import CreateColumn

from osmef.campaigns.schedule.redaction import redacted
from osmef.campaigns.state.tables import CAMPAIGNS, METADATA, SCHEMA, VERSION
from osmef.errors import InputError, StorageError


class ConflictError(StorageError):
    """Another process has written the same at the same time."""


class Database:
    """Connections, transactions, and tables of the version that this program knows.

    Every method of its subclasses raises StorageError when the database does not do its part.
    """

    def __init__(self, url: str) -> None:
        try:
            self._engine = create_engine(url)
        except (ArgumentError, NoSuchModuleError, ImportError, ValueError) as error:
            cure = "write it like sqlite:///campaigns.sqlite or postgresql+psycopg://HOST/NAME"
            raise InputError(f"no database: {error}", where="--state", cure=cure) from error
        if self._engine.dialect.name == "sqlite":
            _prepare_sqlite(self._engine)
        self._make_tables()

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Write: all or nothing. Raises ConflictError where another one was first."""
        with self._translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Read, beside those who write."""
        with self._translated(), self._engine.connect() as connection:
            yield connection.execution_options(reading=True)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            kind = ConflictError if isinstance(error, IntegrityError) else StorageError
            raise kind(
                f"the database of campaigns: {error.orig}",
                where=self._engine.url.render_as_string(hide_password=True),
                cure="make room on the disk or mend the connection; what was noted is kept",
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
            if version is not None and version > VERSION:
                raise InputError(
                    f"a newer OSMeF has made this database: of version {version}, and this one"
                    f" knows {VERSION}",
                    where=self._engine.url.render_as_string(hide_password=True),
                    cure="use the newer OSMeF, or name another database with --state",
                )
            if version != VERSION:
                _make_new(connection)


def _version(connection: Connection) -> int | None:
    """Return the version of the tables; None where there are none, or of before versions."""
    if not inspect(connection).has_table(SCHEMA.name):
        return None
    version: int | None = connection.execute(select(SCHEMA.c.version)).scalar()
    return version


def _make_new(connection: Connection) -> None:
    """Make the tables and columns that are not there. An older version's rows stay."""
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


def _prepare_sqlite(engine: Engine) -> None:
    """Have writes begin with the right to write, so that none fails half way for a lock."""
    path = engine.url.database
    if path and not path.startswith((":memory:", "file:")):
        try:
            _make_private(Path(path))
        except OSError as error:
            raise StorageError(
                f"can't make the database: {error.strerror}",
                where=path,
                cure="name another database with --state",
            ) from error

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


def _make_private(path: Path) -> None:
    """Make a file that only its owner may read, or take from others what they may; so its log's.

    SQLite gives the files beside it the same mode. Raises OSError, also for another user's link.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() and path.lstat().st_uid not in {os.geteuid(), 0}:
        raise OSError(errno.ELOOP, "another user has made this link", str(path))
    real = path.resolve()
    with suppress(FileExistsError):
        os.close(os.open(real, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    for end in ("", "-wal", "-shm"):
        file = real.with_name(real.name + end)
        with suppress(FileNotFoundError):
            about = file.lstat()
            # Not by a descriptor: to close one gives up the locks that SQLite has on the file.
            is_ours = about.st_uid == os.geteuid() and stat.S_ISREG(about.st_mode)
            if is_ours and about.st_mode & 0o077:
                file.chmod(0o600)
