"""Whole runs in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory.cloud import World
from tests.memory.lab import Lab


@pytest.fixture
def lab(world: World, tmp_path: Path) -> Iterator[Lab]:
    """Where runs are made."""
    with Lab(world, tmp_path) as made:
        yield made
