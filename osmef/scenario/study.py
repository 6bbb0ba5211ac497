"""A loaded scenario file: the scenario and the cells of its sweep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from osmef.errors import Problem
from osmef.scenario.model import Scenario

ALONE = "all"
"""The key of the only cell of a scenario without a sweep."""

Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Cell:
    """One point of the sweep.

    ``values`` holds what the sweep set, under the key as written in the file (``connections``,
    ``endpoints.sender.flavor``); ``scenario`` is the scenario with these values in place.
    ``problem`` makes a Problem of a dotted key, a message and a cure, at its place in the file.
    """

    key: str
    values: tuple[tuple[str, Scalar], ...]
    scenario: Scenario
    problem: Callable[[str, str, str], Problem] = field(compare=False, repr=False)

    @property
    def connections(self) -> int | None:
        """How many parallel connections each pair has; None for a workload without."""
        return self.scenario.workload.connections_per_pair


@dataclass(frozen=True)
class Study:
    """A scenario file: its text, the SHA-256 of that text, the scenario and its cells in order.

    Where values were overridden, ``text`` has them in it: read again it gives the same cells.
    ``scenario`` is that of the first cell; what no sweep can set (name, provider, repeat, order
    ...) is the same in all cells, and to be read here.
    """

    path: Path
    text: str
    digest: str
    scenario: Scenario
    cells: tuple[Cell, ...]
