"""A Dask cluster of processes, as `dask scheduler` and `dask worker` start it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from distributed import Client

ROOT = Path(__file__).parents[2]
# Looks at each thread a hundred times a second: most of the work of a worker with a thousand.
_PROFILE = "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED"


@contextmanager
def dask_process(place: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler or a worker, as `dask` starts it; killed at the end."""
    with (place / f"{command[0]}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *command, "--no-dashboard"],
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(ROOT), _PROFILE: "False"},
            stdout=log,
            stderr=log,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@contextmanager
def scheduler(place: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A scheduler that answers, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    command = ("scheduler", "--host", "127.0.0.1", "--port", str(port))
    with dask_process(place, *command) as process:
        Client(address, timeout="60s", set_as_default=False).close()
        yield address, process


class Workers:
    """Workers of a scheduler, which end with the test."""

    def __init__(self, address: str, place: Path, stack: ExitStack, threads: int = 4) -> None:
        self.address, self._place, self._stack = address, place, stack
        self._threads = str(threads)

    def start(self, *tags: str) -> None:
        """Start a worker for each text of tags, and wait until they are there."""
        with Client(self.address, timeout="60s", set_as_default=False) as client:
            there = len(client.scheduler_info(n_workers=-1)["workers"])
            for each in tags:
                command = ["worker", self.address, "--local-directory", "scratch", "--no-nanny"]
                more = ["--host", "127.0.0.1", "--nthreads", self._threads, "--resources", each]
                self._stack.enter_context(dask_process(self._place, *command, *more))
            client.wait_for_workers(there + len(tags), timeout=60)
