"""wrk: HTTP requests, by some threads, to the agent's server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.formats.wrk import read
from osmef.scenario.base import conflict
from osmef.scenario.fields import Duration, Size
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.tool import PONG, Tool, common, options, url, whole_seconds

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

    @property
    def connections_per_pair(self) -> int | None:
        """How many connections each pair has."""
        return self.connections

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
    told = common(
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
        told = read(ended[-1].printed.text_of_stdout)
        times = told.latency
        if times is None or told.bad_status >= told.requests:
            raise OutputError("no request got a good answer", tail=ended[-1].printed.tail)
        quantiles = times.quantiles_us
        return {
            "requests_per_s": told.requests_per_s,
            "request_mean_us": times.mean_us,
            **{f"request_{name}_us": quantiles.get(q) for name, q in _QUANTILES.items()},
            "request_max_us": times.max_us,
            "received_bytes_per_s": told.received_bytes_per_s,
            "failed_requests": told.failed,
        }
