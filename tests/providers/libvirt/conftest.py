"""Real hypervisors for the provider, and the command line beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Osmef
from tests.libvirt.lab import Lab, skip_unless_possible


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two hypervisors on one network."""
    skip_unless_possible()
    with Lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture
def osmef(tmp_path: Path) -> Iterator[Osmef]:
    command = Osmef(tmp_path)
    command.end_s = 200.0  # emulated guests are slow
    yield command
    for process in command.started:
        if process.poll() is None:
            process.kill()
        process.communicate()
