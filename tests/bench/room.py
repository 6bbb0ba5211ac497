"""Two namespaces joined by a veth pair, and programs in them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pyroute2 import IPRoute

START_TIMEOUT_S = 10.0
TIMEOUT_S = 60.0
"""Of a program beyond the time that its measurement takes."""
LISTEN = "0A"

_SET_UP = """
import sys
from pyroute2 import IPRoute
with IPRoute() as ipr:
    (lo,) = ipr.link_lookup(ifname="lo")
    (eth,) = ipr.link_lookup(ifname=sys.argv[1])
    ipr.addr("add", index=eth, address=sys.argv[2], prefixlen=24)
    for index in (lo, eth):
        ipr.link("set", index=index, state="up")
"""


class ProgramError(Exception):
    """A program of the benchmark failed or hung; the message says which, and what it printed."""


@dataclass(frozen=True)
class Place:
    """Where the two ends of a measurement run: numbers of namespaces, the second one's address."""

    name: str
    client: int
    server: int
    address: str


_NAMES = ("one", "two")
ADDRESSES = ("10.99.0.1", "10.99.0.2")
APART = Place("two namespaces", 0, 1, ADDRESSES[1])
LOOPBACK = Place("loopback", 1, 1, "127.0.0.1")
PLACES = (APART, LOOPBACK)


@dataclass(frozen=True)
class Ended:
    """What a program printed, and the CPU-seconds that it and its children used."""

    output: str
    cpu_s: float


class Program:
    """A running program, the leader of a process group of its own."""

    def __init__(self, enter: list[str], command: list[str]) -> None:
        self._process = subprocess.Popen(
            [*enter, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )
        self._name = Path(command[0]).name
        self._ended: Ended | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> Ended:
        """Wait until it ends; raises ProgramError when it fails or does not end."""
        ended = self._reap()
        if self._process.returncode:
            status = self._process.returncode
            raise ProgramError(f"{self._name} ended with {status}: {ended.output[-200:]}")
        return ended

    def stop(self, number: signal.Signals) -> Ended:
        """End a server that serves for ever; how it ends does not matter."""
        if self._ended is None:
            os.kill(self.pid, number)  # not Popen's way: that would reap it, and lose its CPU time
        return self._reap()

    def kill(self) -> None:
        if self._ended is None:
            self._kill_group()
            self._reap()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _reap(self) -> Ended:
        if self._ended is None:
            assert self._process.stdout is not None
            alarm = threading.Timer(TIMEOUT_S, self._kill_group)
            alarm.daemon = True  # an interrupted benchmark does not wait for it
            alarm.start()
            output = self._process.stdout.read()
            self._process.stdout.close()
            _, status, use = os.wait4(self.pid, 0)
            alarm.cancel()
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self._ended = Ended(output, use.ru_utime + use.ru_stime)
        return self._ended


class Room:
    """Two namespaces; they go when their two holders do."""

    def __init__(self) -> None:
        self._holders = [subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) for _ in "12"]
        own = Path("/proc/self/ns/net").readlink()
        for holder in self._holders:
            theirs = Path(f"/proc/{holder.pid}/ns/net")
            wait(lambda path=theirs: path.readlink() != own)  # type: ignore[misc]
        one, two = ({"ifname": name, "net_ns_pid": self.pid(i)} for i, name in enumerate(_NAMES))
        with IPRoute() as ipr:  # made where it belongs: the machine's own links stay as they are
            ipr.link("add", kind="veth", peer=two, **one)
        for number, name in enumerate(_NAMES):
            self.python(number, _SET_UP, name, ADDRESSES[number])

    def pid(self, number: int) -> int:
        """Return a process in that namespace."""
        return self._holders[number].pid

    def enter(self, number: int) -> list[str]:
        """Return the prefix of a command that runs in that namespace; it becomes that command."""
        return ["nsenter", "-t", str(self.pid(number)), "-n"]

    def table(self, number: int, name: str) -> Path:
        """Return a file of /proc/net as a namespace sees it."""
        return Path(f"/proc/{self.pid(number)}/net/{name}")

    def python(self, number: int, text: str, *arguments: str) -> None:
        """Run a few lines of Python in a namespace."""
        self.run(number, [sys.executable, "-c", text, *arguments])

    def run(self, number: int, command: list[str]) -> Ended:
        with self.running(number, command) as program:
            return program.end()

    @contextmanager
    def running(
        self, number: int, command: list[str], port: int | None = None
    ) -> Iterator[Program]:
        """Start a program, and wait until it listens; one that still runs in the end is killed."""
        program = Program(self.enter(number), command)
        try:
            if port is not None:
                tables = [self.table(number, name) for name in ("tcp", "tcp6")]
                wait(lambda: any(listens(table, port) for table in tables))
            yield program
        finally:
            program.kill()

    def close(self) -> None:
        for holder in self._holders:
            holder.kill()
            holder.wait()


def listens(table: Path, port: int) -> bool:
    """Return whether a port is listened on, by a file of /proc/net."""
    rows = (line.split() for line in table.read_text().splitlines()[1:])
    return any(row[1].endswith(f":{port:04X}") and row[3] == LISTEN for row in rows)


def wait(ready: Callable[[], bool]) -> None:
    """Wait until something is so. Raises ProgramError."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not ready():
        if time.monotonic() > deadline:
            raise ProgramError("a program of the benchmark did not start to listen")
        time.sleep(0.005)
