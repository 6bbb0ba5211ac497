"""External programs as jobs of agents: settings, command lines, ends, and exit status."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from osmef.agent.messages import ExecResult
from osmef.errors import ProgramError
from osmef.results.measure import Better, Measure, OverPairs
from osmef.results.observations import InterfaceUse, Purpose
from osmef.scenario.base import Model, conflict
from osmef.scenario.fields import RUN_DIRECTORY, Directory, Duration, HomePath, Size
from osmef.scenario.workload import Role, WorkloadSettings
from osmef.supply.program import Program, Way
from osmef.units import format_size
from osmef.workloads.base import End, Outcome, Part, PartResult, Step, Value, Workload
from osmef.workloads.metrics import endpoint_cpu_percent
from osmef.workloads.reading import Printed
from osmef.workloads.tasks import KNOWN, unknown, used

_TIMEOUT_S = 60.0
# In this locale readers know the words and decimal points of outputs.
_ENV = {"LC_ALL": "C"}


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("no program can be given a NUL character; leave it out")
    return text


_Argument = Annotated[
    str,
    Field(max_length=8000),
    AfterValidator(_without_nul),
    WithJsonSchema({"type": ["string", "number", "boolean"], "maxLength": 8000}),
]
_Argv = Annotated[list[_Argument], Field(min_length=1, max_length=200)]
ProgramName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$")]
_Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,60}$")]


class Where(StrEnum):
    """The end at which a program runs."""

    SENDER = "sender"
    RECEIVER = "receiver"
    BOTH = "both"
    LOOPBACK = "loopback"


class Line(Model):
    """The line of output by which a server announces that it is ready."""

    line: str = Field(min_length=1, max_length=255, description="a part of the line")


Ready = Literal["port", "udp-port", "start"]

_PORTS = ("port", "data_port")  # placeholders whose value is that of a server


class ProgramRun(Model):
    """One program at one end; placeholders such as ``{peer}`` are filled in when it is armed.

    One with ``ready`` is a server: it is started before the others.
    """

    on: Where = Field(strict=False, description="the end at which it runs")
    argv: _Argv = Field(
        description="the program and its arguments, which never go through a shell; `{peer}`,"
        " `{host}`, `{bind}`, `{port}`, `{data_port}`, `{dir}`, `{duration}` and `{cpus}` in them"
        " are filled in"
    )
    ipv6: list[_Argument] = Field(
        default_factory=list,
        max_length=16,
        description="further arguments behind them where the addresses are of IPv6, such as `-V`",
    )
    ready: Ready | Line | None = Field(
        default=None,
        description="of a server: when it is ready, which is when its `port` (TCP) or `udp-port`"
        " is taken, when it has printed a `line`, or at its `start`",
    )
    serves: bool = Field(
        default=False, description="of a server: true if it runs until it is stopped"
    )
    ports: int = Field(
        default=1,
        ge=1,
        le=256,
        description="of a server: how many ports in a row it takes; `{data_port}` is the second",
    )
    env: dict[_Variable, _Argument] = Field(
        default_factory=dict, description="environment variables beside the login's and LC_ALL=C"
    )
    stdin: str = Field(default="", max_length=8000, description="what it reads")
    directory: Directory | None = Field(
        default=None,
        description="where it gets a directory of its own for each trial, in which it runs, and of"
        " which nothing stays; without, it runs in that of the run",
    )
    room: Size = Field(
        default=0, ge=0, le=2**50, description="with a directory: how much must be free there"
    )
    exits: list[Annotated[int, Field(ge=0, le=255)]] = Field(
        default=[0], min_length=1, max_length=256, description="exit statuses of success"
    )

    @property
    def ends(self) -> tuple[End, ...]:
        """The ends at which it runs."""
        match self.on:
            case Where.BOTH:
                return ("sender", "receiver")
            case Where.RECEIVER:
                return ("receiver",)
            case _:
                return ("sender",)

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> ProgramRun:
        texts = (*self.argv, *self.ipv6, *self.env.values(), self.stdin)
        for name in (name for text in texts for name in unknown(text)):
            raise conflict(
                f"{{{name}}} is no known placeholder",
                f"name one of {', '.join(f'{{{one}}}' for one in KNOWN)}; as it is: {{{{{name}}}}}",
                "argv",
            )
        return self

    @model_validator(mode="after")
    def _room_is_in_a_directory(self) -> ProgramRun:
        if self.room and self.directory is None:
            cure = "write directory: '{dir}', or another one"
            raise conflict("room is what must be free in a directory, and there is none", cure,
                           *("room", "directory"))  # fmt: skip
        return self

    @model_validator(mode="after")
    def _servers_are_ready(self) -> ProgramRun:
        if self.serves and self.ready is None:
            cure = "write ready: port, or ready: start if it does not say when"
            raise conflict("a server reports when it is ready", cure, "serves")
        if self.ports > 1 and self.ready is None:
            cure = "write ready: port, or leave ports out"
            raise conflict("only a server takes ports", cure, "ports")
        return self


Run = ProgramRun
"""The name that workloads of other packages may import."""


def check_ways(ways: Sequence[Way] | None) -> None:
    """Raise the conflict of ways of supply that are written twice."""
    if ways is not None and len(set(ways)) < len(ways):
        raise conflict("a way is written twice", "write each once", "ways")


class ProgramsSettings(WorkloadSettings):
    """Settings of a workload with external programs."""

    duration: Duration = Field(
        default=10.0, ge=0.01, le=86400.0, description="how long a trial is expected to run"
    )
    deadline: Duration | None = Field(
        default=None,
        ge=0.1,
        le=7 * 86400.0,
        description="how long it may run at most; the trial fails then; by default the duration"
        " and a minute",
    )
    most_output: Size = Field(
        default=10_000_000, ge=1000, le=10**9, description="the most that each may print"
    )

    ways: list[Way] | None = Field(
        default=None,
        min_length=1,
        description="the ways in which its programs may be supplied, in this order: `present`,"
        " `bundle`, `build` and `install`, which changes the endpoint; by default all but the last",
    )
    bundles: dict[ProgramName, HomePath] = Field(
        default_factory=dict,
        max_length=16,
        description="bundles that were made elsewhere, by the names of their programs; they are"
        " used whether an endpoint has the program or not, unless `ways` says otherwise",
    )

    in_background: ClassVar = True
    lasting: ClassVar = ("duration", "deadline")

    @model_validator(mode="after")
    def _each_way_once(self) -> Self:
        check_ways(self.ways)
        return self

    @property
    def expected_s(self) -> float:
        """The expected duration of a trial, in seconds."""
        return self.duration

    @property
    def longest_s(self) -> float:
        """The upper bound of its duration, in seconds."""
        return self.deadline or self.expected_s + _TIMEOUT_S


class WorkSettings(ProgramsSettings):
    """Settings of programs with a fixed amount of work instead of a duration."""

    deadline: Duration = Field(
        default=900.0,
        ge=0.1,
        le=7 * 86400.0,
        description="how long it may run at most; the trial fails then",
    )

    in_background: ClassVar = False


USED: tuple[Measure, ...] = (
    Measure(
        name="program_s", unit="s", better=Better.NEITHER, help="how long the program ran",
        over_pairs=OverPairs.WORST, digits=".3f", head="ran\ns",
    ),
    Measure(
        name="program_cpu_percent", unit="%", better=Better.NEITHER, digits=".0f", head="CPU\n%",
        help="CPU time of all programs and what they started, of one CPU",
        over_pairs=OverPairs.SUM,
    ),
    Measure(
        name="program_memory_bytes", unit="B", better=Better.LOWER,
        help="largest resident memory of one process", over_pairs=OverPairs.WORST,
    ),
    Measure(
        name="endpoint_cpu_sender_percent", unit="%", better=Better.NEITHER,
        help="all CPU time that is not idle on the sending endpoints, of one CPU; null where the"
        " programs ran for less than 100 ms, of which ticks of 10 ms say too little",
        over_pairs=OverPairs.SUM,
    ),
    Measure(
        name="endpoint_cpu_receiver_percent", unit="%", better=Better.NEITHER,
        help="the same on the receiving endpoints", over_pairs=OverPairs.SUM,
    ),
)  # fmt: skip
"""What every program is measured by."""


@dataclass(frozen=True)
class EndedProgram:
    """A program that has ended: its end, its status, and its output."""

    run: ProgramRun
    end: End
    endpoint: str
    result: ExecResult
    printed: Printed
    interface: str | None = None
    """The interface whose traffic was counted, if the program asked for that."""


P = TypeVar("P", bound=ProgramsSettings)


class Programs(Workload[P], Generic[P]):
    """Servers, and programs with the common start, at one end or both."""

    are_ranks: ClassVar[bool] = False
    """Whether they are the processes of one job (``osmef.workloads.tasks``)."""
    stoppable: ClassVar[bool] = True
    """Whether programs of a background are stopped when all else has ended."""

    @property
    @abstractmethod
    def programs(self) -> tuple[Program, ...]:
        """Descriptions of the external programs."""

    def needs(self, end: End) -> tuple[Program, ...]:
        """Return the programs of an end, with those that they may start."""
        runs = self.runs()
        named = {run.argv[0] for run in runs}
        there = {run.argv[0] for run in runs if end in run.ends}
        return tuple(
            self._had(one)
            for one in self.programs
            if one.name in there or (there and one.name not in named)
        )

    def _had(self, program: Program) -> Program:
        """Return a program with the settings' ways of supply."""
        s = self._settings
        file = s.bundles.get(program.name)
        ways = tuple(s.ways) if s.ways is not None else ("bundle",) if file else program.how
        path = Path(file).expanduser() if file is not None else program.bundle
        return replace(program, how=ways, bundle=path)

    @abstractmethod
    def runs(self) -> Sequence[ProgramRun]:
        """Return the runs between one pair of endpoints."""

    @abstractmethod
    def numbers(self, pairs: Sequence[Sequence[EndedProgram]]) -> Mapping[str, float | None]:
        """Return the metrics of successful programs, given as a list for each pair.

        Raises OutputError where a number is missing.
        """

    def _groups(self) -> list[list[tuple[ProgramRun, End]]]:
        """Return the runs of each part: servers with the first client, other clients alone.

        Raises ProgramError if all programs are servers, or a port belongs to no server.
        """
        runs = self.runs()
        _check(type(self).__name__, runs)
        servers = [(run, end) for run in runs if run.ready for end in run.ends]
        first, *others = [(run, end) for run in runs if not run.ready for end in run.ends]
        return [[*servers, first], *([other] for other in others)]

    def parts(self) -> tuple[Part, ...]:
        """Return a part of the servers with the first client, and one of each other client."""
        return tuple(
            Part(
                tuple(self._step(run, end) for run, end in group),
                duration_s=self._settings.expected_s,
                deadline_s=self._settings.longest_s,
            )
            for group in self._groups()
        )

    def _step(self, run: ProgramRun, end: End) -> Step:
        s = self._settings
        parameters: dict[str, Value] = {
            "argv": run.argv,
            "env": [f"{name}={value}" for name, value in (_ENV | run.env).items()],
            "most_output": s.most_output,
            "deadline_s": s.longest_s,
        }
        if run.stdin:
            parameters["stdin"] = run.stdin
        if run.ready is not None:
            parameters |= {"serves": True, **_ready(run.ready)}
        return Step(
            end,
            "exec",
            parameters,
            listens=run.ready is not None,
            serves=run.serves,
            output_bytes=s.most_output,
            stoppable=self.stoppable and run.ready is None,
            exits=tuple(run.exits),
            ports=run.ports,
            ipv6=run.ipv6,
            directory=run.directory,
            room=run.room,
            rank=self.are_ranks,
        )

    def outcome(
        self,
        trial: int,  # noqa: ARG002 - no row of it is of a trial
        purpose: Purpose,  # noqa: ARG002
        pairs: Sequence[Sequence[PartResult]],
    ) -> Outcome:
        """Return metrics of all pairs, and the programs' resource usage.

        Raises OutputError for a missing number.
        """
        ended = [list(self._ended(parts)) for parts in pairs]
        every = [one for pair in ended for one in pair]
        return Outcome({**self.numbers(ended), **_use(every)}, interfaces=interfaces_of(every))

    def _ended(self, parts: Sequence[PartResult]) -> Iterator[EndedProgram]:
        for group, ran in zip(self._groups(), parts, strict=True):
            names = {"sender": ran.sender, "receiver": ran.receiver}
            rows = zip(group, ran.results, ran.printed, ran.interfaces, strict=True)
            for (run, end), result, printed, interface in rows:
                if not isinstance(result, ExecResult):
                    raise ProgramError("the agent gave no end of a program", where=names[end])
                yield EndedProgram(run, end, names[end], result, printed, interface)


