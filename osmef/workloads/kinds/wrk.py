"""wrk: HTTP requests, by some threads, to the agent's server.

Source: wrk.c and units.c of wrk 4. B, KB, MB and GB are powers of 1024 there, times have units of
their own, and a request without an answer is counted only in what wrk calls socket errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.formats import (
    GIBI,
    KIBI,
    MEBI,
    TEBI,
    amount,
    first,
    of_one_run,
    positive,
    shows_tail,
    whole,
)
from osmef.scenario.base import conflict
from osmef.scenario.fields import Duration, Size
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.tool import PONG, Tool, common, options, url, whole_seconds

_US = {"us": 1.0, "ms": 1e3, "s": 1e6, "m": 60e6, "h": 3600e6}
_BYTES = {"": 1, "K": KIBI, "M": MEBI, "G": GIBI, "T": TEBI, "P": KIBI * TEBI}
_FAILED = re.compile(r"^(unable to .*|invalid URL: .*)", re.MULTILINE)
_RATE = re.compile(r"^Requests/sec: +(\S+)", re.MULTILINE)
_TRANSFER = re.compile(r"^Transfer/sec: +([0-9.]+)([KMGTP]?)B$", re.MULTILINE)
_URL = re.compile(r"^Running \S+ test @ (\S+)", re.MULTILINE)
_LOAD = re.compile(r"^  ([0-9]+) threads and ([0-9]+) connections", re.MULTILINE)
_TIME = r"([0-9.]+)(us|ms|s|m|h)"
_LATENCY = re.compile(rf"^    Latency +{_TIME} +{_TIME} +{_TIME} ", re.MULTILINE)
_QUANTILE = re.compile(rf"^ +([0-9.]+)% +{_TIME}$", re.MULTILINE)
_TOTAL = re.compile(rf"^  ([0-9]+) requests in {_TIME}, ([0-9.]+)([KMGTP]?)B read", re.MULTILINE)
_ERRORS = re.compile(
    r"^  Socket errors: connect (\S+), read (\S+), write (\S+), timeout (\S+)$", re.MULTILINE
)
_BAD_STATUS = re.compile(r"^  Non-2xx or 3xx responses: (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Latency:
    """Latency of requests; ``quantiles_us`` by percent, printed with --latency only."""

    mean_us: float
    stdev_us: float
    max_us: float
    quantiles_us: Mapping[float, float]


@dataclass(frozen=True)
class WrkOutput:
    """Output of one program run. Of the answered ``requests``, ``bad_status`` had no 2xx or 3xx.

    Bytes are those of answers with their heads. ``latency`` is None where nothing was answered.
    """

    url: str
    threads: int
    connections: int
    elapsed_s: float
    requests: int
    requests_per_s: float
    received_bytes: float
    received_bytes_per_s: float
    latency: Latency | None
    connect_errors: int
    read_errors: int
    write_errors: int
    timeouts: int
    bad_status: int

    @property
    def failed(self) -> int:
        """Return the number of failed requests and connections."""
        errors = self.connect_errors + self.read_errors + self.write_errors
        return errors + self.timeouts + self.bad_status


@shows_tail
def read(text: str) -> WrkOutput:
    """Read the output of one run. Raises OutputError, also without a connection.

    Failed requests are no error here: ``failed`` is their number.
    """
    refused = _FAILED.search(text)
    if refused:
        raise OutputError(f"wrk failed: {refused[1]}")
    rate = of_one_run(_RATE, text, "wrk")
    load, total = first(_LOAD, text, "load of wrk"), first(_TOTAL, text, "sum of requests")
    transfer = first(_TRANSFER, text, "transfer rate")
    errors, status = _ERRORS.search(text), _BAD_STATUS.search(text)
    connect, read_, write, timeout = (
        whole(count, "the socket errors") for count in (errors.groups() if errors else "0000")
    )
    requests = whole(total[1], "the requests")
    return WrkOutput(
        url=first(_URL, text, "URL")[1],
        threads=whole(load[1], "the threads"),
        connections=whole(load[2], "the connections"),
        elapsed_s=positive(total[2], "the time") * _US[total[3]] / 1e6,
        requests=requests,
        requests_per_s=amount(rate[1], "the requests/s"),
        received_bytes=amount(total[4], "the bytes read") * _BYTES[total[5]],
        received_bytes_per_s=amount(transfer[1], "the bytes/s") * _BYTES[transfer[2]],
        latency=_latency(text) if requests else None,
        connect_errors=connect,
        read_errors=read_,
        write_errors=write,
        timeouts=timeout,
        bad_status=whole(status[1], "the bad answers") if status else 0,
    )


def _latency(text: str) -> Latency:
    found = first(_LATENCY, text, "latency").groups()
    mean, stdev, most = (
        amount(number, "the latency") * _US[unit]
        for number, unit in zip(found[::2], found[1::2], strict=True)
    )
    quantiles = {
        amount(percent, "a percent"): amount(number, "a quantile") * _US[unit]
        for percent, number, unit in _QUANTILE.findall(text)
    }
    return Latency(mean, stdev, most, quantiles)


_SOURCE = "wrk(1)"
_QUANTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0}


class WrkSettings(ProgramsSettings):
    """wrk: HTTP requests to the receiver, by several threads."""

    kind: Literal["wrk"] = Field(default="wrk", description="the kind of workload")
    connections: int = Field(default=10, ge=1, le=10_000, description="connections (-c)")
    threads: int = Field(default=2, ge=1, le=1000, description="threads that share them (-t)")
    size: Size = Field(default=1000, ge=4, le=2**30, description="payload of an answer")
    keep_alive: bool = Field(default=True, description="false: a new connection for each request")
    timeout: Duration = Field(
        default=2.0, ge=1, le=3600.0,
        description="how long an answer may take before it counts as failed, whole seconds",
    )  # fmt: skip

    @model_validator(mode="after")
    def _threads_have_connections(self) -> WrkSettings:
        if self.threads > self.connections:
            cure = f"write threads: {self.connections} or fewer, or more connections"
            raise conflict("a thread of wrk needs a connection", cure, *("threads", "connections"))
        return self


class Wrk(Tool[WrkSettings]):
    """wrk, and the agent's HTTP server at the receiver."""

    Settings = WrkSettings
    example = "workload: {kind: wrk, connections: 10, duration: 10s}"
    programs = (Program("wrk", version=("-v",)),)
    output_measures = common(
        _SOURCE,
        *("requests_per_s", "request_mean_us", "request_p50_us", "request_p90_us"),
        *("request_p99_us", "request_max_us", "received_bytes_per_s", "failed_requests"),
    )

    def runs(self) -> Sequence[ProgramRun]:
        """Return the server, and wrk."""
        s = self._settings
        given = {
            "-t": s.threads,
            "-c": s.connections,
            "-d": f"{whole_seconds(s.duration)}s",
            "--timeout": f"{whole_seconds(s.timeout)}s",
            "--latency": True,
            "-H": None if s.keep_alive else "Connection: close",
        }
        return (PONG, ProgramRun(on=Where.SENDER, argv=["wrk", *options(given), url(s.size)]))

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the output; without any successful request it is an error."""
        output = read(ended[-1].printed.text_of_stdout)
        times = output.latency
        if times is None or output.bad_status >= output.requests:
            raise OutputError("no request got a good answer", tail=ended[-1].printed.tail)
        quantiles = times.quantiles_us
        return {
            "requests_per_s": output.requests_per_s,
            "request_mean_us": times.mean_us,
            **{f"request_{name}_us": quantiles.get(q) for name, q in _QUANTILES.items()},
            "request_max_us": times.max_us,
            "received_bytes_per_s": output.received_bytes_per_s,
            "failed_requests": output.failed,
        }
