"""State of campaigns in a database: its location, and opening it. Fast to import."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from osmef.campaigns.state.store import Store


def state_home() -> Path:
    """Return this user's state directory, by XDG."""
    home = os.environ.get("XDG_STATE_HOME")
    base = Path(home) if home else Path.home() / ".local" / "state"
    return base / "osmef"


def default_url() -> str:
    """Return the URL of this user's database."""
    return f"sqlite:///{state_home() / 'campaigns.sqlite'}"


def open_store(url: str, *, create: bool = False) -> Store:
    """Open the database at a URL, by default this user's own. See Store for errors.

    Without ``create`` nothing is made: a missing file is an error, and the user's own is empty.
    """
    # SQLAlchemy is slow to load
    from osmef.campaigns.state.database import NoDatabaseError  # noqa: PLC0415
    from osmef.campaigns.state.store import Store  # noqa: PLC0415

    try:
        return Store(url or default_url(), create=create)
    except NoDatabaseError:
        if url:
            raise
        return Store("sqlite://")
