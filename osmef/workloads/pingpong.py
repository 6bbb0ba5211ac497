"""Ping-pong over HTTP, as ppbench does: siege asks ping, and ping asks pong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from osmef.agent.messages import PingResult, PongResult, SiegeResult
from osmef.errors import AgentError
from osmef.results.exchange import Purpose
from osmef.scenario.pingpong import PingPongSettings
from osmef.workloads.base import Outcome, Part, Ran, Step, Value, Workload
from osmef.workloads.ensemble import CLOSED_CURE
from osmef.workloads.transfers import endpoint_cpu_percent

if TYPE_CHECKING:
    from pyarrow import Table  # pyarrow is slow to load

_METRICS = (
    "requests",
    "failed_requests",
    "retries",
    "goodput_bps",
    "requests_per_s",
    "transfer_rate_bytes_per_s",
    "time_mean_us",
    "time_p50_us",
    "time_p90_us",
    "time_p99_us",
    "time_max_us",
    "request_p50_us",
    "request_p99_us",
    "request_max_us",
    "cpu_sender_percent",
    "cpu_receiver_percent",
    "endpoint_cpu_sender_percent",
    "endpoint_cpu_receiver_percent",
)

# How long a trial takes is known when it has ended; this is for the estimate before.
_GUESSED_REQUEST_S = 0.001
_GUESSED_BYTES_PER_S = 100e6
_PATIENCE_S = 600.0


class PingPong(Workload):
    """Requests for messages, each recorded. Pong is at the receiver, all else at the sender."""

    metrics = _METRICS

    def __init__(self, settings: PingPongSettings) -> None:
        self._settings = settings

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
        return Outcome({name: metrics[name] for name in _METRICS}, requests=tables)


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
