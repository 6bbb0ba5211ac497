"""Bulk transfer capacity: parallel TCP connections from one endpoint to another (RFC 3148)."""

from __future__ import annotations

import contextlib
import queue
import secrets
import time
from typing import TypeVar

from osmef.agent.client import AgentClient, Inbox
from osmef.agent.messages import (
    BulkWay,
    Connected,
    ErrorEvent,
    Event,
    Gone,
    IntervalEvent,
    Listening,
    ResultEvent,
)
from osmef.analysis.fairness import jain_fairness
from osmef.errors import AgentError
from osmef.results.trial import Interval, Transfer, TransferEnd
from osmef.scenario.workload import BtcSettings
from osmef.workloads.base import Job, Outcome, Workload

ARM_TIMEOUT_S = 15.0
STALL_TIMEOUT_S = 10.0
# How long the agents let the flows drain after their end, as docs/agent-protocol.md says.
DRAIN_TIMEOUT_S = 60.0
# The agent keeps every deadline by itself; this is for an agent that does not.
_GRACE_S = 20.0
_CHECK_EVERY_S = 0.2
_ABORT_TIMEOUT_S = 5.0

E = TypeVar("E", Listening, Connected, ResultEvent)

# What one end sees when the other one fails.
_EFFECTS = ("reset", "aborted")
_CURES = {
    "stalled": "look at the path between both ends: links, MTU, firewall",
    "reset": "the other end closed early; look at its error, memory and kernel log",
    "connect": "is the data port open between both ends (firewall, security group, route)?",
    "arm-timeout": "is the data port open between both ends (firewall, security group, route)?",
    "resource": "the endpoint is short of memory, threads or file descriptors",
}


class BulkTransfer(Workload):
    """n connections, timed, with one common start."""

    metrics = (
        "aggregate_btc_bps",
        "connection_btc_bps",
        "jain_fairness",
        "cpu_sender_percent",
        "cpu_receiver_percent",
        "endpoint_cpu_sender_percent",
        "endpoint_cpu_receiver_percent",
        "cpu_sender_us_per_kb",
        "cpu_receiver_us_per_kb",
        "retransmits",
        "rtt_mean_us",
        "rtt_min_us",
    )

    def __init__(self, settings: BtcSettings) -> None:
        self._settings = settings

    @property
    def duration_s(self) -> float:
        """How long the sender sends, in seconds."""
        return self._settings.duration

    def run(self, job: Job) -> Outcome:
        """Arm the receiver, connect the sender, start all flows at once, and collect both ends."""
        talk = _Conversation(job)
        try:
            common: dict[str, str | int | float] = {
                "id": str(job.trial),
                "cookie": secrets.token_hex(16),
                "flows": self._settings.connections,
                "duration_s": self._settings.duration,
                "interval_s": self._settings.interval,
                "arm_timeout_s": ARM_TIMEOUT_S,
                "stall_timeout_s": STALL_TIMEOUT_S,
            }
            listen: dict[str, str | int | float] = {
                "cmd": "bulk",
                "side": "listen",
                "bind": job.address,
                "port": 0,
            }
            talk.begin(job.receiver, {**listen, **common})
            listening = talk.wait(Listening, {job.receiver}, ARM_TIMEOUT_S)
            port = listening[job.receiver].port
            dial: dict[str, str | int | float] = {
                "cmd": "bulk",
                "side": "connect",
                "host": job.address,
                "port": port,
            }
            talk.begin(job.sender, {**dial, **common})
            talk.wait(Connected, {job.sender, job.receiver}, ARM_TIMEOUT_S)
            job.sender.send({"cmd": "start", "id": str(job.trial)})
            results = talk.wait(
                ResultEvent,
                {job.sender, job.receiver},
                self._settings.duration + DRAIN_TIMEOUT_S + STALL_TIMEOUT_S,
            )
        except BaseException:
            talk.abort()
            raise
        transfer = Transfer(
            sender=_end(job.sender, results[job.sender], results[job.sender].sending),
            receiver=_end(job.receiver, results[job.receiver], results[job.receiver].receiving),
        )
        return Outcome(transfer_metrics(transfer, talk.intervals), transfer, talk.intervals)


