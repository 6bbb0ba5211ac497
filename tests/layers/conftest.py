"""Machines on which layers are raised."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.layers.machines import Machines, two_machines


@pytest.fixture
def machines() -> Iterator[Machines]:
    with two_machines() as found:
        yield found
