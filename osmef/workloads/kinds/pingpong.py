"""Ping-pong over HTTP, as ppbench does: siege asks ping, and ping asks pong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from osmef.agent.messages import PingResult, PongResult, SiegeResult
from osmef.errors import AgentError
from osmef.results.exchange import Purpose
from osmef.results.measure import Measure
from osmef.scenario.base import conflict
from osmef.scenario.fields import Duration, Size
from osmef.scenario.workload import WorkloadSettings
from osmef.units import format_duration, format_size
from osmef.workloads.base import Outcome, Part, Ran, Step, Value, Workload
from osmef.workloads.failing import CLOSED_CURE
from osmef.workloads.transfers import CPU, endpoint_cpu_percent

if TYPE_CHECKING:
    from pyarrow import Table  # pyarrow is slow to load
    from pydantic_core import PydanticCustomError

    from osmef.scenario.model import Scenario

_PPBENCH = "Kratzke and Quint, *ppbench*, CLOSER 2016"


def _time(what: str, told: str, source: str, **more: object) -> Measure:
    return Measure(
        name=f"time_{what}_us", unit="us", better="lower", label=f"time {what}", help=told,
        source=source, over_pairs="pooled", **more,
    )  # fmt: skip


def _quantile(what: str, percent: str, **more: object) -> Measure:
    told = f"{percent} % of the times of a message are not longer"
    return _time(what, told, "Hyndman and Fan, definition 7", **more)


def _request(what: str, told: str, **more: object) -> Measure:
    return Measure(
        name=f"request_{what}_us", unit="us", better="lower", label=f"request {what}", help=told,
        source="Tene, *How NOT to Measure Latency*, 2013", over_pairs="pooled", **more,
    )  # fmt: skip


MEASURES = (
    Measure(
        name="goodput_bps", unit="bit/s", better="higher", label="goodput", head="goodput",
        over_pairs="sum", leading=True,
        help="bits of the messages, divided by the time from the start to the last answer; summed"
        " over the pairs",
        source="RFC 2647 for the term",
    ),
    Measure(
        name="requests_per_s", unit="1/s", better="higher", label="requests",
        head="requests\n/s", digits=".0f", over_pairs="sum",
        help="requests that went well, divided by the time from the start to the last answer;"
        " summed over the pairs", source="OSMeF",
    ),
    Measure(
        name="transfer_rate_bytes_per_s", unit="B/s", better="higher", label="transfer rate",
        over_pairs="pooled",
        help="sum(length) / sum(time): what one connection moves while it waits for a message",
        source=_PPBENCH,
    ),
    _time("mean", "mean of the times of a message", _PPBENCH),
    _quantile("p50", "50", head="time\nmedian\nµs", digits=".0f", leading=True),
    _quantile("p90", "90"),
    _quantile("p99", "99", head="time\n99 %\nµs", digits=".0f"),
    _time("max", "longest of the times of a message", _PPBENCH),
    _request(
        "p50", "50 % of what siege measured, from when the request was due, ping's work included,"
        " are not longer",
    ),
    _request(
        "p99", "99 % of what siege measured, likewise, are not longer",
        head="request\n99 %\nµs", digits=".0f",
    ),
    _request("max", "longest of what siege measured, likewise"),
    Measure(
        name="failed_requests", unit="1", better="lower", head="failed", digits=".0f",
        over_pairs="sum", least=1, help="requests without an answer of status 200", source="OSMeF",
    ),
    Measure(
        name="retries", unit="1", better="lower", head="retries", digits=".0f", over_pairs="sum",
        least=1,
        help="how often ping had to ask pong again, for all requests; `null` without ping",
        source=_PPBENCH,
    ),
    Measure(
        name="requests", unit="1", better="neither", over_pairs="sum", least=1,
        help="requests of the trial, all of them", source="OSMeF",
    ),
    CPU[0].model_copy(update={
        "help": "CPU time of the processes siege and ping, divided by the time of the siege, in"
        " percent of one CPU"}),
    CPU[1].model_copy(update={"help": "as `cpu_sender_percent`, of the process pong"}),
    *CPU[2:],
)  # fmt: skip
"""Of the requests of all pairs that went well."""

# How long a trial takes is known when it has ended; this is for the estimate before.
_GUESSED_REQUEST_S = 0.001
_GUESSED_BYTES_PER_S = 100e6
_PATIENCE_S = 600.0


Sizes = Annotated[
    list[Annotated[Size, Field(ge=1, le=2**30)]], Field(min_length=1, max_length=1000)
]
"""Sizes of messages; as many as fit in one command of the agent."""

# What the agent keeps a record of.
_MOST_REQUESTS = 10_000_000

# The widest range that the agent draws from without replacement.
_WIDEST_RANGE = 100_000_000


class PingPongSettings(WorkloadSettings):
    """Ping-pong over HTTP, as ppbench: siege asks ping, which asks pong for messages of sizes."""

    kind: Literal["pingpong"] = Field(default="pingpong", description="the kind of workload")
    sizes: Sizes | None = Field(
        default=None, description="message sizes; by default they are drawn from a range"
    )
    min: Size = Field(default=1, ge=1, le=2**30, description="smallest size of the range")
    max: Size = Field(default=500_000, ge=1, le=2**30, description="largest size of the range")
    coverage: float = Field(
        default=0.002, gt=0, le=1, description="share of the sizes of the range that is drawn"
    )
    replacement: bool = Field(default=True, description="whether a size may be drawn again")
    seed: int = Field(
        default=0, ge=0, lt=2**31, description="of the draw; every trial asks for the same sizes"
    )
    repetitions: int = Field(default=1, ge=1, le=10_000_000, description="requests of each size")
    connections: int = Field(
        default=1, ge=1, le=1000, description="requests at a time of each pair"
    )
    rate: float | None = Field(
        default=None,
        ge=0.001,
        le=1e6,
        description="open loop: requests per second of each pair, timed from when they are due;"
        " by default the next one follows the answer at once",
    )
    relay: bool = Field(
        default=True,
        description="true: siege and ping at the sender, pong at the receiver, and what ping"
        " measures counts; false: siege asks pong itself",
    )
    keep_alive: bool = Field(
        default=True, description="false: siege opens a new connection for each request"
    )
    retries: int = Field(
        default=10, ge=0, le=1000, description="how often ping repeats a request that failed"
    )
    timeout: Duration = Field(
        default=10.0,
        ge=0.1,
        le=3600.0,
        description="how long a request may take; ping gives up on pong after half of it",
    )
    deadline: Duration | None = Field(
        default=None,
        ge=0.1,
        le=86400.0,
        description="how long all requests of a trial may take; it fails then;"
        " by default twice the estimate, and at least 10 minutes",
    )

    @property
    def parallel(self) -> int | None:
        """How many requests of each pair are on their way at a time."""
        return self.connections

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:
        """Say that a background needs to know how long this takes."""
        if scenario.background and not self.rate:
            yield conflict(
                "nobody knows how long the requests take, and so the background, without a rate",
                "write workload.rate, the requests per second",
                *("workload.rate", "background"),
            )

    @property
    def requests(self) -> int:
        """The number of requests between each pair in one trial."""
        # as the agent rounds: 0.29 of 100 is a little less than 29 in binary
        drawn = int((self.max - self.min + 1) * self.coverage + 0.5) or 1
        return self.repetitions * (len(self.sizes) if self.sizes else drawn)

    @model_validator(mode="after")
    def _sizes_or_a_range(self) -> PingPongSettings:
        for key in ("min", "max", "coverage", "replacement"):
            if self.sizes is not None and key in self.model_fields_set:
                raise conflict(f"with sizes, {key} has no say", f"remove {key} or sizes", key)
        return self

    @model_validator(mode="after")
    def _ping_is_there_for_retries(self) -> PingPongSettings:
        if not self.relay and "retries" in self.model_fields_set:
            raise conflict(
                "without the relay, retries has no say: it is ping that repeats a request",
                "remove retries, or relay",
                "retries",
            )
        return self

    @model_validator(mode="after")
    def _range_has_sizes(self) -> PingPongSettings:
        if self.min > self.max:
            raise conflict(
                "the smallest size is larger than the largest one",
                f"give a min of at most {format_size(self.max)}",
                *("min", "max"),
            )
        return self

    @model_validator(mode="after")
    def _range_can_be_drawn_from(self) -> PingPongSettings:
        if not self.replacement and self.max - self.min + 1 > _WIDEST_RANGE:
            raise conflict(
                f"without replacement the range may have {_WIDEST_RANGE} sizes",
                "leave replacement out, or take a narrower range",
                *("replacement", "max", "min"),
            )
        return self

    @model_validator(mode="after")
    def _requests_can_be_kept(self) -> PingPongSettings:
        if self.requests > _MOST_REQUESTS:
            raise conflict(
                f"a trial would make {self.requests} requests; {_MOST_REQUESTS} is the limit",
                "lower coverage or repetitions",
                *("repetitions", "coverage"),
            )
        return self

    @model_validator(mode="after")
    def _rate_keeps_the_deadline(self) -> PingPongSettings:
        length = self.requests / self.rate if self.rate else 0.0
        if self.deadline is not None and length > self.deadline:
            raise conflict(
                f"at this rate {self.requests} requests take {format_duration(length)},"
                " longer than the deadline",
                "raise deadline or rate, or ask for less",
                *("rate", "deadline"),
            )
        return self


class PingPong(Workload[PingPongSettings]):
    """Requests for messages, each recorded. Pong is at the receiver, all else at the sender."""

    Settings = PingPongSettings

    measures = MEASURES

    def parts(self) -> tuple[Part, ...]:
        """Return the one part; its length is an estimate, with a deadline of its own."""
        s = self._settings
        pong = Step("receiver", "pong", {}, listens=True, serves=True)
        relay: dict[str, Value] = {"retries": s.retries, "timeout_s": s.timeout / 2}
        ping = Step("sender", "ping", relay, listens=True, serves=True)
        siege = Step("sender", "siege", self._asked(), requests=s.requests)
        steps = (pong, ping, siege) if s.relay else (pong, siege)
        estimate = self._estimate_s()
        deadline = s.deadline or max(_PATIENCE_S, 2 * estimate)
        return (Part(steps, duration_s=min(estimate, deadline), deadline_s=deadline),)

    def _asked(self) -> dict[str, Value]:
        s = self._settings
        sizes: dict[str, Value] = {
            "size_min": s.min,
            "size_max": s.max,
            "coverage": s.coverage,
            "replacement": s.replacement,
        }
        return {
            "path": "/mping/{size}" if s.relay else "/pong/{size}",
            **({"sizes": ",".join(map(str, s.sizes))} if s.sizes else sizes),
            "repetitions": s.repetitions,
            "seed": s.seed,
            "connections": s.connections,
            "keep_alive": s.keep_alive,
            "rate_per_s": s.rate or 0,
            "timeout_s": s.timeout,
        }

    def _estimate_s(self) -> float:
        s = self._settings
        if s.rate is not None:
            return s.requests / s.rate
        size = sum(s.sizes) / len(s.sizes) if s.sizes else (s.min + s.max) / 2
        moving = s.requests * size / _GUESSED_BYTES_PER_S
        return moving + s.requests * _GUESSED_REQUEST_S / s.connections

    def outcome(self, trial: int, purpose: Purpose, pairs: Sequence[Sequence[Ran]]) -> Outcome:
        """Keep every request, and make the metrics over all pairs."""
        from osmef.workloads.requests import requests_table  # noqa: PLC0415 - pyarrow is slow

        ran = [one for (one,) in pairs]
        sieges = [_siege_of(one) for one in ran]
        tables = [
            requests_table(one.requests, trial, purpose, one.sender, one.receiver) for one in ran
        ]
        for one, siege, table in zip(ran, sieges, tables, strict=True):
            _check(one, siege, table)
        metrics: dict[str, float | None] = {
            **request_metrics(tables, [siege.elapsed_s for siege in sieges]),
            **_cpu_metrics(ran, sieges),
        }
        return Outcome(metrics, requests=tables)


def _siege_of(ran: Ran) -> SiegeResult:
    siege = ran.results[-1]
    if not isinstance(siege, SiegeResult):
        raise AgentError(
            "the agent made no requests",
            where=ran.sender,
            cure="use the agent that belongs to this version of osmef",
        )
    return siege


def _check(ran: Ran, siege: SiegeResult, requests: Table) -> None:
    """Let no part of the requests pass for all of them, nor failures alone for a measurement."""
    if requests.num_rows != siege.requests:
        raise AgentError(
            f"the agent made {siege.requests} requests and told {requests.num_rows}",
            where=ran.sender,
            cure="use the agent that belongs to this version of osmef",
        )
    if siege.failed == siege.requests:
        ((most, count),) = Counter(requests["error"].to_pylist()).most_common(1)
        raise AgentError(
            f"none of {siege.requests} requests got a good answer; {count} of them: {most}",
            where=f"{ran.sender} and {ran.receiver}",
            cure=f"{CLOSED_CURE} is the timeout long enough?",
        )


def request_metrics(tables: Sequence[Table], elapsed_s: Sequence[float]) -> dict[str, float | None]:
    """Return the metrics of the requests of pairs that ran together.

    A pair has a table, rows of ``requests.parquet``, and a time from its start to its last answer,
    in seconds. What has failed is counted, and left out of all else.

    - ``time_*`` is the time of a message, what ping measured; without ping, what siege did.
    - ``request_*`` is what siege measured, from when the request was due: with a rate that is free
      of coordinated omission (Tene, "How NOT to Measure Latency", 2013).
    - ``transfer_rate_bytes_per_s`` = sum(length) / sum(time), as ppbench has it (Kratzke and
      Quint, "ppbench, A Visualizing Network Benchmark for Microservices", CLOSER 2016): what one
      connection moves while it waits for a message.
    - ``requests_per_s`` and ``goodput_bps`` are the sums over the pairs of the requests, and of
      eight times their lengths, over the pair's time.

    Quantiles are linear between the values (Hyndman and Fan 1996, definition 7).
    """
    import numpy as np  # noqa: PLC0415 - slow to load
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    good = [table.filter(pc.is_null(table["error"])) for table in tables]
    rows = pa.concat_tables(good)
    request_us = 1e6 * rows["duration_s"].to_numpy()
    time_us = 1e6 * pc.coalesce(rows["relay_s"], rows["duration_s"]).to_numpy()
    p50, p90, p99 = (float(q) for q in np.quantile(time_us, [0.5, 0.9, 0.99]))
    request_p50, request_p99 = (float(q) for q in np.quantile(request_us, [0.5, 0.99]))
    length = [pc.sum(table["length"]).as_py() or 0 for table in good]
    total = sum(table.num_rows for table in tables)
    return {
        "requests": total,
        "failed_requests": total - rows.num_rows,
        "retries": pc.sum(pa.concat_tables(tables)["retries"]).as_py(),
        "goodput_bps": sum(8 * n / s for n, s in zip(length, elapsed_s, strict=True)),
        "requests_per_s": sum(t.num_rows / s for t, s in zip(good, elapsed_s, strict=True)),
        "transfer_rate_bytes_per_s": 1e6 * sum(length) / float(time_us.sum()),
        "time_mean_us": float(time_us.mean()),
        "time_p50_us": p50,
        "time_p90_us": p90,
        "time_p99_us": p99,
        "time_max_us": float(time_us.max()),
        "request_p50_us": request_p50,
        "request_p99_us": request_p99,
        "request_max_us": float(request_us.max()),
    }


def _cpu_metrics(ran: Sequence[Ran], sieges: Sequence[SiegeResult]) -> dict[str, float | None]:
    """Return the CPU time of siege and ping, and of pong, in percent of one CPU of the siege."""
    here, there = 0.0, 0.0
    for one, siege in zip(ran, sieges, strict=True):
        for result in one.results:
            if isinstance(result, PongResult | PingResult | SiegeResult):
                used = result.process.cpu_user_s + result.process.cpu_system_s
                share = 100 * used / siege.elapsed_s
                here, there = (
                    (here, there + share)
                    if isinstance(result, PongResult)
                    else (here + share, there)
                )
    return {
        "cpu_sender_percent": here,
        "cpu_receiver_percent": there,
        "endpoint_cpu_sender_percent": endpoint_cpu_percent(
            (one.sender, siege.endpoint) for one, siege in zip(ran, sieges, strict=True)
        ),
        "endpoint_cpu_receiver_percent": endpoint_cpu_percent(
            (one.receiver, pong.endpoint)
            for one in ran
            for pong in one.results
            if isinstance(pong, PongResult)
        ),
    }