class _Conversation:
    """Listens to both agents of one job: keeps their intervals, finds the cause of a failure."""

    def __init__(self, job: Job) -> None:
        self.intervals: list[Interval] = []
        self._job = job
        self._inbox: Inbox = queue.SimpleQueue()
        self._failures: dict[AgentClient, ErrorEvent | Gone] = {}
        self._busy: set[AgentClient] = set()
        job.sender.inbox = job.receiver.inbox = self._inbox

    def wait(
        self, wanted: type[E], agents: set[AgentClient], timeout_s: float
    ) -> dict[AgentClient, E]:
        """Wait until each of the agents has sent the wanted event. Raises AgentError."""
        deadline = time.monotonic() + timeout_s + _GRACE_S
        found: dict[AgentClient, E] = {}
        while found.keys() != agents:
            self._job.check()
            if time.monotonic() > deadline:
                silent = ", ".join(sorted(agent.name for agent in agents - found.keys()))
                raise AgentError("the agent has missed every deadline", where=silent)
            agent, event = self._next(_CHECK_EVERY_S)
            if agent is None:
                continue
            if isinstance(event, wanted):
                found[agent] = event
            if agent in self._failures:
                raise self._failure()
        return found

    def begin(self, agent: AgentClient, command: dict[str, str | int | float]) -> None:
        """Send the command that begins an agent's job. Raises AgentError."""
        self._busy.add(agent)
        agent.send(command)

    def abort(self) -> None:
        """Make both agents idle, or end those that don't answer."""
        for agent in self._busy:
            with contextlib.suppress(AgentError):
                agent.send({"cmd": "abort", "id": str(self._job.trial)})
        deadline = time.monotonic() + _ABORT_TIMEOUT_S
        while self._busy and time.monotonic() < deadline:
            self._next(_CHECK_EVERY_S)
        for agent in self._busy:
            agent.close()

    def _failure(self) -> AgentError:
        """Return the error to report: when one end dies, the other one only sees the effect."""
        self.abort()
        gone = [(agent, e) for agent, e in self._failures.items() if isinstance(e, Gone)]
        if gone:
            return gone[0][0].lost(gone[0][1].reason)
        said = [(agent, e) for agent, e in self._failures.items() if isinstance(e, ErrorEvent)]
        agent, event = min(said, key=lambda item: item[1].kind in _EFFECTS)
        flow = "" if event.flow is None else f" (connection {event.flow})"
        return AgentError(
            f"{event.kind}{flow}: {event.message}", where=agent.name, cure=_CURES.get(event.kind)
        )

    def _next(self, timeout_s: float) -> tuple[AgentClient | None, Event | None]:
        try:
            agent, event = self._inbox.get(timeout=timeout_s)
        except queue.Empty:
            return None, None
        if not self._is_ours(event):
            return None, None  # a late answer to a job before this one
        if isinstance(event, IntervalEvent):
            self._keep(agent, event)
        elif isinstance(event, ErrorEvent | Gone):
            self._failures.setdefault(agent, event)
        if isinstance(event, ErrorEvent | Gone | ResultEvent):
            self._busy.discard(agent)
        return agent, event

    def _is_ours(self, event: Event) -> bool:
        match event:
            case Gone() | ErrorEvent(id=None):  # it did not understand our command
                return True
        return getattr(event, "id", None) == str(self._job.trial)

    def _keep(self, agent: AgentClient, event: IntervalEvent) -> None:
        if event.role == "receiver" and event.length_s > 0:
            self._job.progress(8 * sum(event.bytes) / event.length_s)
        flows = range(len(event.bytes))
        self.intervals += [
            Interval(
                trial=self._job.trial,
                endpoint=agent.name,
                role=event.role,
                flow=flow,
                start_s=event.start_s,
                length_s=event.length_s,
                bytes=event.bytes[flow],
                retransmits=event.retransmits[flow] if event.retransmits else None,
                rtt_us=event.rtt_us[flow] if event.rtt_us else None,
                cwnd=event.cwnd[flow] if event.cwnd else None,
            )
            for flow in flows
        ]


