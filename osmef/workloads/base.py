"""Interface of workloads: agent jobs for each pair of endpoints, and metrics of their results.

A workload starts nothing by itself. It declares the parts of one trial between one sender and one
receiver; ``osmef.workloads.trial_runner`` runs the parts of all pairs with one start.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, NamedTuple, TypeVar

from osmef.agent.messages import JobResult, PointEvent
from osmef.results.measure import Measure
from osmef.results.observations import (
    BucketFound,
    Datagrams,
    Direction,
    Exchange,
    InterfaceUse,
    Purpose,
    RateSearch,
    SizePoint,
)
from osmef.results.trial import Interval, Transfer
from osmef.scenario.workload import TransferDirection, WorkloadSettings
from osmef.supply.program import Program
from osmef.workloads.reading import Printed

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Table  # pyarrow is slow to load

Value = str | int | float | bool | Sequence[str]
"""What a member of an agent's command may be."""

End = Literal["sender", "receiver"]
Enough = Callable[[int, Sequence[float], Sequence[int]], bool]


@dataclass(frozen=True)
class Step:
    """One agent job of a part, in an agent process of its own.

    ``end`` is the end at which it runs. ``command`` is the kind of job and ``parameters`` its own
    members; what all jobs have (id, cookie, addresses, ports, timeouts) is added when it is armed.
    A step that ``listens`` answers ``listening``; the steps after it connect to it. One that
    ``serves`` runs until it is stopped, once the other steps of all parts have their results.
    ``connections`` is how many parallel ones its job has, None where it has no such parameter.
    ``udp_ports`` is how many UDP ports it takes, ``probe_ports`` how many an exchange takes beside
    its connection, ``requests`` how many requests it reports, ``output_bytes`` the most that a
    program prints, ``exits`` its exit statuses that are no failure. A ``stoppable`` step of a
    background runs until all else has ended. A listening program takes ``ports`` consecutive ports;
    ``ipv6`` are its further arguments for IPv6 addresses. A step with a ``directory`` runs in a
    temporary subdirectory of it, which needs ``room`` free bytes. The programs of all steps with
    ``rank`` are the processes of one parallel job, and find each other through the controller
    (``osmef.workloads.tasks``).
    """

    end: End
    command: str
    parameters: Mapping[str, Value]
    connections: int | None = field(default=None, kw_only=True)
    listens: bool = False
    serves: bool = False
    udp_ports: int = 0
    probe_ports: int = 0
    requests: int = 0
    output_bytes: int = 0
    stoppable: bool = False
    exits: tuple[int, ...] = (0,)
    ports: int = 1
    ipv6: Sequence[str] = ()
    directory: str | None = None
    room: int = 0
    rank: bool = False

    def __post_init__(self) -> None:
        if "connections" in self.parameters:
            raise ValueError("connections are a field of a step, and none of its parameters")


@dataclass(frozen=True)
class Part:
    """Jobs of agents between one sender and one receiver that belong together.

    They are armed in their order, and the last one gets ``start``, ``delay_s`` after the common
    start of all parts. ``duration_s`` is how long it runs from there, in seconds. Where there is a
    background, a part that is not ``loaded`` runs before it.

    Where ``duration_s`` is only an estimate, ``deadline_s`` says how long it may take at most. A
    part with ``enough`` is stopped earlier, once this returns True for each pair: its arguments are
    the number of the pair, from 0, and the receiver's intervals so far, their lengths in seconds
    and their bytes.
    """

    steps: tuple[Step, ...]
    duration_s: float
    delay_s: float = 0.0
    loaded: bool = True
    purpose: Purpose = Purpose.MEASURED
    deadline_s: float | None = None
    enough: Enough | None = None


def one_way_each(direction: TransferDirection) -> tuple[Direction, ...]:
    """Return the directions of the transfers that measure one or both, one after the other."""
    if direction is TransferDirection.BOTH:
        return (Direction.FORWARD, Direction.REVERSE)
    return (Direction(direction.value),)


@dataclass(frozen=True)
class PartResult:
    """Results of a part between one pair: one for each step in order, and the time series.

    ``requests`` has the requests that sieges reported (``osmef.workloads.siege``), ``printed`` the
    output of each step's program, empty for steps of other kinds. ``interfaces`` has the network
    interface whose traffic is counted for each step's program, if it asks for that. ``start_s`` is
    how long after the first start of the trial it started, as far as that is known.
    """

    sender: str
    receiver: str
    results: tuple[JobResult, ...]
    intervals: list[Interval]
    points: list[PointEvent] = field(default_factory=list)
    requests: list[RecordBatch] = field(default_factory=list)
    printed: tuple[Printed, ...] = ()
    interfaces: tuple[str | None, ...] = ()
    start_s: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """Results of a trial: its metrics by name, its records, and the tables.

    The runner, not the workload, sets ``intervals`` and the two values of the start.
    """

    metrics: Mapping[str, float | None]
    transfers: list[Transfer] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    sizes: list[SizePoint] = field(default_factory=list)
    requests: list[Table] = field(default_factory=list)
    datagrams: list[Datagrams] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)
    interfaces: list[InterfaceUse] = field(default_factory=list)
    buckets: list[BucketFound] = field(default_factory=list)
    search: RateSearch | None = None
    start_spread_s: float | None = None
    start_uncertainty_s: float | None = None


class Span(NamedTuple):
    """Duration in seconds: usual, None where it is unknown, and upper bound."""

    usual_s: float | None
    most_s: float


S = TypeVar("S", bound=WorkloadSettings)


class Workload(ABC, Generic[S]):
    """A workload with its settings.

    ``Settings`` is the model of what people write under ``workload:``, whose ``kind`` has the name
    of the kind as its default. ``background`` is whether it runs beside one.

    ``measures`` are the metrics of every trial, the most important first: those with a ``head`` are
    the columns of a table.
    """

    Settings: ClassVar[type[WorkloadSettings]]
    example: ClassVar[str] = ""
    """Lines of a scenario that show how it is used, YAML; by default the kind alone."""
    measures: tuple[Measure, ...] = ()

    def __init__(self, settings: S, *, background: bool = False) -> None:
        self._settings = settings
        self._background = background

    @classmethod
    def every_measure(cls) -> tuple[Measure, ...] | None:
        """Return all measures of a kind whose settings select some of them; None else."""
        return None

    def needs(self, end: End) -> tuple[Program, ...]:  # noqa: ARG002 - of those that need some
        """Return the external programs of the endpoints at an end."""
        return ()

    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """Return the parts of a trial between one pair; a delay counts from the common start."""

    @property
    def pauses(self) -> tuple[float, ...]:
        """The pauses before each further run of the parts, in seconds."""
        return ()

    @property
    def further_s(self) -> Span:
        """The duration of pauses and further runs, in seconds."""
        if not self.pauses:
            return Span(0.0, 0.0)
        once = max(part.delay_s + part.duration_s for part in self.parts())
        return Span(None, sum(rest + once for rest in self.pauses))

    @property
    def most_bytes(self) -> int | None:
        """The upper bound of a pair's payload in one trial; None without one."""
        return None

    def again(self, pairs: Sequence[Sequence[PartResult]]) -> tuple[Part, ...]:  # noqa: ARG002 - see pauses
        """Return the parts of a further run, after a pause, by the results so far; none ends it."""
        return ()

    @abstractmethod
    def outcome(
        self, trial: int, purpose: Purpose, pairs: Sequence[Sequence[PartResult]]
    ) -> Outcome:
        """Return the outcome of a trial: for each pair, for each part in order.

        Raises AgentError where no number can be made of it.
        """
