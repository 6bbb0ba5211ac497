"""Importer of flent's data files: JSON, mostly compressed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from osmef.importers.record import (
    SENDER,
    Parsed,
    Record,
    Text,
    amount,
    in_own_unit,
    is_plain,
    measure_named,
    number,
    read_json,
    refuse,
)
from osmef.results.measure import Measure, of_background
from osmef.results.observations import Purpose
from osmef.results.trial import Interval
from osmef.scenario.study import Scalar
from osmef.workloads.kinds import btc, latency

_LEAST_VERSION = 4
_LARGEST = 1e9  # Mbit/s, or ms
_SETTINGS = {"NAME": "test", "TITLE": "title", "LENGTH": "length_s", "STEP_SIZE": "step_s",
             "IP_VERSION": "ip_version"}  # fmt: skip

MEASURES: Sequence[Measure] = (
    *latency.BESIDE,
    *latency.MEASURES,
    *map(of_background, btc.BOTH_WAYS),
)


@dataclass(frozen=True)
class _Point:
    """A value of a series: its time in seconds from the start, and its length."""

    at_s: float
    length_s: float
    value: float


@dataclass(frozen=True)
class _Series:
    """A measured series: rates in bit/s, or times in microseconds."""

    name: str
    unit: str
    points: list[_Point]

    @property
    def is_ping(self) -> bool:
        """Whether it has round-trip times."""
        return self.unit == "us"

    @property
    def is_back(self) -> bool:
        """Whether the direction is download."""
        return "download" in self.name.lower()

    @property
    def protocol(self) -> str:
        """The protocol of a series of round-trip times."""
        return "icmp" if "ICMP" in self.name.upper().split() else "udp"


def parse(text: Text) -> Parsed:
    """Read a data file, a trial: its measured series, not the derived ones.

    Rates are rows of the intervals as a background, from the host of flent or to it (download),
    and round trips as those of latency. ``loaded_rtt_...`` is of the round trips while transfers
    went on, ``idle_rtt_...`` of those before; without transfers there is one time. They are of
    ``Ping (ms) ICMP``, or else of the first series of round trips. Each series has its mean, under
    its own name. ``background_aggregate_btc_bps`` is the sum of the means of the uploads,
    ``background_reverse_aggregate_btc_bps`` that of the downloads. Raises InputError.
    """
    data = _document(text)
    series = [one for one in _all_series(data, text) if one.points]
    if not series:
        raise refuse(text.line(1), "this has no series that was measured")
    meta = data["metadata"]
    here, there = str(meta.get("LOCAL_HOST") or SENDER), str(meta.get("HOST") or "receiver")
    measures = [measure_named("flent", one.name, one.unit) for one in series]
    own = {
        measure.name: statistics.fmean(point.value for point in one.points)
        for measure, one in zip(measures, series, strict=True)
    }
    record = Record(
        workload="latency" if any(one.is_ping for one in series) else "btc",
        metrics={**_round_trips(series), **_rates(series), **own},
        place="line 1",
        values=_values(meta),
        senders=(here,),
        receivers=(there,),
        started_at=_time(meta.get("T0") or meta.get("TIME")),
        wall_s=_length(meta.get("TOTAL_LENGTH")),
        intervals=list(_intervals(series, here, there)),
    )
    return Parsed([record], [], measures)


def _document(text: Text) -> Mapping[str, Any]:
    data = read_json(text)
    if not isinstance(data, dict) or not isinstance(data.get("metadata"), dict):
        raise refuse(text.line(1), "this is no data file of flent: it has no metadata")
    version = data.get("version")
    if not isinstance(version, int) or version < _LEAST_VERSION:
        raise refuse(
            text.line(1),
            f"this is a data file of version {str(version)[:20]}",
            f"load and write it once with a flent that writes version {_LEAST_VERSION} (1.3)",
        )
    if not isinstance(data.get("raw_values"), dict):
        raise refuse(text.line(1), "this has no raw_values", "give a file that flent itself wrote")
    return data


def _all_series(data: Mapping[str, Any], text: Text) -> Iterable[_Series]:
    """Yield the measured series; derived ones have no command."""
    about = data["metadata"].get("SERIES_META")
    step = data["metadata"].get("STEP_SIZE")
    step_s = float(step) if isinstance(step, int | float) and 0 < step < 1e6 else 0.2
    start = _start(data)
    for name, points in data["raw_values"].items():
        meta = about.get(name) if isinstance(about, dict) else None
        if not isinstance(meta, dict) or not meta.get("UNITS") or not isinstance(points, list):
            continue
        factor, unit = in_own_unit(1.0, str(meta["UNITS"]))
        if unit not in {"bit/s", "us"}:
            continue
        where = f"{text.name}: {name}"
        reported = [p for p in points if isinstance(p, dict) and p.get("val") is not None]
        times = [number(p.get("t"), "t", where) for p in reported]
        yield _Series(
            name,
            unit,
            [
                _Point(at - start, _positive(p.get("dur"), step_s), factor * _value(p, where))
                for p, at in zip(reported, times, strict=True)
            ],
        )


def _start(data: Mapping[str, Any]) -> float:
    """Return when the test began, one moment for all series: T0, or the first value of any."""
    begun = _time(data["metadata"].get("T0"))
    if begun is not None:
        return begun.timestamp()
    points = (p for of in data["raw_values"].values() if isinstance(of, list) for p in of)
    times = (p.get("t") for p in points if isinstance(p, dict) and p.get("val") is not None)
    return min((float(t) for t in times if isinstance(t, int | float)), default=0.0)


def _value(point: Mapping[str, Any], where: str) -> float:
    value = amount(point["val"], "val", where)
    if value > _LARGEST:
        raise refuse(where, f"val is {value:g}, which is not a valid value")
    return value


def _positive(value: object, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e6 else otherwise


def _values(meta: Mapping[str, Any]) -> dict[str, Scalar]:
    known = {own: meta.get(name) for name, own in _SETTINGS.items()}
    return {
        name: value
        for name, value in known.items()
        if isinstance(value, str | int | float) and value != "" and is_plain(value)
    }


def _time(reported: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(reported))
    except ValueError:
        return None


def _length(reported: object) -> float | None:
    known = isinstance(reported, int | float) and math.isfinite(reported) and reported > 0
    return float(reported) if known and isinstance(reported, int | float) else None


def _round_trips(series: Sequence[_Series]) -> dict[str, float | None]:
    pings = [one for one in series if one.is_ping]
    if not pings:
        return {}
    main = next((one for one in pings if one.protocol == "icmp"), pings[0])
    rates = [point for one in series if not one.is_ping for point in one.points]
    if not rates:
        return _times("", main.points)
    first, last = min(p.at_s - p.length_s for p in rates), max(p.at_s for p in rates)
    idle = [point for point in main.points if point.at_s < first]
    loaded = [point for point in main.points if first <= point.at_s <= last]
    found = {**_times("idle_", idle), **_times("loaded_", loaded)}
    one, other = found["idle_rtt_p50_us"], found["loaded_rtt_p50_us"]
    return {**found, "latency_increase_ratio": other / one if one and other else None}


def _times(prefix: str, points: Sequence[_Point]) -> dict[str, float | None]:
    times = [point.value for point in points]
    return {
        f"{prefix}rtt_min_us": min(times, default=None),
        f"{prefix}rtt_mean_us": statistics.fmean(times) if times else None,
        f"{prefix}rtt_p50_us": statistics.median_low(times) if times else None,
        f"{prefix}rtt_max_us": max(times, default=None),
    }


def _rates(series: Sequence[_Series]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name, back in (("aggregate_btc_bps", False), ("reverse_aggregate_btc_bps", True)):
        means = [
            statistics.fmean(point.value for point in one.points)
            for one in series
            if not one.is_ping and one.is_back == back
        ]
        if means:
            found[f"background_{name}"] = math.fsum(means)
    return found


def _intervals(series: Sequence[_Series], here: str, there: str) -> Iterable[Interval]:
    for flow, one in enumerate(series):
        for point in one.points:
            begun_s = max(0.0, point.at_s - point.length_s)
            length_s = point.length_s if one.is_ping else point.at_s - begun_s
            if length_s <= 0:
                continue  # values from before the test are no rates
            receives = here if one.is_back else there
            yield Interval(
                trial=0,
                purpose=(Purpose.MEASURED if one.is_ping else Purpose.BACKGROUND).value,
                endpoint=here if one.is_ping else receives,
                peer=there if one.is_ping or one.is_back else here,
                role="sender" if one.is_ping else "receiver",
                flow=flow,
                start_s=begun_s,
                length_s=length_s,
                began_s=0.0,
                bytes=0 if one.is_ping else round(max(0.0, point.value) * length_s / 8),
                retransmits=None,
                rtt_us=point.value if one.is_ping else None,
                cwnd=None,
                exchanges=1 if one.is_ping else None,
                protocol=one.protocol if one.is_ping else None,
            )
