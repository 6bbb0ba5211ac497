"""ApacheBench (ab): HTTP requests, by one thread, to the agent's server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.formats.apachebench import read, read_quantiles
from osmef.scenario.base import conflict
from osmef.scenario.fields import Size
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.reading import OutputStream
from osmef.workloads.tool import PONG, Tool, common, options, url, whole_seconds

_SOURCE = "ab(1)"
_MOST_REQUESTS = 50_000_000
_MOST_PER_S = 250_000
"""ab ends after a number of requests, and takes 40 bytes of memory for each that it may make."""
_QUANTILES = {"min": 0, "p50": 50, "p90": 90, "p99": 99, "max": 100}


class ApachebenchSettings(ProgramsSettings):
    """ApacheBench (ab): HTTP requests to the receiver, by one thread."""

    kind: Literal["apachebench"] = Field(default="apachebench", description="the kind of workload")
    connections: int = Field(default=1, ge=1, le=1000, description="requests at a time (-c)")
    size: Size = Field(default=1000, ge=4, le=2**30, description="payload of an answer")
    requests: int | None = Field(
        default=None, ge=1, le=_MOST_REQUESTS,
        description="how many (-n); by default as many as the duration lasts (-t)",
    )  # fmt: skip
    keep_alive: bool = Field(
        default=True, description="false: a new connection for each request (without -k)"
    )

    @property
    def connections_per_pair(self) -> int | None:
        """How many requests of each pair are in flight."""
        return self.connections

    def for_background(self, duration_s: float) -> Self:
        """Return the settings of a background that lasts so long, however many requests."""
        return self.model_copy(update={"duration": duration_s, "requests": None})

    @model_validator(mode="after")
    def _requests_are_enough(self) -> ApachebenchSettings:
        if self.requests is not None and self.requests < self.connections:
            cure = "raise requests, or lower connections"
            raise conflict("there are fewer requests than connections", cure, "requests")
        return self


class Apachebench(Tool[ApachebenchSettings]):
    """ab, and the agent's HTTP server at the receiver."""

    Settings = ApachebenchSettings
    example = "workload: {kind: apachebench, connections: 10, duration: 10s}"
    programs = (Program("ab", package="apache2-utils", version=("-V",)),)
    told = common(
        _SOURCE,
        *("requests_per_s", "request_min_us", "request_mean_us", "request_p50_us"),
        *("request_p90_us", "request_p99_us", "request_max_us"),
        *("received_bytes_per_s", "failed_requests"),
    )

    def runs(self) -> Sequence[ProgramRun]:
        """Return the server, and ab, with exact quantiles (-e)."""
        s = self._settings
        seconds = whole_seconds(s.duration)
        given = {
            "-q": True,
            "-k": s.keep_alive,
            "-c": s.connections,
            "-t": None if s.requests else seconds,  # before -n, which it sets
            "-n": s.requests or min(_MOST_REQUESTS, _MOST_PER_S * seconds),
            "-e": "/dev/stderr",
        }
        return (PONG, ProgramRun(on=Where.SENDER, argv=["ab", *options(given), url(s.size)]))

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the report, and the quantiles."""
        printed = ended[-1].printed
        told = read(printed.text_of_stdout)
        if told.failed >= told.complete:
            raise OutputError(f"all {told.complete} requests failed", tail=printed.tail)
        csv = printed.text(OutputStream.STDERR)
        quantiles = read_quantiles(csv, told.complete) if csv else {}
        received, rate = told.received_bytes, told.requests_per_s
        return {
            "requests_per_s": rate,
            "request_mean_us": 1e6 * told.concurrency / rate if rate else None,
            **{f"request_{name}_us": quantiles.get(q) for name, q in _QUANTILES.items()},
            "received_bytes_per_s": None if received is None else received / told.elapsed_s,
            "failed_requests": told.failed,
        }
