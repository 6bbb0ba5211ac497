"""netperf: streams, datagrams, requests with responses, and connections for each of these.

Throughput there is in the unit that is printed: 10^3, 10^6 or 10^9 bits/s, or with a capital letter
of -f KBytes, MBytes, GBytes of 2^10, 2^20, 2^30 bytes. CPU is that of the whole host, in percent of
all its CPUs. A negative number, such as -1.00, is unknown (Jones, "Care and Feeding of Netperf").
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.formats import (
    GIBI,
    KIBI,
    MEBI,
    Odd,
    Outputs,
    Setting,
    amount,
    failed,
    is_count,
    number,
    only,
    shows_tail,
)
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.base import conflict
from osmef.scenario.fields import Size
from osmef.scenario.workload import Directions
from osmef.supply.program import Program, SourceCode
from osmef.workloads.programs import EndedProgram, ProgramRun, Where
from osmef.workloads.tool import (
    Direction,
    ServerSettings,
    Tool,
    common,
    lost_percent,
    missing,
    options,
    whole_seconds,
)

STREAM, DATAGRAMS, EXCHANGES, CONNECTS = "stream", "datagrams", "exchanges", "connects"

_BANNER = re.compile(
    r"^(?:MIGRATED )?(?P<test>(?:TCP|UDP|SCTP|OMNI)[A-Za-z/| ]*?) TEST"
    r" (?:from (?P<local>\S+) .*?)?to (?P<remote>\S+)(?P<rest>.*)",
    re.ASCII | re.MULTILINE,
)
_REFUSED = re.compile(r"^establish[_ ]control.*", re.MULTILINE)
_UNIT = re.compile(r"10\^([0369]) ?bits/s|\b([KMG])Bytes/s", re.ASCII)
_BYTES = {"K": KIBI, "M": MEBI, "G": GIBI}
_KEY = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.ASCII)
_ENDS = (
    ("Send Size", "SEND_SIZE", "send_bytes"),
    ("Recv Size", "RECV_SIZE", "receive_bytes"),
    ("Congestion Control Algorithm", "CONG_CONTROL", "congestion_control"),
    ("NODELAY", "NODELAY", "nodelay"),
    ("Cork", "CORK", "cork"),
    ("CPU Bind", "CPU_BIND", "cpu_bind"),
    ("Interval Usecs", "INTERVAL_USECS", "interval_us"),
    ("Interval Burst", "INTERVAL_BURST", "interval_burst"),
    ("Socket TOS", "SOCKET_TOS", "tos"),
    ("Socket Priority", "SOCKET_PRIO", "priority"),
)
"""Settings of an end of omni: in the head of a CSV, as key, and as value."""
_NAMES = {
    "Throughput": "THROUGHPUT",
    "Throughput Units": "THROUGHPUT_UNITS",
    "Elapsed Time (sec)": "ELAPSED_TIME",
    "Direction": "DIRECTION",
    "Protocol": "PROTOCOL",
    "Local Transport Retransmissions": "LOCAL_TRANSPORT_RETRANS",
    "Remote Transport Retransmissions": "REMOTE_TRANSPORT_RETRANS",
    **{
        f"{end} {what} {name}": f"{end.upper()}_{what.upper()}_{name.upper()}"
        for end in ("Local", "Remote")
        for what in ("Send", "Recv")
        for name in ("Throughput", "Calls")
    },
    "Local CPU Util %": "LOCAL_CPU_UTIL",
    "Remote CPU Util %": "REMOTE_CPU_UTIL",
    "Minimum Latency Microseconds": "MIN_LATENCY",
    "Mean Latency Microseconds": "MEAN_LATENCY",
    "50th Percentile Latency Microseconds": "P50_LATENCY",
    "90th Percentile Latency Microseconds": "P90_LATENCY",
    "99th Percentile Latency Microseconds": "P99_LATENCY",
    "Maximum Latency Microseconds": "MAX_LATENCY",
    "Round Trip Latency usec/tran": "RT_LATENCY",
    "Socket Type": "SOCKET_TYPE",
    "Request Size Bytes": "REQUEST_SIZE",
    "Response Size Bytes": "RESPONSE_SIZE",
    "Initial Burst Requests": "BURST_SIZE",
    "Transport MSS bytes": "TRANSPORT_MSS",
    **{
        f"{end} {name}": f"{end.upper()}_{key}"
        for end in ("Local", "Remote")
        for name, key, _value in _ENDS
    },
    "Local Send Socket Size Initial": "LSS_SIZE",
    "Local Recv Socket Size Initial": "LSR_SIZE",
    "Remote Send Socket Size Initial": "RSS_SIZE",
    "Remote Recv Socket Size Initial": "RSR_SIZE",
}
_SETTINGS = {
    "SOCKET_TYPE": "socket_type",
    "PROTOCOL": "protocol",
    "DIRECTION": "direction",
    "REQUEST_SIZE": "request_bytes",
    "RESPONSE_SIZE": "response_bytes",
    "BURST_SIZE": "first_burst",
    "TRANSPORT_MSS": "mss_bytes",
    **{
        f"{end}_{key}": f"{end.lower()}_{value}"
        for end in ("LOCAL", "REMOTE")
        for _name, key, value in _ENDS
    },
    "MESSAGE_SIZE": "message_bytes",
    "LSS_SIZE": "local_send_socket_bytes",
    "LSR_SIZE": "local_receive_socket_bytes",
    "RSS_SIZE": "remote_send_socket_bytes",
    "RSR_SIZE": "remote_receive_socket_bytes",
}
"""Settings that omni reports; socket buffer sizes are those at the beginning."""
_ANY = {None, "0.0.0.0", "::"}  # noqa: S104 - netperf prints it
_UNSET = {"", "-1", "?", "Deprecated", "0xffffffff"}
_NO_SETTING = re.compile(r"demo|histogram|.* conf\.", re.ASCII)
_QUANTILES = ("min", "mean", "p50", "p90", "p99", "max")
_LATENCIES = {f"{one.upper()}_LATENCY": one for one in _QUANTILES}


@dataclass(frozen=True)
class Cpu:
    """CPU usage of both hosts, in percent of all their CPUs."""

    sender_percent: float | None
    receiver_percent: float | None


@dataclass(frozen=True)
class NetperfOutput:
    """A test. ``kind`` is a stream, datagrams, exchanges or connects, with its own values.

    Streams have ``received_bps``: netperf waits until the other end has read all that was sent, so
    both ends count the same. Datagrams have ``sent_bps``, too, and classic output the messages.
    ``per_s`` counts exchanges or connections; ``rtt_us`` has the times of an exchange by ``min``,
    ``mean``, ``p50``, ``p90``, ``p99`` and ``max``, those that netperf was asked for, and the mean
    of classic output where one exchange is on its way at a time.

    ``backward`` is whether the remote end sent; ``options`` are the notes of the banner. ``unsure``
    is whether netperf missed the requested confidence.
    """

    kind: str
    elapsed_s: float | None
    settings: Mapping[str, Setting]
    line: int = 1
    test: str = ""
    options: str | None = None
    local: str | None = None
    remote: str | None = None
    backward: bool = False
    omni: bool = False
    unsure: bool = False
    received_bps: float | None = None
    sent_bps: float | None = None
    messages_sent: float | None = None
    messages_received: float | None = None
    retransmits: float | None = None
    per_s: float | None = None
    rtt_us: Mapping[str, float | None] = field(default_factory=dict)
    cpu: Cpu | None = None


@shows_tail
def read(text: str) -> NetperfOutput:
    """Read the output of one test. Raises OutputError, also without a netserver."""
    refused = _REFUSED.search(text)
    if refused:
        raise failed("netperf", refused[0])
    return only(read_all(text), "netperf")


def read_all(text: str) -> Outputs[NetperfOutput]:
    """Read the tests in a text; those without a banner (-P 0) can't be distinguished.

    A test without all numbers is reported as odd. Raises OutputError without any banner.
    """
    banners = list(_BANNER.finditer(text))
    if not banners:
        raise OutputError(
            "there is no banner of netperf in it", line=1, cure="let netperf print it: no -P 0"
        )
    found: list[NetperfOutput] = []
    odd: list[Odd] = []
    ends = [banner.start() for banner in banners[1:]] + [len(text)]
    for banner, end in zip(banners, ends, strict=True):
        line = text.count("\n", 0, banner.start()) + 1
        try:
            test = _test(banner, text[banner.end() : end], line)
        except OutputError as error:
            odd.append(Odd(line, error.message))
            continue
        found.append(test)
        if test.unsure:
            odd.append(Odd(line, "netperf did not reach the wanted confidence", kept=True))
    return Outputs(tuple(found), tuple(odd))


def _test(banner: re.Match[str], body: str, line: int) -> NetperfOutput:
    test = banner["test"].strip()
    reported = _omni(body)
    rows = [row for content in body.splitlines() if (row := _numbers(content))]
    protocol = str(reported.get("PROTOCOL") or test.partition(" ")[0]).lower()
    direction = reported.get("DIRECTION", test).lower()
    back = "maerts" in direction or direction.rpartition(" ")[2].startswith("rec")
    if reported:
        if "REQUEST" in test.upper() or "|" in direction:
            connects = "connect" in test.lower() or direction.startswith("connect")
            found = _of_omni_requests(reported, connects=connects)
        else:
            found = _of_omni(reported, protocol, back=back)
    elif "REQUEST" in test.upper():
        found = _of_requests(rows, test, banner["rest"])
    elif test.startswith("UDP"):
        found = _of_datagrams(rows, body)
    else:
        found = _of_stream(rows, body)
    return replace(
        found,
        line=line,
        test=test,
        options=_options(banner["rest"]),
        local=None if banner["local"] in _ANY else banner["local"],
        remote=banner["remote"],
        backward=back,
        omni=bool(reported),
        unsure="!!! WARNING" in body,
        cpu=_turned(found.cpu) if back else found.cpu,
    )


def _options(rest: str) -> str | None:
    """Return the options at the end of a banner."""
    notes = [note.strip() for note in rest.split(" : ")[1:]]
    settings = [note for note in notes if note and not _NO_SETTING.fullmatch(note)]
    return ", ".join(settings) or None


def _sizes(row: Sequence[str], names: Sequence[str]) -> dict[str, Setting]:
    """Return the sizes at the beginning of a row."""
    return {
        f"{name}_bytes": int(value)
        for name, value in zip(names, row, strict=False)
        if is_count(value)
    }


def _numbers(line: str) -> list[str]:
    """Return the words of a line of numbers, with a unit at its end if any."""
    words = line.split()
    bare = words[:-1] if words and _UNIT.search(words[-1] + "ec") and len(words) > 1 else words
    return words if bare and all(re.fullmatch(r"-?[0-9.]+", word) for word in bare) else []


def _unit(text: str) -> float:
    """Return the bits per second of a unit."""
    found = _UNIT.search(text)
    if found is None:
        raise OutputError("there is no unit of the throughput")
    return 10.0 ** int(found[1]) if found[1] else 8.0 * _BYTES[found[2]]


def _known(value: object, what: str) -> float | None:
    if value is None or str(value).strip() in ("", "-nan", "nan"):
        return None
    found = number(value, what)
    return None if found < 0 else found


def _row(rows: list[list[str]], index: int, least: int) -> list[str]:
    if len(rows) <= index or len(rows[index]) < least:
        raise OutputError("the numbers of the test are not there: was it interrupted?")
    return rows[index]


def _system(local: object, remote: object) -> Cpu:
    return Cpu(_known(local, "the local CPU"), _known(remote, "the remote CPU"))


def _turned(cpu: Cpu | None) -> Cpu | None:
    """Swap the CPU usage of the ends: the remote end sent."""
    return None if cpu is None else Cpu(cpu.receiver_percent, cpu.sender_percent)


def _of_stream(rows: list[list[str]], body: str) -> NetperfOutput:
    row = _row(rows, 0, 5)
    cpu = _system(row[5], row[6]) if len(row) >= 9 else None
    rate = amount(row[4], "the throughput") * _unit(body)
    sizes = _sizes(row, ("receive_socket", "send_socket", "message"))
    return NetperfOutput(STREAM, _known(row[3], "the time"), sizes, received_bps=rate, cpu=cpu)


def _of_datagrams(rows: list[list[str]], body: str) -> NetperfOutput:
    sent, got, unit = _row(rows, 0, 6), _row(rows, 1, 4), _unit(body)
    count, came = amount(sent[3], "the messages sent"), amount(got[2], "the messages received")
    sizes = _sizes(sent, ("local_socket", "message")) | _sizes(got, ("remote_socket",))
    return NetperfOutput(
        DATAGRAMS,
        received_bps=unit * amount(got[3], "the throughput"),
        sent_bps=unit * amount(sent[5], "the throughput"),
        messages_sent=count,
        messages_received=came,
        elapsed_s=_known(sent[2], "the time"),
        settings=sizes,
    )


def _of_requests(rows: list[list[str]], test: str, rest: str) -> NetperfOutput:
    row = _row(rows, 0, 6)
    rate = amount(row[5], "the rate")
    cpu = _system(row[6], row[7]) if len(row) >= 10 else None
    wall = _known(row[4], "the time")
    sockets = ("send_socket", "receive_socket")
    sizes = _sizes(row, (*(f"local_{name}" for name in sockets), "request", "response"))
    if len(rows) > 1:
        sizes |= _sizes(rows[1], [f"remote_{name}" for name in sockets])
    if "connect" in test.lower():
        return NetperfOutput(CONNECTS, wall, sizes, per_s=rate, cpu=cpu)
    alone = "first burst 0" in rest and rate > 0
    mean = {"mean": 1e6 / rate if alone else None}
    return NetperfOutput(EXCHANGES, wall, sizes, per_s=rate, rtt_us=mean, cpu=cpu)


def _omni(body: str) -> dict[str, str]:
    """Return the output of the omni test, from KEY=VALUE, CSV or a table; else nothing."""
    lines = [line for line in body.splitlines() if line.strip()]
    pairs = [(m[1], m[2]) for line in lines if (m := _KEY.fullmatch(line.strip()))]
    if pairs:
        return dict(pairs)
    for head, row in pairwise(lines):
        if head.startswith("Throughput,") or ",Throughput," in head:
            names, values = next(csv.reader([head])), next(csv.reader([row]))
            return {
                _NAMES.get(name.strip(), name): value
                for name, value in zip(names, values, strict=False)
            }
    last = _numbers(lines[-1]) if lines else []
    if len(last) >= 3 and _UNIT.search(last[-1]):
        reported = {"ELAPSED_TIME": last[-3], "THROUGHPUT": last[-2], "THROUGHPUT_UNITS": last[-1]}
        if "Request" in body and len(last) >= 5:
            return {**reported, "REQUEST_SIZE": last[-5], "RESPONSE_SIZE": last[-4]}
        return {**reported, "MESSAGE_SIZE": last[-4]} if len(last) >= 4 else reported
    return {}


def _settings(reported: dict[str, str]) -> dict[str, Setting]:
    """Return the settings in omni's output."""
    found = {
        name: reported[key].strip()
        for key, name in _SETTINGS.items()
        if reported.get(key, "").strip() not in _UNSET
    }
    return {
        name: int(value) if is_count(value) else value
        for name, value in found.items()
        if value != "0" or name.endswith("cpu_bind")
    }


