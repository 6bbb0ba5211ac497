"""Synchronised execution of a trial's parts: arm, connect, common start, collect, stop."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from osmef.agent.client import ClockOffset, Inbox
from osmef.agent.messages import (
    Connected,
    ErrorEvent,
    Event,
    ExchangesEvent,
    ExecResult,
    IntervalEvent,
    Listening,
    OutputEnded,
    OutputEvent,
    PointEvent,
    ProgressEvent,
    RequestsEvent,
    ResultEvent,
)
from osmef.errors import AgentError, EndpointError, ProgramError
from osmef.results.observations import Purpose
from osmef.results.trial import Interval
from osmef.workloads.base import Part, PartResult, Value
from osmef.workloads.failing import BIND_CURE, LATE_CURE, Fault, ended_badly, error_of, rank
from osmef.workloads.reading import Printed
from osmef.workloads.tasks import (
    MOST_AT_ONCE,
    PROGRAM,
    KeyValueSpace,
    Pair,
    Task,
    TaskTimeouts,
    command_of,
    make_tasks,
)

_EVALUATE_EVERY_S = 0.5
"""In time of the measurement: evaluating a series takes longer as it grows."""


class EarlyStopping:
    """Decides after each interval whether to stop tasks: once all pairs have measured enough."""

    def __init__(self, groups: Sequence[Sequence[Sequence[Task]]]) -> None:
        self._pair = {
            task: number
            for number, pair in enumerate(groups)
            for group in pair
            for task in group
            if task.part.enough is not None
        }
        self._senders: dict[Task, None] = {}
        self._lengths: dict[Task, list[float]] = {}
        self._sizes: dict[Task, list[int]] = {}
        self._checked_s: dict[Task, float] = {}
        self._missing = set(self._pair.values())
        self._stopped = False

    def take(self, task: Task, event: IntervalEvent) -> list[Task]:
        """Add an interval, and return the sending tasks to stop now."""
        if task not in self._pair or self._stopped:
            return []
        if event.role == "sender":
            self._senders[task] = None
        else:
            self._keep(task, event)
        if self._missing or not self._senders:
            return []
        self._stopped = True
        return list(self._senders)

    def _keep(self, task: Task, event: IntervalEvent) -> None:
        lengths, sizes = self._lengths.setdefault(task, []), self._sizes.setdefault(task, [])
        lengths.append(event.length_s)
        sizes.append(sum(event.bytes))
        end_s, pair = event.start_s + event.length_s, self._pair[task]
        due_s = self._checked_s.get(task, 0.0) + _EVALUATE_EVERY_S * (1 - 1e-3)
        enough = task.part.enough
        if pair not in self._missing or end_s < due_s or enough is None:
            return
        self._checked_s[task] = end_s
        if enough(pair, lengths, sizes):
            self._missing.discard(pair)


_CHECK_EVERY_S = 0.2
# From sending the start time to all agents until that moment, beyond the time that sending takes.
_START_MARGIN_S = 0.05

# A port that another program holds is passed over; this is for an address that takes none.
_MOST_REFUSED_PORTS = 20

# Processes of a job may notice the end of another one, and abort, before its agent reports it.
_NOTICED_S = 1.0

_TOO_MUCH = "it printed more than such a job may"


@dataclass(frozen=True)
class TrialJob:
    """A trial: its number and its pairs.

    ``progress`` is called with the latest rate of the measured parts in bits per second,
    ``round_trip`` with the median of their latest round trips in microseconds, ``request_rate``
    with their requests a second so far; ``check`` is called often and raises when the run has to
    stop. ``waits`` are the timeouts of the agents. Each pair begins ``stagger_s`` seconds after the
    one before. ``keep`` gets a name and the output of each program on each of its streams, also an
    empty one.
    """

    trial: int
    pairs: Sequence[Pair]
    progress: Callable[[float], None] = field(default=lambda _bps: None)
    check: Callable[[], None] = field(default=lambda: None)
    waits: TaskTimeouts = field(default_factory=TaskTimeouts)
    stagger_s: float = 0.0
    keep: Callable[[str, bytes], None] = field(default=lambda _name, _printed: None)
    round_trip: Callable[[float], None] = field(default=lambda _us: None)
    request_rate: Callable[[float], None] = field(default=lambda _per_s: None)


@dataclass(frozen=True)
class TrialResults:
    """Results of all parts, a list a pair, that began at ``began_s`` of this process's clock.

    ``start_spread_s`` is the time between the first and the last start of parts that should start
    together, in seconds, by the endpoints' clocks, which were compared to within
    ``start_uncertainty_s``. None for a single start.
    """

    ran: list[list[PartResult]]
    start_spread_s: float | None
    start_uncertainty_s: float | None
    began_s: float

    def then(self, later: TrialResults) -> TrialResults:
        """Concatenate the results of a further run of the same pairs.

        Times of the later results count from this one's first start, by the controller's monotonic
        clock: in a pause of minutes an endpoint's clock may be set, as that of a new VM often is.
        """
        offset_s = later.began_s - self.began_s
        shifted = [[_shifted(one, offset_s) for one in pair] for pair in later.ran]
        ran = [[*before, *after] for before, after in zip(self.ran, shifted, strict=True)]
        return replace(self, ran=ran)


def pause_between(job: TrialJob, seconds: float) -> None:
    """Pause between two runs of the parts. Raises as ``job.check`` does."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        job.check()
        time.sleep(min(left, _CHECK_EVERY_S))


