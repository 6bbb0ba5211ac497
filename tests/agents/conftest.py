from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents import build
from tests.agents.lab import Agent, StartAgent


@pytest.fixture(scope="session")
def binary() -> Path:
    """The agent of this machine as it is shipped."""
    machine = platform.machine()
    if machine not in build.TARGETS:
        pytest.skip(f"no agent is built for {machine}")
    return build.build(build.OUT, [machine])[0]


@pytest.fixture
def start(binary: Path) -> Iterator[StartAgent]:
    """Start agents that end with the test."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Agent(binary))
