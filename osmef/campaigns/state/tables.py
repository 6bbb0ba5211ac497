"""The tables of a campaign's database."""

from __future__ import annotations

import datetime
from typing import Any

from sqlalchemy import (
    Column,
    DateTime,
    Dialect,
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
)

from osmef.campaigns.state.rows import Phase, SessionState

VERSION = 5
"""Of these tables. A new column needs a ``server_default`` or null, and the next number here."""


class _Utc(TypeDecorator[datetime.datetime]):
    """A time in UTC: not every database keeps a zone."""

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
    Column("phase", String(20), nullable=False, default=Phase.ACTIVE.value),
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
"""Who conducts what, and until when he is believed to live without a word."""

HELD = Table(
    "held",
    METADATA,
    Column("name", String(500), primary_key=True),
    Column("session", Integer, nullable=False, index=True),
)
"""What is measured right now, for exclusive campaigns: one of Session.places each."""

RESULTS = Table(
    "results",
    METADATA,
    Column("session", ForeignKey("sessions.id"), primary_key=True),
    Column("metric", String(100), primary_key=True),
    Column("cell", Text, primary_key=True),
    Column("value", Float),
)
"""The median of a metric in a session, by the scenario's cells: what the stop rule looks at."""

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
