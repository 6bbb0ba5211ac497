"""Reader of the JSON output of ioping 1.3 (-J): requests, unless quiet (-q), and statistics.

Source: ioping(1), "JSON output". Times are ns. The statistics leave the warm-up out, by default the
first request, and what -t and -T call too fast or too slow; ``iops`` is of the time that requests
took, ``load`` of all time with the pauses between them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from osmef.errors import OutputError
from osmef.formats import failed, shows_tail
from osmef.formats.reading import amount, number, positive, whole

_SLACK = 1.0
"""The mean is told in whole ns."""


@dataclass(frozen=True)
class Ioping:
    """A run: rate and latency of the requests in the statistics.

    ``times_us`` are those of each of them, in their order; empty where ioping was quiet.
    """

    file_system: str
    device: str
    requests: int
    iops: float
    bytes_per_s: float
    min_us: float
    mean_us: float
    max_us: float
    deviation_us: float
    load_iops: float
    times_us: tuple[float, ...]


@shows_tail
def read(text: str) -> Ioping:
    """Read the output of one run. Raises OutputError, also without any counted request."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.startswith("ioping: "):
            raise failed("ioping", text.splitlines()[0][8:]) from error
        what = "this is no whole JSON of ioping: did it come to its end?"
        raise OutputError(what, cure="run it with -J", line=getattr(error, "lineno", 1)) from error
    if not isinstance(document, list) or not all(isinstance(one, dict) for one in document):
        raise OutputError("this is no JSON of ioping")
    *requests, last = document or [{}]
    if not all("io" in one for one in requests) or "stat" not in last:
        raise OutputError("these are not the requests of one run, and their statistics")
    counted = tuple(_times([_inside(one, "io") for one in requests]))
    return _run(last, counted)


def _inside(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    if not isinstance(found, dict):
        raise OutputError(f"ioping reports no {key}")
    return found


def _times(requests: list[Mapping[str, Any]]) -> list[float]:
    """Return the latencies of counted requests, which must be numbered in order."""
    found = []
    for place, one in enumerate(requests, start=1):
        if whole(one.get("request"), "the number of a request") != place:
            raise OutputError(f"request {place} of ioping is missing")
        if one.get("ignored") is False:
            found.append(positive(one.get("time"), f"the time of request {place}") / 1e3)
        elif one.get("ignored") is not True:
            raise OutputError(f"ioping does not report whether request {place} counts")
    return found


def _run(last: Mapping[str, Any], times: tuple[float, ...]) -> Ioping:
    stat, target = _inside(last, "stat"), _inside(last, "target")
    requests = whole(stat.get("count"), "the count of requests")
    if not requests:
        raise OutputError(
            "ioping counts no request: all were of the warm-up",
            cure="let it run longer, or with less time between requests",
        )
    least, mean, most = (number(stat.get(key), f"the {key}") for key in ("min", "avg", "max"))
    if not 0 < least - _SLACK < mean <= most:
        raise OutputError(f"ioping reports a mean of {mean:g} between {least:g} and {most:g} ns")
    if times and len(times) != requests:
        raise OutputError(f"ioping reports {len(times)} requests, and counts {requests}")
    return Ioping(
        file_system=str(target.get("fstype")),
        device=str(target.get("device")),
        requests=requests,
        iops=positive(stat.get("iops"), "the IOPS"),
        bytes_per_s=positive(stat.get("bps"), "the rate"),
        min_us=least / 1e3,
        mean_us=mean / 1e3,
        max_us=most / 1e3,
        deviation_us=amount(stat.get("mdev"), "the deviation") / 1e3,
        load_iops=positive(_inside(last, "load").get("iops"), "the IOPS of all time"),
        times_us=times,
    )
