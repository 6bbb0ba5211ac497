"""Machines on which layers are raised."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("tests.layers.machines")

from tests.layers.machines import Machines, two_machines  # noqa: E402 - after that


@pytest.fixture
def machines() -> Iterator[Machines]:
    with two_machines() as found:
        yield found
