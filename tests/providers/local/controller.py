"""A small controller: it makes a cloud of two VMs, says "ready", and closes it on end of input.

Usage: controller.py RUN [STEP]; at STEP (intend, created, networks, endpoints) it kills itself.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from osmef.providers.base import EndpointRequest, Resource, RunContext
from osmef.providers.local.provider import LocalProvider
from osmef.remote.login import KeyPair
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.fields import EndpointKind

RUN = sys.argv[1]
DIE_AT = sys.argv[2] if len(sys.argv) > 2 else None


def step(name: str) -> None:
    if name == DIE_AT:
        os.kill(os.getpid(), signal.SIGKILL)


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


class Ledger:
    def intend(self, _resource: Resource) -> None:
        step("intend")

    def created(self, _resource: Resource) -> None:
        step("created")

    def destroyed(self, _resource: Resource) -> None:
        say("destroyed")


def progress(line: str) -> None:
    step("networks" if line.startswith("making") else "endpoints")


provider = LocalProvider(LocalSettings())
requests = [
    EndpointRequest("vm-1", "sender", EndpointKind.VM, None, "host-1", "tenant-1"),
    EndpointRequest("vm-2", "receiver", EndpointKind.VM, None, "host-2", "tenant-1"),
]
context = RunContext(RUN, requests, KeyPair.generate(RUN), Ledger(), time.time() + 600, progress)
try:
    provider.create(context)
    say("ready")
    sys.stdin.read()
finally:
    provider.close()
