"""EC2 for tests: its API, with real sshd behind its instances.

The API is served at one port of two loopbacks: this process's, and that of the network namespace in
which the instances can be reached, where ``osmef`` is run.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from tests.aws import gaps
from tests.aws.api import Api
from tests.aws.wiring import guest_of, key_of, running, told_of
from tests.openstack.processes import WITH_US
from tests.openstack.services.data_plane_client import ask

T = TypeVar("T")

_ROOT = Path(__file__).parents[2]
_UP_S = 30.0
_CLONE_NEWNET = 0x40000000


@dataclass
class Cloud(Api):
    """The API and the data plane; ``state`` is an empty folder."""

    state: Path = field(kw_only=True)
    stuck: bool = False
    """Whether guests panic instead of booting."""
    _guests: dict[str, str] = field(default_factory=dict)

    def up(self) -> None:
        """Start all."""
        self._start_fabric()
        super().up()
        gaps.fill_console(lambda instance: self.state / "guests" / key_of(instance) / "console")
        self.serve(self.within(lambda: socket.create_server(("127.0.0.1", self.port))))

    @property
    def inside(self) -> Sequence[str]:
        """The prefix of a command that shall reach the instances."""
        return ("nsenter", f"--net={self._lab}", "--")

    @property
    def _lab(self) -> str:
        return f"/proc/{self._fabric.pid}/root/run/netns/lab"

    def within(self, work: Callable[[], T]) -> T:
        """Do something where the instances can be reached, and return what it returns."""
        done: Future[T] = Future()

        def enter_and_work() -> None:
            libc = ctypes.CDLL(None, use_errno=True)
            namespace = os.open(self._lab, os.O_RDONLY)
            try:
                if libc.setns(namespace, _CLONE_NEWNET) != 0:  # of this thread, and those it starts
                    raise OSError(ctypes.get_errno(), "setns")
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)
            finally:
                os.close(namespace)

        thread = threading.Thread(target=enter_and_work)
        thread.start()
        thread.join()
        return done.result()

    def _start_fabric(self) -> None:
        argv = [*WITH_US, "unshare", "--mount", "--propagation", "private", sys.executable]
        with (self.state / "fabric.log").open("ab") as log:
            self._fabric = subprocess.Popen(
                [*argv, "-m", "tests.openstack.services.fabric", str(self.state)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=_ROOT,
                start_new_session=True,
            )
        end = time.monotonic() + _UP_S
        while not (self.state / "fabric.sock").exists():
            if self._fabric.poll() is not None or time.monotonic() > end:
                raise RuntimeError((self.state / "fabric.log").read_text())
            threading.Event().wait(0.05)

    def down(self) -> None:
        """End all."""
        super().down()
        os.killpg(self._fabric.pid, signal.SIGKILL)
        self._fabric.wait()

    def reset(self) -> None:
        """Forget all that was made, and the faults."""
        self.stuck = False
        super().reset()

    def take_back(self, instance: str) -> None:
        """End a spot instance, as EC2 does when it needs the room."""
        with self._lock:
            self.backends()[0].terminate_instances([instance])
        self.changed()

    def changed(self) -> None:
        """Make the data plane what moto says."""
        with self._lock:
            line = str(self.state / "fabric.sock")
            there = {one.id: one for backend in self.everywhere() for one in running(backend)}
            for gone in self._guests.keys() - there.keys():
                ask(line, {"do": "end", "id": self._guests.pop(gone)})
            ask(line, {"do": "apply", "told": told_of(self.everywhere())})
            for key in there.keys() - self._guests.keys():
                guest = guest_of(there[key], stuck=self.stuck)
                ask(line, {"do": "boot", "guest": guest})
                self._guests[key] = guest["id"]


def skip_unless_possible() -> None:
    """Skip a test where namespaces can't be made."""
    if os.geteuid() != 0:
        pytest.skip("the EC2 of the tests needs root, for namespaces")
    for program in ("ip", "nft", "nsenter", "unshare"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            pytest.skip(f"the EC2 of the tests needs {program}")
