"""Importer of nuttcp, by ``osmef.workloads.kinds.nuttcp``."""

from __future__ import annotations

from osmef.errors import OutputError
from osmef.importers.record import RECEIVER, SENDER, Parsed, Record, Text, placed, refused
from osmef.results.measure import Measure
from osmef.results.trial import Failure, Interval
from osmef.workloads import metrics
from osmef.workloads.kinds import udp
from osmef.workloads.kinds.nuttcp import Failed, NuttcpOutput, read_all
from osmef.workloads.kinds.nuttcp import Interval as Told

CONNECT_RTT = Measure(
    name="connect_rtt_mean_us", unit="us", better="lower", label="connect RTT mean",
    help="mean of the round-trip times that nuttcp saw when it connected", source="nuttcp(8)",
)  # fmt: skip
MEASURES = (*metrics.MEASURES, CONNECT_RTT, *udp.MEASURES)


def parse(text: Text) -> Parsed:
    """Read one measurement or several, one after the other.

    TCP gives aggregate_btc_bps, cpu_sender_percent and cpu_receiver_percent, retransmits, and
    connect_rtt_mean_us, the RTT that nuttcp saw when it connected; UDP goodput_bps and
    loss_percent, with -v also sent_bps and offered_bps. Only -v tells the settings: they are
    values. An interval is of all streams together. What was interrupted or could not connect is a
    failed trial. Raises InputError.
    """
    try:
        outputs = read_all(text.text)
    except OutputError as error:
        raise refused(error, text) from None
    return Parsed([_record(one) for one in outputs.found], placed(text, outputs))


def _record(told: NuttcpOutput | Failed) -> Record:
    failure = None if told.error is None else Failure(kind="nuttcp", message=told.error)
    if isinstance(told, Failed):
        return Record(workload="btc", metrics={}, place=f"line {told.line}", failure=failure)
    sender, receiver = told.sender or SENDER, told.receiver or RECEIVER
    return Record(
        workload="udp" if told.protocol == "udp" else "btc",
        metrics=_metrics(told),
        place=f"line {told.line}",
        values={"protocol": told.protocol, **told.settings},
        senders=(sender,),
        receivers=(receiver,),
        connections=told.streams,
        wall_s=told.elapsed_s,
        failure=failure,
        intervals=[_interval(one, sender, receiver) for one in told.intervals],
    )


def _metrics(told: NuttcpOutput) -> dict[str, float | None]:
    cpu = {
        "cpu_sender_percent": told.cpu_sender_percent,
        "cpu_receiver_percent": told.cpu_receiver_percent,
    }
    if told.protocol == "tcp":
        rest = {"retransmits": told.retransmits, "connect_rtt_mean_us": told.connect_rtt_us}
        rate = {"aggregate_btc_bps": told.received_bps}
        return {**rate, **rest, **cpu} if told.verbose else {**rate, **cpu, **rest}
    got, loss = {"goodput_bps": told.received_bps}, {"loss_percent": _loss(told)}
    if not told.verbose:
        return {**got, **loss, **cpu}
    sent = {"sent_bps": told.sent_bps}
    return {"offered_bps": told.offered_bps, **got, **sent, **loss, **cpu}


def _loss(told: NuttcpOutput) -> float | None:
    packets, lost = told.packets, told.lost
    return None if lost is None or not packets else 100 * lost / packets


def _interval(told: Told, sender: str, receiver: str) -> Interval:
    packets, lost = told.packets, told.lost
    return Interval(
        trial=0, endpoint=receiver, peer=sender, role="receiver", flow=0, start_s=told.start_s,
        length_s=told.length_s, bytes=told.bytes, retransmits=None, rtt_us=None, cwnd=None,
        lost=lost, datagrams=None if packets is None or lost is None else max(0, packets - lost),
    )  # fmt: skip
