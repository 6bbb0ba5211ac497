"""Importer of PerfKit Benchmarker: its samples as JSON, one a line."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from osmef.errors import InputError
from osmef.importers import netperf
from osmef.importers.record import (
    Oddity,
    Parsed,
    Record,
    Text,
    amount,
    in_own_unit,
    measure_named,
    refuse,
    slug,
)
from osmef.results.measure import Measure
from osmef.scenario.study import Scalar

MEASURES = netperf.MEASURES

_LABEL = re.compile(r"\|([^|:]+):([^|]*)\|")
_NETPERF = re.compile(r"((?:TCP|UDP)_(?:STREAM|RR|CRR))_(.+)")
_TIMES = {
    "latency_min": "rtt_min_us", "latency_average": "rtt_mean_us", "latency_p50": "rtt_p50_us",
    "latency_p90": "rtt_p90_us", "latency_p99": "rtt_p99_us", "latency_max": "rtt_max_us",
}  # fmt: skip
_OF_NETPERF: dict[str, dict[str, str]] = {
    "TCP_STREAM": {"throughput": "aggregate_btc_bps", "throughput_total": "aggregate_btc_bps"},
    "TCP_RR": {"transaction_rate": "exchanges_per_s", **_TIMES},
    "UDP_RR": {"transaction_rate": "exchanges_per_s", **_TIMES},
    "TCP_CRR": {"transaction_rate": "connects_per_s", **_TIMES},
}
_OF_TEST: dict[str, dict[str, str]] = {
    "iperf": {"throughput": "aggregate_btc_bps", "udp throughput": "sent_bps"},
    "ping": {
        "min latency": "rtt_min_us", "average latency": "rtt_mean_us", "max latency": "rtt_max_us",
    },
}  # fmt: skip
_WORKLOADS = {
    "aggregate_btc_bps": "btc", "sent_bps": "udp", "connects_per_s": "connect",
    "exchanges_per_s": "latency", "rtt_mean_us": "latency",
}  # fmt: skip
_CONNECTIONS = ("num_streams", "sending_thread_count")
_CLOUDS = {"gcp": "gce", "aws": "aws", "azure": "azure", "openstack": "openstack"}

# Labels of results, or of where the run happened to be: no settings of it.
_NOT_SET = frozenset({
    *("perfkitbenchmarker_version", "kernel_release", "os_info", "cloud", "vm_ids", "vm_names"),
    *("histogram", "buffer_size", "tcp_window_size", "write_packet_count", "err_packet_count"),
    *("retry_packet_count", "congestion_window", "congestion_window_scale", "rtt", "rtt_unit"),
    *("netpwr", "pps", "jitter", "jitter_unit", "lost_datagrams", "total_datagrams"),
    *("out_of_order_datagrams", "ipg_target", "interval_throughput_list", "interval_rtt_list"),
    *("retransmissions", "retransmits", "throughput_confidence", "confidence_iter"),
})  # fmt: skip


@dataclass
class _SampleGroup:
    """The samples of a benchmark run with the same settings."""

    test: str
    labels: dict[str, Scalar]
    about: Mapping[str, Any]
    lines: list[int] = field(default_factory=list)
    metrics: dict[str, float | None] = field(default_factory=dict)


def parse(text: Text) -> Parsed:
    """Read samples with labels, as in ``perfkitbenchmarker_results.json``, or with metadata.

    A trial has the samples of one run (``run_uri``) of a benchmark with the same labels; a repeated
    metric belongs to the next trial. Numbers of netperf, iperf and ping have OSMeF's names, others
    PKB's with their unit. Raises InputError.
    """
    groups: dict[tuple[object, ...], _SampleGroup] = {}
    again: Counter[tuple[object, ...]] = Counter()
    measures: dict[str, Measure] = {}
    odd: list[Oddity] = []
    for line, written in enumerate(text.text.splitlines(), start=1):
        if not written.strip():
            continue
        try:
            sample = _sample(written, text.line(line))
            labels = _labels(sample, text.line(line))
            name, value, measure, test = _metric(sample, text.line(line))
        except InputError as error:
            odd.append(Oddity(text.line(line), error.message, kept=False))
            continue
        if name is None:
            continue
        reported = {"test": str(sample["test"]), **({"netperf_test": test} if test else {})}
        values = reported | _values(labels)
        of = (str(sample["run_uri"]), str(sample["test"]), tuple(values.items()))
        again[*of, name] += 1
        key = (*of, again[*of, name])
        about = {**sample, "cloud": labels.get("cloud")}
        group = groups.setdefault(key, _SampleGroup(str(sample["test"]), values, about))
        group.lines.append(line)
        group.metrics[name] = value
        if measure is not None:
            measures.setdefault(measure.name, measure)
    return Parsed([_record(group) for group in groups.values()], odd, list(measures.values()))


def _sample(written: str, where: str) -> Mapping[str, Any]:
    try:
        sample = json.loads(written)
    except (RecursionError, ValueError) as error:
        raise refuse(where, f"this is no JSON: {error}") from None
    keys = ("test", "metric", "value", "unit", "run_uri")
    missing = [key for key in keys if not isinstance(sample, dict) or key not in sample]
    if missing:
        raise refuse(where, f"this is no sample of PKB: there is no {', '.join(missing)}")
    return dict(sample)


def _labels(sample: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return the labels, |name:value| with commas between, or the metadata."""
    metadata = sample.get("metadata")
    if isinstance(metadata, dict):
        return {str(name): str(value) for name, value in metadata.items()}
    reported = sample.get("labels", "")
    if not isinstance(reported, str):
        raise refuse(where, "the labels are no text")
    return {name.strip(): value for name, value in _LABEL.findall(reported)}


