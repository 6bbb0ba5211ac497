"""The command line as a user has it: a process of its own, in an empty directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from osmef.providers.local import sandbox
from tests.cli.machines import Lab, two_machines
from tests.cli.warm import TERMINAL, Command, entered, warm

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def obeying_permissions() -> tuple[str, ...]:
    """Return the prefix of a command to which permissions apply, also where the tests are root."""
    if os.geteuid() != 0:
        return ()
    return ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


AnyCommand = subprocess.Popen[str] | Command


class Osmef:
    """Runs ``osmef`` in one directory: by a call to its end, or started, to be disturbed."""

    end_s = 60.0
    # They take longer than most runs here; who looks at them asks for --figures.
    without_figures = ("run", "resume", "import")

    def __init__(self, directory: Path, modules: tuple[str, ...] = ()) -> None:
        self.directory = directory
        self.modules = modules  # which commands of a cloud need, and those of others don't
        self.started: list[AnyCommand] = []

    def write(self, text: str, name: str = "scenario.yaml") -> str:
        (self.directory / name).write_text(text)
        return name

    def start(self, *words: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "osmef", *self._words(*words)],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A group of its own, so that a test's Ctrl-C reaches all of it and nothing else.
            start_new_session=True,
            env={**os.environ, **TERMINAL},
        )
        self.started.append(process)
        return process

    def __call__(self, *arguments: str, prefix: tuple[str, ...] = ()) -> Ended:
        place = entered(prefix)
        if place is None:
            return self.finish(self.start(*arguments, prefix=prefix))
        env = {**os.environ, **TERMINAL}
        server = warm(self.modules)
        command = server.start(self._words(*arguments), self.directory, env, place)
        self.started.append(command)
        return self.finish(command)

    def _words(self, *words: str) -> list[str]:
        command, *arguments = words
        plain = ["--no-figures"] if command in self.without_figures else []
        return [command, *plain, *arguments]

    def until(self, process: subprocess.Popen[str], text: str) -> str:
        """Read what the process says on standard error up to a line with the text."""
        assert process.stderr is not None
        seen = ""
        watchdog = threading.Timer(self.end_s, process.kill)
        watchdog.start()
        try:
            for line in process.stderr:
                seen += line
                if text in line:
                    return seen
        finally:
            watchdog.cancel()
        raise AssertionError(f"the process never said {text!r}, but: {seen}")

    def finish(self, process: AnyCommand) -> Ended:
        out, err = process.communicate(timeout=self.end_s)
        assert process.returncode is not None
        return Ended(process.returncode, out, err)

    def interrupt(self, process: AnyCommand, number: signal.Signals) -> None:
        """Send a signal as a terminal (SIGINT, to the whole group) or a supervisor does."""
        if number is signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)

    def interrupted_at(self, module: str) -> tuple[str, ...]:
        """Return the prefix of a command that gets Ctrl-C when it comes to import a module."""
        hook = self.directory / "hook"
        hook.mkdir()
        (hook / "sitecustomize.py").write_text(
            "import os, signal, sys\n"
            "class CtrlC:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            f"        if name == {module!r}:\n"
            "            os.kill(os.getpid(), signal.SIGINT)\n"
            "sys.meta_path.insert(0, CtrlC())\n"
        )
        return ("env", f"PYTHONPATH={hook}:{ROOT}")

    def close(self) -> None:
        """End what a test has started and not waited for."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    @property
    def run(self) -> Path:
        (found,) = (self.directory / "results").iterdir()
        return found

    @property
    def summary(self) -> dict[str, Any]:
        """The summary of the only run."""
        found: dict[str, Any] = json.loads((self.run / "summary.json").read_text())
        return found

    @property
    def trials(self) -> list[dict[str, Any]]:
        """The records of its trials."""
        return self._lines("trials.jsonl")

    @property
    def journal(self) -> list[dict[str, Any]]:
        """The lines of its journal."""
        return self._lines("journal.jsonl")

    @property
    def events(self) -> list[tuple[str, str]]:
        """The events of its journal, each with the kind of its resource."""
        return [(one["event"], one.get("resource", {}).get("kind", "")) for one in self.journal]

    def kinds_of(self, event: str) -> list[str]:
        """Return the kinds of the resources of one event."""
        return [kind for name, kind in self.events if name == event]

    def _lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.run / name).read_text().splitlines()]


@pytest.fixture
def osmef(tmp_path: Path) -> Iterator[Osmef]:
    command = Osmef(tmp_path)
    yield command
    command.close()


@pytest.fixture
def left_behind(osmef: Osmef) -> Callable[[], list[str]]:
    """Return what is still on the machine of the runs of this test."""

    def find() -> list[str]:
        results = osmef.directory / "results"
        runs = {path.name for path in results.iterdir()} if results.exists() else set()
        return [process.identity for process in sandbox.marked() if process.run in runs]

    return find


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with two_machines(tmp_path) as machines:
        yield machines