def _of_omni(reported: dict[str, str], protocol: str, *, back: bool) -> NetperfOutput:
    """Read a stream, or datagrams: the throughput is the receiver's.

    Source: calc_thruput and get_transport_retrans in nettest_omni.c of netperf 2.7.
    """
    unit = _unit(reported.get("THROUGHPUT_UNITS", "10^6bits/s"))
    received = unit * amount(reported.get("THROUGHPUT"), "THROUGHPUT")
    wall, settings = _known(reported.get("ELAPSED_TIME"), "ELAPSED_TIME"), _settings(reported)
    sender, receiver = ("REMOTE", "LOCAL") if back else ("LOCAL", "REMOTE")

    def of(end: str, name: str) -> float | None:
        return _known(reported.get(f"{end}_{name}"), f"{end}_{name}")

    if protocol.startswith("udp"):
        sent = of(sender, "SEND_THROUGHPUT")
        return NetperfOutput(
            DATAGRAMS, wall, settings, received_bps=received, cpu=_cpu_of_omni(reported),
            sent_bps=None if sent is None else unit * sent,
            messages_sent=of(sender, "SEND_CALLS"), messages_received=of(receiver, "RECV_CALLS"),
        )  # fmt: skip
    again = of(sender, "TRANSPORT_RETRANS")
    return NetperfOutput(
        STREAM, wall, settings, received_bps=received, retransmits=again, cpu=_cpu_of_omni(reported)
    )


