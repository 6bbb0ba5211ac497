"""Importer of iperf3's client, by ``osmef.formats.iperf3``."""

from __future__ import annotations

from osmef.analysis.bulk_transfer import jain_fairness
from osmef.errors import OutputError
from osmef.formats.iperf3 import REVERSE, Iperf3, Way, read_all
from osmef.formats.iperf3 import Interval as Told
from osmef.formats.iperf3_text import is_text, read_text
from osmef.importers.record import RECEIVER, SENDER, Parsed, Record, Text, placed, refused
from osmef.results.measure import part
from osmef.results.trial import Failure, Interval
from osmef.scenario.study import Scalar
from osmef.workloads import metrics
from osmef.workloads.kinds import btc, udp

MEASURES = (
    *btc.BOTH_WAYS,
    part(metrics.RTT_MEAN, "reverse", "of the way back: "),
    *udp.BOTH_WAYS,
)


def parse(text: Text) -> Parsed:
    """Read the outputs in a file, one after the other: a trial each.

    TCP gives aggregate_btc_bps (what the receiver got), connection_btc_bps and jain_fairness of
    the streams, cpu_*_percent, retransmits, and rtt_mean_us, the mean over the streams; UDP
    goodput_bps, sent_bps, offered_bps, loss_percent, jitter_us and reordered_percent. With --bidir
    those of the way back begin with ``reverse_``. The sender is the end that sends, also with -R.
    Streams at the client are rows of the intervals. A run that iperf3 ended with an error, or a
    stream of one that was killed, is a failed trial. All settings that the file tells are values.
    What iperf3 prints for people has three digits, and no CPU, RTT and settings. Raises InputError.
    """
    try:
        outputs = read_text(text.text) if is_text(text.text) else read_all(text.text)
    except OutputError as error:
        raise refused(error, text) from None
    return Parsed([_record(run) for run in outputs.found], placed(text, outputs))


def _record(run: Iperf3) -> Record:
    client, server = run.client or SENDER, run.server or RECEIVER
    reverse = run.direction == REVERSE
    return Record(
        workload="udp" if run.protocol == "udp" else "btc",
        metrics=_metrics(run),
        place=f"line {run.line}",
        values=_values(run),
        senders=(server,) if reverse else (client,),
        receivers=(client,) if reverse else (server,),
        connections=run.streams,
        started_at=run.started_at,
        wall_s=run.wall_s,
        failure=None if run.error is None else Failure(kind="iperf3", message=run.error),
        intervals=[_interval(one, client, server) for one in run.intervals],
    )


def _values(run: Iperf3) -> dict[str, Scalar]:
    rate = run.rate_bps
    return {
        "protocol": run.protocol,
        "direction": run.direction,
        **({"rate_bps": int(rate) if rate == int(rate) else rate} if rate else {}),
        **run.settings,
        "connections": run.streams,
    }


def _metrics(run: Iperf3) -> dict[str, float | None]:
    if run.forward is None:
        return {}
    back = {} if run.backward is None else _one_way(run, run.backward)
    return {
        **_one_way(run, run.forward),
        **{f"reverse_{name}": value for name, value in back.items()},
        "cpu_sender_percent": run.cpu_sender_percent,
        "cpu_receiver_percent": run.cpu_receiver_percent,
    }


def _one_way(run: Iperf3, way: Way) -> dict[str, float | None]:
    return _udp(run, way) if run.protocol == "udp" else _tcp(way)


def _tcp(way: Way) -> dict[str, float | None]:
    rates = [one.received_bps for one in way.streams if one.received_bps is not None]
    rtts = [one.rtt_mean_us for one in way.streams if one.rtt_mean_us is not None]
    return {
        "aggregate_btc_bps": way.received_bps,
        "connection_btc_bps": sum(rates) / len(rates) if rates else None,
        "jain_fairness": jain_fairness(rates),
        "retransmits": way.retransmits,
        "rtt_mean_us": sum(rtts) / len(rtts) if rtts else None,
    }


def _udp(run: Iperf3, way: Way) -> dict[str, float | None]:
    rate, streams = run.rate_bps, run.streams
    packets, lost, late = way.packets, way.lost, way.out_of_order
    return {
        "offered_bps": None if rate is None or streams is None else rate * streams,
        "goodput_bps": way.received_bps,
        "sent_bps": way.sent_bps,
        "loss_percent": 100 * (lost / packets) if packets and lost is not None else None,
        "jitter_us": way.jitter_us,
        "reordered_percent": 100 * late / packets if packets and late is not None else None,
    }


def _interval(one: Told, client: str, server: str) -> Interval:
    packets, lost = one.packets, one.lost
    return Interval(
        trial=0,
        endpoint=client,
        peer=server,
        role="sender" if one.sends else "receiver",
        flow=one.flow,
        start_s=one.start_s,
        length_s=one.length_s,
        warmup=one.omitted,
        bytes=one.bytes,
        retransmits=one.retransmits,
        rtt_us=one.rtt_us,
        cwnd=None,  # iperf3 tells bytes
        datagrams=packets if packets is None or lost is None else max(0, packets - lost),
        lost=lost,
        jitter_us=one.jitter_us,
    )
