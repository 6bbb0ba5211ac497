"""Tables of endpoints: properties, differences, and changes during a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from osmef.analysis.differences import (
    MOVING,
    differences,
    spread,
    spread_with_groups,
    with_groups,
)
from osmef.report.html.reading import ShownRun
from osmef.report.html.table import NOTHING, Column, Emphasis, Field, Table, names, text
from osmef.report.sentences import money
from osmef.results.summary import EndpointInfo, Summary
from osmef.scenario.location import Location

_OWN = ("hostname", "agent_sha256", "error", "change")
_MOST = 300
_LONGEST = 200
_AGENT = 12  # of its hash


def endpoints_table(summary: Summary) -> Table:
    """Return one row an endpoint: as requested, as achieved, and its main facts."""
    heads = ("endpoint", "kind", "flavor", "vCPUs", "host", "tenant", "zone", "address")
    facts = ("CPU", "kernel", "system", "congestion control", "agent")
    columns = [Column(head, number=head == "vCPUs") for head in (*heads, *facts)]
    rows = [_endpoint(info) for info in summary.endpoints[:_MOST]]
    if summary.run.sites:
        columns.insert(1, Column("site"))
        for row, info in zip(rows, summary.endpoints, strict=False):
            row.insert(1, _site(info, summary.run.sites))
    note = "Host and tenant as the cloud reports them; small: the slot of the plan."
    if len(summary.endpoints) > _MOST:
        note += f" The first {_MOST} of {len(summary.endpoints)} endpoints."
    return Table("Endpoints", columns, rows, note)


def _endpoint(info: EndpointInfo) -> list[Field]:
    before = _facts(info)
    addresses = [one for one in (info.data_address, info.data_address6) if one]
    return [
        Field(
            info.name,
            tuple(info.warnings),
            emphasis=Emphasis.WARN if info.warnings else Emphasis.PLAIN,
        ),
        text(info.kind),
        _flavor(info),
        text(info.vcpus),
        _place(info.achieved.host, info.requested.host, info.earlier),
        _place(info.achieved.tenant, info.requested.tenant, []),
        text(info.achieved.zone or info.achieved.region),
        Field(addresses[0], tuple(addresses[1:])) if addresses else text(None),
        text(_at(before, "cpu", "model")),
        text(_at(before, "kernel", "release")),
        text(_at(before, "distribution", "pretty_name")),
        text(_at(before, "tcp", "congestion_control")),
        text(info.agent_sha256[:_AGENT] if info.agent_sha256 else None),
    ]


def _site(info: EndpointInfo, kinds: Mapping[str, str]) -> Field:
    name = info.achieved.site or ""
    return Field(name, (kinds[name],) if name in kinds else ())


def _flavor(info: EndpointInfo) -> Field:
    if info.price is None:
        return text(info.flavor)
    price = f"{money(info.price)} an hour, {info.price.date}, {info.price.source}"
    return Field(info.flavor or NOTHING, (price,))


def _place(achieved: str | None, asked: str | None, earlier: Sequence[Location]) -> Field:
    lines = [f"asked for: {asked}"] if asked not in (None, achieved) else []
    lines += [f"before that on {one.host}" for one in earlier if one.host]
    return Field(achieved or "unknown", tuple(lines), key=achieved or "")


def _facts(info: EndpointInfo) -> Mapping[str, Any]:
    return info.facts.get("before") or {}


def _at(facts: Mapping[str, Any], group: str, key: str) -> object:
    within = facts.get(group)
    return within.get(key) if isinstance(within, Mapping) else None


def differences_table(readings: Sequence[ShownRun]) -> Table | None:
    """Return the facts that differ among endpoints of all runs; None without facts."""
    records = {
        _name(info.name, reading, readings): _facts(info)
        for reading in readings
        if reading.summary
        for info in reading.summary.endpoints
        if _facts(info)
    }
    if not records:
        return None
    found = [
        [Field(one.key), Field(_short(value)), Field(names(who), key=str(len(who)))]
        for one in spread_with_groups(spread(records, (*MOVING, *_OWN)))
        for value, who in one.values.items()
    ]
    columns = [Column("fact"), Column("value"), Column("of these endpoints")]
    note = f"Of {len(records)} endpoints, before the first trial."
    if len(found) > _MOST:
        note += f" The first {_MOST} of {len(found)} values; facts/ of each run has all."
    return Table("Facts that are not the same everywhere", columns, found[:_MOST], note)


def changes_table(summary: Summary) -> Table | None:
    """Return the facts that changed during a run; None without any."""
    changes = (
        [Field(info.name), Field(one.key), Field(_short(one.a)), Field(_short(one.b))]
        for info in summary.endpoints
        for one in with_groups(
            differences(_facts(info), info.facts.get("after") or _facts(info), (*MOVING, *_OWN))
        )
    )
    rows = list(islice(changes, _MOST))
    columns = [Column(head) for head in ("endpoint", "fact", "before", "after")]
    return Table("Facts that changed during the run", columns, rows) if rows else None


def _name(endpoint: str, reading: ShownRun, readings: Sequence[ShownRun]) -> str:
    return endpoint if len(readings) == 1 else f"{reading.number}: {endpoint}"


def _short(value: object) -> str:
    told = "unknown" if value in (None, "null") else str(value)
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}…"
