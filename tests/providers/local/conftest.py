"""Local clouds for the tests: real sandboxes with real sshd."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from osmef.errors import ProviderError
from osmef.providers.base import Endpoint, EndpointRequest, Ledger, RunContext
from osmef.providers.local import sandbox
from osmef.providers.local.provider import LocalProvider
from osmef.providers.local.sandbox import check_machine
from osmef.remote.login import KeyPair
from osmef.remote.session import RemoteProcess, SshSession
from osmef.scenario.clouds.local import LocalSettings
from tests.unique import unique

DEADLINE_S = 20.0
CONTROLLER = Path(__file__).with_name("controller.py")


@dataclass
class Cloud:
    """A local cloud, and an open session to each endpoint."""

    provider: LocalProvider
    key: KeyPair
    endpoints: dict[str, Endpoint]
    sessions: dict[str, SshSession]

    def python(self, name: str, code: str, *arguments: str) -> str:
        done = self.sessions[name].run([sys.executable, "-c", code, *arguments])
        assert done.status == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def python_process(self, name: str, code: str, *arguments: str) -> RemoteProcess:
        return self.sessions[name].start([sys.executable, "-u", "-c", code, *arguments])


class MakeCloud(Protocol):
    def __call__(
        self, run: str, requests: Sequence[EndpointRequest], settings: LocalSettings, ledger: Ledger
    ) -> AbstractContextManager[Cloud]: ...


@pytest.fixture(scope="session")
def make_cloud(machine: None) -> MakeCloud:
    @contextmanager
    def make(
        run: str, requests: Sequence[EndpointRequest], settings: LocalSettings, ledger: Ledger
    ) -> Iterator[Cloud]:
        provider, key = LocalProvider(settings), KeyPair.generate("test")
        sessions: dict[str, SshSession] = {}
        try:
            endpoints = provider.create(RunContext(run, requests, key, ledger, time.time() + 600))
            for endpoint in endpoints:
                sessions[endpoint.name] = SshSession.open(endpoint.login)
            yield Cloud(provider, key, {one.name: one for one in endpoints}, sessions)
        finally:
            for session in sessions.values():
                session.close()
            provider.close()

    return make


@pytest.fixture(scope="session")
def machine() -> None:
    """Skip where this machine can't hold a local cloud at all."""
    try:
        check_machine()
    except ProviderError as error:
        pytest.skip(str(error))


@pytest.fixture
def run_name() -> str:
    """A run that no other test or user has."""
    return f"test-{unique()}-{time.monotonic_ns()}"


@pytest.fixture
def wait_all_gone() -> Callable[[str], None]:
    """Wait until no process carries a run's mark; each is watched by its pidfd."""

    def wait(run: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while left := [process for process in sandbox.marked() if process.run == run]:
            assert time.monotonic() < deadline, f"still there: {left}"
            for process in left:
                wait_process(process.pid)

    return wait


def wait_process(pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], DEADLINE_S)[0], f"process {pid} does not end"
    finally:
        os.close(handle)


@pytest.fixture
def start_controller(
    machine: None, run_name: str
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a program that makes a cloud as a run does, and end it with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(CONTROLLER), run_name, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
