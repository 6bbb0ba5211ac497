"""Reader of the output of sockperf: ping-pong, under-load and throughput.

Source: client.cpp of sockperf 3. Times are microseconds of half a round trip, or with --full-rtt of
a whole one; messages of the warm-up and of the end are left out. A throughput is of what was sent:
its bandwidth is left out here, since 3.7 names it GBps with --increase_output_precision.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from osmef.errors import OutputError
from osmef.formats import shows_tail
from osmef.formats.reading import amount, first, of_one_run, positive, whole

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_FAILED = re.compile(
    r"^(?:IP = .*)?sockperf: (ERROR: .*|No messages were received.*|No valid observations.*"
    r"|Test end before test start.*|Test ends uncompleted.*)",
    re.MULTILINE,
)
_MEAN = re.compile(
    r"^sockperf: ====> avg-(rtt|latency|lat)= *(\S+) \(std-dev= *([^\s,)]+)", re.MULTILINE
)
_VALID = re.compile(
    r"^sockperf: \[Valid Duration\] RunTime= *(\S+) sec; SentMessages= *(\S+);"
    r" ReceivedMessages= *(\S+)",
    re.MULTILINE,
)
_LOST = re.compile(
    r"^sockperf: # dropped messages = ([0-9]+); # duplicated messages = ([0-9]+);"
    r" # out-of-order messages = ([0-9]+)",
    re.MULTILINE,
)
_PERCENTILE = re.compile(r"^sockperf: ---> percentile +(\S+) = +(\S+)", re.MULTILINE)
_TOTAL = re.compile(r"^sockperf: Total of ([0-9]+) messages sent in (\S+) sec", re.MULTILINE)
_RATE = re.compile(r"^sockperf: Summary: Message Rate is (\S+) \[msg/sec\]$", re.MULTILINE)
_BANDWIDTH = re.compile(r"^sockperf: Summary: BandWidth is ", re.MULTILINE)
_LEAST = re.compile(r"^sockperf: ---> <MIN> observation = +(\S+)", re.MULTILINE)
_MOST = re.compile(r"^sockperf: ---> <MAX> observation = +(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Sockperf:
    """A run. Times are round trips if ``round_trip``, else one-way estimates (half of these).

    The messages are those of the valid duration, ``elapsed_s``; ``quantiles_us`` is by percent.
    """

    round_trip: bool
    elapsed_s: float
    sent: int
    received: int
    dropped: int
    duplicated: int
    out_of_order: int
    mean_us: float
    stdev_us: float
    min_us: float
    max_us: float
    quantiles_us: Mapping[float, float]


@dataclass(frozen=True)
class Throughput:
    """A run of throughput: messages sent by the client; what arrived is unknown."""

    elapsed_s: float
    sent: int
    messages_per_s: float


@shows_tail
def read(text: str) -> Sockperf | Throughput:
    """Read the output of one client. Raises OutputError, also for a failure."""
    text = _COLOUR.sub("", text)
    refused = _FAILED.search(text)
    if refused:
        raise OutputError(f"sockperf failed: {refused[1]}")
    return _throughput(text) if _TOTAL.search(text) else _latency(text)


def _throughput(text: str) -> Throughput:
    total, rate = of_one_run(_TOTAL, text, "sockperf"), first(_RATE, text, "message rate")
    first(_BANDWIDTH, text, "bandwidth")  # the last line
    return Throughput(
        elapsed_s=positive(total[2], "the time"),
        sent=whole(total[1], "the messages sent"),
        messages_per_s=positive(rate[1], "the message rate"),
    )


def _latency(text: str) -> Sockperf:
    mean = of_one_run(_MEAN, text, "sockperf")
    valid, lost = first(_VALID, text, "valid duration"), first(_LOST, text, "lost messages")
    least = first(_LEAST, text, "least time")  # the last line
    return Sockperf(
        round_trip=mean[1] == "rtt",
        elapsed_s=positive(valid[1], "the valid duration"),
        sent=whole(valid[2], "the messages sent"),
        received=whole(valid[3], "the messages received"),
        dropped=whole(lost[1], "the dropped messages"),
        duplicated=whole(lost[2], "the duplicated messages"),
        out_of_order=whole(lost[3], "the messages out of order"),
        mean_us=positive(mean[2], "the mean time"),
        stdev_us=amount(mean[3], "the deviation"),
        min_us=amount(least[1], "the least time"),
        max_us=amount(first(_MOST, text, "greatest time")[1], "the greatest time"),
        quantiles_us={
            amount(percent, "a percent"): amount(time_us, "a percentile")
            for percent, time_us in _PERCENTILE.findall(text)
        },
    )
