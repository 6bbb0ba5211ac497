"""What programs print about a measurement, read."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

KIB = 1 << 10
MIB = 1 << 20


class OutputError(Exception):
    """A program printed something else than was expected; the message has it."""


@dataclass(frozen=True)
class Transfer:
    """Payload that receivers read, over all flows, and the time that it took them."""

    received_bytes: float
    elapsed_s: float

    @property
    def bps(self) -> float:
        return 8 * self.received_bytes / self.elapsed_s


@dataclass(frozen=True)
class RoundTrip:
    """Times of a round trip; a program that keeps no distribution knows no p99."""

    median_us: float
    p99_us: float | None


def _number(pattern: str, output: str) -> float:
    found = re.search(pattern.replace("NUMBER", r"(\d+(?:\.\d+)?)"), output)
    if found is None:
        raise OutputError(f"no {pattern} in: {output[-500:]}")
    return float(found[1])


def _by_rate(received_bytes: float, bps: float) -> Transfer:
    if not (received_bytes > 0 and bps > 0):
        raise OutputError(f"no transfer: {received_bytes} bytes at {bps} bits/s")
    return Transfer(received_bytes, 8 * received_bytes / bps)


def agent_transfer(receiver: str) -> Transfer:
    """Read the events of ``osmef-agent recv --json``.

    As with its peers, all bytes over all the time, not the common interval.
    """
    lines = [line for line in receiver.splitlines() if line.startswith('{"event":"result"')]
    if len(lines) != 1:
        raise OutputError(f"not one result in: {receiver[-500:]}")
    result = json.loads(lines[0])
    received = sum(flow["bytes"] for flow in result["receiving"]["flows"])
    return Transfer(received, result["elapsed_s"])


def iperf3_transfer(client: str) -> Transfer:
    """Read ``iperf3 -c HOST -J``: the client gets the receiver's figures."""
    try:
        received = json.loads(client)["end"]["sum_received"]
    except (ValueError, TypeError, KeyError):
        raise OutputError(f"no transfer of iperf3 in: {client[-500:]}") from None
    return _by_rate(received["bytes"], received["bits_per_second"])


def iperf2_transfer(server: str, flows: int) -> Transfer:
    """Read ``iperf -s -e -f k``: a line for each flow, and for several one of their sum.

    The sum's time is from the first one's start to the last one's end, as with the others.
    """
    row = r"(?m)^\[ *(\d+|SUM)\] 0\.0000-(\d+\.\d+) sec +(\d+) KBytes "
    rows = re.findall(row, server)
    if len(rows) != flows + (flows > 1):
        raise OutputError(f"iperf does not report {flows} flows: {server[-500:]}")
    _, elapsed_s, kib = rows[-1]
    if float(elapsed_s) == 0:
        raise OutputError(f"iperf's flows take no time: {server[-500:]}")
    return Transfer(KIB * float(kib), float(elapsed_s))


def nuttcp_transfer(client: str) -> Transfer:
    """Read ``nuttcp -fparse``; megabytes are binary ones, megabits decimal."""
    received = MIB * _number("megabytes=NUMBER", client)
    return _by_rate(received, 1e6 * _number("rate_Mbps=NUMBER", client))


def netpipe_round_trip(rows: str) -> RoundTrip:
    """Read NPtcp's output file for one byte: its time is half of the mean round trip."""
    return RoundTrip(2e6 * _number(r"\A *1 +\d+\.\d+ +NUMBER\s*\Z", rows), None)


def sockperf_round_trip(client: str) -> RoundTrip:
    """Read ``sockperf ping-pong --full-rtt``."""
    return RoundTrip(
        _number(r"percentile 50\.000 = +NUMBER", client),
        _number(r"percentile 99\.000 = +NUMBER", client),
    )


def wrk_rate(output: str) -> float:
    """Read wrk's requests/s; raises when a request failed."""
    if "Non-2xx" in output or "Socket errors" in output:
        raise OutputError(f"wrk's requests failed: {output[-500:]}")
    return _number("Requests/sec: +NUMBER", output)


def ab_rate(output: str) -> float:
    """Read ab's requests/s; raises when a request failed."""
    if _number("Failed requests: +NUMBER", output) or "Non-2xx responses" in output:
        raise OutputError(f"ab's requests failed: {output[-500:]}")
    return _number("Requests per second: +NUMBER", output)