def _of_omni_requests(reported: dict[str, str], *, connects: bool) -> NetperfOutput:
    """Read exchanges, with a connection each or without."""
    units = reported.get("THROUGHPUT_UNITS")
    if units is None:
        raise OutputError("there is no THROUGHPUT_UNITS: was it interrupted?")
    if not units.startswith("Trans"):
        raise OutputError(f"the throughput is in {units[:40]!r}, and not in Trans/s")
    rate = amount(reported.get("THROUGHPUT"), "THROUGHPUT")
    keys = [key for key in _LATENCIES if key in reported]
    times = {_LATENCIES[key]: _known(reported.get(key), key) for key in keys}
    times.setdefault("mean", _known(reported.get("RT_LATENCY"), "RT_LATENCY"))
    return NetperfOutput(
        CONNECTS if connects else EXCHANGES,
        _known(reported.get("ELAPSED_TIME"), "ELAPSED_TIME"),
        _settings(reported),
        per_s=rate,
        rtt_us=times,
        cpu=_cpu_of_omni(reported),
    )


def _cpu_of_omni(reported: dict[str, str]) -> Cpu | None:
    if "LOCAL_CPU_UTIL" not in reported:
        return None
    return _system(reported["LOCAL_CPU_UTIL"], reported.get("REMOTE_CPU_UTIL"))


