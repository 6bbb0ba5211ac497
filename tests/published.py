"""Published measurements to test against, which stand beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def published(name: str) -> Path:
    """Return the path of published data, such as ``deval-2017/sessions.csv``; skips without it.

    They are looked for in ``OSMEF_PUBLISHED_DATA``, else in ``../shared/data`` of the repository.
    """
    beside = Path(__file__).parents[2] / "shared" / "data"
    path = Path(os.environ.get("OSMEF_PUBLISHED_DATA") or beside) / name
    if not path.exists():
        pytest.skip(f"needs the published data {name} in ../shared/data, which are not here")
    return path
