"""Importer of netperf 2, by ``osmef.workloads.kinds.netperf``."""

from __future__ import annotations

from osmef.errors import OutputError
from osmef.importers.record import RECEIVER, SENDER, Oddity, Parsed, Record, Text, placed, refused
from osmef.results.measure import Measure
from osmef.scenario.study import Scalar
from osmef.workloads import metrics
from osmef.workloads.kinds import latency, udp
from osmef.workloads.kinds.netperf import (
    CONNECTS,
    DATAGRAMS,
    EXCHANGES,
    STREAM,
    NetperfOutput,
    read_all,
)

MEASURES = (
    *metrics.MEASURES,
    *latency.MEASURES,
    *udp.MEASURES,
    Measure(
        name="connects_per_s", unit="1/s", better="higher", label="connects",
        head="connects\n/s", digits=".0f", leading=True,
        help="connections that were made, used for a request, and closed", source="netperf",
    ),
    Measure(
        name="system_cpu_sender_percent", unit="%", better="neither", label="system CPU sender",
        help="CPU load of the whole host, in percent of all its CPUs", source="netperf",
    ),
    Measure(
        name="system_cpu_receiver_percent", unit="%", better="neither",
        label="system CPU receiver",
        help="as `system_cpu_sender_percent`, at the receiver", source="netperf",
    ),
)  # fmt: skip


_EARLY_S = 0.1
_WORKLOADS = {STREAM: "btc", DATAGRAMS: "udp", EXCHANGES: "latency", CONNECTS: "connect"}


def parse(text: Text) -> Parsed:
    """Read the tests in a file, a trial each; ones without a banner (-P 0) are one.

    A stream gives aggregate_btc_bps: netperf waits until the other end has read all that was sent,
    so both ends count the same. A UDP stream gives goodput_bps, sent_bps and loss_percent. Requests
    and responses give exchanges_per_s and, where one is on its way at a time, rtt_mean_us; omni
    also the requested quantiles. TCP_CRR gives connects_per_s. CPU is system_cpu_sender_percent and
    system_cpu_receiver_percent. Sizes and all other settings in the file are values. Raises
    InputError.
    """
    try:
        outputs = read_all(text.text)
    except OutputError as error:
        raise refused(error, text) from None
    odd = [
        Oddity(
            text.line(test.line), "more datagrams came than were sent: their loss is unknown", True
        )
        for test in outputs.found
        if _lost(test) < 0
    ]
    return Parsed([_record(test) for test in outputs.found], [*placed(text, outputs), *odd])


def _record(test: NetperfOutput) -> Record:
    local = test.local or (RECEIVER if test.backward else SENDER)
    remote = test.remote or (SENDER if test.backward else RECEIVER)
    return Record(
        workload=_WORKLOADS[test.kind],
        metrics={**_metrics(test), **_cpu(test)},
        place=f"line {test.line}",
        values={
            "test": test.test,
            **test.settings,
            **_duration(test.elapsed_s),
            **({"options": test.options} if test.options else {}),
        },
        senders=(remote,) if test.backward else (local,),
        receivers=(local,) if test.backward else (remote,),
        connections=1 if test.kind == STREAM else None,
        wall_s=test.elapsed_s,
    )


def _duration(wall_s: float | None) -> dict[str, Scalar]:
    """Return netperf's set duration: the elapsed time is a bit longer, rarely shorter."""
    return {} if wall_s is None else {"duration_s": max(1, int(wall_s + _EARLY_S))}


def _metrics(test: NetperfOutput) -> dict[str, float | None]:
    if test.kind == CONNECTS:
        return {"connects_per_s": test.per_s}
    if test.kind == EXCHANGES:
        times = {f"rtt_{name}_us": time_us for name, time_us in test.rtt_us.items()}
        return {**times, "exchanges_per_s": test.per_s}
    if test.kind == STREAM:
        again = {"retransmits": test.retransmits} if test.omni else {}
        return {"aggregate_btc_bps": test.received_bps, **again}
    got, sent = {"goodput_bps": test.received_bps}, {"sent_bps": test.sent_bps}
    return {**sent, **got} if test.omni else {**got, **sent, "loss_percent": _loss(test)}


def _lost(test: NetperfOutput) -> float:
    """Return how many datagrams were lost; below 0 of doubled ones, and in damaged files."""
    if test.messages_sent is None or test.messages_received is None:
        return 0.0
    return test.messages_sent - test.messages_received


def _loss(test: NetperfOutput) -> float | None:
    sent, lost = test.messages_sent, _lost(test)
    is_known = test.messages_received is not None and lost >= 0
    return 100 * lost / sent if sent and is_known else None


def _cpu(test: NetperfOutput) -> dict[str, float | None]:
    if test.cpu is None:
        return {}
    return {
        "system_cpu_sender_percent": test.cpu.sender_percent,
        "system_cpu_receiver_percent": test.cpu.receiver_percent,
    }
