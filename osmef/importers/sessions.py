"""Importers of session results in CSV: of any cloud, and those of Scheuner and Leitner of EC2.

The former have a row for each metric, platform and session. Columns are as in the measurements
published by the authors of Deval: instance_class, metric, unit, platform, session, value; also
window, started_at (ISO 8601) and better, if they are there. Any others stay in the file's copy.

The latter have a row for each VM and iteration. Source: Scheuner, Leitner, "Estimating Cloud
Application Performance Based on Micro-Benchmark Profiling", IEEE CLOUD 2018; data-interim.csv of
github.com/joe4dev/cwb-analysis (CC BY 4.0).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from osmef.errors import InputError
from osmef.importers.record import Oddity, Parsed, Record, Text, csv_rows, number, positive, refuse
from osmef.results import document
from osmef.results.measure import Better, Component, Measure
from osmef.scenario.fields import EndpointKind

_Key = tuple[str, str, str, int]
"""Platform, instance class, session, and which data point of the session."""

_BETTER = {"", *Better}
_SIMPLE = {"bit/s", "B/s", "1/s", "us/kB", "us", "ms", "ns", "s", "%", "B", "1"}
"""Units that a metric's name may contain; others are as in the file."""
COLUMNS = ("instance_class", "metric", "unit", "platform", "session", "value")


def parse_sessions(text: Text) -> Parsed:
    """Read a run for each platform, a cell for each instance class, a trial for each data point.

    A metric's first row has its ``unit`` and optionally ``better`` (higher, lower, neither).
    Without that, it follows from the name, as in older results. Rows of one metric and session that
    differ are its data points; a duplicate row is an oddity. The platform is the provider. Metrics
    are named METRIC_UNIT, so ``unixbench_single_score`` and ``dbench_mb_per_s`` of MB/s. With a row
    for each session, the spread over the trials of a cell is that over the session results. Raises
    InputError.
    """
    metrics: dict[_Key, dict[str, float | None]] = defaultdict(dict)
    lines: dict[_Key, list[int]] = defaultdict(list)
    about: dict[_Key, tuple[str | None, datetime | None]] = {}
    points: Counter[tuple[str, ...]] = Counter()
    measures: dict[str, Measure] = {}
    firsts: dict[str, Mapping[str, str]] = {}
    seen: set[tuple[str, ...]] = set()
    oddities: list[Oddity] = []
    for line, row in csv_rows(text, COLUMNS, oddities):
        unit = row["unit"].replace("/", " per ")
        name = _name(f"{row['metric']}_{unit}")
        try:
            value = number(row["value"], "value", text.line(line))
            _check_same(row, firsts.setdefault(name, row), text.line(line))
            if name not in measures:
                measures[name] = _measure(name, row, text.line(line))
        except InputError as error:
            oddities.append(Oddity(text.line(line), error.message, False))
            continue
        if (whole := tuple(row.values())) in seen:
            oddities.append(Oddity(text.line(line), f"{name} of this session once more", False))
            continue
        seen.add(whole)
        session = (row["platform"], row["instance_class"], row["session"])
        points[*session, name] += 1
        of = (*session, points[*session, name])
        metrics[of][name] = value
        lines[of].append(line)
        if of not in about:
            begun = _time(row.get("started_at"), text.line(line), oddities)
            about[of] = (row.get("window") or None, begun)
    records = [
        _session_record(key, found, lines[key], *about[key])
        for key, found in metrics.items()
        if found
    ]
    return Parsed(records, oddities, sorted(measures.values(), key=lambda one: one.name))


def _session_record(
    key: _Key,
    metrics: dict[str, float | None],
    lines: Sequence[int],
    window: str | None,
    started_at: datetime | None,
) -> Record:
    platform, instance_class, session, _point = key
    return Record(
        workload="session",
        metrics=metrics,
        place="line " + ", ".join(map(str, lines)),
        values={"instance_class": instance_class},
        session=session,
        window=window,
        started_at=started_at,
        platform=platform,
        run=platform,
        provider=platform,
    )


def _measure(name: str, row: Mapping[str, str], where: str) -> Measure:
    """Return the measure of a row's metric."""
    reported = row.get("better", "").strip().lower()
    if reported not in _BETTER:
        raise refuse(where, f"better is {reported[:40]!r}", "write higher, lower or neither")
    known = document.measure_of(name)
    unit = known.unit if known.unit in _SIMPLE else row["unit"].strip() or None
    better = Better(reported) if reported else known.better
    return known.model_copy(update={"unit": unit, "better": better, "head": None})


def _check_same(row: Mapping[str, str], first: Mapping[str, str], where: str) -> None:
    """Raise InputError for another metric or unit of one name: a.b and a_b, or Mb/s and MB/s."""
    if row["unit"] != first["unit"]:
        what = f"its unit is {row['unit'][:40]}, and before it was {first['unit'][:40]}"
        raise refuse(where, what, "look there")
    if row["metric"].lower() != first["metric"].lower():
        what = f"{row['metric'][:40]} has the same name here as {first['metric'][:40]}"
        raise refuse(where, what, "call one of them otherwise")