def _values(labels: Mapping[str, str]) -> dict[str, Scalar]:
    kept = {name: value for name, value in labels.items() if name not in _NOT_SET and value}
    return {name: int(v) if re.fullmatch(r"\d{1,15}", v) else v for name, v in kept.items()}


def _metric(
    sample: Mapping[str, Any], where: str
) -> tuple[str | None, float, Measure | None, str | None]:
    """Return name, value, measure if it is PKB's own, and netperf's test.

    The name is None for a histogram, whose value has no meaning.
    """
    reported, test = str(sample["metric"]), str(sample["test"])
    value, unit = in_own_unit(amount(sample["value"], reported, where), str(sample["unit"]))
    if not math.isfinite(value) or not slug(reported):
        raise refuse(where, f"{reported[:40]!r} is {value}")
    of = _NETPERF.fullmatch(reported)
    what, known = reported.lower(), _OF_TEST.get(test.lower(), {})
    if of is not None:
        what, known = of[2].lower(), _OF_NETPERF.get(of[1], {})
    if what.endswith("latency_histogram"):
        return None, 0.0, None, None
    tested = of[1] if of else None
    if what in known:
        return known[what], value, None, tested
    measure = measure_named("PerfKit Benchmarker", reported, unit)
    return measure.name, value, measure, tested


def _record(group: _SampleGroup) -> Record:
    workload = next((_WORKLOADS[n] for n in group.metrics if n in _WORKLOADS), group.test)
    connections = next((group.labels[k] for k in _CONNECTIONS if k in group.labels), None)
    cloud = str(group.about["cloud"] or "").lower()
    when = group.about.get("timestamp")
    timed = isinstance(when, int | float) and 0 < when < 1e11
    return Record(
        workload=workload,
        metrics=group.metrics,
        place="line " + ", ".join(map(str, group.lines)),
        values=group.labels,
        connections=connections if isinstance(connections, int) else None,
        session=str(group.about["run_uri"]),
        started_at=datetime.fromtimestamp(when, UTC) if timed and when else None,
        provider=_CLOUDS.get(cloud, cloud) or None,
    )