def _shifted(ran: PartResult, seconds: float) -> PartResult:
    began_s = ran.start_s + seconds
    intervals = [one.model_copy(update={"began_s": began_s}) for one in ran.intervals]
    return replace(ran, intervals=intervals, start_s=began_s)


def run_parts(job: TrialJob, parts: Sequence[Part]) -> TrialResults:
    """Run parts between every pair. Raises AgentError, ProgramError, ReachError.

    Afterwards every agent is idle or has ended, also after an error; the output of programs is kept
    unless the run was stopped. Several starts are scheduled for one moment by each agent's clock; a
    single one is immediate.
    """
    runner = _TrialRunner(job, parts)
    try:
        runner.compare_clocks()
        runner.find_interfaces()
        runner.arm()
        runner.start()
        runner.collect()
        runner.stop()
    except BaseException as error:
        runner.abort()
        if isinstance(error, EndpointError):
            runner.keep()
        raise
    runner.keep()
    return runner.results()


class _TrialRunner:
    """All agents of one trial: collects their events, and finds the cause of a failure."""

    def __init__(self, job: TrialJob, parts: Sequence[Part]) -> None:
        self._job, self._waits = job, job.waits
        self._inbox = Inbox()
        self._groups = make_tasks(job.trial, job.pairs, parts, job.waits, job.stagger_s)
        self._tasks = [task for pair in self._groups for group in pair for task in group]
        self._of = {task.agent: task for task in self._tasks}
        self._group_of = {task: group for pair in self._groups for group in pair for task in group}
        self._failures: dict[Task, Fault] = {}
        self._busy: set[Task] = set()
        self._aborted = False
        self._clocks: dict[str, ClockOffset] = {}
        self._sending_s = self._began_s = 0.0
        self._early_stopping = EarlyStopping(self._groups)
        self._ranks = [task for task in self._tasks if task.step.rank]
        self._exchange = KeyValueSpace([task.host.name for task in self._ranks])
        for number, task in enumerate(self._ranks):
            task.rank, task.environment = number, self._exchange.environment(number)

    def compare_clocks(self) -> None:
        """Estimate the clock offset of each endpoint with a start, if there are several."""
        starters = [task for task in self._tasks if task.starts]
        if len(starters) == 1 and not starters[0].part.delay_s:
            return
        ones = {task.host.name: task for task in starters}
        with ThreadPoolExecutor(min(len(ones), MOST_AT_ONCE)) as pool:
            self._clocks = dict(zip(ones, pool.map(self._clock, ones.values()), strict=True))

    def _clock(self, task: Task) -> ClockOffset:
        task.agent.inbox = Inbox()  # the one before is of another trial
        return task.agent.clock_offset(self._waits.clock_s)

    def find_interfaces(self) -> None:
        """Find the network interface of each program that needs it. Raises AgentError."""
        known: dict[tuple[str, str], str | None] = {}
        for task in [task for task in self._tasks if task.wants_interface]:
            key = (task.host.name, task.bind)
            if key not in known:
                task.agent.inbox = Inbox()  # the one before is of another trial
                known[key] = task.agent.interface_of(task.bind, self._waits.clock_s)
            task.interface = known[key]
            if task.interface is None:
                raise AgentError(
                    f"no network interface has the address {task.bind}",
                    where=task.host.name,
                    cure=BIND_CURE,
                )

    def arm(self) -> None:
        """Arm all steps, those of a part in order, and wait until all are connected."""
        for task in self._tasks:
            task.agent.inbox = self._inbox
            if task.agent.gone is not None:  # it may have reported that to its earlier inbox
                raise task.agent.lost_error(task.agent.gone)
        armed_s = self._waits.arm_s + self._waits.grace_s
        longest = max(len(group) for pair in self._groups for group in pair)
        for number in range(longest):
            now = [g[number] for pair in self._groups for g in pair if number < len(g)]
            for task in now:
                self._begin(task, self._listener(task))
            self._wait_for(
                [task for task in now if task.step.listens],
                lambda task: task.port is not None,
                armed_s,
            )
        two_ended = [task for task in self._tasks if not task.step.serves and not task.is_server]
        self._wait_for(two_ended, lambda task: task.connected, armed_s)

    def _listener(self, task: Task) -> Task | None:
        """Return the last earlier step of its part that a step connects to."""
        group = self._group_of[task]
        earlier = [t for t in group[: group.index(task)] if t.step.listens]
        return earlier[-1] if earlier else None

    def _begin(self, task: Task, upstream: Task | None) -> None:
        self._busy.add(task)
        command, began = command_of(task, upstream), time.monotonic()
        task.agent.send(command)
        self._sending_s += time.monotonic() - began

    def start(self) -> None:
        """Start the last step of every part at one moment, by each agent's own clock."""
        starters = [task for task in self._tasks if task.starts]
        worst = max((clock.uncertainty_s for clock in self._clocks.values()), default=0.0)
        # As long as it took to arm them all, which is more than the starts alone.
        margin = _START_MARGIN_S + self._sending_s + worst
        moment = time.monotonic() + margin
        self._began_s = moment if self._clocks else time.monotonic()
        for task in starters:
            command: dict[str, Value] = {"cmd": "start", "id": task.id}
            clock = self._clocks.get(task.host.name)
            if clock is not None:
                at = moment + task.part.delay_s + clock.monotonic_s
                command["at_monotonic_ns"] = round(1e9 * at)
            task.agent.send(command)
            task.started = True

    def collect(self) -> None:
        """Wait for the results of all steps that end by themselves."""
        ending = [task for task in self._tasks if not task.is_stopped]
        self._wait_for(
            ending,
            lambda task: task.result is not None,
            max(task.timeout_s for task in self._tasks),
        )

    def stop(self) -> None:
        """Stop the servers, and wait for their results."""
        serving = [task for task in self._tasks if task.is_stopped and not task.ended]
        for task in serving:
            task.agent.send({"cmd": "stop", "id": task.id})
        self._wait_for(serving, lambda task: task.result is not None, self._waits.stop_s)

    def keep(self) -> None:
        """Store programs' output before it is parsed."""
        programs = [task for task in self._tasks if task.step.command == PROGRAM]
        for number, task in enumerate(programs):
            self._job.keep(f"{number}-{task.host.name}.stdout", bytes(task.stdout))
            self._job.keep(f"{number}-{task.host.name}.stderr", bytes(task.stderr))

    def results(self) -> TrialResults:
        """Return the results of all parts."""
        worst = sorted(clock.uncertainty_s for clock in self._clocks.values())[-2:]
        return TrialResults(
            [[self._part_result(group) for group in pair] for pair in self._groups],
            self._start_spread_s(),
            sum(worst) if self._clocks else None,
            self._began_s,
        )

    def _start_spread_s(self) -> float | None:
        """Return the spread of the tasks' starts relative to their due times.

        None for a single start, or where an agent did not report its start.
        """
        starters = [task for task in self._tasks if task.starts]
        late = [began - task.part.delay_s for task in starters if (began := self._began(task))]
        return max(late) - min(late) if len(late) == len(starters) > 1 else None

    def _began(self, task: Task) -> float | None:
        """Return the start of a task, in UNIX time of the controller's clock, if known."""
        reported: int | None = getattr(task.result, "start_realtime_ns", None)
        clock = self._clocks.get(task.host.name)
        return (
            reported / 1e9 - clock.offset_s if reported is not None and clock is not None else None
        )

    def _part_result(self, group: list[Task]) -> PartResult:
        starts = [began for task in self._tasks if task.starts and (began := self._began(task))]
        began = self._began(group[-1])
        return _part_result(group, began - min(starts) if began is not None else 0.0)

    def abort(self) -> None:
        """Abort all jobs, and end agents that don't answer."""
        self._aborted = True
        for task in self._busy:
            with contextlib.suppress(AgentError):  # its end is on its way to us
                task.agent.send({"cmd": "abort", "id": task.id})
        deadline = time.monotonic() + self._waits.abort_s
        while self._busy and time.monotonic() < deadline:
            self._take(_CHECK_EVERY_S)
        if self._busy:  # at once: each may wait for its server
            with ThreadPoolExecutor(min(len(self._busy), MOST_AT_ONCE)) as pool:
                list(pool.map(lambda task: task.agent.close(), self._busy))
        self._busy.clear()

    def _wait_for(
        self, tasks: Sequence[Task], done: Callable[[Task], bool], timeout_s: float
    ) -> None:
        """Wait until a condition holds for each task. Raises AgentError, ProgramError."""
        deadline = time.monotonic() + timeout_s
        left = list(tasks)
        while True:
            while left and done(left[-1]):  # not all of them: each event is of one of 400
                left.pop()
            if not left:
                return
            self._job.check()
            if time.monotonic() > deadline:
                waiting = [task for task in left if not done(task)]
                silent = ", ".join(sorted({task.host.name for task in waiting}))
                late = any(task.started and task.part.deadline_s for task in waiting)
                cure = LATE_CURE if late else None
                raise AgentError("the agent has missed every deadline", where=silent, cure=cure)
            self._take(_CHECK_EVERY_S)
            if self._failures:
                raise self._failure()

    def _failure(self) -> EndpointError:
        """Return the root cause: when one end fails, its peers only report the effect."""
        self.abort()
        task, fault = min(self._failures.items(), key=lambda item: rank(item[1]))
        error = error_of(task, fault)
        if task.part.purpose is Purpose.BACKGROUND:
            error.message = f"the background: {error.message}"
        return error

    def _take(self, timeout_s: float) -> None:
        """Handle the next event, or a time-out."""
        try:
            agent, event = self._inbox.get(timeout_s)
        except queue.Empty:
            return
        task = self._of[agent]
        # Ignore late answers to an earlier job, and events after the end.
        if task.ended or not _is_of(event, task):
            return
        if isinstance(event, _SERIES) and not task.admits(event):
            event = ErrorEvent(event="error", id=task.id, kind="protocol", message=_TOO_MUCH)
        self._handle(task, event)
        if isinstance(event, IntervalEvent):
            self._stop_early(task, event)

    def _stop_early(self, task: Task, event: IntervalEvent) -> None:
        """Stop tasks that have measured enough."""
        for one in self._early_stopping.take(task, event):
            with contextlib.suppress(AgentError):  # its end is on its way to us
                one.agent.send({"cmd": "stop", "id": one.id})

    def _handle(self, task: Task, event: Event) -> None:
        match event:
            case Listening():
                task.port = event.port
            case Connected():
                task.connected = True
            case IntervalEvent() | ExchangesEvent():
                self._keep(task, event)
            case RequestsEvent() | ProgressEvent():
                self._keep_requests(task, event)
            case OutputEvent():
                self._keep_output(task, event)
            case PointEvent():
                task.points.append(event)
                self._show_rate(task, _rate_at(event, task))
            case ErrorEvent() | OutputEnded():
                self._fail(task, event)
            case ExecResult() if ended_badly(task, event):
                self._failures[task] = event
                self._end(task)
            case ResultEvent():
                task.result = event
                self._end(task)

    def _keep_output(self, task: Task, event: OutputEvent) -> None:
        if event.stream == "channel":
            task.said_bytes += len(event.data)
            self._pass_on(task, event.data)
        else:
            (task.stdout if event.stream == "stdout" else task.stderr).extend(event.data)

    def _pass_on(self, task: Task, data: bytes) -> None:
        """Answer a message on a process's channel. Raises ProgramError for an invalid one."""
        if task.rank is None or self._aborted:
            return
        try:
            for number, text in self._exchange.take(task.rank, data):
                other = self._ranks[number]
                with contextlib.suppress(AgentError):  # its end is on its way to us
                    other.agent.send({"cmd": "write", "id": other.id, "text": text})
        except ProgramError as error:
            self._aborted, until = True, time.monotonic() + _NOTICED_S
            while not self._failures.keys() - {task} and time.monotonic() < until:
                self._take(_CHECK_EVERY_S)
            if self._failures.keys() - {task}:
                raise self._failure() from None
            self.abort()  # what it printed before may still be on its way
            error.tail = Printed(bytes(task.stdout), bytes(task.stderr)).tail
            raise

    def _fail(self, task: Task, event: ErrorEvent | OutputEnded) -> None:
        """Record why a task has failed; one that can't listen tries the next port."""
        refused = event.event == "error" and event.kind == "bind"
        may_listen = task.step.listens and task.port is None and not self._aborted
        if refused and may_listen and task.refused_ports < _MOST_REFUSED_PORTS:
            task.refused_ports += 1
            self._begin(task, self._listener(task))
            return
        self._failures[task] = event
        self._end(task)

    def _end(self, task: Task) -> None:
        task.ended = True
        self._busy.discard(task)

    def _keep_requests(self, task: Task, event: RequestsEvent | ProgressEvent) -> None:
        if isinstance(event, ProgressEvent):
            task.requests_per_s = event.requests / event.elapsed_s
            self._job.request_rate(sum(one.requests_per_s for one in self._tasks))
            return
        from osmef.workloads.siege import as_batch  # noqa: PLC0415 - pyarrow is slow to load

        task.requests.append(as_batch(event))
        task.requests_reported += len(event.size)

    def _keep_exchanges(self, task: Task, event: ExchangesEvent) -> None:
        task.intervals.append(
            Interval(
                trial=self._job.trial,
                purpose=task.part.purpose.value,
                endpoint=task.host.name,
                peer=task.peer.name,
                role="sender",
                flow=0,
                start_s=event.start_s,
                length_s=event.length_s,
                bytes=event.count * int(str(task.step.parameters.get("request_size", 1))),
                retransmits=None,
                rtt_us=_us(event.p50_ns),
                cwnd=None,
                lost=event.lost,
                exchanges=event.count,
                protocol=str(task.step.parameters.get("protocol", "tcp")),
                rtt_p99_us=_us(event.p99_ns),
                rtt_max_us=_us(event.max_ns),
            )
        )

    def _show_rate(self, task: Task, bits_per_second: float) -> None:
        if task.part.purpose is Purpose.MEASURED:
            task.rate_bps = bits_per_second
            self._job.progress(sum(one.rate_bps for one in self._tasks))

    def _keep(self, task: Task, event: IntervalEvent | ExchangesEvent) -> None:
        if isinstance(event, ExchangesEvent):
            if not task.step.listens:  # the answering end only counts
                self._keep_exchanges(task, event)
                if task.part.purpose is Purpose.MEASURED and event.p50_ns is not None:
                    self._job.round_trip(event.p50_ns / 1000)
            return
        if event.role == "receiver" and event.length_s > 0:
            self._show_rate(task, 8 * sum(event.bytes) / event.length_s)
        task.intervals += [
            Interval(
                trial=self._job.trial,
                purpose=task.part.purpose.value,
                endpoint=task.host.name,
                peer=task.peer.name,
                role=event.role,
                flow=flow,
                start_s=event.start_s,
                length_s=event.length_s,
                warmup=event.warmup,
                bytes=event.bytes[flow],
                retransmits=event.retransmits[flow] if event.retransmits else None,
                rtt_us=event.rtt_us[flow] if event.rtt_us else None,
                cwnd=event.cwnd[flow] if event.cwnd else None,
                **_of_datagrams(event, flow),
            )
            for flow in range(len(event.bytes))
        ]


