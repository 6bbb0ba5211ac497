"""Importer of Shaker: the JSON of its report (``--output``)."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from osmef.errors import InputError
from osmef.importers.record import (
    Oddity,
    Parsed,
    Record,
    Text,
    amount,
    in_own_unit,
    is_plain,
    measure_named,
    read_json,
    refuse,
)
from osmef.results.measure import Measure
from osmef.results.trial import Failure, Interval
from osmef.scenario.study import Scalar
from osmef.workloads import metrics
from osmef.workloads.kinds import latency, udp

MEASURES: Sequence[Measure] = (*metrics.MEASURES, *latency.MEASURES, *udp.MEASURES)

_MBIT = 1024 * 1024
"""Shaker divides bit/s twice by 1024 and calls that Mbit/s."""

_KNOWN = {
    "bandwidth": "aggregate_btc_bps", "retransmits": "retransmits", "jitter": "jitter_us",
    "loss": "loss_percent",
}  # fmt: skip
_SUMMED = {"aggregate_btc_bps", "retransmits"}
_SETTINGS = ("class", "method", "threads", "udp", "reverse", "mss", "bandwidth", "datagram_size",
             "buffer_size", "time")  # fmt: skip

_Json = Mapping[str, Any]


def parse(text: Text) -> Parsed:
    """Read a report: a trial for each test and concurrency.

    ``aggregate_btc_bps`` is the sum of the agents' mean bandwidths, in bit/s: Shaker's Mbit/s are
    2^20 of them. ``retransmits`` are those of all samples, of which Shaker reports the mean. Other
    numbers are the mean over the agents of their means. Samples of bandwidth are rows of the
    intervals. A test that failed at an agent is a failed trial. Raises InputError.
    """
    data = _document(text)
    groups: dict[tuple[str, str, int], list[_Json]] = defaultdict(list)
    odd: list[Oddity] = []
    for name, record in data["records"].items():
        if not isinstance(record, dict) or record.get("type") != "agent":
            continue
        count = record.get("concurrency")
        if not isinstance(count, int):
            odd.append(Oddity(f"{text.name}: {name}", "it does not name its concurrency", False))
            continue
        key = (str(record.get("scenario", "")), str(record.get("test", "")), count)
        groups[key].append(record)
    measures: dict[str, Measure] = {}
    records = []
    for key, of in groups.items():
        try:
            records.append(_record(data, key, of, measures, text.name))
        except InputError as error:
            odd.append(Oddity(error.where or text.name, error.message, kept=False))
    return Parsed(records, odd, list(measures.values()))


def _document(text: Text) -> _Json:
    data = read_json(text)
    parts = ("records", "agents", "tests")
    if not isinstance(data, dict) or not all(isinstance(data.get(p), dict) for p in parts):
        raise refuse(text.line(1), "this is no report of Shaker: it has no records, agents, tests")
    return data


def _record(
    data: _Json,
    key: tuple[str, str, int],
    of: Sequence[_Json],
    measures: dict[str, Measure],
    name: str,
) -> Record:
    scenario, test, concurrency = key
    where = f"{name}: {test}, {concurrency} agents"
    ends = [_ends(data["agents"], record) for record in of]
    bad = [record for record in of if record.get("status") != "ok"]
    settings = data["tests"].get(test)
    return Record(
        workload="btc" if any("bandwidth" in _stats(record) for record in of) else "shaker",
        metrics=_metrics(of, measures, where),
        place=f"records {', '.join(str(record.get('id')) for record in of)}"[:500],
        values={
            **({"scenario": scenario} if scenario else {}),
            "test": test,
            **_values(settings if isinstance(settings, dict) else {}),
            "concurrency": concurrency,
        },
        senders=tuple(one for one, _ in ends),
        receivers=tuple(other for _, other in ends),
        started_at=_time(of),
        failure=_failure(bad),
        intervals=[i for record, pair in zip(of, ends, strict=True)
                   for i in _intervals(record, *pair, where)],
    )  # fmt: skip


def _ends(agents: _Json, record: _Json) -> tuple[str, str]:
    """Return an agent, and its peer or node."""
    name = str(record.get("agent"))
    known = agents.get(name)
    other = known.get("slave_id") or known.get("minion_id") if isinstance(known, dict) else None
    return name, str(other or record.get("node") or "receiver")


def _values(test: _Json) -> dict[str, Scalar]:
    return {
        name: value
        for name in _SETTINGS
        if isinstance(value := test.get(name), str | int | float)
        and value != ""
        and is_plain(value)
    }


def _stats(record: _Json) -> _Json:
    stats = record.get("stats")
    return stats if isinstance(stats, dict) else {}


def _metrics(
    of: Sequence[_Json], measures: dict[str, Measure], where: str
) -> dict[str, float | None]:
    found: dict[str, list[float]] = defaultdict(list)
    for record in of:
        for reported, stat in _stats(record).items():
            if not isinstance(stat, dict) or stat.get("avg") is None:
                continue
            if reported == "retransmits":
                found[reported].append(sum(_column(record, reported)))
                continue
            unit = str(stat.get("unit", ""))
            value = amount(stat["avg"], reported, where)
            if unit == "Mbit/s":
                value, unit = value * _MBIT, "bit/s"
            value, unit = in_own_unit(value, unit)
            measure = measure_named("Shaker", reported, unit)
            if reported not in _KNOWN:
                measures.setdefault(measure.name, measure)
            found[_KNOWN.get(reported, measure.name)].append(value)
    return {
        name: sum(values) if name in _SUMMED else statistics.fmean(values)
        for name, values in found.items()
    }


def _column(record: _Json, name: str) -> list[int]:
    """Return the samples' column of whole numbers."""
    meta, samples = record.get("meta"), record.get("samples")
    if not isinstance(meta, list) or not isinstance(samples, list):
        return []
    at = [number for number, one in enumerate(meta) if isinstance(one, list) and one[:1] == [name]]
    return [
        row[at[0]]
        for row in samples
        if at and isinstance(row, list) and at[0] < len(row)
        and isinstance(row[at[0]], int) and row[at[0]] >= 0
    ]  # fmt: skip


