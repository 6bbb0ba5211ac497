"""UDP at a rate: loss, reordering, duplicates and jitter of datagrams between two endpoints."""

from __future__ import annotations

from collections.abc import Sequence

from osmef.agent.messages import UdpReceiverResult, UdpSenderResult
from osmef.analysis.fairness import jain_fairness
from osmef.errors import AgentError
from osmef.results.exchange import Direction, Purpose
from osmef.results.udp import DatagramReceiver, Datagrams, DatagramSender, SendingFlow
from osmef.scenario.workload import TransferDirection, UdpSettings
from osmef.workloads.base import Outcome, Part, Ran, Step, Value, Workload
from osmef.workloads.latency import merged, quantile_us
from osmef.workloads.transfers import endpoint_cpu_percent

_REVERSE = "reverse_"
_METRICS = (
    "offered_bps",
    "sent_bps",
    "goodput_bps",
    "loss_percent",
    "network_loss_percent",
    "receiver_drops",
    "loss_longest",
    "reordered_percent",
    "reordering_extent_max",
    "duplicate_percent",
    "jitter_us",
    "delay_variation_p50_us",
    "delay_variation_p99_us",
    "delay_variation_p999_us",
    "jain_fairness",
    "send_refused",
    "behind_max_us",
    "slipped_s",
    "cpu_sender_percent",
    "cpu_receiver_percent",
    "endpoint_cpu_sender_percent",
    "endpoint_cpu_receiver_percent",
)


class UdpFlows(Workload):
    """n flows at a rate, each way in a job of its own."""

    def __init__(self, settings: UdpSettings) -> None:
        self._settings = settings
        both = settings.direction is TransferDirection.BOTH
        self.metrics = (*_METRICS, *(f"{_REVERSE}{name}" for name in _METRICS if both))

    @property
    def _directions(self) -> tuple[Direction, ...]:
        if self._settings.direction is TransferDirection.BOTH:
            return (Direction.FORWARD, Direction.REVERSE)
        return (Direction(self._settings.direction.value),)

    def parts(self) -> tuple[Part, ...]:
        """Return one part for each direction: the receiver listens, and the sender connects."""
        length = self._settings.warmup + self._settings.duration
        ports = self._settings.connections
        return tuple(
            Part(
                (
                    Step("receiver", "udp", keys, listens=True, udp_ports=ports),
                    Step("sender", "udp", keys, udp_ports=ports),
                ),
                duration_s=length,
            )
            for keys in map(self._parameters, self._directions)
        )

    def _parameters(self, direction: Direction) -> dict[str, Value]:
        s = self._settings
        wanted: dict[str, Value | None] = {
            "flows": s.connections,
            "rate_bps": s.rate,
            "size": s.size,
            "burst": s.burst,
            "duration_s": s.duration,
            "interval_s": s.interval,
            "warmup_s": s.warmup,
            "loss_threshold_s": s.loss_threshold,
            "direction": direction.value,
            "window": s.window,
            "dscp": s.dscp,
        }
        return {name: value for name, value in wanted.items() if value is not None}

    def outcome(self, trial: int, purpose: Purpose, pairs: Sequence[Sequence[Ran]]) -> Outcome:  # noqa: ARG002 - no row of it is of a trial
        """Make a record of every part, and the metrics of each direction over all pairs."""
        metrics: dict[str, float | None] = {}
        datagrams: list[Datagrams] = []
        for number, direction in enumerate(self._directions):
            there = [self._record(parts[number], purpose, direction) for parts in pairs]
            found = datagram_metrics(there, self._settings.rate)
            metrics |= {f"{_REVERSE if number else ''}{name}": v for name, v in found.items()}
            datagrams += there
        return Outcome(metrics, datagrams=datagrams)

    def _record(self, ran: Ran, purpose: Purpose, direction: Direction) -> Datagrams:
        names = (ran.receiver, ran.sender)  # as the steps are
        sender: DatagramSender | None = None
        receiver: DatagramReceiver | None = None
        for name, result in zip(names, ran.results, strict=True):
            match result:
                case UdpSenderResult():
                    sender = _sender(name, result)
                case UdpReceiverResult():
                    receiver = _receiver(name, result)
        wanted = "sender" if direction is Direction.FORWARD else "receiver"
        if sender is None or receiver is None or getattr(ran.results[-1], "role", None) != wanted:
            raise AgentError(
                f"the agents did not send datagrams {direction.value}",
                where=f"{ran.sender} and {ran.receiver}",
                cure="use the agent that belongs to this version of osmef",
            )
        return Datagrams(
            purpose=purpose,
            direction=direction,
            size=self._settings.size,
            sender=sender,
            receiver=receiver,
        )