def _us(ns: int | None) -> float | None:
    return None if ns is None else ns / 1000


_DATAGRAM_SERIES = (
    *("datagrams", "send_refused", "behind_us"),
    *("lost", "reordered", "duplicates", "dropped", "jitter_us"),
)


_SERIES = (IntervalEvent, ExchangesEvent, PointEvent, RequestsEvent, OutputEvent)


def _rate_at(point: PointEvent, task: Task) -> float:
    """Return the rate at one size of a sweep, all flows together."""
    ways = 2 if task.step.parameters.get("mode") == "both" else 1
    bits = ways * 8e6 * point.size * len(point.time_median_us)
    return bits / point.time_slowest_us if point.time_slowest_us > 0 else 0.0


def _of_datagrams(event: IntervalEvent, flow: int) -> dict[str, Any]:
    """Return one flow's datagram counts of an interval; empty without any."""
    series = {name: getattr(event, name) for name in _DATAGRAM_SERIES}
    return {name: values[flow] for name, values in series.items() if values is not None}


def _is_of(event: Event, task: Task) -> bool:
    match event:
        case OutputEnded() | ErrorEvent(id=None):  # it did not understand our command
            return True
    return getattr(event, "id", None) == task.id


def _part_result(group: list[Task], start_s: float) -> PartResult:
    results = [task.result for task in group if task.result is not None]
    intervals = [
        one.model_copy(update={"began_s": start_s}) for task in group for one in task.intervals
    ]
    points = [point for task in group for point in task.points]
    pair = group[0].pair
    requests = [batch for task in group for batch in task.requests]
    printed = tuple(Printed(bytes(task.stdout), bytes(task.stderr)) for task in group)
    ends = (pair.sender.name, pair.receiver.name)
    interfaces = tuple(task.interface for task in group)
    return PartResult(
        *ends, tuple(results), intervals, points, requests, printed, interfaces, start_s
    )
