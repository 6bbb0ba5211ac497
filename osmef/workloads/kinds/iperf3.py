"""iperf3: bulk transfers, or datagrams at a rate, as ESnet's program measures them.

Rates there are 10^0 bits/s, ``jitter_ms`` ms, ``rtt`` microseconds; its CPU is that of the process,
in percent of one CPU (ESnet, iperf3(1) and iperf_api.c).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

from pydantic import Field

from osmef.errors import OutputError
from osmef.formats import Odd, Outputs, Setting, amount, failed, number, only, shows_tail, whole
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.fields import Duration, Rate, Size
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, Where
from osmef.workloads.tool import (
    Direction,
    ServerSettings,
    Tool,
    TransportProtocol,
    common,
    lost_percent,
    options,
    whole_seconds,
)

Json = dict[str, Any]

FORWARD, REVERSE, BOTH = "forward", "reverse", "both"

_BEGIN = re.compile(r'(?<=\n)\{|\{\s*"(start"\s*:\s*\{|event")')  # also behind a torn line

_FOR_PEOPLE = "[ ID] Interval"
_OF_SERVER = re.compile(r"interrupt - the server has terminated|unable to start listener")

_ENDS = ("received", "sent")
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


@dataclass(frozen=True)
class StreamReport:
    """One stream of a direction: the receiver's bytes, and the sender's mean RTT.

    The RTT is None where the client is not the sender: it only knows that of the connection setup.
    """

    received_bps: float | None
    rtt_mean_us: float | None


@dataclass(frozen=True)
class DirectionTotals:
    """Totals of one direction by sender and receiver; packets and jitter are of UDP.

    Versions up to 3.9 report only sent UDP traffic; received is sent minus lost.
    """

    sent_bps: float | None
    received_bps: float | None
    sent_bytes: float | None
    received_bytes: float | None
    retransmits: float | None = None
    packets: float | None = None
    lost: float | None = None
    out_of_order: float | None = None
    jitter_us: float | None = None
    streams: tuple[StreamReport, ...] = ()


@dataclass(frozen=True)
class Interval:
    """One interval of one stream, as the client reports it.

    ``sends`` is whether the client is the sender; ``packets`` includes lost ones.
    """

    flow: int
    sends: bool
    start_s: float
    length_s: float
    omitted: bool
    bytes: int
    retransmits: int | None
    rtt_us: float | None
    packets: int | None
    lost: int | None
    jitter_us: float | None


@dataclass(frozen=True)
class Iperf3Output:
    """Output of one program run. ``forward`` is the measured direction, with -R from the server.

    ``backward`` is the other direction of --bidir. Both are None if the run failed; ``error`` is
    the reason then. ``rate_bps`` is the target rate of a stream in each direction; ``wall_s`` how
    long it sent; ``settings`` are its other options that are not 0, the default.
    """

    line: int
    protocol: str | None
    direction: str | None
    client: str | None
    server: str | None
    streams: int | None
    rate_bps: float | None
    forward: DirectionTotals | None
    backward: DirectionTotals | None
    cpu_sender_percent: float | None
    cpu_receiver_percent: float | None
    started_at: datetime | None
    wall_s: float | None
    error: str | None
    settings: Mapping[str, Setting] = field(default_factory=dict)
    intervals: tuple[Interval, ...] = ()


@shows_tail
def read(text: str) -> Iperf3Output:
    """Read the output of one run. Raises OutputError, also for an error that iperf3 reports."""
    run = only(read_all(text), "iperf3")
    if run.error is not None:
        raise failed("iperf3", run.error)
    return run


def read_all(text: str) -> Outputs[Iperf3Output]:
    """Read the outputs in a text, one after the other, failed ones among them.

    Text that is no complete document, such as a warning or the output of a killed iperf3, is
    reported as odd, as is the output of a server. Raises OutputError where there is no document at
    all.
    """
    documents, odd = _documents(text)
    found: list[Iperf3Output] = []
    for line, document in documents:
        try:
            found.append(_run(document, line))
        except OutputError as error:
            odd.append(Odd(line, error.message))
    return Outputs(tuple(found), tuple(odd))


def _documents(text: str) -> tuple[list[tuple[int, Json]], list[Odd]]:
    """Return the JSON documents with their first lines; those of a stream are joined.

    After what is no document, reading goes on at what may be the next one. The whole document that
    may follow its own stream is left out, as they are of one run. Raises OutputError without any.
    """
    decoder, at, found = json.JSONDecoder(), 0, []
    odd: list[Odd] = []
    stream: Json | None = None
    while (at := _skip(text, at)) < len(text):
        line = text.count("\n", 0, at) + 1
        try:
            document, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            odd.append(Odd(getattr(error, "lineno", line), f"this is not JSON: {error}"))
            at = _next(text, at)
            continue
        if not isinstance(document, dict):
            odd.append(Odd(line, "this is no JSON of iperf3"))
            at = _next(text, at)
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
        if _FOR_PEOPLE in text:
            raise OutputError("this is text; iperf3 -J or --json-stream writes JSON", line=1)
        first = odd[0] if odd else Odd(1, "the file is empty")
        raise OutputError(first.what, line=first.line)
    return found, odd


def _cookie(document: Json) -> Any:
    """Return the cookie of a run; one that did not connect has none."""
    return _get(document, "start", "cookie") or object()


def _next(text: str, at: int) -> int:
    """Return the earliest start of the next document."""
    found = _BEGIN.search(text, at + 1)
    return found.start() if found else len(text)


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _join(stream: Json, event: Json) -> None:
    if event["event"] == "interval":
        stream["intervals"].append(event.get("data"))
    elif event["event"] in ("start", "end", "error"):
        stream[event["event"]] = event.get("data")


def _get(value: Any, *path: str | int) -> Any:
    """Return the element at a path; None where it does not exist."""
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and len(value) > step else None
    return value


def _maybe(value: Any, *path: str | int, factor: float = 1.0) -> float | None:
    found = _get(value, *path)
    return None if found is None else factor * amount(found, ".".join(map(str, path)))


def _list(value: Any, *path: str | int) -> list[Any]:
    found = _get(value, *path)
    return found if isinstance(found, list) else []


def _text(value: Any) -> str | None:
    return str(value) if value else None


def _run(document: Json, line: int) -> Iperf3Output:
    settings, end = _get(document, "start", "test_start"), _get(document, "end")
    error = document.get("error")
    accepted = _get(document, "start", "accepted_connection") is not None
    if accepted or _OF_SERVER.match(str(error)):
        raise OutputError("this is of the server; only the client's output has both ends")
    if settings is None and error is None:
        raise OutputError("there is no start.test_start, as iperf3 -J writes it")
    if "end" not in document and error is None:
        error = "there is no end: iperf3 was killed"
    reported, streams = _get(settings, "protocol"), _get(settings, "num_streams")
    protocol = None if reported is None else str(reported).lower()
    direction = _direction(settings, end)
    count = None if streams is None else whole(streams, "num_streams")
    rate = _maybe(settings, "target_bitrate") or None
    forward, backward = (None, None) if error is not None else _ways(end, protocol, direction)
    sender, receiver = (None, None) if error is not None else _cpu(end, direction)
    return Iperf3Output(
        line=line,
        protocol=protocol,
        direction=None if settings is None else direction,
        client=_text(_get(document, "start", "connected", 0, "local_host")),
        server=_text(_get(document, "start", "connecting_to", "host")),
        streams=count,
        rate_bps=rate,
        forward=forward,
        backward=backward,
        cpu_sender_percent=sender,
        cpu_receiver_percent=receiver,
        error=None if error is None else str(error),
        settings=_settings(document),
        started_at=_time(document),
        wall_s=_maybe(end, "sum_sent", "seconds") or _maybe(end, "sum", "seconds"),
        intervals=_intervals(document, reverse=direction == REVERSE),
    )


def _direction(settings: Any, end: Any) -> str:
    both = bool(_get(settings, "bidir")) or any(
        _get(end, f"{name}_bidir_reverse") is not None for name in ("sum_received", "sum")
    )
    return BOTH if both else REVERSE if _get(settings, "reverse") else FORWARD


def _settings(document: Json) -> dict[str, Setting]:
    start, end = _get(document, "start"), _get(document, "end")
    settings = _get(start, "test_start")
    reported = settings if isinstance(settings, dict) else {}
    values: dict[str, Setting] = {
        _NAMES.get(str(name), str(name)): value
        if isinstance(value, str | bool)
        else _plain(number(value, name))
        for name, value in reported.items()
        if name not in _READ and value and isinstance(value, str | bool | int | float)
    }
    for name, key in _AROUND.items():
        if (found := _maybe(start, name)) and key not in values:
            values[key] = _plain(found)
    for side in ("sender", "receiver"):
        if used := _get(end, f"{side}_tcp_congestion"):
            values[f"{side}_congestion_control"] = str(used)
    return values


def _plain(value: float) -> Setting:
    return int(value) if value == int(value) else value


def _time(document: Json) -> datetime | None:
    seconds = _maybe(document, "start", "timestamp", "timesecs")
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise OutputError(f"timesecs is {seconds:g}, and no time") from error


def _ways(
    end: Any, protocol: str | None, direction: str
) -> tuple[DirectionTotals, DirectionTotals | None]:
    """Return the measured direction, and the reverse one of --bidir."""
    if not isinstance(end, dict):
        raise OutputError("there is no end: iperf3 was interrupted")
    way = _udp if protocol == "udp" else _tcp
    if direction != BOTH:
        return way(end, "", _list(end, "streams")), None
    there, back = _sent_here(end, sent=True), _sent_here(end, sent=False)
    return way(end, "", there), way(end, "_bidir_reverse", back)


def _sent_here(end: Json, *, sent: bool) -> list[Any]:
    """Return the streams of --bidir that the client sent, or those that it received."""
    return [
        one
        for one in _list(end, "streams")
        if bool(_get(one, "sender", "sender") or _get(one, "udp", "sender")) is sent
    ]


def _cpu(end: Any, direction: str) -> tuple[float | None, float | None]:
    """Return the CPU usage of sender and receiver, in percent."""
    here, there = (
        _maybe(end, "cpu_utilization_percent", name) for name in ("host_total", "remote_total")
    )
    return (there, here) if direction == REVERSE else (here, there)


def _tcp(end: Json, way: str, streams: list[Any]) -> DirectionTotals:
    reported = tuple(_stream(one) for one in streams)
    received, sent = f"sum_received{way}", f"sum_sent{way}"
    total = _maybe(end, received, "bits_per_second")
    if total is None:
        raise OutputError(f"there is no end.{received}.bits_per_second")
    return DirectionTotals(
        sent_bps=_maybe(end, sent, "bits_per_second"),
        received_bps=total,
        sent_bytes=_maybe(end, sent, "bytes"),
        received_bytes=_maybe(end, received, "bytes"),
        retransmits=_maybe(end, sent, "retransmits"),
        streams=reported,
    )


def _stream(one: Any) -> StreamReport:
    sends = _get(one, "sender", "sender") is not False
    return StreamReport(
        received_bps=_maybe(one, "receiver", "bits_per_second"),
        rtt_mean_us=(_maybe(one, "sender", "mean_rtt") or None) if sends else None,
    )


def _udp(end: Json, way: str, streams: list[Any]) -> DirectionTotals:
    total = end.get(f"sum{way}")
    if total is None:
        raise OutputError(f"there is no end.sum{way}")
    packets, lost = _maybe(total, "packets"), _maybe(total, "lost_packets")
    late = [_maybe(one, "udp", "out_of_order") for one in streams]
    got, sent = (_maybe(end, f"sum_{name}{way}", "bits_per_second") for name in _ENDS)
    got_bytes, sent_bytes = (_maybe(end, f"sum_{name}{way}", "bytes") for name in _ENDS)
    if f"sum_sent{way}" not in end:  # 3.9 and older: the only sum is of what was sent
        kept = 1 - lost / packets if packets and lost is not None else None
        sent, sent_bytes = _maybe(total, "bits_per_second"), _maybe(total, "bytes")
        got = None if sent is None or kept is None else sent * kept
        got_bytes = None if sent_bytes is None or kept is None else sent_bytes * kept
    return DirectionTotals(
        sent_bps=sent,
        received_bps=got,
        sent_bytes=sent_bytes,
        received_bytes=got_bytes,
        packets=packets,
        lost=lost,
        out_of_order=sum(one or 0 for one in late) if late and None not in late else None,
        jitter_us=_maybe(total, "jitter_ms", factor=1000.0),
    )


def _intervals(document: Json, *, reverse: bool) -> tuple[Interval, ...]:
    flows: dict[Any, int] = {}
    rows = []
    for interval in _list(document, "intervals"):
        for one in _list(interval, "streams"):
            sends = bool(one.get("sender", not reverse)) if isinstance(one, dict) else False
            flow = flows.setdefault(str(_get(one, "socket")), len(flows))
            rows.append(_interval(one, flow=flow, sends=sends))
    return tuple(rows)


def _interval(one: Any, *, flow: int, sends: bool) -> Interval:
    def count(name: str) -> int | None:
        found = _get(one, name)
        return None if found is None else whole(found, name)

    packets, lost = count("packets"), count("lost_packets")
    return Interval(
        flow=flow,
        sends=sends,
        start_s=number(_get(one, "start"), "start"),
        length_s=number(_get(one, "seconds"), "seconds"),
        omitted=bool(_get(one, "omitted")),
        bytes=whole(_get(one, "bytes"), "bytes"),
        retransmits=count("retransmits") if sends else None,
        rtt_us=_maybe(one, "rtt") if sends else None,
        packets=packets,
        lost=lost,
        jitter_us=_maybe(one, "jitter_ms", factor=1000.0),
    )


class Iperf3Settings(ServerSettings):
    """iperf3: parallel TCP connections, or UDP at a rate, by ESnet's program."""

    kind: Literal["iperf3"] = Field(default="iperf3", description="the kind of workload")
    connections: int = Field(
        default=1, ge=1, le=128, description="parallel connections of each pair (-P)"
    )
    protocol: TransportProtocol = Field(
        default=TransportProtocol.TCP, strict=False, description="TCP, or UDP at a rate (-u)"
    )
    direction: Direction = Field(
        default="forward", description="from sender to receiver, or back (-R)"
    )
    rate: Rate | None = Field(
        default=None,
        ge=0,
        description="of each connection (-b); by default TCP as fast as it goes, UDP 1 Mbit/s",
    )
    window: Size | None = Field(default=None, ge=1, description="socket buffers (-w)")
    length: Size | None = Field(
        default=None, ge=1, description="of what is written at a time, or of a datagram (-l)"
    )
    omit: Duration = Field(
        default=0.0, ge=0, le=60, description="how much of the beginning does not count (-O)"
    )

    usual_port: ClassVar = 5201


