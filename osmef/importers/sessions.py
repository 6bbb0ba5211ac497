"""CSV files of session results: a row for each metric, platform and session.

Columns as in the measurements published by Deval's authors: instance_class, metric, unit, platform,
session, value; any others are passed over and stay in the copy of the file.
"""

from __future__ import annotations

import re
from collections import defaultdict

from osmef.errors import InputError
from osmef.importers.record import Oddity, Parsed, Record, Text, csv_rows, number

COLUMNS = ("instance_class", "metric", "unit", "platform", "session", "value")


def parse(text: Text) -> Parsed:
    """Read a run for each platform, a cell for each instance class, a trial for each session.

    The platform is the provider. Metrics are named METRIC_UNIT, so ``unixbench_single_score``.
    The spread over the trials of a cell is that over the session results. Raises InputError.
    """
    metrics: dict[tuple[str, str, str], dict[str, float | None]] = defaultdict(dict)
    lines: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    oddities: list[Oddity] = []
    for line, row in csv_rows(text, COLUMNS, oddities):
        of = (row["platform"], row["instance_class"], row["session"])
        name = _name(f"{row['metric']}_{row['unit']}")
        try:
            value = number(row["value"], "value", text.line(line))
        except InputError as error:
            oddities.append(Oddity(text.line(line), error.message, False))
            continue
        if name in metrics[of]:
            oddities.append(Oddity(text.line(line), f"{name} of this session once more", False))
            continue
        metrics[of][name] = value
        lines[of].append(line)
    records = [
        Record(
            workload="session",
            metrics=found,
            place="line " + ", ".join(map(str, lines[platform, instance, session])),
            values={"instance_class": instance},
            session=session,
            run=platform,
            provider=platform,
        )
        for (platform, instance, session), found in metrics.items()
        if found
    ]
    return Parsed(records, oddities)


def _name(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
