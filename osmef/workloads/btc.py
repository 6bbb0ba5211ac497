"""Bulk transfer capacity: parallel TCP connections between two endpoints (RFC 3148)."""

from __future__ import annotations

from collections.abc import Sequence

from osmef.agent.messages import BulkResult
from osmef.analysis.limits import prevailing, transfer_limits
from osmef.errors import AgentError
from osmef.results.exchange import Direction, Purpose
from osmef.results.trial import EndMeasured, Transfer, TransferEnd
from osmef.scenario.workload import BtcSettings, TransferDirection
from osmef.workloads.base import End, Outcome, Part, Ran, Step, Value, Workload
from osmef.workloads.transfers import METRICS, transfer_metrics

_REVERSE = "reverse_"
_BACK = ("aggregate_btc_bps", "connection_btc_bps", "jain_fairness", "retransmits")


class BulkTransfer(Workload):
    """n connections, timed or counted, each way in a job of its own."""

    def __init__(self, settings: BtcSettings) -> None:
        self._settings = settings
        both = settings.direction is TransferDirection.BOTH
        self.metrics = (*METRICS, *(f"{_REVERSE}{name}" for name in _BACK if both))

    @property
    def _directions(self) -> tuple[Direction, ...]:
        if self._settings.direction is TransferDirection.BOTH:
            return (Direction.FORWARD, Direction.REVERSE)
        return (Direction(self._settings.direction.value),)

    def parts(self) -> tuple[Part, ...]:
        """Return one part for each direction: the receiver listens, and the sender connects."""
        length = self._settings.warmup + self._settings.duration
        return tuple(
            Part(
                (
                    Step("receiver", "bulk", self._parameters("receiver", direction), listens=True),
                    Step("sender", "bulk", self._parameters("sender", direction)),
                ),
                duration_s=length,
            )
            for direction in self._directions
        )

    def _parameters(self, end: End, direction: Direction) -> dict[str, Value]:
        """Return what an end is told; what the scenario does not say is left to the kernel."""
        s = self._settings
        cpus = s.cpus_sender if end == "sender" else s.cpus_receiver
        wanted: dict[str, Value | None] = {
            "flows": s.connections,
            "duration_s": s.duration,
            "interval_s": s.interval,
            "warmup_s": s.warmup or None,
            "direction": direction.value,
            "bytes": s.bytes,
            "window": s.window,
            "mss": s.mss,
            "congestion_control": s.congestion_control,
            "pacing_bps": s.pacing,
            "dscp": s.dscp,
            "mptcp": s.mptcp or None,
            "cpus": ",".join(map(str, cpus)) if cpus else None,
            "threads": s.threads,
            "mode": s.mode.value,
            "active_s": s.active,
            "idle_s": s.idle,
        }
        return {name: value for name, value in wanted.items() if value is not None}

    def outcome(self, trial: int, purpose: Purpose, pairs: Sequence[Sequence[Ran]]) -> Outcome:  # noqa: ARG002 - no row of it is of a trial
        """Make a transfer of every part, and the metrics of each direction over all pairs."""
        metrics: dict[str, float | None] = {}
        transfers: list[Transfer] = []
        for number, direction in enumerate(self._directions):
            ran = [parts[number] for parts in pairs]
            there = [_transfer(one, purpose, direction) for one in ran]
            found = transfer_metrics(there, [i for one in ran for i in one.intervals])
            if number == 0:
                metrics = found
            else:
                metrics |= {f"{_REVERSE}{name}": found[name] for name in _BACK}
            transfers += there
        return Outcome(metrics, transfers)


def _transfer(ran: Ran, purpose: Purpose, direction: Direction) -> Transfer:
    names = (ran.receiver, ran.sender)  # as the steps are
    ends = {
        result.role: transfer_end(name, result)
        for name, result in zip(names, ran.results, strict=True)
        if isinstance(result, BulkResult)
    }
    wanted = "sender" if direction is Direction.FORWARD else "receiver"
    if ends.keys() != {"sender", "receiver"} or getattr(ran.results[1], "role", None) != wanted:
        raise AgentError(
            f"the agents did not transfer {direction.value}, but as {', '.join(ends)}",
            where=f"{ran.sender} and {ran.receiver}",
            cure="use the agent that belongs to this version of osmef",
        )
    sender, receiver = ends["sender"], ends["receiver"]
    limits = transfer_limits(sender, receiver, ran.intervals)
    return Transfer(
        purpose=purpose,
        direction=direction,
        sender=sender,
        receiver=receiver,
        limits=limits,
        limited_by=prevailing(limits, [flow.bytes for flow in receiver.flows]),
    )


def transfer_end(name: str, result: BulkResult) -> TransferEnd:
    """Return what an agent told of its end of a transfer in one direction."""
    return TransferEnd(
        endpoint=name,
        start_realtime_ns=result.start_realtime_ns,
        elapsed_s=result.elapsed_s,
        common_start_s=result.way.common_start_s,
        common_length_s=result.way.common_length_s,
        refused=result.refused,
        flows=result.way.flows,
        mode=result.way.mode,
        threads=result.way.threads,
        process=result.process,
        host=result.endpoint,
        measured=EndMeasured(
            start_s=result.measured.start_s,
            length_s=result.measured.length_s,
            process=result.measured.process,
            host=result.measured.endpoint,
        ),
    )
