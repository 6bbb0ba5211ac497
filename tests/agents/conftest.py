from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents import build
from tests.agents.compiling import compile_agent
from tests.agents.faulty import FaultyAgent
from tests.agents.lab import Agent, StartAgent
from tests.agents.programs import Marked

QEMU = {"armv7l": "arm"}
"""QEMU's names of machines, where ``uname -m`` has another."""


@pytest.fixture(scope="session")
def binary() -> Path:
    """The agent of this machine as it is shipped."""
    machine = platform.machine()
    if machine not in build.TARGETS:
        pytest.skip(f"no agent is built for {machine}")
    return build.build(build.OUT, [machine])[0]


@pytest.fixture(scope="session", params=build.TARGETS)
def any_binary(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The command that runs the agent of each machine: a foreign one under user emulation."""
    target: str = request.param
    emulator: tuple[str, ...] = ()
    if target != platform.machine():
        name = f"qemu-{QEMU.get(target, target)}"
        qemu = shutil.which(f"{name}-static") or shutil.which(name)
        if qemu is None:
            pytest.skip(f"nothing runs programs of {target}: install qemu-user-static")
        emulator = (qemu,)
    return (*emulator, str(build.build(build.OUT, [target])[0]))


@pytest.fixture
def start_any(any_binary: tuple[str, ...]) -> Iterator[StartAgent]:
    """Start agents of each machine that end with the test."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Agent(*any_binary))


@pytest.fixture
def start(binary: Path) -> Iterator[StartAgent]:
    """Start agents that end with the test."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Agent(binary))


@pytest.fixture
def marked(binary: Path) -> Iterator[Marked]:
    """An agent all of whose descendants are found."""
    with Marked(binary) as marked:
        yield marked


@pytest.fixture(scope="session")
def faulty_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent whose calls of the kernel pass through c/faults.c."""
    wrapped = [f"-Wl,--wrap={call}" for call in ("clock_gettime", "ppoll", "getsockopt")]
    path = tmp_path_factory.mktemp("faulty") / "osmef-agent"
    faults = Path(__file__).parent / "c" / "faults.c"
    return compile_agent("gcc", path, ["-O1", "-Wall", *wrapped], [faults])


@pytest.fixture
def start_faulty(faulty_binary: Path) -> Iterator[FaultyAgent]:
    """Start agents with faults that end with the test."""
    with ExitStack() as stack:

        def start(**faults: int) -> Agent:
            env = os.environ | {name: str(value) for name, value in faults.items()}
            return stack.enter_context(Agent(faulty_binary, env=env))

        yield start
