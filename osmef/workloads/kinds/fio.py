"""fio: a job of reads and writes, with its rates and how long each request takes.

Source: fio(1), "JSON output", and stat.c of 3.33. ``bw_bytes`` are bytes per second, times ns. The
latency is the total one (``lat_ns``): from the creation of a request by fio until its completion;
fio reports its percentiles with --lat_percentiles=1, and those of the completion latency
(``clat_ns``) without.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.formats import amount, failed, number, positive, shows_tail, whole
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.base import conflict
from osmef.scenario.fields import Duration, Size
from osmef.supply.program import Program
from osmef.workloads.programs import DirectSettings, EndedProgram, ProgramRun
from osmef.workloads.tool import Tool

_BEGIN = re.compile(r"^\{", re.MULTILINE)
_VERSION = re.compile(r"fio-([0-9]+)\.[0-9]+\S*")
_NOTE = re.compile(r"fio: .*|note: .*|\s*")
_LEAST_VERSION = 3


@dataclass(frozen=True)
class Latency:
    """Latency of requests, with percentiles where fio prints them."""

    min_us: float
    mean_us: float
    max_us: float
    percentiles_us: Mapping[str, float] | None


@dataclass(frozen=True)
class DirectionStatistics:
    """Requests and bytes per second of reads, or of writes."""

    iops: float
    bytes_per_s: float
    requests: int
    bytes: int
    elapsed_s: float
    latency: Latency
    completion: Latency


@dataclass(frozen=True)
class FioOutput:
    """Output of one program run; None for a direction without requests."""

    version: str
    job: str
    read: DirectionStatistics | None
    written: DirectionStatistics | None


@shows_tail
def read(text: str) -> FioOutput:
    """Read the output of one job. Raises OutputError, also where the job failed."""
    document = _document(text)
    reported = _VERSION.fullmatch(str(document.get("fio version")))
    if reported is None or int(reported[1]) < _LEAST_VERSION:
        raise OutputError("this is not of fio 3", cure="use fio 3 or newer")
    jobs = document.get("jobs")
    if not isinstance(jobs, list) or len(jobs) != 1:
        count = len(jobs) if isinstance(jobs, list) else 0
        raise OutputError(
            f"there are {count} jobs, where one is expected", cure="run it --group_reporting"
        )
    return _job(jobs[0], reported[0])


def _document(text: str) -> Mapping[str, Any]:
    """Return the one JSON document in a text, which may have notes around it."""
    begin = _BEGIN.search(text)
    if begin is None:
        notes = [line for line in text.splitlines() if line.startswith("fio: ")]
        raise failed("fio", notes[0][5:]) if notes else OutputError("there is no JSON of fio in it")
    try:
        document, end = json.JSONDecoder().raw_decode(text, begin.start())
    except (ValueError, RecursionError) as error:
        line = text.count("\n", 0, begin.start()) + getattr(error, "lineno", 1)
        raise OutputError(
            "this JSON is truncated or damaged: did it come to its end?", line=line
        ) from error
    others = (text[: begin.start()] + "\n" + text[end:]).splitlines()
    odd = next((line for line in others if not _NOTE.fullmatch(line)), None)
    if odd is not None or not isinstance(document, dict):
        raise OutputError(f"this is no output of one run of fio: {str(odd)[:60]!r}")
    return document


def _job(job: Any, version: str) -> FioOutput:
    if not isinstance(job, dict):
        raise OutputError("this is no job of fio")
    error = whole(job.get("error"), "the error of the job")
    if error:
        raise failed("fio", os.strerror(error) if error < 2**31 else f"error {error}")
    ways = {name: _way(job.get(name), name) for name in ("read", "write")}
    if not any(ways.values()):
        raise OutputError("fio has neither read nor written anything")
    return FioOutput(version, str(job.get("jobname")), ways["read"], ways["write"])


def _way(reported: Any, name: str) -> DirectionStatistics | None:
    if not isinstance(reported, dict):
        raise OutputError(f"fio reports nothing of {name}")
    requests = whole(reported.get("total_ios"), f"the requests of {name}")
    if not requests:
        return None
    return DirectionStatistics(
        iops=positive(reported.get("iops"), f"the IOPS of {name}"),
        bytes_per_s=positive(reported.get("bw_bytes"), f"the rate of {name}"),
        requests=requests,
        bytes=whole(reported.get("io_bytes"), f"the bytes of {name}"),
        elapsed_s=positive(reported.get("runtime"), f"the time of {name}") / 1e3,
        latency=_latency(reported.get("lat_ns"), f"the latency of {name}"),
        completion=_latency(reported.get("clat_ns"), f"the completion latency of {name}"),
    )


def _latency(reported: Any, what: str) -> Latency:
    if not isinstance(reported, dict):
        raise OutputError(f"fio does not report {what}")
    least, mean, most = (
        positive(reported.get(key), f"{what}, {key}") for key in ("min", "mean", "max")
    )
    if not least <= mean <= most:
        raise OutputError(f"{what} has a mean of {mean:g} between {least:g} and {most:g} ns")
    return Latency(
        least / 1e3, mean / 1e3, most / 1e3, _percentiles(reported.get("percentile"), what)
    )


def _percentiles(reported: Any, what: str) -> Mapping[str, float] | None:
    """Return percentiles by percent, such as ``99.9``, in ascending order as fio has them."""
    if reported is None:
        return None
    if not isinstance(reported, dict):
        raise OutputError(f"{what} has no percentiles that can be read")
    found: dict[str, float] = {}
    last = 0.0
    for key, value in reported.items():
        percent = number(key, f"{what}, a percentile")
        time = amount(value, f"{what}, percentile {key}")
        if not 0 < percent <= 100 or time < last:
            raise OutputError(f"{what} has percentiles that can't be: {time:g} ns at {key[:20]} %")
        found[f"{percent:g}"], last = time / 1e3, time
    return found


_PERCENTILES = {"p50": "50", "p99": "99", "p999": "99.9"}
_ALONE = {"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"}
_OWN = {
    *("name", "rw", "readwrite", "bs", "size", "numjobs", "iodepth", "ioengine", "direct", "sync"),
    *("runtime", "time_based", "ramp_time", "rate_iops", "rwmixread", "fsync", "group_reporting"),
    *("filename", "directory", "output", "output_format", "lat_percentiles", "clat_percentiles"),
    *("percentile_list", "thread", "client", "server", "eta"),
}
"""Options that settings stand for, and those that the numbers and the directory rely on."""


_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,60}$")]
_Value = Annotated[str, Field(pattern=r"^[^\x00-\x1f]{0,1000}$")]


class FioSettings(DirectSettings):
    """fio: a job of reads or writes in files on the sender's disk."""

    kind: Literal["fio"] = Field(default="fio", description="the kind of workload")
    duration: Duration = Field(
        default=10.0, ge=1, le=86400.0, description="how long it measures, whole seconds (runtime)"
    )
    rw: Literal["read", "write", "randread", "randwrite", "rw", "randrw"] = Field(
        default="randread",
        description="reads, writes or both, one behind the other or at random places",
    )
    read_percent: int = Field(
        default=50, ge=1, le=99, description="with rw and randrw: how many of 100 are reads"
    )
    block: Size = Field(default=4096, ge=512, le=2**30, description="of each request (bs)")
    jobs: int = Field(
        default=1, ge=1, le=1000, description="processes, each with a file of its own (numjobs)"
    )
    depth: int = Field(
        default=1, ge=1, le=65536, description="requests that each job has under way (iodepth)"
    )
    engine: str = Field(
        default="libaio",
        pattern=r"^[a-z0-9_-]{1,40}$",
        description="how fio makes requests (ioengine): `libaio`, `io_uring`, `psync` ...",
    )
    sync: bool = Field(
        default=False, description="true: a write has ended when it is on the disk (O_SYNC)"
    )
    rate: int | None = Field(
        default=None, ge=1, le=10**9, description="the most requests a second of each job, each way"
    )
    warmup: Duration = Field(
        default=0.0, ge=0, le=3600, description="how much of the beginning does not count"
    )
    options: dict[_Name, _Value | int | float] = Field(
        default_factory=dict,
        max_length=50,
        description="more options of a job, by their names in fio(1), such as `overwrite: 1`",
    )

    @property
    def file_bytes(self) -> int:
        """The total size of all jobs' files."""
        return self.jobs * self.size

    @property
    def accesses(self) -> tuple[str, ...]:
        """Its access pattern."""
        return ("read", "write") if self.rw.endswith("rw") else (self.rw.removeprefix("rand"),)

    @model_validator(mode="after")
    def _options_are_others(self) -> FioSettings:
        for name in sorted(_OWN & self.options.keys()):
            cure = "see osmef workloads fio; for a device, or a job file, use kind: program"
            raise conflict(f"{name} is no option of its own here", cure, f"options.{name}")
        return self

    @model_validator(mode="after")
    def _depth_is_had(self) -> FioSettings:
        if self.depth > 1 and self.engine in _ALONE:
            raise conflict(
                f"{self.engine} has one request under way at a time",
                "use engine: libaio or io_uring, or more jobs",
                *("depth", "engine"),
            )
        return self

    def warnings(self) -> Iterator[str]:
        """Warn where requests are serialised."""
        if self.depth > 1 and self.engine == "libaio" and not self.direct:
            yield "libaio has one request under way at a time without direct I/O, not the depth"