def _end(agent: AgentClient, result: ResultEvent, way: BulkWay | None) -> TransferEnd:
    if way is None:
        raise AgentError("the agent sent nothing, or received nothing", where=agent.name)
    return TransferEnd(
        endpoint=agent.name,
        start_realtime_ns=result.start_realtime_ns,
        elapsed_s=result.elapsed_s,
        common_start_s=way.common_start_s,
        common_length_s=way.common_length_s,
        refused=result.refused,
        flows=way.flows,
        process=result.process,
        host=result.endpoint,
    )


def transfer_metrics(transfer: Transfer, intervals: list[Interval]) -> dict[str, float | None]:
    """Return the metrics of one bulk transfer.

    BTC is the receiver's goodput over the common interval, in which all connections ran (RFC 3148;
    domain: unique payload bits received / elapsed time). CPU percentages are of one CPU: the
    process's are the CPU time of the threads that move the data, summed over the connections; the
    endpoint's are all that is not idle in /proc/stat, soft interrupts included. ``rtt_mean_us`` is
    the mean of the sender's smoothed RTT at the end of each interval of each connection.
    Raises AgentError when the receiver had no common interval.
    """
    length = transfer.receiver.common_length_s
    shares = [flow.common_bytes for flow in transfer.receiver.flows]
    if not length or None in shares:
        raise AgentError(
            "no-overlap: the connections did not all run at one time",
            where=transfer.receiver.endpoint,
            cure="make the transfer longer, or use fewer connections",
        )
    rates = [8 * share / length for share in shares if share is not None]
    retransmits = [flow.tcp.retransmits for flow in transfer.sender.flows]
    rtts = [i.rtt_us for i in intervals if i.role == "sender" and i.rtt_us is not None]
    lowest = [flow.tcp.rtt_min_us for flow in transfer.sender.flows if flow.tcp.rtt_min_us]
    return {
        "aggregate_btc_bps": sum(rates),
        "connection_btc_bps": sum(rates) / len(rates),
        "jain_fairness": jain_fairness(rates),
        "cpu_sender_percent": _process_cpu(transfer.sender),
        "cpu_receiver_percent": _process_cpu(transfer.receiver),
        "endpoint_cpu_sender_percent": _endpoint_cpu(transfer.sender),
        "endpoint_cpu_receiver_percent": _endpoint_cpu(transfer.receiver),
        "cpu_sender_us_per_kb": _cpu_us_per_kb(transfer.sender),
        "cpu_receiver_us_per_kb": _cpu_us_per_kb(transfer.receiver),
        "retransmits": _sum(retransmits),
        "rtt_mean_us": sum(rtts) / len(rtts) if rtts else None,
        "rtt_min_us": min(lowest) if lowest else None,
    }


def _sum(values: list[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _cpu_s(end: TransferEnd) -> float:
    return sum((flow.cpu_user_s or 0) + (flow.cpu_system_s or 0) for flow in end.flows)


def _process_cpu(end: TransferEnd) -> float | None:
    return 100 * _cpu_s(end) / end.elapsed_s if end.elapsed_s > 0 else None


def _endpoint_cpu(end: TransferEnd) -> float | None:
    use = end.host
    # /proc/stat counts guest time within user time already (proc(5)).
    busy = use.user_s + use.nice_s + use.system_s + use.irq_s + use.softirq_s + (use.steal_s or 0)
    return 100 * busy / use.elapsed_s if use.elapsed_s > 0 else None


def _cpu_us_per_kb(end: TransferEnd) -> float | None:
    kilobytes = sum(flow.bytes for flow in end.flows) / 1000
    return 1e6 * _cpu_s(end) / kilobytes if kilobytes else None
