"""A piece of work that agents in memory do together, and where it is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.memory.model import Path


@dataclass(frozen=True)
class Run:
    """One end of a job at work: its command, and the path on which its data or requests go.

    ``start_ns`` is the real-time clock of this end at the start. ``reverse`` is the path back.
    ``loaded`` tells whether other traffic of the trial was on the way all the time.
    """

    command: dict[str, Any]
    path: Path
    reverse: Path
    trial: int
    start_ns: int
    loaded: bool = False
    served: list[int] = field(default_factory=list)
    """Of a server: the lengths of its answers, bad ones as -1."""

    @property
    def listens(self) -> bool:
        """Whether it is the end that listens."""
        return bool(self.command.get("side") == "listen")

    @property
    def goes_back(self) -> bool:
        """Whether the end that listens sends the data."""
        return str(self.command.get("direction")) == "reverse"

    @property
    def sends(self) -> bool:
        """Whether it is the end that sends the data."""
        return self.listens == self.goes_back

    @property
    def data_path(self) -> Path:
        """The path on which the data go, from the end that sends."""
        return self.reverse if self.goes_back else self.path

    def number(self, key: str, usual: float = 0.0) -> float:
        """Return a number of the command."""
        value = self.command.get(key)
        return usual if value is None else float(value)
