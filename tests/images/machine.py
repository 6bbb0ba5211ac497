"""A guest that QEMU emulates, started by hand: no root, no libvirt, no port but on the loopback."""

from __future__ import annotations

import json
import select
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from osmef.images.guest_image import GuestImage
from osmef.providers.cloud_init import SERIAL, Seed
from osmef.remote.login import HostKeys, KeyPair, Login
from osmef.remote.session import SshSession, wait_for_ssh

TIMEOUT_S = 120.0
MEMORY_MIB = 256
_UP = "osmef-guest: up"


@dataclass
class Machine:
    """A running guest; ``console`` is what it has said so far."""

    process: subprocess.Popen[bytes]
    monitor: socket.socket
    console: str = ""

    def wait_for(self, words: str) -> None:
        """Read the console until the words stand there."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + TIMEOUT_S
        while words not in self.console:
            left = deadline - time.monotonic()
            ready = select.select([self.process.stdout], [], [], max(0.0, left))[0]
            assert ready, f"never said {words!r}, but: {self.console}"
            data = self.process.stdout.read1(65536)  # type: ignore[attr-defined]
            assert data, f"ended before it said {words!r}: {self.console}"
            self.console += data.decode(errors="replace")

    def session(self, user: KeyPair, host: KeyPair) -> SshSession:
        """Log in as root."""
        self.wait_for(_UP)
        keys = HostKeys((host.public,))
        login = Login("vm-1", "root", "127.0.0.1", keys, user, self._port())
        return wait_for_ssh(login, deadline=time.monotonic() + TIMEOUT_S, check=lambda: None)

    def _port(self) -> int:
        """Return the port of the loopback that leads to the guest's sshd."""
        told = self._ask("human-monitor-command", {"command-line": "info usernet"})
        (line,) = (line for line in str(told).splitlines() if "HOST_FORWARD" in line)
        return int(line.split()[3])

    def _ask(self, command: str, arguments: dict[str, str]) -> Any:
        with self.monitor.makefile("rw") as file:
            file.readline()  # QEMU says hello
            for request in (
                {"execute": "qmp_capabilities"},
                {"execute": command, "arguments": arguments},
            ):
                file.write(json.dumps(request))
                file.flush()
                answer = json.loads(file.readline())
        return answer["return"]


@contextmanager
def booted(
    image: GuestImage, directory: Path, seed: Seed | None, *, disk: bool = True
) -> Iterator[Machine]:
    """Start a guest with its own copy of the disk, which goes with it."""
    emulator = shutil.which(f"qemu-system-{image.manifest.architecture}")
    if emulator is None:
        pytest.skip("no QEMU here (Debian: apt install qemu-system-x86)")
    here, there = socket.socketpair()
    here.settimeout(TIMEOUT_S)
    with here, there:
        process = subprocess.Popen(
            [
                emulator,
                *("-accel", "tcg,tb-size=128", "-m", str(MEMORY_MIB), "-nodefaults"),
                *("-machine", "q35" if image.manifest.architecture == "x86_64" else "virt"),
                *("-display", "none", "-serial", "stdio", "-device", "virtio-rng-pci"),
                *("-kernel", image.kernel, "-initrd", image.initrd),
                *("-append", image.manifest.boot.cmdline),
                *("-nic", "user,model=virtio-net-pci,restrict=on,hostfwd=tcp:127.0.0.1:0-:22"),
                *("-chardev", f"socket,id=monitor,fd={there.fileno()}"),
                *("-mon", "chardev=monitor,mode=control"),
                # Seed first: the guest finds each by what it is, not by its place.
                *_seed_disk(directory / "seed", seed),
                *(_disk("root", image.root, "qcow2", "snapshot=on") if disk else []),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            pass_fds=[there.fileno()],
        )
        there.close()
        with process:
            try:
                yield Machine(process, here)
            finally:
                process.kill()


def _disk(name: str, path: Path, kind: str, more: str) -> list[str]:
    drive = f"if=none,id={name},format={kind},file={path},{more}"
    return ["-drive", drive, "-device", f"virtio-blk-pci,drive={name},serial=osmef-{name}"]


def _seed_disk(path: Path, seed: Seed | None) -> list[str]:
    if seed is None:
        return []
    path.write_bytes(seed.disk())
    assert SERIAL == "osmef-seed"
    return _disk("seed", path, "raw", "readonly=on")
