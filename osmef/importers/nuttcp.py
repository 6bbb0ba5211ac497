"""Importer of nuttcp, by ``osmef.workloads.kinds.nuttcp``."""

from __future__ import annotations

from osmef.errors import OutputError
from osmef.importers.record import RECEIVER, SENDER, Parsed, Record, Text, placed, refused
from osmef.results.measure import Measure
from osmef.results.trial import Failure, Interval
from osmef.workloads import metrics
from osmef.workloads.kinds import udp
from osmef.workloads.kinds.nuttcp import Failed, NuttcpOutput, read_all
from osmef.workloads.kinds.nuttcp import Interval as IntervalOutput

CONNECT_RTT = Measure(
    name="connect_rtt_mean_us", unit="us", better="lower", label="connect RTT mean",
    help="mean of the round-trip times that nuttcp saw when it connected", source="nuttcp(8)",
)  # fmt: skip
MEASURES = (*metrics.MEASURES, CONNECT_RTT, *udp.MEASURES)


def parse(text: Text) -> Parsed:
    """Read one measurement or several, one after the other.

    TCP gives aggregate_btc_bps, cpu_sender_percent and cpu_receiver_percent, retransmits, and
    connect_rtt_mean_us, the RTT that nuttcp saw when it connected; UDP goodput_bps and
    loss_percent, with -v also sent_bps and offered_bps. Only -v prints the settings: they are
    values. An interval is of all streams together. An interrupted run, or one that could not
    connect, is a failed trial. Raises InputError.
    """
    try:
        outputs = read_all(text.text)
    except OutputError as error:
        raise refused(error, text) from None
    return Parsed([_record(one) for one in outputs.found], placed(text, outputs))


def _record(reported: NuttcpOutput | Failed) -> Record:
    failure = None if reported.error is None else Failure(kind="nuttcp", message=reported.error)
    if isinstance(reported, Failed):
        return Record(workload="btc", metrics={}, place=f"line {reported.line}", failure=failure)
    sender, receiver = reported.sender or SENDER, reported.receiver or RECEIVER
    return Record(
        workload="udp" if reported.protocol == "udp" else "btc",
        metrics=_metrics(reported),
        place=f"line {reported.line}",
        values={"protocol": reported.protocol, **reported.settings},
        senders=(sender,),
        receivers=(receiver,),
        connections=reported.streams,
        wall_s=reported.elapsed_s,
        failure=failure,
        intervals=[_interval(one, sender, receiver) for one in reported.intervals],
    )


def _metrics(output: NuttcpOutput) -> dict[str, float | None]:
    cpu = {
        "cpu_sender_percent": output.cpu_sender_percent,
        "cpu_receiver_percent": output.cpu_receiver_percent,
    }
    if output.protocol == "tcp":
        rest = {"retransmits": output.retransmits, "connect_rtt_mean_us": output.connect_rtt_us}
        rate = {"aggregate_btc_bps": output.received_bps}
        return {**rate, **rest, **cpu} if output.verbose else {**rate, **cpu, **rest}
    got, loss = {"goodput_bps": output.received_bps}, {"loss_percent": _loss(output)}
    if not output.verbose:
        return {**got, **loss, **cpu}
    sent = {"sent_bps": output.sent_bps}
    return {"offered_bps": output.offered_bps, **got, **sent, **loss, **cpu}


def _loss(output: NuttcpOutput) -> float | None:
    packets, lost = output.packets, output.lost
    return None if lost is None or not packets else 100 * lost / packets


def _interval(reported: IntervalOutput, sender: str, receiver: str) -> Interval:
    packets, lost = reported.packets, reported.lost
    return Interval(
        trial=0, endpoint=receiver, peer=sender, role="receiver", flow=0, start_s=reported.start_s,
        length_s=reported.length_s, bytes=reported.bytes, retransmits=None, rtt_us=None, cwnd=None,
        lost=lost, datagrams=None if packets is None or lost is None else max(0, packets - lost),
    )  # fmt: skip
