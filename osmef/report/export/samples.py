"""Single trials as newline JSON, CSV, InfluxDB lines and OpenSearch's bulk format."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from osmef.results.frame import measures_of, swept_of

Value = str | int | float | bool

LABELS = (
    "run", "scenario", "provider", "cell", "trial", "repetition", "pair", "session", "window",
    "platform", "workload", "background", "achieved_placement", "achieved_tenancy", "distance",
    "connections", "sender_flavors", "receiver_flavors",
)  # fmt: skip
"""What tells a trial from others, as ``osmef.load`` calls it; swept values come after them."""


@dataclass(frozen=True)
class Sampled:
    """A trial: its labels, its start, and its metrics by name."""

    labels: dict[str, Value]
    at: datetime | None
    metrics: dict[str, float]


def sampled(trials: pd.DataFrame) -> Iterator[Sampled]:
    """Yield the successful trials of a frame of ``osmef.load``.

    What is not known is left out, and so are swept values that are no scalars.
    """
    names = [name for name in dict.fromkeys((*LABELS, *swept_of(trials))) if name in trials]
    metrics = list(measures_of(trials))
    good = trials[trials["status"] == "ok"]
    for row in good.to_dict("records"):
        labels = {str(name): known for name in names if (known := _known(row[name])) is not None}
        numbers = {str(name): float(value) for name in metrics
                   if not pd.isna(value := row[name]) and math.isfinite(value)}  # fmt: skip
        at = row.get("started_at")
        yield Sampled(labels, None if pd.isna(at) else at.to_pydatetime(), numbers)


def _known(value: object) -> Value | None:
    """Return a scalar as JSON; None for an unknown value, or no scalar."""
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, float) and plain.is_integer():
        return int(plain)
    if isinstance(plain, str | int | bool) or (isinstance(plain, float) and math.isfinite(plain)):
        return plain
    return None


def units(trials: pd.DataFrame) -> dict[str, str | None]:
    """Return the unit of each metric of a frame, by its ``Measure``."""
    return {name: one.unit for name, one in measures_of(trials).items()}


def write_ndjson(trials: pd.DataFrame) -> Iterator[str]:
    """Yield a line for each metric of each trial: metric, unit, value, time, labels."""
    unit_of = units(trials)
    for one in sampled(trials):
        at = None if one.at is None else one.at.isoformat()
        for name, value in one.metrics.items():
            told = {"metric": name, "unit": unit_of[name], "value": value, "time": at}
            yield _json({**told, "labels": one.labels})


def write_csv(trials: pd.DataFrame) -> Iterator[str]:
    """Yield a header, and a row for each metric of each trial; a label is a column."""
    unit_of, every = units(trials), list(sampled(trials))
    labels = list(dict.fromkeys(name for one in every for name in one.labels))
    yield _row(["metric", "unit", "value", "time", *(f"label_{name}" for name in labels)])
    for one in every:
        at = "" if one.at is None else one.at.isoformat()
        known = [one.labels.get(name, "") for name in labels]
        for name, value in one.metrics.items():
            yield _row([name, unit_of[name] or "", repr(value), at, *known])


def write_opensearch(trials: pd.DataFrame) -> Iterator[str]:
    """Yield two lines for each trial: the action, and the document with its metrics.

    The id is that of run and trial, so that a run that is sent twice is there once.

    Source: the bulk API of OpenSearch and Elasticsearch.
    """
    for one in sampled(trials):
        name = f"{one.labels['run']}/{one.labels['trial']}"
        yield _json({"index": {"_index": "osmef-trials", "_id": name}})
        at = {} if one.at is None else {"@timestamp": one.at.isoformat()}
        yield _json({**at, "labels": one.labels, "metrics": one.metrics})


def write_influx(trials: pd.DataFrame) -> Iterator[str]:
    """Yield a line of the measurement ``osmef`` for each trial: labels are tags, metrics fields.

    Source: the line protocol of InfluxDB; times are in nanoseconds.
    """
    for one in sampled(trials):
        if not one.metrics:
            continue
        tags = ("=".join((_influx(name), _influx(str(value))))
                for name, value in sorted(one.labels.items()) if str(value))  # fmt: skip
        fields = (f"{_influx(name)}={value!r}" for name, value in one.metrics.items())
        at = "" if one.at is None else f" {round(one.at.timestamp() * 1e6) * 1000}"
        yield f"{','.join(('osmef', *tags))} {','.join(fields)}{at}\n"


_NO_TAG = re.compile(r"[\x00-\x1f\x7f\\]")
_SPECIAL = re.compile(r"([,= ])")


def _influx(text: str) -> str:
    # A line can hold no other line, and a backslash would take away the meaning of what follows.
    return _SPECIAL.sub(r"\\\1", _NO_TAG.sub(" ", text))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def _row(values: list[Value]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()