_SOURCE = "Jones, *Care and Feeding of Netperf 2.7*"
_OUTPUT = "PROTOCOL,DIRECTION,THROUGHPUT,THROUGHPUT_UNITS,ELAPSED_TIME"
_RTT = tuple(f"rtt_{one}_us" for one in ("min", "mean", "p50", "p90", "p99", "max"))
_CONNECTS = Measure(
    name="connects_per_s", unit="1/s", better=Better.HIGHER, label="connects",
    head="connects\n/s", digits=".0f", over_pairs=OverPairs.SUM, leading=True, source=_SOURCE,
    help="connections that were made, used for a request, and closed",
)  # fmt: skip


class NetperfTest(StrEnum):
    """The test of netperf."""

    TCP_STREAM = "tcp-stream"
    UDP_STREAM = "udp-stream"
    TCP_RR = "tcp-rr"
    UDP_RR = "udp-rr"
    TCP_CRR = "tcp-crr"


_KINDS = {
    NetperfTest.TCP_STREAM: (STREAM, ("goodput_bps", "retransmits")),
    NetperfTest.UDP_STREAM: (DATAGRAMS, ("goodput_bps", "sent_bps", "loss_percent")),
    NetperfTest.TCP_RR: (EXCHANGES, ("exchanges_per_s", *_RTT)),
    NetperfTest.UDP_RR: (EXCHANGES, ("exchanges_per_s", *_RTT)),
    NetperfTest.TCP_CRR: (CONNECTS, ("connects_per_s", *_RTT)),
}
_KEYS = {
    NetperfTest.TCP_STREAM: "LOCAL_TRANSPORT_RETRANS,REMOTE_TRANSPORT_RETRANS",
    NetperfTest.UDP_STREAM: "LOCAL_SEND_THROUGHPUT,LOCAL_SEND_CALLS,REMOTE_RECV_CALLS",
}
_TIMES = "MIN_LATENCY,MEAN_LATENCY,P50_LATENCY,P90_LATENCY,P99_LATENCY,MAX_LATENCY"


