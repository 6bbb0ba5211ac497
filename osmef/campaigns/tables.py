"""The tables of a campaign's database."""

from __future__ import annotations

import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)


class State(StrEnum):
    """What became of a session."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    MISSED = "missed"
    ENOUGH = "enough"
    CANCELLED = "cancelled"


class Phase(StrEnum):
    """What a campaign does."""

    ACTIVE = "active"
    PAUSED = "paused"
    STOPPED = "stopped"
    ENDED = "ended"


class _Utc(TypeDecorator[datetime.datetime]):
    """A time in UTC: not every database keeps a zone."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime.datetime | None, _dialect: Dialect) -> Any:
        return value and value.astimezone(datetime.UTC).replace(tzinfo=None)

    def process_result_value(self, value: Any, _dialect: Dialect) -> datetime.datetime | None:
        return None if value is None else datetime.datetime.replace(value, tzinfo=datetime.UTC)


METADATA = MetaData()

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
    Column("state", String(20), nullable=False, default=State.PLANNED.value),
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
    UniqueConstraint("campaign", "opens", "slot", "scenario", "provider", "instance_class"),
)

LOCKS = Table(
    "locks",
    METADATA,
    Column("name", String(500), primary_key=True),
    Column("holder", Text, nullable=False),
    Column("session", Integer, nullable=False),
    Column("until", _Utc, nullable=False),
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
