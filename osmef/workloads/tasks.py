"""Tasks of a trial: each step with its agent, the command that arms it, and PMI for an MPI job.

By PMI version 1 the processes of an MPI job exchange addresses through the controller. Each process
publishes what others need to connect to it, such as its address, and requests theirs. It exchanges
lines such as ``cmd=put kvsname=osmef key=a value=b`` on a descriptor that PMI_FD names. So the
processes need no server of their own, and endpoints need no login to each other.

Source: P. Balaji et al., "PMI: A Scalable Parallel Process-Management Interface for Extreme-Scale
Systems" (EuroMPI 2010); MPICH 4.0, src/pmi/simple/simple_pmi.c is the other side.
"""

from __future__ import annotations

import math
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from osmef.agent.client import ANSWER_S, AgentClient
from osmef.agent.messages import (
    ExchangesEvent,
    IntervalEvent,
    JobResult,
    OutputEvent,
    PointEvent,
    RequestsEvent,
)
from osmef.errors import ProgramError
from osmef.results.observations import Purpose
from osmef.results.trial import Interval
from osmef.workloads.base import End, Part, Step, Value

if TYPE_CHECKING:
    from pyarrow import RecordBatch  # pyarrow is slow to load

CHANNEL = "PMI_FD"
"""The environment variable with the file descriptor of a process's channel."""

_NAME = "osmef"
_MOST_KEY, _MOST_VALUE, _MOST_LINE = 64, 1024, 4096
_MOST_KEYS_EACH = 4096
"""Most keys that one process may put; MPICH uses a few."""
_WORD = re.compile(r"([A-Za-z_]+)=(\S*)")
_PMI_CURE = (
    "look at what it printed; it has to be a program of MPICH, or of one that speaks its PMI"
    " version 1"
)
_ABORT_CURE = "look at what it printed, all of which is in raw/"

Answers = Iterator[tuple[int, str]]
"""To which process, by its rank, which text."""


class KeyValueSpace:
    """The key-value space of one job, with its processes' endpoints.

    ``nodes`` has the endpoint of each process, by rank; those of one endpoint follow each other.
    """

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes = list(nodes)
        self._values: dict[str, str] = {"PMI_process_mapping": _mapping(nodes)}
        self._most = len(self._values) + _MOST_KEYS_EACH * len(self._nodes)
        self._rest = [b""] * len(self._nodes)
        self._waiting: set[int] = set()

    def environment(self, rank: int) -> dict[str, str]:
        """Return the environment of a process."""
        return {"PMI_RANK": str(rank), "PMI_SIZE": str(len(self._nodes))}

    def take(self, rank: int, data: bytes) -> Answers:
        """Handle a process's input, in arbitrary pieces, and return the answers.

        Raises ProgramError for an unknown request, and for an abort of the job.
        """
        *lines, rest = (self._rest[rank] + data).split(b"\n")
        self._rest[rank] = rest
        for line in [*lines, rest]:
            if len(line) > _MOST_LINE:
                raise self._error(rank, f"says more than {_MOST_LINE} bytes in a line")
        for line in lines:
            yield from self._answer(rank, line.decode(errors="replace"))

    def _answer(self, rank: int, line: str) -> Answers:
        words = dict(_WORD.findall(line))
        command = words.get("cmd", "")
        if command == "barrier_in":
            self._waiting.add(rank)
            if len(self._waiting) == len(self._nodes):
                self._waiting.clear()
                yield from ((one, "cmd=barrier_out\n") for one in range(len(self._nodes)))
            return
        if command == "abort":  # it has printed why, and waits until it is killed
            code = words.get("exitcode", "unknown")
            raise self._error(rank, f"aborted the job, with exit code {code[:20]}", _ABORT_CURE)
        answer = self._put(rank, words) if command == "put" else self._known(command, words)
        if answer is None:
            raise self._error(rank, f"asks for what is not known here: {line[:200]!r}")
        yield rank, f"cmd={answer}\n"

    def _known(self, command: str, words: Mapping[str, str]) -> str | None:
        if command == "get":
            return self._get(words.get("key", ""))
        return {
            "init": "response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": f"maxes kvsname_max=256 keylen_max={_MOST_KEY} vallen_max={_MOST_VALUE}",
            "get_appnum": "appnum appnum=0",
            "get_my_kvsname": f"my_kvsname kvsname={_NAME}",
            "get_universe_size": f"universe_size size={len(self._nodes)}",
            "finalize": "finalize_ack",
        }.get(command)

    def _get(self, key: str) -> str:
        value = self._values.get(key)
        if value is None:
            return "get_result rc=-1 msg=key_not_found value=unknown"
        return f"get_result rc=0 msg=success value={value}"

    def _put(self, rank: int, words: Mapping[str, str]) -> str:
        key, value = words.get("key", ""), words.get("value", "")
        if not 0 < len(key) <= _MOST_KEY or len(value) > _MOST_VALUE:
            raise self._error(rank, f"sends a value that is too long for the key {key[:99]!r}")
        if len(self._values) >= self._most:
            raise self._error(rank, f"and the others send more than {self._most} values")
        self._values[key] = value
        return "put_result rc=0 msg=success"

    def _error(self, rank: int, what: str, cure: str = _PMI_CURE) -> ProgramError:
        message = f"process {rank} of {len(self._nodes)} {what}"
        return ProgramError(message, where=self._nodes[rank], cure=cure)


