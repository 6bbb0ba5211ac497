"""The command line, for runs on emulated guests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Osmef


@pytest.fixture
def osmef(tmp_path: Path) -> Iterator[Osmef]:
    command = Osmef(tmp_path)
    command.end_s = 200.0  # emulated guests are slow
    yield command
    command.close()
