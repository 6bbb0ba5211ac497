"""Importer of session results: CSV, a row for each metric, platform and session.

Columns as in the measurements published by Deval's authors: instance_class, metric, unit, platform,
session, value; also window, started_at (ISO 8601) and better, if they are there. Any others stay in
the copy of the file.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from osmef.errors import InputError
from osmef.importers.record import Oddity, Parsed, Record, Text, csv_rows, number, refuse
from osmef.results import document
from osmef.results.measure import Better, Measure

_Key = tuple[str, str, str, int]
"""Platform, instance class, session, and which data point of the session."""

_BETTER = {"", *Better}
_SIMPLE = {"bit/s", "B/s", "1/s", "us/kB", "us", "ms", "ns", "s", "%", "B", "1"}
"""Units that a name tells as well as the file; others are as the file writes them."""
COLUMNS = ("instance_class", "metric", "unit", "platform", "session", "value")


def parse(text: Text) -> Parsed:
    """Read a run for each platform, a cell for each instance class, a trial for each data point.

    What a metric is, its first row says: ``unit``, and which way is better in ``better`` (higher,
    lower, neither), if that is there. Without, it is as names of older results have it.
    Rows of one metric and session that differ are its data points; a row that is there twice is an
    oddity.
    The platform is the provider. Metrics are named METRIC_UNIT, so ``unixbench_single_score`` and
    ``dbench_mb_per_s`` of MB/s.
    With a row for each session, the spread over the trials of a cell is that over the session
    results. Raises InputError.
    """
    metrics: dict[_Key, dict[str, float | None]] = defaultdict(dict)
    lines: dict[_Key, list[int]] = defaultdict(list)
    about: dict[_Key, tuple[str | None, datetime | None]] = {}
    points: Counter[tuple[str, ...]] = Counter()
    measures: dict[str, Measure] = {}
    units: dict[str, str] = {}
    seen: set[tuple[str, ...]] = set()
    oddities: list[Oddity] = []
    for line, row in csv_rows(text, COLUMNS, oddities):
        unit = row["unit"].replace("/", " per ")
        name = _name(f"{row['metric']}_{unit}")
        try:
            value = number(row["value"], "value", text.line(line))
            _check_unit(row["unit"], units.setdefault(name, row["unit"]), text.line(line))
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
        _record(key, found, lines[key], *about[key]) for key, found in metrics.items() if found
    ]
    return Parsed(records, oddities, sorted(measures.values(), key=lambda one: one.name))


def _record(
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
    told = row.get("better", "").strip().lower()
    if told not in _BETTER:
        raise refuse(where, f"better is {told[:40]!r}", "write higher, lower or neither")
    known = document.measure_of(name)
    unit = known.unit if known.unit in _SIMPLE else row["unit"].strip() or None
    better = Better(told) if told else known.better
    return known.model_copy(update={"unit": unit, "better": better, "head": None})


def _check_unit(unit: str, first: str, where: str) -> None:
    """Raise InputError for a row with another unit of the same name, as Mb/s and MB/s are."""
    if unit != first:
        raise refuse(
            where, f"its unit is {unit[:40]}, and before it was {first[:40]}", "look there"
        )


def _time(told: str | None, where: str, oddities: list[Oddity]) -> datetime | None:
    """Parse a time, in UTC without a zone; None if empty."""
    if not told:
        return None
    try:
        found = datetime.fromisoformat(told)
    except ValueError:
        oddities.append(Oddity(where, f"started_at is {told[:40]!r}, and no time", kept=True))
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _name(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
