"""netperf: streams, datagrams, requests with responses, and connections for each of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.formats.netperf import CONNECTS, DATAGRAMS, EXCHANGES, STREAM, read
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

_SOURCE = "Jones, *Care and Feeding of Netperf 2.7*"
_OUTPUT = "PROTOCOL,DIRECTION,THROUGHPUT,THROUGHPUT_UNITS,ELAPSED_TIME"
_STREAM = ("goodput_bps", "retransmits")
_DATAGRAMS = ("goodput_bps", "sent_bps", "loss_percent")
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


_TOLD = {
    NetperfTest.TCP_STREAM: _STREAM,
    NetperfTest.UDP_STREAM: _DATAGRAMS,
    NetperfTest.TCP_RR: ("exchanges_per_s", *_RTT),
    NetperfTest.UDP_RR: ("exchanges_per_s", *_RTT),
    NetperfTest.TCP_CRR: ("connects_per_s", *_RTT),
}
_KINDS = {
    NetperfTest.TCP_STREAM: STREAM,
    NetperfTest.UDP_STREAM: DATAGRAMS,
    NetperfTest.TCP_RR: EXCHANGES,
    NetperfTest.UDP_RR: EXCHANGES,
    NetperfTest.TCP_CRR: CONNECTS,
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
        if self.is_stream:
            return Directions.ONE
        return Directions.of_messages(min(self.request, self.response))

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
    origin = "https://github.com/HewlettPackard/netperf"
    source = SourceCode(steps=steps, products=(f"src/{name}",), origin=origin)
    return Program(name, package="netperf", component="non-free", source=source, version=("-V",))


class Netperf(Tool[NetperfSettings]):
    """netserver, and netperf, with a control connection at a port of their own."""

    Settings = NetperfSettings
    example = "workload: {kind: netperf, test: tcp-rr, duration: 10s}"
    programs: tuple[Program, ...] = (_program("netperf"), _program("netserver"))
    told = (
        *common(_SOURCE, "goodput_bps", "sent_bps", "retransmits", "loss_percent"),
        *common(_SOURCE, "exchanges_per_s"),
        _CONNECTS,
        *common(_SOURCE, *_RTT),
    )

    def __init__(self, settings: NetperfSettings, *, background: bool = False) -> None:
        super().__init__(settings, background=background)
        if settings.there is not None:
            self.programs = (_program("netperf"),)

    def tells(self) -> Sequence[Measure]:
        """Return the measures of the test."""
        return [one for one in self.told if one.name in _TOLD[self._settings.test]]

    def runs(self) -> Sequence[ProgramRun]:
        """Return netserver, which stays in the foreground and writes no log, and netperf.

        That alone where netserver is there already.
        """
        s = self._settings
        address, port = s.there or ("{peer}", "{port}")
        name = "TCP_MAERTS" if s.direction == "reverse" else s.test.value
        given = {
            "-H": address,
            "-p": str(port),
            "-t": name.replace("-", "_").upper(),
            "-l": whole_seconds(s.duration),
            "-j": not s.is_stream,  # it keeps the times then
        }
        server = options({"-D": True, "-f": True, "-N": True, "-L": "{bind}", "-p": "{port}"})
        client = ["netperf", *options(given), "--", *self._of_test()]
        if s.there is not None:
            return (ProgramRun(on=Where.SENDER, argv=client),)
        return (
            ProgramRun(
                on=Where.RECEIVER, argv=["netserver", *server], ready="port", serves=True, ports=2
            ),
            ProgramRun(on=Where.SENDER, argv=client),
        )  # fmt: skip

    def _of_test(self) -> list[str]:
        """Return the options of the test, with -R for routed UDP."""
        s = self._settings
        size = f",{s.size}" if s.size and s.direction == "reverse" else s.size
        return options(
            {
                "-P": ",{data_port}" if s.there is None else None,
                "-k": f"{_OUTPUT},{_KEYS.get(s.test, _TIMES)}",
                "-r": None if s.is_stream else f"{s.request},{s.response}",
                "-R": 1 if s.test is NetperfTest.UDP_STREAM else None,
                "-m": size,
                "-s": s.window,
                "-S": s.window,
            }
        )

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read netperf's results."""
        told = read(ended[-1].printed.text_of_stdout)
        if told.kind != _KINDS[self._settings.test]:
            raise OutputError("netperf did another test", tail=ended[-1].printed.tail)
        sent, came = told.messages_sent, told.messages_received
        return {
            "goodput_bps": told.received_bps,
            "sent_bps": told.sent_bps,
            "retransmits": told.retransmits,
            "loss_percent": lost_percent(sent, missing(sent, came)),
            "exchanges_per_s": told.per_s,
            "connects_per_s": told.per_s,
            **{name: told.rtt_us.get(name.split("_")[1]) for name in _RTT},
        }
