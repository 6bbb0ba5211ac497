"""What tests say of an agent whose kernel is made to say wrong things (c/faults.c)."""

from __future__ import annotations

from typing import Protocol

from tests.agents.lab import Agent


class FaultyAgent(Protocol):
    """Starts one with these environment variables."""

    def __call__(self, **faults: int) -> Agent: ...