class NetperfSettings(ServerSettings):
    """netperf: a stream, datagrams, or requests and responses on one connection or many."""

    kind: Literal["netperf"] = Field(default="netperf", description="the kind of workload")
    test: NetperfTest = Field(
        default=NetperfTest.TCP_STREAM, strict=False,
        description="what it does (-t): a stream, or requests with responses (rr), each on a"
        " connection of its own (crr)",
    )  # fmt: skip
    direction: Direction = Field(
        default="forward",
        description="of a tcp-stream: from sender to receiver, or back (TCP_MAERTS)",
    )
    size: Size | None = Field(
        default=None, ge=1,
        description="of streams: what is written at a time, or a datagram (-m); by default the"
        " send buffer",
    )  # fmt: skip
    request: Size = Field(default=1, ge=1, description="of rr and crr: payload of a request (-r)")
    response: Size = Field(default=1, ge=1, description="the same of its response")
    window: Size | None = Field(default=None, ge=1, description="socket buffers (-s and -S)")

    usual_port: ClassVar = 12865

    @property
    def is_stream(self) -> bool:
        """Whether it is unidirectional."""
        return self.test in {NetperfTest.TCP_STREAM, NetperfTest.UDP_STREAM}

    @property
    def directions(self) -> Directions:
        """Which ways its data goes: of requests and responses both, if both are long."""
        return Directions.of_messages(1 if self.is_stream else min(self.request, self.response))

    @model_validator(mode="after")
    def _options_have_a_say(self) -> NetperfSettings:
        test, given = self.test.value, self.model_fields_set
        if self.direction == "reverse" and self.test is not NetperfTest.TCP_STREAM:
            cure = "leave direction out, or write test: tcp-stream"
            raise conflict(f"netperf has no {test} in reverse", cure, *("direction", "test"))
        idle = {"request", "response"} if self.is_stream else {"size"}
        for key in sorted(idle & given):
            raise conflict(f"{key} has no effect in {test}", f"leave {key} out", *(key, "test"))
        return self