class Fio(Tool[FioSettings]):
    """One fio on the sender."""

    Settings = FioSettings
    example = "endpoints: {loopback: {}}\nworkload: {kind: fio, rw: randread, depth: 32}"
    programs = (Program("fio"),)

    def __init__(self, settings: FioSettings, *, background: bool = False) -> None:
        found = [one for way in settings.accesses for one in _measures(way)]
        self.output_measures = (found[0].model_copy(update={"leading": True}), *found[1:])
        super().__init__(settings, background=background)

    def runs(self) -> Sequence[ProgramRun]:
        """Return one job, with group reporting."""
        s = self._settings
        given: dict[str, object] = {
            "name": "osmef", "rw": s.rw, "bs": s.block, "size": s.size, "numjobs": s.jobs,
            "iodepth": s.depth, "ioengine": s.engine, "direct": int(s.direct), "sync": int(s.sync),
            "runtime": math.ceil(s.duration), "time_based": 1, "directory": "{dir}",
            "lat_percentiles": 1, "clat_percentiles": 0, "group_reporting": 1,
        }  # fmt: skip
        given |= {"rwmixread": s.read_percent} if len(s.accesses) > 1 else {}
        given |= {"rate_iops": s.rate} if s.rate is not None else {}
        given |= {"ramp_time": math.ceil(s.warmup)} if s.warmup else {}
        options = [f"--{name}={value}" for name, value in {**given, **s.options}.items()]
        return (s.run_of(["fio", "--output-format=json", "--eta=never", *options]),)

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the JSON, which must have each requested direction."""
        printed = ended[-1].printed
        output = read(printed.text_of_stdout)
        numbers: dict[str, float | None] = {}
        for name in self._settings.accesses:
            way = output.read if name == "read" else output.written
            if way is None:
                raise OutputError(f"fio reports no {name} that has ended", tail=printed.tail)
            numbers |= _numbers(name, way)
        return numbers


def _numbers(name: str, way: DirectionStatistics) -> Mapping[str, float | None]:
    percentiles = way.latency.percentiles_us or {}
    return {
        f"{name}_iops": way.iops,
        f"{name}_bytes_per_s": way.bytes_per_s,
        f"{name}_mean_us": way.latency.mean_us,
        **{f"{name}_{key}_us": percentiles.get(one) for key, one in _PERCENTILES.items()},
        f"{name}_max_us": way.latency.max_us,
    }


def _measures(way: str) -> tuple[Measure, ...]:
    def time(name: str, text: str, head: str | None) -> Measure:
        return Measure(
            name=f"{way}_{name}_us", unit="us", better=Better.LOWER, head=head, digits=".0f",
            label=f"{way}s, {text}", over_pairs=OverPairs.WORST, source="fio(1), lat",
            help=f"{text} of the time from making a request until it was done, {way}s",
        )  # fmt: skip

    return (
        Measure(
            name=f"{way}_iops", unit="1/s", better=Better.HIGHER, label=f"{way}s",
            head=f"{way}s\n/s", digits=".0f", over_pairs=OverPairs.SUM, source="fio(1), iops",
            help=f"{way}s per second, of all jobs",
        ),
        Measure(
            name=f"{way}_bytes_per_s", unit="B/s", better=Better.HIGHER, label=f"{way}s, bytes",
            head=f"{way}\nrate", over_pairs=OverPairs.SUM, source="fio(1), bw",
            help=f"bytes per second of all {way}s",
        ),
        time("mean", "mean", None),
        time("p50", "median", f"{way}\np50 µs"),
        time("p99", "99th percentile", f"{way}\np99 µs"),
        time("p999", "99.9th percentile", None),
        time("max", "maximum", None),
    )  # fmt: skip