def _mapping(nodes: Sequence[str]) -> str:
    """Return the process mapping: (first node, number of nodes, processes of each)."""
    counts = [len(list(some)) for _, some in groupby(nodes)]
    blocks: list[str] = []
    first = 0
    for count, alike in groupby(counts):
        many = len(list(alike))
        blocks.append(f"({first},{many},{count})")
        first += many
    return f"(vector,{','.join(blocks)})"


KNOWN = (
    *("peer", "host", "bind", "port", "data_port", "dir", "duration", "cpus"),
    *("interface", "family"),
)
"""Address of the other end, the same as in a URL, address of the own end, the port, the next port,
the directory, the duration in whole seconds, the number of CPUs at the own end, the network
interface of the own address, and its address family: inet or inet6. Workloads also have
``{upstream}``: the port of the server that a proxy forwards to."""

_BRACES = re.compile(r"\{\{(?P<kept>[a-z_]+)\}\}|\{(?P<name>[a-z_]+)\}")


def unknown(text: str) -> Iterator[str]:
    """Yield unknown placeholders in a text. Anything but a word is literal."""
    for found in _BRACES.finditer(text):
        if found["name"] is not None and found["name"] not in KNOWN:
            yield found["name"]


def used(text: str, name: str) -> bool:
    """Return whether a text has a placeholder."""
    return any(found["name"] == name for found in _BRACES.finditer(text))


def fill(text: str, values: Mapping[str, str]) -> str:
    """Substitute placeholders in a text; ``{{peer}}`` becomes ``{peer}``.

    Raises KeyError for one without a value.
    """
    return _BRACES.sub(
        lambda found: f"{{{found['kept']}}}" if found["kept"] else values[found["name"]], text
    )


_MOST_POINTS = 10_000
MOST_AT_ONCE = 16
"""Hosts on which agents are started, and clocks compared, side by side."""

PROGRAM = "exec"
"""The job of an agent that runs an external program."""


@dataclass(frozen=True)
class TaskTimeouts:
    """Time-outs of agents, in seconds.

    ``clock_s`` is for a clock comparison, ``stop_s`` for the result of a server after its stop,
    ``abort_s`` for becoming idle after a failure. The agents enforce some themselves: ``arm_s``
    until all connections are established, ``stall_s`` without any progress, and ``drain_s`` for the
    flows to drain after their end, as docs/agent-protocol.md says; ``grace_s`` is added for an
    agent that does not enforce them.
    """

    clock_s: float = ANSWER_S
    arm_s: float = 15.0
    stall_s: float = 10.0
    drain_s: float = 60.0
    grace_s: float = 20.0
    stop_s: float = 5.0
    abort_s: float = 5.0


class AgentHost(Protocol):
    """An endpoint that can start agents."""

    @property
    def name(self) -> str:
        """The endpoint's name."""

    def agent(self, role: str) -> AgentClient:
        """Return a living, idle agent for a role. Raises ReachError or AgentError."""

    @property
    def directory(self) -> str:
        """The run's directory on it, from where agents are started."""

    def scratch(self, directory: str, job: str) -> str:
        """Return the path of a job's own directory below this one, which does not exist yet."""

    def command_line(self, argv: Sequence[str]) -> list[str]:
        """Resolve a command line to the paths of supplied programs."""

    @property
    def cpus(self) -> int:
        """How many CPUs programs may use there. Raises ReachError, EndpointError."""

    def address_of(self, name: str) -> str:
        """Look up the address of another host there. Raises ReachError, EndpointError."""

    def data_ports(self, count: int) -> int:
        """Return the first of consecutive data ports that no other job of the trial uses."""


@dataclass(frozen=True)
class Pair:
    """A sender and a receiver, with the address of each as the other sees it.

    Each listens at that address, too, unless there is NAT between them; then it listens at its own
    (``sender_bind``, ``receiver_bind``).
    """

    sender: AgentHost
    receiver: AgentHost
    sender_address: str
    receiver_address: str
    sender_bind: str | None = None
    receiver_bind: str | None = None


