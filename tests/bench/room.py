"""Two namespaces joined by a veth pair, and programs in them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyroute2 import IPRoute

ADDRESSES = ("10.99.0.1", "10.99.0.2")
START_TIMEOUT_S = 10.0
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


@dataclass(frozen=True)
class Ended:
    """What a program printed, and the CPU-seconds that it and its children used."""

    output: str
    cpu_s: float


class Room:
    """Two namespaces; they go when their two holders do."""

    def __init__(self) -> None:
        self._holders = [subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) for _ in "12"]
        own = Path("/proc/self/ns/net").readlink()
        with IPRoute() as ipr:
            ipr.link("add", ifname="one", kind="veth", peer={"ifname": "two"})
            for name, holder in zip(("one", "two"), self._holders, strict=True):
                theirs = Path(f"/proc/{holder.pid}/ns/net")
                _wait(lambda path=theirs: path.readlink() != own)  # type: ignore[misc]
                (index,) = ipr.link_lookup(ifname=name)
                ipr.link("set", index=index, net_ns_pid=holder.pid)
        for number, name in enumerate(("one", "two")):
            self.run(number, [sys.executable, "-c", _SET_UP, name, ADDRESSES[number]])

    def pid(self, number: int) -> int:
        """Return a process in that namespace."""
        return self._holders[number].pid

    def enter(self, number: int) -> list[str]:
        """Return the prefix of a command that runs in that namespace."""
        return ["nsenter", "-t", str(self.pid(number)), "-n"]

    def start(self, number: int, command: list[str]) -> subprocess.Popen[str]:
        enter = [*self.enter(number), *command]
        return subprocess.Popen(enter, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, number: int, command: list[str]) -> Ended:
        return self.end(self.start(number, command))

    def await_port(self, number: int, port: int) -> None:
        tables = [Path(f"/proc/{self.pid(number)}/net/{tcp}") for tcp in ("tcp", "tcp6")]
        _wait(lambda: any(_listens(table, port) for table in tables))

    def end(self, process: subprocess.Popen[str]) -> Ended:
        assert process.stdout is not None
        output = process.stdout.read()
        process.stdout.close()
        _, status, use = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}: {output}")
        return Ended(output, use.ru_utime + use.ru_stime)

    def close(self) -> None:
        for holder in self._holders:
            holder.kill()
            holder.wait()


def _listens(table: Path, port: int) -> bool:
    rows = (line.split() for line in table.read_text().splitlines()[1:])
    return any(row[1].endswith(f":{port:04X}") and row[3] == LISTEN for row in rows)


def _wait(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError("a program of the benchmark did not start")
        time.sleep(0.005)
