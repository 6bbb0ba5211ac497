"""Endpoints that are real sshds of this machine: each can be cut off in mid-run."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from osmef.providers.base import (
    CancellationCheck,
    Endpoint,
    EndpointRequest,
    Provider,
    RunContext,
    never_cancelled,
)
from osmef.providers.local.provider import LocalProvider
from osmef.remote.session import SshSession
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.location import Gone, Location
from osmef.scenario.workload import Directions
from tests.processes import descendants
from tests.sshd import Sshd


class Machine(Sshd):
    """One that can be switched off: all that it runs dies, and it takes no connection."""

    is_off = False

    def connect(self) -> socket.socket:
        if self.is_off:
            raise ConnectionRefusedError
        return super().connect()

    def switch_off(self) -> None:
        self.is_off = True
        for server in self.servers:
            for pid in (server.pid, *descendants(server.pid)):
                with suppress(ProcessLookupError):  # some end with their parents
                    os.kill(pid, signal.SIGKILL)
            server.wait()
        self.servers.clear()


class Rack(LocalProvider):
    """A cloud of such machines, all on the loopback; where they stand is as it was asked for."""

    folder: ClassVar[Path]
    named: ClassVar[dict[str, Machine]] = {}
    taken_back: ClassVar[set[str]] = set()
    made: ClassVar[list[Machine]] = []

    @classmethod
    def begin(cls, folder: Path) -> None:
        folder.mkdir()
        cls.folder, cls.named, cls.made, cls.taken_back = folder, {}, [], set()

    def __init__(self, _settings: object) -> None:
        super().__init__(LocalSettings(kind="local"))

    def check(
        self,
        requests: Sequence[EndpointRequest],
        check_cancelled: CancellationCheck = never_cancelled,
    ) -> None:
        pass

    def create(self, context: RunContext) -> list[Endpoint]:
        return [self._make(request) for request in context.requests]

    def _make(self, request: EndpointRequest) -> Endpoint:
        folder = self.folder / f"{request.name}-{len(self.made)}"
        folder.mkdir()
        machine = self.named[request.name] = Machine(folder)
        self.made.append(machine)
        self.taken_back.discard(request.name)
        login = replace(machine.login(), name=request.name)
        return Endpoint(request, request.name, login, "127.0.0.1", None, None)

    def prepare(self, endpoints: Sequence[Endpoint], directions: Directions) -> None:
        pass

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        return [
            Gone()
            if end.name in self.taken_back
            else Location(host=end.request.host, tenant=end.request.tenant)
            for end in endpoints
        ]

    data_address = Provider.data_address

    def close(self) -> None:
        """Log in to each machine, as one does where something is to be removed."""
        for name in self.named.keys() - self.taken_back:
            SshSession.open(replace(self.named[name].login(), name=name)).close()
