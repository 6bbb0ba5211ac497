"""What a test wants to go wrong: rules in a file, each for the next calls that it fits."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any


class Faults:
    """Reads the rules whenever their file is another.

    A rule has "kind", "pattern" and "times": "call" refuses or loses a request ("METHOD path"),
    "operation" has one end with an error ("insert path"), "slow" has one take "seconds", "hide"
    keeps a new thing out of lists, "boot" has a guest panic, "host" puts VMs on a host, and "quota"
    sets limits.
    """

    def __init__(self, state: Path) -> None:
        self._path = state / "faults"
        self._read = ""
        self._rules: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def call(self, request: str) -> dict[str, Any] | None:
        """Return what is to go wrong with a request."""
        return self._next("call", request)

    def operation(self, what: str) -> dict[str, Any] | None:
        """Return what an operation is to end with."""
        return self._next("operation", what)

    def seconds(self, what: str, usual: float) -> float:
        """Return how long an operation is to take."""
        rule = self._next("slow", what)
        return usual if rule is None else float(rule["seconds"])

    def hidden(self, path: str) -> bool:
        """Tell whether a list is to lack this thing, as it is new."""
        return self._next("hide", path) is not None

    def stuck(self, path: str) -> bool:
        """Tell whether a guest is to panic."""
        return self._next("boot", path) is not None

    def host(self, path: str) -> str | None:
        """Return the host on which a VM is to be put."""
        rule = self._next("host", path)
        return None if rule is None else str(rule["host"])

    def limits(self, usual: dict[str, float]) -> dict[str, float]:
        """Return the limits of quotas."""
        rule = self._next("quota", "")
        return usual if rule is None else {**usual, **rule["limits"]}

    def _next(self, kind: str, what: str) -> dict[str, Any] | None:
        with self._lock:
            self._read_new()
            for rule in self._rules:
                fits = rule["kind"] == kind and re.search(rule["pattern"], what)
                if fits and rule["times"] > 0:
                    rule["times"] -= 1
                    return rule
        return None

    def _read_new(self) -> None:
        try:
            told = json.loads(self._path.read_text())
        except FileNotFoundError:
            told = {"id": "", "rules": []}
        if told["id"] != self._read:
            self._read, self._rules = told["id"], told["rules"]