@dataclass(eq=False)
class Task:
    """One step of one part of one pair, with an agent of its own.

    A process of a parallel job has its ``rank``, and the variables of its ``environment``.
    """

    id: str
    pair: Pair
    part: Part
    step: Step
    cookie: str
    agent: AgentClient
    waits: TaskTimeouts
    port: int | None = None
    refused_ports: int = 0
    connected: bool = False
    started: bool = False
    ended: bool = False
    result: JobResult | None = None
    rate_bps: float = 0.0
    intervals: list[Interval] = field(default_factory=list)
    points: list[PointEvent] = field(default_factory=list)
    requests: list[RecordBatch] = field(default_factory=list)
    requests_reported: int = 0
    requests_per_s: float = 0.0
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    said_bytes: int = 0
    rank: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    interface: str | None = None

    def admits(
        self, event: IntervalEvent | ExchangesEvent | PointEvent | RequestsEvent | OutputEvent
    ) -> bool:
        """Return whether an event is valid for this job, in its present state."""
        match event:
            case IntervalEvent():
                flows = len(event.bytes)
                return (
                    flows <= self._connections
                    and len(self.intervals) + flows <= self._most_intervals
                )
            case ExchangesEvent():
                return len(self.intervals) < self._most_intervals
            case PointEvent():
                return (
                    len(event.time_min_us) <= self._connections and len(self.points) < _MOST_POINTS
                )
            case RequestsEvent():
                return self.requests_reported + len(event.size) <= self.step.requests
            case OutputEvent():
                printed = len(self.stdout) + len(self.stderr) + self.said_bytes
                return printed + len(event.data) <= self.step.output_bytes

    @property
    def _connections(self) -> int:
        return self.step.connections or 1

    @property
    def _most_intervals(self) -> int:
        interval_s = float(str(self.step.parameters.get("interval_s", 1.0)))
        each = math.ceil(self.timeout_s / interval_s) + 1
        return 2 * self._connections * each  # an end that sends and receives reports both

    @property
    def host(self) -> AgentHost:
        """Its endpoint."""
        return _host(self.pair, self.step)

    @property
    def peer(self) -> AgentHost:
        """The peer's endpoint."""
        return self.pair.receiver if self.step.end == "sender" else self.pair.sender

    @property
    def bind(self) -> str:
        """Its own address for the measurement."""
        return _bind(self.pair, self.step.end)

    @property
    def wants_interface(self) -> bool:
        """Whether its program needs the interface of that address."""
        values = self.step.parameters.values() if self.step.command == PROGRAM else ()
        return any(used(text, "interface") for text in _texts(values))

    @property
    def is_server(self) -> bool:
        """Whether it is an external server, which gets no start."""
        return self.step.command == PROGRAM and self.step.listens

    @property
    def is_stopped(self) -> bool:
        """Whether it runs until it is stopped, after all others have ended."""
        runs_on = self.step.stoppable and self.part.purpose is Purpose.BACKGROUND
        return self.step.serves or runs_on

    @property
    def starts(self) -> bool:
        """Whether it gets the common start of its part."""
        return self.step is self.part.steps[-1]

    @property
    def timeout_s(self) -> float:
        """Time-out of its result, from the common start."""
        part, waits = self.part, self.waits
        if part.deadline_s is not None:  # that of a program is kept by its agent
            grace_s = waits.grace_s if self.step.command == PROGRAM else 0.0
            return part.delay_s + part.deadline_s + grace_s
        return part.delay_s + part.duration_s + waits.drain_s + waits.stall_s + waits.grace_s


def make_tasks(
    trial: int,
    pairs: Sequence[Pair],
    parts: Sequence[Part],
    waits: TaskTimeouts,
    stagger_s: float = 0.0,
) -> list[list[list[Task]]]:
    """Assign an agent to every step of every part of every pair: lists of these.

    Each pair begins ``stagger_s`` seconds after the one before.
    """
    agents = _start_agents(pairs, parts)

    def task(pair: Pair, part: Part, step: Step, cookie: str, name: str) -> Task:
        agent = next(agents[_host(pair, step).name])
        return Task(f"{trial}.{name}", pair, part, step, cookie, agent, waits)

    def group(number: int, pair: Pair, index: int, part: Part) -> list[Task]:
        cookie = secrets.token_hex(16)
        part = replace(part, delay_s=part.delay_s + number * stagger_s)
        return [
            task(pair, part, step, cookie, f"{number}.{index}.{at}")
            for at, step in enumerate(part.steps)
        ]

    return [
        [group(number, pair, index, part) for index, part in enumerate(parts)]
        for number, pair in enumerate(pairs)
    ]