def _check(name: str, runs: Sequence[ProgramRun]) -> None:
    where = f"runs() of {name}"
    if all(run.ready for run in runs):
        raise ProgramError(
            "there is no program that is started, only servers",
            where=where,
            cure="leave ready out of the one that measures",
        )
    texts = [text for run in runs for text in (*run.argv, *run.ipv6, *run.env.values())]
    ports = [name for name in _PORTS if any(used(text, name) for text in texts)]
    if ports and not any(run.ready for run in runs):
        raise ProgramError(
            f"{{{ports[0]}}} is the port of a server, and there is none",
            where=where,
            cure="say when the server is ready, such as ready='port'",
        )


def interfaces_of(ended: Sequence[EndedProgram]) -> list[InterfaceUse]:
    """Return the interfaces' traffic of each endpoint during its longest program."""
    longest: dict[str, EndedProgram] = {}
    for one in sorted(ended, key=lambda one: one.result.elapsed_s):
        longest[one.endpoint] = one
    found = []
    for name in dict.fromkeys(one.endpoint for one in ended):
        reported, measured = longest[name].result.interfaces, longest[name].interface
        columns = reported.model_dump() if reported else {"name": []}
        for row in zip(*columns.values(), strict=True):
            values = dict(zip(columns, row, strict=True))
            is_it = None if measured is None else values["name"] == measured
            found.append(InterfaceUse(endpoint=name, measured=is_it, **values))
    return found


