"""Two endpoints with real agents, on this machine, reached through a real sshd."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from typing_extensions import override

from osmef.agent.client import ANSWER_S, AgentClient, Agents, Binary, Deployment
from osmef.engine.station import Station
from osmef.providers.base import Endpoint, EndpointRequest
from osmef.remote.session import SshSession
from osmef.scenario.fields import DATA_PORTS, EndpointKind
from osmef.scenario.location import Location
from osmef.workloads.tasks import Pair
from tests.processes import commands
from tests.sshd import Sshd
from tests.unique import unique
from tests.waiting import until


@dataclass
class Victim:
    """An endpoint whose agents can be killed; those of a station, by its name."""

    station: Station
    doomed: bool = False
    stopped: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.station.name

    @property
    def directory(self) -> str:
        return self.station.directory

    def scratch(self, directory: str, job: str) -> str:
        return self.station.scratch(directory, job)

    def command_line(self, argv: Sequence[str]) -> list[str]:
        return self.station.command_line(argv)

    @property
    def cpus(self) -> int:
        return self.station.cpus

    def agent(self, role: str) -> AgentClient:
        """Return an agent; a doomed one is killed at once."""
        agent = self.station.agent(role)
        if self.doomed:
            self.doomed = False
            self.signal()
        return agent

    def address_of(self, name: str) -> str:
        return self.station.address_of(name)

    def data_ports(self, count: int) -> int:
        return self.station.data_ports(count)

    def signal(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the first agent that was opened there, once there is one."""
        argv = [f"./{self.station.deployment.path}".encode(), b"serve", b"--many", b""]
        until(lambda: len(processes_of(argv)) > 1)
        pid = processes_of(argv)[1]  # the first one passes on what the others say
        os.kill(pid, number)
        if number == signal.SIGSTOP:
            self.stopped.append(pid)

    def close(self) -> None:
        """End the station and what was stopped there: it can't see that its input has ended."""
        self.station.close()
        for pid in self.stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def processes_of(argv: list[bytes]) -> list[int]:
    """Return the processes of a command line, the oldest first."""
    return sorted(pid for pid, words in commands().items() if words == argv)


MakeHosts = Callable[..., list[Victim]]


@pytest.fixture
def hosts(sshd: Sshd, tmp_path: Path) -> Iterator[MakeHosts]:
    """Make endpoints by their names, with the agent on each."""
    with ExitStack() as opened:

        def make(*names: str) -> list[Victim]:
            made = []
            for name in names:
                request = EndpointRequest(name, "sender", EndpointKind.VM, None, "host-1", None)
                login = replace(sshd.login(), name=name)
                endpoint = Endpoint(request, "id", login, "127.0.0.1", None, None)
                run = f"{unique()}-{tmp_path.name}-{name}"
                made.append(Victim(Station(endpoint, Location(), run)))
                opened.callback(made[-1].close)
            return made

        yield make


def pairs(senders: list[Victim], receivers: list[Victim]) -> list[Pair]:
    return [Pair(one, other, "127.0.0.1", "127.0.0.1") for one in senders for other in receivers]


HELLO = 'echo \'{"event":"hello","protocol":2,"version":"9","machine":"x","pid":1}\''


class Alone(Agents):
    """A program that is the only agent of its connection, and knows no number."""

    @override
    def _number_in(self, line: str) -> int | None:
        return 1 if self._opened else None


@dataclass
class Script:
    """An endpoint whose agents are shell scripts, one for each role, that say ``hello`` first."""

    name: str
    session: SshSession
    directory: str
    scripts: dict[str, str] = field(default_factory=dict)
    hello: str = HELLO
    hello_s: float = ANSWER_S
    started: list[AgentClient] = field(default_factory=list)

    def scratch(self, directory: str, job: str) -> str:
        return f"{directory}/{job}"

    def command_line(self, argv: Sequence[str]) -> list[str]:
        return list(argv)

    @property
    def cpus(self) -> int:
        return 1

    def agent(self, role: str) -> AgentClient:
        path = f"{self.directory}/{role}"
        script = f"#!/bin/sh\n{self.hello}\nread opened\n{self.scripts[role]}\n"
        self.session.put(script.encode(), path, 0o700)
        deployment = Deployment(self.directory, path, Binary("any", b"", "-"))
        self.started.append(Alone.start(self.session, deployment, self.hello_s).open())
        return self.started[-1]

    def address_of(self, name: str) -> str:
        return name

    def data_ports(self, _count: int) -> int:
        return DATA_PORTS.start


MakeScript = Callable[[dict[str, str]], Script]


@pytest.fixture
def scripted(session: SshSession, tmp_path: Path) -> Iterator[MakeScript]:
    """Make the endpoint whose agents are these scripts."""
    made: list[Script] = []

    def make(scripts: dict[str, str]) -> Script:
        made.append(
            Script(session.name, session, f".osmef-fake-{unique()}-{tmp_path.name}", scripts)
        )
        return made[-1]

    yield make
    for script in made:
        for agent in script.started:
            agent.close()
        session.remove_directory(script.directory)
