"""Reader of the JSON output of fio 3 (--output-format=json): one job, or one reporting group.

Source: fio(1), "JSON output", and stat.c of 3.33. ``bw_bytes`` are bytes per second, times ns. The
latency is the total one (``lat_ns``): from when fio made a request until it was done; fio tells its
percentiles with --lat_percentiles=1, and those of the completion latency (``clat_ns``) without.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from osmef.errors import OutputError
from osmef.formats import failed, shows_tail
from osmef.formats.reading import amount, number, positive, whole

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
class Way:
    """Requests and bytes per second of reads, or of writes."""

    iops: float
    bytes_per_s: float
    requests: int
    bytes: int
    elapsed_s: float
    latency: Latency
    completion: Latency


@dataclass(frozen=True)
class Fio:
    """A run; None for a direction without requests."""

    version: str
    job: str
    read: Way | None
    written: Way | None


@shows_tail
def read(text: str) -> Fio:
    """Read the output of one job. Raises OutputError, also where the job failed."""
    document = _document(text)
    told = _VERSION.fullmatch(str(document.get("fio version")))
    if told is None or int(told[1]) < _LEAST_VERSION:
        raise OutputError("this is not of fio 3", cure="use fio 3 or newer")
    jobs = document.get("jobs")
    if not isinstance(jobs, list) or len(jobs) != 1:
        count = len(jobs) if isinstance(jobs, list) else 0
        raise OutputError(f"there are {count} jobs, and not one", cure="run it --group_reporting")
    return _job(jobs[0], told[0])


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
        raise OutputError("this is no whole JSON: did it come to its end?", line=line) from error
    others = (text[: begin.start()] + "\n" + text[end:]).splitlines()
    odd = next((line for line in others if not _NOTE.fullmatch(line)), None)
    if odd is not None or not isinstance(document, dict):
        raise OutputError(f"this is no output of one run of fio: {str(odd)[:60]!r}")
    return document


def _job(job: Any, version: str) -> Fio:
    if not isinstance(job, dict):
        raise OutputError("this is no job of fio")
    error = whole(job.get("error"), "the error of the job")
    if error:
        raise failed("fio", os.strerror(error) if error < 2**31 else f"error {error}")
    ways = {name: _way(job.get(name), name) for name in ("read", "write")}
    if not any(ways.values()):
        raise OutputError("fio has neither read nor written anything")
    return Fio(version, str(job.get("jobname")), ways["read"], ways["write"])


def _way(told: Any, name: str) -> Way | None:
    if not isinstance(told, dict):
        raise OutputError(f"fio reports nothing of {name}")
    requests = whole(told.get("total_ios"), f"the requests of {name}")
    if not requests:
        return None
    return Way(
        iops=positive(told.get("iops"), f"the IOPS of {name}"),
        bytes_per_s=positive(told.get("bw_bytes"), f"the rate of {name}"),
        requests=requests,
        bytes=whole(told.get("io_bytes"), f"the bytes of {name}"),
        elapsed_s=positive(told.get("runtime"), f"the time of {name}") / 1e3,
        latency=_latency(told.get("lat_ns"), f"the latency of {name}"),
        completion=_latency(told.get("clat_ns"), f"the completion latency of {name}"),
    )


def _latency(told: Any, what: str) -> Latency:
    if not isinstance(told, dict):
        raise OutputError(f"fio does not report {what}")
    least, mean, most = (
        positive(told.get(key), f"{what}, {key}") for key in ("min", "mean", "max")
    )
    if not least <= mean <= most:
        raise OutputError(f"{what} has a mean of {mean:g} between {least:g} and {most:g} ns")
    return Latency(least / 1e3, mean / 1e3, most / 1e3, _percentiles(told.get("percentile"), what))


def _percentiles(told: Any, what: str) -> Mapping[str, float] | None:
    """Return percentiles by percent, such as ``99.9``, in ascending order as fio has them."""
    if told is None:
        return None
    if not isinstance(told, dict):
        raise OutputError(f"{what} has no percentiles that can be read")
    found: dict[str, float] = {}
    last = 0.0
    for key, value in told.items():
        percent = number(key, f"{what}, a percentile")
        time = amount(value, f"{what}, percentile {key}")
        if not 0 < percent <= 100 or time < last:
            raise OutputError(f"{what} has percentiles that can't be: {time:g} ns at {key[:20]} %")
        found[f"{percent:g}"], last = time / 1e3, time
    return found