def aggregate(
    over_pairs: OverPairs, better: Better, values: Sequence[float | None]
) -> float | None:
    """Aggregate a metric over all pairs and ends; None where one is missing."""
    known = [value for value in values if value is not None]
    if len(known) < len(values) or not known:
        return None
    match over_pairs:
        case OverPairs.SUM:
            return math.fsum(known)
        case OverPairs.WORST:
            return min(known) if better is Better.HIGHER else max(known)
        case _:
            return math.fsum(known) / len(known)


def _ready(ready: Ready | Line) -> dict[str, Value]:
    if isinstance(ready, Line):
        return {"ready": "line", "ready_line": ready.line}
    return {"ready": {"port": "tcp", "udp-port": "udp", "start": "start"}[ready]}


def _use(ended: Sequence[EndedProgram]) -> dict[str, float | None]:
    """Return the resource usage of all programs, over the time of the started ones."""
    started = [one.result for one in ended if not one.run.ready]
    cpu = [
        100 * (one.result.process.cpu_user_s + one.result.process.cpu_system_s)
        / one.result.elapsed_s
        for one in ended
        if one.result.elapsed_s > 0
    ]  # fmt: skip
    memory = [one.result.process.max_rss_kb for one in ended]
    found: dict[str, float | None] = {
        "program_s": max(one.elapsed_s for one in started),
        "program_cpu_percent": math.fsum(cpu) if len(cpu) == len(ended) else None,
        "program_memory_bytes": max((1024.0 * kb for kb in memory if kb is not None), default=None),
    }
    for end in ("sender", "receiver"):
        uses = [(one.endpoint, one.result.endpoint) for one in ended if one.end == end]
        name = f"endpoint_cpu_{end}_percent"
        found[name] = endpoint_cpu_percent(uses) if uses else None
    return found


