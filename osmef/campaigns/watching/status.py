"""Live status of a session: a small file in its run directory, for the web page."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from osmef.drafts import draft_file
from osmef.engine.observer import Observer
from osmef.engine.plan import PlannedTrial
from osmef.named_file import read_file
from osmef.results.measure import Measure
from osmef.results.trial import Trial
from osmef.workloads.base import Span

NAME = "live.json"
_MOST_BYTES = 1 << 20
_EVERY_S = 2.0


class LiveStatus(Observer):
    """Observer that publishes the live status as JSON to ``show``, every 2 s at most.

    Keys: ``at`` (UTC), ``step``, ``ended`` and ``trials`` (of this attempt), and ``running``: cell,
    repetition, ``started_at`` and ``rate_bps`` (null before the first) of each trial.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._lock = threading.Lock()
        self._shown = float("-inf")
        self._told: dict[str, Any] = {"step": "", "trials": 0, "ended": 0}
        self._running: dict[int, dict[str, Any]] = {}

    def step(self, text: str) -> None:
        """Show the run's next step."""
        self._change(step=text)

    def measuring(self, trials: int, planned: Span, measures: Sequence[Measure]) -> None:  # noqa: ARG002
        """Show the number of trials that begin now."""
        self._change(trials=trials, step="measuring")

    def trial_started(self, planned: PlannedTrial) -> None:
        """Show that a trial begins."""
        with self._lock:
            self._running[planned.index] = {
                "cell": planned.cell.cell.key,
                "repetition": planned.repetition,
                "started_at": datetime.now(UTC).isoformat(),
                "rate_bps": None,
            }
        self._change()

    def rate(self, planned: PlannedTrial, bits_per_second: float) -> None:
        """Show the latest rate of a trial that runs."""
        with self._lock:
            if planned.index in self._running:
                self._running[planned.index]["rate_bps"] = bits_per_second
        self._change()

    def trial_ended(self, trial: Trial) -> None:
        """Show that a trial has ended."""
        with self._lock:
            self._running.pop(trial.index, None)
            self._told["ended"] += 1
        self._change()

    def _change(self, **values: object) -> None:
        with self._lock:
            self._told |= values
            now = time.monotonic()
            if now - self._shown < _EVERY_S and not values:
                return
            self._shown = now
            running = list(self._running.values())
            at = datetime.now(UTC).isoformat()
            text = json.dumps({"at": at, **self._told, "running": running})
        self._show(text)


def show_in(directory: Path, text: str) -> None:
    """Replace the live status in a run directory, if that exists.

    It does not wait for the disk, which would disturb what is measured; nothing depends on it.
    """
    with suppress(OSError), draft_file(directory / NAME) as file:
        file.write(text.encode())


def forget(directory: Path) -> None:
    """Remove the live status of a session that has ended."""
    with suppress(OSError):
        (directory / NAME).unlink(missing_ok=True)


def read_live(directory: Path) -> dict[str, Any] | None:
    """Return the live status of a running session, None without one."""
    try:
        found = from_json(read_file(directory / NAME, _MOST_BYTES))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
