"""CSV files of session results: a row for each metric, platform and session.

Columns as in the measurements published by Deval's authors: instance_class, metric, unit, platform,
session, value; also window and started_at (ISO 8601), if they are there. Any others stay in the
copy of the file.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import UTC, datetime

from osmef.errors import InputError
from osmef.importers.record import Oddity, Parsed, Record, Text, csv_rows, number

_Key = tuple[str, str, str, int]
"""Platform, instance class, session, and which data point of the session."""

COLUMNS = ("instance_class", "metric", "unit", "platform", "session", "value")


def parse(text: Text) -> Parsed:
    """Read a run for each platform, a cell for each instance class, a trial for each data point.

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
    seen: set[tuple[str, ...]] = set()
    oddities: list[Oddity] = []
    for line, row in csv_rows(text, COLUMNS, oddities):
        unit = row["unit"].replace("/", " per ")
        name = _name(f"{row['metric']}_{unit}")
        try:
            value = number(row["value"], "value", text.line(line))
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
        Record(
            workload="session",
            metrics=found,
            place="line " + ", ".join(map(str, lines[key])),
            values={"instance_class": key[1]},
            session=key[2],
            window=about[key][0],
            started_at=about[key][1],
            platform=key[0],
            run=key[0],
            provider=key[0],
        )
        for key, found in metrics.items()
        if found
    ]
    return Parsed(records, oddities)


def _time(told: str | None, where: str, oddities: list[Oddity]) -> datetime | None:
    """Return a time, of UTC where it names no zone; None where there is none."""
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
