"""ioping: how long single requests to a disk take, one after the other.

Source: ioping(1), "JSON output". Times are ns. The statistics leave the warm-up out, by default the
first request, and what -t and -T call too fast or too slow; ``iops`` is of the time that requests
took, ``load`` of all time with the pauses between them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from osmef.errors import OutputError
from osmef.formats import amount, failed, number, positive, shows_tail, whole
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.fields import Duration, Size
from osmef.supply.program import Program
from osmef.workloads.programs import DirectSettings, EndedProgram, ProgramRun
from osmef.workloads.tool import Tool

_SLACK = 1.0
"""The mean is printed in whole ns."""


@dataclass(frozen=True)
class IopingOutput:
    """Output of one program run: rate and latency of the requests in the statistics.

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
def read(text: str) -> IopingOutput:
    """Read the output of one run. Raises OutputError, also without any counted request."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.startswith("ioping: "):
            raise failed("ioping", text.splitlines()[0][8:]) from error
        what = "this JSON of ioping is truncated or damaged: did it come to its end?"
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
    for index, one in enumerate(requests, start=1):
        if whole(one.get("request"), "the number of a request") != index:
            raise OutputError(f"request {index} of ioping is missing")
        if one.get("ignored") is False:
            found.append(positive(one.get("time"), f"the time of request {index}") / 1e3)
        elif one.get("ignored") is not True:
            raise OutputError(f"ioping does not report whether request {index} counts")
    return found


def _run(last: Mapping[str, Any], times: tuple[float, ...]) -> IopingOutput:
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
    return IopingOutput(
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


_QUANTILES = {"p50_us": 0.5, "p99_us": 0.99}
_OF_A_REQUEST = 600
"""Bytes at most that ioping prints of one."""


class IopingSettings(DirectSettings):
    """ioping: latency of single requests to the sender's disk."""

    kind: Literal["ioping"] = Field(default="ioping", description="the kind of workload")
    duration: Duration = Field(
        default=10.0, ge=1, le=86400.0, description="how long it makes requests (-w)"
    )
    operation: Literal["read", "write"] = Field(
        default="read", description="read, or write and wait for the disk (-W)"
    )
    block: Size = Field(default=4096, ge=512, le=2**30, description="of each request (-s)")
    size: Size = Field(
        default=64 * 2**20, ge=2**20, le=2**50, description="of the file in which they are (-S)"
    )
    interval: Duration = Field(
        default=0.01,
        ge=0,
        le=3600,
        description="from one request to the next (-i); there are percentiles where all requests"
        " can be printed within `most_output`, 600 bytes each",
    )
    linear: bool = Field(
        default=False, description="true: one place behind the other, and not at random (-L)"
    )

    @property
    def is_cached(self) -> bool:
        """Whether the page cache may serve requests: ioping drops it itself."""
        return False

    @property
    def prints_requests(self) -> bool:
        """Whether each single request is printed."""
        return self.duration * _OF_A_REQUEST <= self.most_output * self.interval


class Ioping(Tool[IopingSettings]):
    """One ioping on the sender."""

    Settings = IopingSettings
    example = "endpoints: {loopback: {}}\nworkload: {kind: ioping, interval: 100ms}"
    programs = (Program("ioping", version=("-v",)),)
    output_measures = (
        Measure(
            name="latency_mean_us", unit="us", better=Better.LOWER, label="mean latency",
            head="mean\nµs", digits=".1f", over_pairs=OverPairs.WORST, leading=True,
            source="ioping(1), avg", help="mean of how long a request took, without the first one",
        ),
        Measure(
            name="latency_p50_us", unit="us", better=Better.LOWER, label="median latency",
            head="p50\nµs", digits=".1f", over_pairs=OverPairs.WORST, source="OSMeF",
            help="median of the same, where each request is reported",
        ),
        Measure(
            name="latency_p99_us", unit="us", better=Better.LOWER, label="latency, 99 %",
            head="p99\nµs", digits=".1f", over_pairs=OverPairs.WORST, source="OSMeF",
            help="99th percentile of the same: the smallest time that 99 % did not exceed",
        ),
        Measure(
            name="latency_min_us", unit="us", better=Better.LOWER, label="lowest latency",
            over_pairs=OverPairs.WORST, source="ioping(1), min", help="the shortest request",
        ),
        Measure(
            name="latency_max_us", unit="us", better=Better.LOWER, label="highest latency",
            head="max\nµs", digits=".0f", over_pairs=OverPairs.WORST, source="ioping(1), max",
            help="the longest request",
        ),
        Measure(
            name="iops", unit="1/s", better=Better.HIGHER, label="requests", head="requests\n/s",
            digits=".0f", over_pairs=OverPairs.SUM, source="ioping(1), iops",
            help="requests per second of the time that they took: one after the other, no pauses",
        ),
    )  # fmt: skip

    def runs(self) -> Sequence[ProgramRun]:
        """Return ioping at the sender, in a file of its own."""
        s = self._settings
        options = {
            "-w": f"{s.duration:g}s",
            "-i": f"{1e9 * s.interval:.0f}ns",
            "-s": f"{s.block}",
            "-S": f"{s.size}",
        }
        flags = {
            "-D": s.direct,
            "-W": s.operation == "write",
            "-L": s.linear,
            "-q": not s.prints_requests,
        }
        argv = ["ioping", "-J", *(word for pair in options.items() for word in pair)]
        return (s.run_of([*argv, *(flag for flag, given in flags.items() if given), "{dir}"]),)

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the JSON, with percentiles of single requests if they are printed."""
        output = read(ended[-1].printed.text_of_stdout)
        ordered = sorted(output.times_us)
        return {
            "latency_mean_us": output.mean_us,
            **{
                f"latency_{name}": ordered[math.ceil(share * len(ordered)) - 1] if ordered else None
                for name, share in _QUANTILES.items()
            },
            "latency_min_us": output.min_us,
            "latency_max_us": output.max_us,
            "iops": output.iops,
        }
