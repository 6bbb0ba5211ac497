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


def open_store(url: str) -> Store:
    """Open the database at a URL, by default this user's own. See Store for errors."""
    from osmef.campaigns.state.store import Store  # noqa: PLC0415 - SQLAlchemy is slow to load

    return Store(url or default_url())