def _start_agents(
    pairs: Sequence[Pair], parts: Sequence[Part]
) -> Mapping[str, Iterator[AgentClient]]:
    """Return as many living agents of each host as it has steps, started concurrently.

    Raises the first ReachError or AgentError.
    """
    hosts: dict[str, AgentHost] = {}
    needed: Counter[str] = Counter()
    for pair in pairs:
        for part in parts:
            for step in part.steps:
                host = _host(pair, step)
                hosts[host.name] = host
                needed[host.name] += 1

    def start(host: AgentHost) -> Iterator[AgentClient]:
        return iter([host.agent(f"job-{number}") for number in range(needed[host.name])])

    with ThreadPoolExecutor(min(len(hosts), MOST_AT_ONCE)) as pool:
        return dict(zip(hosts, pool.map(start, hosts.values()), strict=True))


def _host(pair: Pair, step: Step) -> AgentHost:
    return pair.sender if step.end == "sender" else pair.receiver


def _address(pair: Pair, end: End) -> str:
    return pair.sender_address if end == "sender" else pair.receiver_address


def _bind(pair: Pair, end: End) -> str:
    bind = pair.sender_bind if end == "sender" else pair.receiver_bind
    return bind or _address(pair, end)


def command_of(task: Task, upstream: Task | None) -> dict[str, Value]:
    """Return the command that arms a step; a listener may connect to an earlier one.

    Its own port is the ``listen_port`` then.
    """
    if task.step.command == PROGRAM:
        return _command_of_program(task, upstream)
    command: dict[str, Value] = {
        "cmd": task.step.command,
        "id": task.id,
        "side": "listen" if task.step.listens else "connect",
        "cookie": task.cookie,
        # It waits for its start through the delay.
        "arm_timeout_s": task.waits.arm_s + task.part.delay_s,
        "stall_timeout_s": task.waits.stall_s,
        **task.step.parameters,
    }
    if task.step.connections is not None:
        command["connections"] = task.step.connections
    if task.step.listens:
        own_port = "port" if upstream is None else "listen_port"
        command |= {"bind": _bind(task.pair, task.step.end), own_port: task.host.data_ports(1)}
    if task.step.udp_ports:
        command["udp_port"] = task.host.data_ports(task.step.udp_ports)
    if task.step.probe_ports:
        command["probe_port"] = task.host.data_ports(task.step.probe_ports)
    if upstream is not None and upstream.port is not None:
        # From the same end, where addresses are translated, the one for others leads out and back.
        at = _bind if upstream.step.end == task.step.end else _address
        command |= {"host": at(task.pair, upstream.step.end), "port": upstream.port}
    if "authority" in command:  # an existing server, by its name
        command["host"] = task.host.address_of(str(command["host"]))
    return command


def _command_of_program(task: Task, upstream: Task | None) -> dict[str, Value]:
    """Return the command that arms an external program, with placeholders filled in."""
    step = task.step
    bind = task.bind
    peer = _address(task.pair, "receiver" if step.end == "sender" else "sender")
    is_ipv6 = ":" in peer
    port = task.host.data_ports(step.ports) if step.listens else upstream.port if upstream else None
    values = {
        "peer": peer,
        "host": f"[{peer}]" if is_ipv6 else peer,
        "bind": bind,
        "port": str(port),
        "upstream": str(upstream.port if upstream else None),
        "data_port": str(port + 1 if port else None),
        "dir": ".",
        "duration": str(math.ceil(task.part.duration_s)),
        "interface": str(task.interface),
        "family": "inet6" if is_ipv6 else "inet",
    }
    if any(used(text, "cpus") for text in _texts(task.step.parameters.values())):
        values["cpus"] = str(task.host.cpus)
    command: dict[str, Value] = {
        "cmd": PROGRAM,
        "id": task.id,
        "arm_timeout_s": task.waits.arm_s + task.part.delay_s,
        **_where(task),
        **{name: _filled(value, values) for name, value in step.parameters.items()},
    }
    argv = command["argv"]
    words = list(_texts([argv]))
    command["argv"] = task.host.command_line([*words, *step.ipv6] if is_ipv6 else words)
    if task.rank is not None:
        variables = [f"{name}={value}" for name, value in task.environment.items()]
        command |= {"channel": CHANNEL, "env": [*_texts([command.get("env", [])]), *variables]}
    return {**command, "bind": bind, "port": port} if step.listens and port else command


def _texts(values: Iterable[Value]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif not isinstance(value, int | float):
            yield from value


def _where(task: Task) -> dict[str, Value]:
    """Return a program's directory, and whether it is created for the job."""
    step, host = task.step, task.host
    if step.directory is None:
        return {"dir": host.directory}
    scratch = host.scratch(step.directory, f"{task.id}-{task.cookie[:8]}")
    return {"dir": scratch, "scratch": True, "room": step.room}


def _filled(value: Value, values: Mapping[str, str]) -> Value:
    if isinstance(value, str):
        return fill(value, values)
    return value if isinstance(value, int | float) else [fill(one, values) for one in value]
