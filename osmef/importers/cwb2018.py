"""Importer of Scheuner and Leitner's EC2 data: CSV, a row for each VM and iteration.

Source: Scheuner, Leitner, "Estimating Cloud Application Performance Based on Micro-Benchmark
Profiling", IEEE CLOUD 2018; data-interim.csv of github.com/joe4dev/cwb-analysis (CC BY 4.0).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from osmef.errors import InputError
from osmef.importers.record import Oddity, Parsed, Record, Text, csv_rows, positive
from osmef.results.measure import Better, Component, Measure
from osmef.scenario.fields import EndpointKind

_SOURCE = re.compile(r"rmit-combined_v\d+_(?P<provider>aws)(?:-(?P<region>eu|us))?_(?P<flavor>.+)")
_VM, _ITERATION, _FROM = "provider_vm_id", "iteration", "source"
_KIB, _MIB = 1024.0, 1024.0**2
_THREADS = "threads"

_COLUMNS: dict[str, tuple[str, float]] = {
    "instance/cpu-cores": (_THREADS, 1),
    "sysbench/cpu-multi-thread-duration": ("sysbench_cpu_s", 1),
    "instance/ram-total": ("memory_bytes", _KIB),
    "sysbench/memory-large-block-size-throughput": ("sysbench_memory_bytes_per_s", _MIB),
    "fio/8k-rand-read-bandwidth": ("fio_random_read_bytes_per_s", _KIB),
    "sysbench/fileio-1m-seq-write-throughput": ("sysbench_write_bytes_per_s", _MIB),
    "iperf/multi-thread-bandwidth": ("iperf_bps", 1e6),
}
"""The columns that are components of EasyCompare's vector: the metric, and its unit in ours."""


def _measure(name: str, unit: str, component: Component, help_: str, source: str) -> Measure:
    better = Better.LOWER if component is Component.CPU else Better.HIGHER
    more = {"component": component, "leading": component is Component.NETWORK}
    told = {"name": name, "unit": unit, "better": better, "help": help_, "source": source}
    return Measure.model_validate({**told, **more})


MEASURES = (
    _measure(_THREADS, "1", Component.THREADS, "CPUs of the VM", "proc(5)"),
    _measure(
        "sysbench_cpu_s", "s", Component.CPU, "prime numbers, as many threads as CPUs",
        "sysbench 0.4.12",
    ),
    _measure("memory_bytes", "B", Component.MEMORY, "memory of the VM", "proc(5)"),
    _measure(
        "sysbench_memory_bytes_per_s", "B/s", Component.MEMORY_RATE, "writes of large blocks",
        "sysbench 0.4.12",
    ),
    _measure(
        "fio_random_read_bytes_per_s", "B/s", Component.DISK_READ, "random reads of 8 KiB",
        "fio 2.1.10",
    ),
    _measure(
        "sysbench_write_bytes_per_s", "B/s", Component.DISK_WRITE,
        "writes of 1 MiB, one after the other", "sysbench 0.4.12",
    ),
    _measure(
        "iperf_bps", "bit/s", Component.NETWORK, "several connections within EC2", "iperf 2.0.5"
    ),
)  # fmt: skip


def parse(text: Text) -> Parsed:
    """Read a trial for each iteration on a VM; a VM is a session, and the VM types are cells.

    VMs differ more than iterations on one of them, so that only VMs count as independent. Of the
    columns those are read that EasyCompare's vector has. Two faults of the file are oddities: types
    of paravirtual VMs, which are left out, and numbers of CPUs below the type's. Raises InputError.
    """
    oddities: list[Oddity] = []
    records: dict[str, list[tuple[int, Record]]] = defaultdict(list)
    for line, row in csv_rows(text, (_VM, _ITERATION, _FROM, *_COLUMNS), oddities, delimiter=";"):
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
            record = _record(match["provider"], match["flavor"], row, metrics)
            records[match["flavor"]].append((line, replace(record, place=f"line {line}")))
    found = [one for of in records.values() for one in _with_threads(of, text, oddities)]
    return Parsed(found, oddities)


def _metrics(row: Mapping[str, str], where: str) -> dict[str, float | None]:
    """Return the metrics of a row in our units; most rows have only some. Raises InputError."""
    return {
        name: factor * positive(row[column], column, where)
        for column, (name, factor) in _COLUMNS.items()
        if row[column].strip() not in {"", "NA"}
    }


def _record(
    provider: str, flavor: str, row: Mapping[str, str], metrics: dict[str, float | None]
) -> Record:
    other = f"{flavor} (other end)"  # of iperf; the file tells nothing of it
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
        told = record.metrics.get(_THREADS)
        if told is not None and told < most:
            what = f"{told:.0f} CPUs, and others of this type have {most:.0f}"
            oddities.append(Oddity(text.line(line), what, kept=True))
            found.append(replace(record, metrics={**record.metrics, _THREADS: None}))
        else:
            found.append(record)
    return found
