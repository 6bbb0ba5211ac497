"""Reader of the output of wrk.

Source: wrk.c and units.c of wrk 4. B, KB, MB and GB are powers of 1024 there, times have units of
their own, and a request without an answer is counted only in what wrk calls socket errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from osmef.errors import OutputError
from osmef.formats import shows_tail
from osmef.formats.reading import GIBI, KIBI, MEBI, TEBI, amount, first, of_one_run, positive, whole

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
class Wrk:
    """A run. ``requests`` were answered, ``bad_status`` of them with neither 2xx nor 3xx.

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
def read(text: str) -> Wrk:
    """Read the output of one run. Raises OutputError, also without a connection.

    That requests failed is no error here: ``failed`` has their number.
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
    return Wrk(
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