def datagram_metrics(records: Sequence[Datagrams], rate_bps: float) -> dict[str, float | None]:
    """Return the metrics of flows that had one start, over all flows of all pairs.

    - ``offered_bps`` is what was asked for: the payload rate of a flow times their number; None
      without a rate. ``sent_bps`` is what was sent, ``goodput_bps`` what came.
    - ``loss_percent`` = 100 * lost / sent (RFC 7680). ``network_loss_percent`` is the same without
      ``receiver_drops``, those that the receiver's socket had no room for; both are None where the
      kernel does not tell them apart.
    - ``reordered_percent`` = 100 * reordered / received (RFC 4737, section 3.4), and
      ``duplicate_percent`` = 100 * duplicates / received (RFC 5560, replicated share).
    - ``jitter_us`` is the mean over all datagrams of the interarrival jitter (RFC 3550, section
      6.4.1); ``delay_variation_*`` are quantiles of the absolute differences of the one-way delays
      of datagrams sent one after the other (RFC 3393), right within the histogram's error.

    A share of nothing is None.
    """
    senders, receivers = [r.sender for r in records], [r.receiver for r in records]
    sending = [flow for end in senders for flow in end.flows]
    receiving = [flow for end in receivers for flow in end.flows]
    sent, lost = sum(f.sent for f in receiving), sum(f.lost for f in receiving)
    came = sum(f.datagrams for f in receiving)
    known = [f.dropped for f in receiving if f.dropped is not None]
    drops = sum(known) if len(known) == len(receiving) else None
    goodputs = [f.goodput_bps or 0.0 for f in receiving]
    jitters = [(f.jitter_us, f.datagrams) for f in receiving if f.jitter_us is not None]
    weight = sum(count for _, count in jitters)
    variation = merged([end.delay_variation for end in receivers])
    return {
        "offered_bps": rate_bps * len(receiving) if rate_bps else None,
        "sent_bps": sum(f.sent_bps or 0.0 for f in sending),
        "goodput_bps": sum(goodputs),
        "loss_percent": _percent(lost, sent),
        "network_loss_percent": None if drops is None else _percent(max(0, lost - drops), sent),
        "receiver_drops": drops,
        "loss_longest": max(f.loss_longest for f in receiving),
        "reordered_percent": _percent(sum(f.reordered for f in receiving), came),
        "reordering_extent_max": max(f.reordering_extent_max for f in receiving),
        "duplicate_percent": _percent(sum(f.duplicates for f in receiving), came),
        "jitter_us": sum(j * n for j, n in jitters) / weight if weight else None,
        "delay_variation_p50_us": quantile_us(variation, 0.5),
        "delay_variation_p99_us": quantile_us(variation, 0.99),
        "delay_variation_p999_us": quantile_us(variation, 0.999),
        "jain_fairness": jain_fairness(goodputs),
        **_sending_metrics(sending),
        "cpu_sender_percent": _process_cpu(senders),
        "cpu_receiver_percent": _process_cpu(receivers),
        "endpoint_cpu_sender_percent": endpoint_cpu_percent((e.endpoint, e.host) for e in senders),
        "endpoint_cpu_receiver_percent": endpoint_cpu_percent(
            (e.endpoint, e.host) for e in receivers
        ),
    }


def _sending_metrics(flows: Sequence[SendingFlow]) -> dict[str, float | None]:
    return {
        "send_refused": sum(f.send_refused for f in flows),
        "behind_max_us": max(f.behind_max_us for f in flows),
        "slipped_s": max(f.slipped_s for f in flows),
    }


def _percent(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def _process_cpu(ends: Sequence[DatagramSender] | Sequence[DatagramReceiver]) -> float | None:
    """Return the CPU time of the threads that move datagrams, in percent of one CPU."""
    if any(end.elapsed_s <= 0 for end in ends):
        return None
    return sum(
        100 * (flow.cpu_user_s + flow.cpu_system_s) / end.elapsed_s
        for end in ends
        for flow in end.flows
    )


def _sender(name: str, result: UdpSenderResult) -> DatagramSender:
    return DatagramSender(
        endpoint=name,
        start_realtime_ns=result.start_realtime_ns,
        elapsed_s=result.elapsed_s,
        refused=result.refused,
        flows=result.flows,
        process=result.process,
        host=result.endpoint,
    )


def _receiver(name: str, result: UdpReceiverResult) -> DatagramReceiver:
    return DatagramReceiver(
        endpoint=name,
        start_realtime_ns=result.start_realtime_ns,
        elapsed_s=result.elapsed_s,
        refused=result.refused,
        flows=result.flows,
        delay_variation=result.histogram,
        process=result.process,
        host=result.endpoint,
    )