class Iperf3(Tool[Iperf3Settings]):
    """A server for one client, and its client."""

    Settings = Iperf3Settings
    example = "workload: {kind: iperf3, connections: 4, duration: 10s}"
    programs = (Program("iperf3"),)
    output_measures = (
        *common("iperf3(1)", "goodput_bps", "sent_bps", "retransmits", "loss_percent"),
        *common("RFC 1889, as iperf3 has it", "jitter_us"),
        Measure(
            name="cpu_sender_percent", unit="%", better=Better.NEITHER, label="CPU sender",
            over_pairs=OverPairs.SUM, source="iperf3(1)", help="of iperf3 at the sending end",
        ),
        Measure(
            name="cpu_receiver_percent", unit="%", better=Better.NEITHER, label="CPU receiver",
            over_pairs=OverPairs.SUM, source="iperf3(1)", help="of iperf3 at the receiving end",
        ),
    )  # fmt: skip

    def runs(self) -> Sequence[ProgramRun]:
        """Return the server, which ends with its client, and the client; or only that."""
        if self._settings.server_endpoint is not None:
            address, port = self._settings.server_endpoint
            client = ["iperf3", "-c", address, "-p", str(port), *self._options()]
            return (ProgramRun(on=Where.SENDER, argv=client),)
        return (
            ProgramRun(
                on=Where.RECEIVER, argv=["iperf3", "-s", "-1", "-p", "{port}", "-B", "{bind}"],
                ready="port",
            ),
            ProgramRun(
                on=Where.SENDER,
                argv=["iperf3", "-c", "{peer}", "-p", "{port}", *self._options()],
            ),
        )  # fmt: skip

    def _options(self) -> list[str]:
        s = self._settings
        return options(
            {
                "-J": True,
                "-P": s.connections,
                "-t": whole_seconds(s.duration),
                "-b": None if s.rate is None else round(s.rate),
                "-w": s.window,
                "-l": s.length,
                "-O": whole_seconds(s.omit) or None,
                "-u": s.protocol is TransportProtocol.UDP,
                "-R": s.direction == "reverse",
            }
        )

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the client's JSON, which has the numbers of both ends."""
        output = read(ended[-1].printed.text_of_stdout)
        way = output.forward
        if way is None or way.received_bps is None:
            raise OutputError("iperf3 reports no rate of the receiver", tail=ended[-1].printed.tail)
        return {
            "goodput_bps": way.received_bps,
            "sent_bps": way.sent_bps,
            "retransmits": way.retransmits,
            "loss_percent": lost_percent(way.packets, way.lost),
            "jitter_us": way.jitter_us,
            "cpu_sender_percent": output.cpu_sender_percent,
            "cpu_receiver_percent": output.cpu_receiver_percent,
        }
