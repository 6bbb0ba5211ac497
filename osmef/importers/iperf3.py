"""JSON output of the client of iperf3 (-J, and --json-stream), of versions from 3.1.

Rates there are 10^0 bits/s, ``jitter_ms`` ms, ``rtt`` microseconds; its CPU is that of the process,
in percent of one CPU (ESnet, iperf3(1) and iperf_api.c).
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from osmef.analysis.fairness import jain_fairness
from osmef.errors import InputError
from osmef.importers.record import (
    RECEIVER,
    SENDER,
    Oddity,
    Parsed,
    Record,
    Text,
    amount,
    number,
    refuse,
    whole,
)
from osmef.results.trial import Failure, Interval
from osmef.scenario.study import Scalar

Json = dict[str, Any]

_BEGIN = re.compile(r'(?<=\n)\{|\{\s*"(start"\s*:\s*\{|event")')  # also behind a torn line

_FOR_PEOPLE = "[ ID] Interval"
_OF_SERVER = re.compile(r"interrupt - the server has terminated|unable to start listener")

_READ = ("protocol", "num_streams", "reverse", "bidir", "target_bitrate", "interval")
_NAMES = {
    "blksize": "block_bytes",
    "omit": "omit_s",
    "duration": "duration_s",
    "fqrate": "fq_rate_bps",
}
_AROUND = {
    "sock_bufsize": "window_bytes",
    "fq_rate": "fq_rate_bps",
    "tcp_mss": "mss_bytes",
    "tcp_mss_default": "mss_bytes",
}


def parse(text: Text) -> Parsed:
    """Read the outputs in a file, one after the other: a trial each.

    TCP gives aggregate_btc_bps (what the receiver got), connection_btc_bps and jain_fairness of
    the streams, cpu_*_percent, retransmits, and rtt_mean_us, the mean over the streams; UDP
    goodput_bps, sent_bps, offered_bps, loss_percent, jitter_us and reordered_percent. With --bidir
    those of the way back begin with ``reverse_``. The sender is the end that sends, also with -R.
    Streams at the client are rows of the intervals. A run that iperf3 ended with an error, or a
    stream of one that was killed, is a failed trial. All settings that the file tells are values.
    Raises InputError.
    """
    records: list[Record] = []
    documents, oddities = _documents(text)
    for line, document in documents:
        where = text.line(line)
        try:
            records.append(_record(document, where))
        except InputError as error:
            oddities.append(Oddity(where, error.message, False))
    return Parsed(records, oddities)


def _documents(text: Text) -> tuple[list[tuple[int, Json]], list[Oddity]]:
    """Return the JSON documents with the lines on which they begin; joins those of a stream.

    What is no whole document, such as a warning or what a killed iperf3 left, is an oddity, and
    reading goes on at what may be the next one. The whole document that may follow its own stream
    is left out, as they are of one run. Raises InputError without any.
    """
    decoder, at, found = json.JSONDecoder(), 0, []
    oddities: list[Oddity] = []
    content = text.text
    stream: Json | None = None
    while (at := _skip(content, at)) < len(content):
        line = content.count("\n", 0, at) + 1
        try:
            document, end = decoder.raw_decode(content, at)
        except (ValueError, RecursionError) as error:
            where = text.line(getattr(error, "lineno", line))
            oddities.append(Oddity(where, f"this is not JSON: {error}", False))
            at = _next(content, at)
            continue
        if not isinstance(document, dict):
            oddities.append(Oddity(text.line(line), "this is no JSON of iperf3", False))
            at = _next(content, at)
            continue
        at = end
        if "event" not in document:
            if stream is None or _cookie(document) != _cookie(stream):
                found.append((line, document))
            continue
        if document["event"] == "start" or stream is None:
            stream = {"intervals": []}
            found.append((line, stream))
        _join(stream, document)
    if not found:
        if _FOR_PEOPLE in content:
            raise refuse(text.line(1), "this is text; iperf3 -J or --json-stream writes JSON")
        first = oddities[0] if oddities else Oddity(text.line(1), "the file is empty", False)
        raise refuse(first.where, first.what)
    return found, oddities


def _cookie(document: Json) -> Any:
    """Return what tells runs of iperf3 apart; one that did not connect has none."""
    return _get(document, "start", "cookie") or object()


def _next(content: str, at: int) -> int:
    """Return where the next document may begin."""
    found = _BEGIN.search(content, at + 1)
    return found.start() if found else len(content)


def _skip(content: str, at: int) -> int:
    while at < len(content) and content[at] in " \t\r\n":
        at += 1
    return at


def _join(stream: Json, event: Json) -> None:
    if event["event"] == "interval":
        stream["intervals"].append(event.get("data"))
    elif event["event"] in ("start", "end", "error"):
        stream[event["event"]] = event.get("data")


def _get(value: Any, *path: str | int) -> Any:
    """Return what a path leads to; None where it ends before."""
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and len(value) > step else None
    return value


def _maybe(value: Any, where: str, *path: str | int, factor: float = 1.0) -> float | None:
    found = _get(value, *path)
    return None if found is None else factor * amount(found, ".".join(map(str, path)), where)


def _list(value: Any, *path: str | int) -> list[Any]:
    found = _get(value, *path)
    return found if isinstance(found, list) else []


def _record(document: Json, where: str) -> Record:
    settings, end = _get(document, "start", "test_start"), _get(document, "end")
    error = document.get("error")
    accepted = _get(document, "start", "accepted_connection") is not None
    if accepted or _OF_SERVER.match(str(error)):
        raise refuse(where, "this is of the server; only the client's output has both ends")
    if settings is None and error is None:
        raise refuse(where, "there is no start.test_start, as iperf3 -J writes it")
    if "end" not in document and error is None:
        error = "there is no end: iperf3 was killed"
    told = _get(settings, "protocol")
    protocol = None if told is None else str(told).lower()
    udp = protocol == "udp"
    both = bool(_get(settings, "bidir")) or any(
        _get(end, f"{name}_bidir_reverse") is not None for name in ("sum_received", "sum")
    )
    reverse = bool(_get(settings, "reverse"))
    streams = _get(settings, "num_streams")
    connections = None if streams is None else whole(streams, "num_streams", where)
    client = str(_get(document, "start", "connected", 0, "local_host") or SENDER)
    server = str(_get(document, "start", "connecting_to", "host") or RECEIVER)
    failed = error is not None
    rate = _maybe(settings, where, "target_bitrate") or None  # of a stream, each way
    offered = None if rate is None or connections is None else rate * connections
    metrics = (
        {} if failed else _metrics(end, where, udp=udp, both=both, reverse=reverse, offered=offered)
    )
    return Record(
        workload="udp" if udp else "btc",
        metrics=metrics,
        place=f"line {where.rpartition(':')[2]}",
        values={
            "protocol": protocol,
            "direction": None if settings is None else _direction(both=both, reverse=reverse),
            **({"rate_bps": _plain(rate)} if rate else {}),
            **_settings(document, where),
            "connections": connections,
        },
        senders=(server,) if reverse else (client,),
        receivers=(client,) if reverse else (server,),
        connections=connections,
        started_at=_time(document, where),
        wall_s=_maybe(end, where, "sum_sent", "seconds") or _maybe(end, where, "sum", "seconds"),
        failure=Failure(kind="iperf3", message=str(error)) if failed else None,
        intervals=_intervals(document, client, server, where, reverse=reverse),
    )


def _direction(*, both: bool, reverse: bool) -> str:
    return "both" if both else "reverse" if reverse else "forward"


def _settings(document: Json, where: str) -> dict[str, Scalar]:
    """Return what else iperf3 was told to do: each setting that is not 0, which is the default."""
    start, end = _get(document, "start"), _get(document, "end")
    settings = _get(start, "test_start")
    told = settings if isinstance(settings, dict) else {}
    values: dict[str, Scalar] = {
        _NAMES.get(str(name), str(name)): value
        if isinstance(value, str | bool)
        else _plain(number(value, name, where))
        for name, value in told.items()
        if name not in _READ and value and isinstance(value, str | bool | int | float)
    }
    for name, key in _AROUND.items():
        if (found := _maybe(start, where, name)) and key not in values:
            values[key] = _plain(found)
    for side in ("sender", "receiver"):
        if used := _get(end, f"{side}_tcp_congestion"):
            values[f"{side}_congestion_control"] = str(used)
    return values


def _plain(value: float) -> Scalar:
    return int(value) if value == int(value) else value


def _time(document: Json, where: str) -> datetime | None:
    seconds = _maybe(document, where, "start", "timestamp", "timesecs")
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise refuse(where, f"timesecs is {seconds:g}, and no time") from error


def _metrics(  # noqa: PLR0913
    end: Any, where: str, *, udp: bool, both: bool, reverse: bool, offered: float | None
) -> dict[str, float | None]:
    if not isinstance(end, dict):
        raise refuse(where, "there is no end: iperf3 was interrupted")

    def one_way(way: str, streams: list[Any]) -> dict[str, float | None]:
        if not udp:
            return _tcp(end, way, where, streams)
        return {"offered_bps": offered, **_udp(end, way, where, streams)}

    found = one_way("", _way(end, True if both else None))
    back = one_way("_bidir_reverse", _way(end, False)) if both else {}
    cpu = ("remote_total", "host_total") if reverse else ("host_total", "remote_total")
    return {
        **found,
        **{f"reverse_{name}": value for name, value in back.items()},
        "cpu_sender_percent": _maybe(end, where, "cpu_utilization_percent", cpu[0]),
        "cpu_receiver_percent": _maybe(end, where, "cpu_utilization_percent", cpu[1]),
    }


def _way(end: Json, sent_here: bool | None) -> list[Any]:
    """Return the streams of one way of --bidir, or all of them."""
    streams = _list(end, "streams")
    if sent_here is None:
        return streams
    return [
        one
        for one in streams
        if bool(_get(one, "sender", "sender") or _get(one, "udp", "sender")) is sent_here
    ]


def _tcp(end: Json, way: str, where: str, streams: list[Any]) -> dict[str, float | None]:
    rates = [_maybe(one, where, "receiver", "bits_per_second") for one in streams]
    known = [rate for rate in rates if rate is not None]
    sent = [one for one in streams if _get(one, "sender", "sender") is not False]
    rtts = [_maybe(one, where, "sender", "mean_rtt") for one in sent]
    seen = [rtt for rtt in rtts if rtt]  # where the client only receives it is that of connecting
    total = _maybe(end, where, f"sum_received{way}", "bits_per_second")
    if total is None:
        raise refuse(where, f"there is no end.sum_received{way}.bits_per_second")
    return {
        "aggregate_btc_bps": total,
        "connection_btc_bps": sum(known) / len(known) if known else None,
        "jain_fairness": jain_fairness(known),
        "retransmits": _maybe(end, where, f"sum_sent{way}", "retransmits"),
        "rtt_mean_us": sum(seen) / len(seen) if seen else None,
    }


def _udp(end: Json, way: str, where: str, streams: list[Any]) -> dict[str, float | None]:
    total = end.get(f"sum{way}")
    if total is None:
        raise refuse(where, f"there is no end.sum{way}")
    packets = _maybe(total, where, "packets")
    lost = _maybe(total, where, "lost_packets")
    share = lost / packets if packets and lost is not None else None
    late = [_maybe(one, where, "udp", "out_of_order") for one in streams]
    got = _maybe(end, where, f"sum_received{way}", "bits_per_second")
    sent = _maybe(end, where, f"sum_sent{way}", "bits_per_second")
    if f"sum_sent{way}" not in end:  # 3.9 and older: the only sum is of what was sent
        sent = _maybe(total, where, "bits_per_second")
        got = None if sent is None or share is None else sent * (1 - share)
    return {
        "goodput_bps": got,
        "sent_bps": sent,
        "loss_percent": None if share is None else 100 * share,
        "jitter_us": _maybe(total, where, "jitter_ms", factor=1000.0),
        "reordered_percent": (
            100 * sum(one or 0 for one in late) / packets if packets and None not in late else None
        ),
    }


def _intervals(
    document: Json, client: str, server: str, where: str, *, reverse: bool
) -> list[Interval]:
    flows: dict[Any, int] = {}
    rows = []
    for interval in _list(document, "intervals"):
        for one in _list(interval, "streams"):
            sends = bool(one.get("sender", not reverse)) if isinstance(one, dict) else False
            flow = flows.setdefault(str(_get(one, "socket")), len(flows))
            rows.append(_interval(one, client, server, where, flow=flow, sends=sends))
    return rows


def _interval(  # noqa: PLR0913
    one: Any, client: str, server: str, where: str, *, flow: int, sends: bool
) -> Interval:
    def count(name: str) -> int | None:
        found = _get(one, name)
        return None if found is None else whole(found, name, where)

    packets, lost = count("packets"), count("lost_packets")
    return Interval(
        trial=0,
        endpoint=client,
        peer=server,
        role="sender" if sends else "receiver",
        flow=flow,
        start_s=number(_get(one, "start"), "start", where),
        length_s=number(_get(one, "seconds"), "seconds", where),
        warmup=bool(_get(one, "omitted")),
        bytes=whole(_get(one, "bytes"), "bytes", where),
        retransmits=count("retransmits") if sends else None,
        rtt_us=_maybe(one, where, "rtt") if sends else None,
        cwnd=None,  # iperf3 tells bytes
        datagrams=packets if packets is None or lost is None else max(0, packets - lost),
        lost=lost,
        jitter_us=_maybe(one, where, "jitter_ms", factor=1000.0),
    )