def _program(name: str) -> Program:
    """Return a program of netperf, which is in Debian's non-free section."""
    steps = (
        ("autoreconf", "--force", "--install", "-I", "src/missing/m4"),
        ("./configure", "--host={target}", "CFLAGS=-O2 -fcommon -std=gnu89"),
        ("make", "-C", "src", name),
    )
    origin, tools = "https://github.com/HewlettPackard/netperf", ("autoconf", "automake", "make")
    source = SourceCode(steps=steps, products=(f"src/{name}",), origin=origin, tools=tools)
    return Program(name, package="netperf", component="non-free", source=source, version=("-V",))


class Netperf(Tool[NetperfSettings]):
    """netserver, and netperf, with a control connection at a port of their own."""

    Settings = NetperfSettings
    example = "workload: {kind: netperf, test: tcp-rr, duration: 10s}"
    programs: tuple[Program, ...] = (_program("netperf"), _program("netserver"))
    output_measures = (
        *common(_SOURCE, "goodput_bps", "sent_bps", "retransmits", "loss_percent"),
        *common(_SOURCE, "exchanges_per_s"),
        _CONNECTS,
        *common(_SOURCE, *_RTT),
    )

    def __init__(self, settings: NetperfSettings, *, background: bool = False) -> None:
        super().__init__(settings, background=background)
        if settings.server_endpoint is not None:
            self.programs = (_program("netperf"),)

    def selected_measures(self) -> Sequence[Measure]:
        """Return the measures of the test."""
        return [one for one in self.output_measures if one.name in _KINDS[self._settings.test][1]]

    def runs(self) -> Sequence[ProgramRun]:
        """Return netserver, which stays in the foreground and writes no log, and netperf.

        Only that if netserver exists already.
        """
        s = self._settings
        address, port = s.server_endpoint or ("{peer}", "{port}")
        name = "TCP_MAERTS" if s.direction == "reverse" else s.test.value
        given = {
            "-H": address,
            "-p": str(port),
            "-t": name.replace("-", "_").upper(),
            "-l": whole_seconds(s.duration),
            "-j": not s.is_stream,  # it keeps the times then
        }
        argv = ["netperf", *options(given), "--", *self._of_test()]
        client = ProgramRun(on=Where.SENDER, argv=argv)
        if s.server_endpoint is not None:
            return (client,)
        served = options({"-D": True, "-f": True, "-N": True, "-L": "{bind}", "-p": "{port}"})
        argv = ["netserver", *served]
        server = ProgramRun(on=Where.RECEIVER, argv=argv, ready="port", serves=True, ports=2)
        return server, client

    def _of_test(self) -> list[str]:
        """Return the options of the test, with -R for routed UDP."""
        s = self._settings
        size = f",{s.size}" if s.size and s.direction == "reverse" else s.size
        return options(
            {
                "-P": ",{data_port}" if s.server_endpoint is None else None,
                "-k": f"{_OUTPUT},{_KEYS.get(s.test, _TIMES)}",
                "-r": None if s.is_stream else f"{s.request},{s.response}",
                "-R": 1 if s.test is NetperfTest.UDP_STREAM else None,
                "-m": size,
                **dict.fromkeys(("-s", "-S"), s.window),
            }
        )

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read netperf's results."""
        output = read(ended[-1].printed.text_of_stdout)
        if output.kind != _KINDS[self._settings.test][0]:
            raise OutputError("netperf did another test", tail=ended[-1].printed.tail)
        sent, came = output.messages_sent, output.messages_received
        return {
            "goodput_bps": output.received_bps,
            "sent_bps": output.sent_bps,
            "retransmits": output.retransmits,
            "loss_percent": lost_percent(sent, missing(sent, came)),
            "exchanges_per_s": output.per_s,
            "connects_per_s": output.per_s,
            **{name: output.rtt_us.get(name.split("_")[1]) for name in _RTT},
        }