def _time(reported: str | None, where: str, oddities: list[Oddity]) -> datetime | None:
    """Parse a time, in UTC without a zone; None if empty."""
    if not reported:
        return None
    try:
        found = datetime.fromisoformat(reported)
    except ValueError:
        oddities.append(Oddity(where, f"started_at is {reported[:40]!r}, and no time", kept=True))
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _name(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


_SOURCE = re.compile(r"rmit-combined_v\d+_(?P<provider>aws)(?:-(?P<region>eu|us))?_(?P<flavor>.+)")
_VM, _ITERATION, _FROM = "provider_vm_id", "iteration", "source"
_KIB, _MIB = 1024.0, 1024.0**2
_THREADS = "threads"

_CWB2018_COLUMNS: dict[str, tuple[str, float]] = {
    "instance/cpu-cores": (_THREADS, 1),
    "sysbench/cpu-multi-thread-duration": ("sysbench_cpu_s", 1),
    "instance/ram-total": ("memory_bytes", _KIB),
    "sysbench/memory-large-block-size-throughput": ("sysbench_memory_bytes_per_s", _MIB),
    "fio/8k-rand-read-bandwidth": ("fio_random_read_bytes_per_s", _KIB),
    "sysbench/fileio-1m-seq-write-throughput": ("sysbench_write_bytes_per_s", _MIB),
    "iperf/multi-thread-bandwidth": ("iperf_bps", 1e6),
}
"""The columns that are components of EasyCompare's vector: the metric, and its unit in ours."""


def _cwb2018_measure(
    name: str, unit: str, component: Component, help_: str, source: str
) -> Measure:
    better = Better.LOWER if component is Component.CPU else Better.HIGHER
    more = {"component": component, "leading": component is Component.NETWORK}
    reported = {"name": name, "unit": unit, "better": better, "help": help_, "source": source}
    return Measure.model_validate({**reported, **more})


CWB2018_MEASURES = (
    _cwb2018_measure(_THREADS, "1", Component.THREADS, "CPUs of the VM", "proc(5)"),
    _cwb2018_measure(
        "sysbench_cpu_s", "s", Component.CPU, "prime numbers, as many threads as CPUs",
        "sysbench 0.4.12",
    ),
    _cwb2018_measure("memory_bytes", "B", Component.MEMORY, "memory of the VM", "proc(5)"),
    _cwb2018_measure(
        "sysbench_memory_bytes_per_s", "B/s", Component.MEMORY_RATE, "writes of large blocks",
        "sysbench 0.4.12",
    ),
    _cwb2018_measure(
        "fio_random_read_bytes_per_s", "B/s", Component.DISK_READ, "random reads of 8 KiB",
        "fio 2.1.10",
    ),
    _cwb2018_measure(
        "sysbench_write_bytes_per_s", "B/s", Component.DISK_WRITE,
        "writes of 1 MiB, one after the other", "sysbench 0.4.12",
    ),
    _cwb2018_measure(
        "iperf_bps", "bit/s", Component.NETWORK, "several connections within EC2", "iperf 2.0.5"
    ),
)  # fmt: skip


def parse_cwb2018(text: Text) -> Parsed:
    """Read a trial for each iteration on a VM; a VM is a session, and the VM types are cells.

    VMs differ more than iterations on one of them, so that only VMs count as independent. Of the
    columns those are read that EasyCompare's vector has. Two faults of the file are oddities: types
    of paravirtual VMs, which are left out, and numbers of CPUs below the type's. Raises InputError.
    """
    oddities: list[Oddity] = []
    records: dict[str, list[tuple[int, Record]]] = defaultdict(list)
    for line, row in csv_rows(
        text, (_VM, _ITERATION, _FROM, *_CWB2018_COLUMNS), oddities, delimiter=";"
    ):
        where = text.line(line)
        match = _SOURCE.fullmatch(row[_FROM])
        if match is None or match["flavor"].endswith("-pv"):
            oddities.append(Oddity(where, f"VMs of {row[_FROM][:80]!r} are not known", kept=False))
            continue
        try:
            metrics = _metrics(row, where)
        except InputError as error:
            oddities.append(Oddity(where, error.message, kept=False))
            continue
        if metrics:
            record = _cwb2018_record(match["provider"], match["flavor"], row, metrics)
            records[match["flavor"]].append((line, replace(record, place=f"line {line}")))
    found = [one for of in records.values() for one in _with_threads(of, text, oddities)]
    return Parsed(found, oddities)


def _metrics(row: Mapping[str, str], where: str) -> dict[str, float | None]:
    """Return the metrics of a row in our units; most rows have only some. Raises InputError."""
    return {
        name: factor * positive(row[column], column, where)
        for column, (name, factor) in _CWB2018_COLUMNS.items()
        if row[column].strip() not in {"", "NA"}
    }


def _cwb2018_record(
    provider: str, flavor: str, row: Mapping[str, str], metrics: dict[str, float | None]
) -> Record:
    other = f"{flavor} (other end)"  # of iperf; the file does not have it
    return Record(
        workload="cwb2018",
        metrics=metrics,
        values={"flavor": flavor},
        senders=(flavor,),
        receivers=(other,),
        kinds={flavor: EndpointKind.VM, other: EndpointKind.VM},
        flavors={flavor: flavor, other: flavor},
        session=row[_VM],
        run="cwb-2018",
        provider=provider,
    )


def _with_threads(
    records: list[tuple[int, Record]], text: Text, oddities: list[Oddity]
) -> list[Record]:
    """Return the trials of a VM type without implausible numbers of CPUs."""
    most = max((one.metrics.get(_THREADS) or 0 for _, one in records), default=0)
    found = []
    for line, record in records:
        reported = record.metrics.get(_THREADS)
        if reported is not None and reported < most:
            what = f"{reported:.0f} CPUs, and others of this type have {most:.0f}"
            oddities.append(Oddity(text.line(line), what, kept=True))
            found.append(replace(record, metrics={**record.metrics, _THREADS: None}))
        else:
            found.append(record)
    return found