_IN_MEMORY = {"tmpfs", "ramfs"}
_SLOWEST_BYTES_S = 10e6
_LONGEST_S = 7 * 86400.0
_OF_METADATA = 50
"""File systems need less than this share for the metadata of large files."""


class DiskSettings(ProgramsSettings):
    """Settings of a program with files on the sender."""

    directory: Directory = Field(
        default=RUN_DIRECTORY,
        description="where on the sender the files are: a path, or `{dir}` for the directory of the"
        " run, in the login's home; in it each trial has one of its own, of which nothing stays",
    )

    deadline: Duration | None = Field(
        default=None,
        ge=0.1,
        le=_LONGEST_S,
        description="how long it may run at most; the trial fails then; by default the duration, a"
        " minute, and the time that the files take at 10 MB/s",
    )

    @property
    def file_bytes(self) -> int:
        """The upper bound of the files' total size."""
        return 0

    @property
    def moved_bytes(self) -> int:
        """The payload without time limit: by default that of creating the files."""
        return self.file_bytes

    @property
    def longest_s(self) -> float:
        """The upper bound of its duration, in seconds."""
        usual = super().longest_s + self.moved_bytes / _SLOWEST_BYTES_S
        return self.deadline or min(usual, _LONGEST_S)

    @property
    def is_cached(self) -> bool:
        """Whether the page cache alone may serve reads and writes."""
        return True

    def run_of(self, argv: list[str], **keys: Any) -> ProgramRun:
        """Return a program in the directory of the trial, on the sender.

        ``{dir}`` in its arguments is that directory; other ``keys`` are those of a run.
        """
        room = self.file_bytes + self.file_bytes // _OF_METADATA
        return ProgramRun(
            on=Where.SENDER, argv=argv, directory=self.directory, room=f"{room}B", **keys
        )

    def warnings_from_facts(self, end: Role, facts: Mapping[str, Any]) -> Iterator[str]:
        """Warn if the page cache is measured instead of the disk."""
        if end != "sender":
            return
        kind = _inside(facts, "file_systems", self.directory, "type")
        memory = _inside(facts, "memory", "total_bytes")
        if kind in _IN_MEMORY:
            directory = "the directory of the run" if self.directory == "{dir}" else self.directory
            yield f"{directory} is in memory there ({kind}): no disk is measured"
        elif self.is_cached and isinstance(memory, int) and self.file_bytes <= memory:
            sizes = f"{format_size(self.file_bytes)} of files fit into {format_size(memory)}"
            yield f"{sizes} of memory: the page cache is measured, and the disk only in part"


class DirectSettings(DiskSettings):
    """Settings of a program that supports direct I/O."""

    size: Size = Field(
        default=2**30, ge=2**20, le=2**50, description="of each file; also how much must be free"
    )
    direct: bool = Field(
        default=True,
        description="direct I/O (O_DIRECT), past the page cache; without it the memory is measured,"
        " as long as the files fit into it",
    )

    @property
    def file_bytes(self) -> int:
        """The upper bound of the files' total size: by default one file."""
        return self.size

    @property
    def is_cached(self) -> bool:
        """Whether the page cache alone may serve reads and writes."""
        return not self.direct


def _inside(value: Any, *keys: str) -> Any:
    """Return the element at a path of keys; None without it, as in unknown facts."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
