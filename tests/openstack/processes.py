"""The processes of one cloud: each known by name, each with a log, all ended by pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.openstack.errors import CloudError

WITH_US = ("setpriv", "--pdeathsig", "TERM")
"""Before a command that shall end with the process that starts it, however that ends."""

_ENDING_S = 10.0
_STEP_S = 0.1
_TAIL_BYTES = 1500


@dataclass(frozen=True)
class Record:
    """What is kept of a started process. A pid may be given anew: its start tells."""

    pid: int
    started: str
    argv: list[str]
    environment: dict[str, str]


class Processes:
    """Starts, stops, pauses and restarts; what it knows stands in files of the state folder."""

    def __init__(self, state: Path) -> None:
        self.records = state / "pid"
        self.logs = state / "log"
        for folder in (self.records, self.logs):
            folder.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a process as leader of a session of its own, unless it runs."""
        if self.alive(name):
            return
        with (self.logs / f"{name}.out").open("ab") as log:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        record = Record(process.pid, _started(process.pid), list(argv), dict(environment))
        (self.records / name).write_text(json.dumps(vars(record)))
        process.returncode = 0  # alive() reaps it; without this the object would warn

    def names(self) -> list[str]:
        """Return the names of all that were started and not stopped."""
        return sorted(path.name for path in self.records.iterdir())

    def alive(self, name: str) -> bool:
        """Tell whether it runs (or is paused)."""
        try:
            record = self._record(name)
        except CloudError:
            return False
        _reap(record.pid)
        return _started(record.pid) == record.started

    def pid(self, name: str) -> int:
        """Return its process id. Raises CloudError."""
        return self._record(name).pid

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the process and what it started."""
        if not self.alive(name):
            raise CloudError(f"{name} does not run")
        os.killpg(self._record(name).pid, number)

    def pause(self, name: str) -> None:
        """Let it hang: connections stay, nothing answers."""
        self.kill(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let it go on."""
        self.kill(name, signal.SIGCONT)

    def stop(self, *names: str, timeout_s: float = _ENDING_S) -> None:
        """End processes, by force where they don't follow; they can be restarted."""
        records = [self._record(name) for name in names]
        for record in records:
            for number in (signal.SIGTERM, signal.SIGCONT):
                _send(_group(record)[:1], number)
        end = time.monotonic() + timeout_s
        while any(self.alive(name) for name in names) and time.monotonic() < end:
            time.sleep(_STEP_S)
        for record in records:
            while left := _group(record):  # what the leader left behind, too
                _send(left, signal.SIGKILL)
                _reap(record.pid)
                time.sleep(_STEP_S / 10)

    def restart(self, name: str) -> None:
        """Start it again as it was started before."""
        record = self._record(name)
        self.stop(name)
        self.start(name, record.argv, record.environment)

    def forget(self) -> None:
        """Drop the records of all that was stopped."""
        for name in self.names():
            if not self.alive(name):
                (self.records / name).unlink()

    def wait(self, name: str, seconds: float, ready: Callable[[], bool]) -> None:
        """Wait until something is ready that this process makes. Raises CloudError."""
        end = time.monotonic() + seconds
        while not ready():
            if not self.alive(name):
                raise CloudError(f"{name} ended: {self.tail(name)}")
            if time.monotonic() > end:
                raise CloudError(f"{name} is not ready after {seconds:.0f} s: {self.tail(name)}")
            time.sleep(_STEP_S)

    def cpu_s(self) -> dict[str, float]:
        """Return the CPU time of all that run, by name: they, what they started, what ended."""
        used: dict[str, float] = {}
        for name in self.names():
            ticks = 0
            for pid in _group(self._record(name)):
                fields = _fields(Path(f"/proc/{pid}/stat"))
                ticks += sum(int(field) for field in fields[11:15])
            used[name] = ticks / os.sysconf("SC_CLK_TCK")
        return used

    def tail(self, name: str) -> str:
        """Return the end of the log."""
        text = (self.logs / f"{name}.out").read_bytes()[-_TAIL_BYTES:]
        return f"{self.logs}/{name}.out:\n{text.decode(errors='replace')}"

    def _record(self, name: str) -> Record:
        try:
            return Record(**json.loads((self.records / name).read_text()))
        except FileNotFoundError:
            known = ", ".join(self.names()) or "nothing"
            raise CloudError(f"there is no {name}; started are: {known}") from None


def _fields(path: Path) -> list[str]:
    """Return what a stat file says after the name (proc(5)), nothing once it has ended."""
    try:
        fields = path.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [] if fields[0] in "ZX" else fields


def _started(pid: int) -> str:
    """Return the start of a process in clock ticks, empty when it has ended."""
    fields = _fields(Path(f"/proc/{pid}/stat"))
    return fields[19] if fields else ""


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # another controller started it


def _group(record: Record) -> list[int]:
    """Return the processes of its session that live, the leader first."""
    found = []
    for path in Path("/proc").iterdir():
        fields = _fields(path / "stat") if path.name.isdigit() else None
        # A session's number is free for others when its last process has gone: compare the starts.
        if fields and int(fields[3]) == record.pid and int(fields[19]) >= int(record.started):
            found.append(int(path.name))
    return sorted(found, key=lambda pid: pid != record.pid)


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.kill(pid, number)