def _failure(bad: Sequence[_Json]) -> Failure | None:
    if not bad:
        return None
    first = bad[0]
    reported = str(first.get("stderr") or first.get("info") or first.get("status"))
    return Failure(kind="shaker", message=f"agent {first.get('agent')}: {reported.strip()[-400:]}")


def _time(of: Sequence[_Json]) -> datetime | None:
    starts = [one for r in of if isinstance(one := r.get("start"), int | float) and 0 < one < 1e11]
    return datetime.fromtimestamp(min(starts), UTC) if starts else None


def _intervals(record: _Json, sender: str, receiver: str, where: str) -> Iterator[Interval]:
    """Yield the samples of bandwidth as intervals."""
    meta, samples = record.get("meta"), record.get("samples")
    if not isinstance(meta, list) or not isinstance(samples, list):
        return
    names = [str(one[0]) if isinstance(one, list) and one else "" for one in meta]
    if "time" not in names or "bandwidth" not in names:
        return
    before = 0.0
    for row in samples:
        if not isinstance(row, list) or len(row) != len(names):
            raise refuse(where, "a sample has other columns than meta names")
        reported = dict(zip(names, row, strict=True))
        if reported["time"] is None or reported["bandwidth"] is None:
            continue
        at, rate = (amount(reported[name], name, where) for name in ("time", "bandwidth"))
        if at <= before:
            continue
        again = reported.get("retransmits")
        yield Interval(
            trial=0,
            endpoint=sender,
            peer=receiver,
            role="sender",
            flow=0,
            start_s=before,
            length_s=at - before,
            bytes=round(rate * _MBIT * (at - before) / 8),
            retransmits=again if isinstance(again, int) else None,
            rtt_us=None,
            cwnd=None,
        )
        before = at
