"""Events of journals: written and read alike, and those of older versions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from osmef.engine.cost import spent
from osmef.engine.events import (
    Charged,
    ControllerIdentity,
    Created,
    Deployed,
    Destroyed,
    Disturbed,
    Ended,
    EndpointsLent,
    Event,
    Extended,
    Intended,
    Located,
    Other,
    Planned,
    PoolAcquired,
    PoolEvent,
    Provisioning,
    Recovered,
    Recreated,
    Released,
    Replaced,
    Requested,
    ResourceEvent,
    Returned,
    Started,
    WorkerAssigned,
    WorkerLost,
    parse,
    written,
)
from osmef.engine.journal import History, Journal
from osmef.providers.base import Resource
from osmef.results.summary import EndpointInfo, HourlyPrice
from osmef.scenario.location import Location

JOURNALS = Path(__file__).parent / "journals"
AT = "2026-11-20T12:00:00+00:00"
THING = Resource("local", "sandbox", "one", run="r", access={"uri": "b"})
PRICE = HourlyPrice(
    amount=0.5, currency="USD", region="eu-central-1", date="2026-11-20", source="scenario"
)
INFO = EndpointInfo.model_validate(
    {"name": "a", "kind": "vm", "flavor": "small", "vcpus": 1, "requested": {}}
    | {"achieved": {"host": "h"}, "data_address": "10.0.0.2", "agent_sha256": None}
    | {"warnings": [], "facts": {}}
)
EVENTS = (
    Planned(seed=-7, digest="ab" * 32),
    Planned(7, "ab" * 32, "2027-01-04 night", "night", "pair", ("connections=1",)),
    Extended(6),
    Started(7, 12, ControllerIdentity(host="here", pid=4)),
    Provisioning({"a": PRICE, "b": None}, {"a": None, "b": PRICE}, 1e9),
    Deployed(INFO, PRICE),
    Deployed(INFO, None),
    Replaced(("a", "b"), 2, None),
    Replaced(("a",), 1, "no room"),
    Located(3, (1, 2), {"a": Location(host="x")}, None),
    Located(3, (1, 2), {}, "denied"),
    Disturbed(4, "all", ("a",), "lost"),
    Recovered("a", AT, 2.5),
    PoolAcquired(AT, "kept-pair"),
    Recreated("it was gone"),
    WorkerAssigned("10.0.0.9", "tcp://10.0.0.9:1"),
    WorkerLost("tcp://10.0.0.9:1"),
    *(kind(5) for kind in (Requested, EndpointsLent, Returned, Charged)),
    Released(),
    Ended(),
    *(kind(THING) for kind in (Intended, Created, Destroyed)),
)


def history(name: str) -> History:
    return Journal(JOURNALS / f"{name}.jsonl").history()


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_written_event_is_read_back(event: Event) -> None:
    told = json.loads(json.dumps({"at": AT, **written(event)}))
    entry = parse(1, told)
    assert (entry.event, entry.damage) == (event, None)


def test_each_kind_is_among_those_that_are_written_and_read() -> None:
    kinds = {kind for base in (Event, PoolEvent, ResourceEvent) for kind in base.__subclasses__()}
    assert kinds - {PoolEvent, ResourceEvent, Other} == {type(event) for event in EVENTS}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_unknown_keys_of_a_newer_version_are_ignored(event: Event) -> None:
    told = {"at": AT, **written(event), "colour": "blue"}
    assert parse(1, told).event == event


def extended(value: object) -> object:
    """Return JSON with a further key in each object that has keys of its own."""
    if isinstance(value, list):
        return [extended(one) for one in value]
    if not isinstance(value, dict):
        return value
    named_by_user = {"prices", "most", "places", "facts", "access"}
    return {
        key: {name: extended(one) for name, one in within.items()}
        if key in named_by_user and isinstance(within, dict) and "currency" not in within
        else extended(within)
        for key, within in value.items()
    } | {"colour": "blue"}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_unknown_keys_within_the_values_of_a_newer_version_are_ignored(event: Event) -> None:
    entry = parse(1, extended({"at": AT, **written(event)}))
    assert (entry.event, entry.damage) == (event, None)


def test_an_event_of_a_newer_version_is_no_damage() -> None:
    entry = parse(1, {"at": AT, "event": "painted", "colour": "blue"})
    assert (entry.event, entry.damage) == (Other(), None)


@pytest.mark.parametrize("year", [1970, 2217, 5137])
def test_a_time_by_a_wrong_clock_is_a_time(year: int) -> None:
    entry = parse(1, {"at": f"{year}-01-01T00:00:00+00:00", "event": "end"})
    assert (entry.at and entry.at.year, entry.damage) == (year, None)


def test_a_time_that_no_mark_can_name_is_reported() -> None:
    entry = parse(1, {"at": "9999-01-01T00:00:00+00:00", "event": "end"})
    assert "it is not a time of the years 1970 to 5137" in str(entry.damage)


@pytest.mark.parametrize("told", [7, None, [], {}, {"event": "end"}, {"at": AT, "event": ["end"]}])
def test_an_invalid_event_is_reported_as_damage(told: object) -> None:
    assert parse(1, told).damage is not None


@dataclass(frozen=True)
class Told:
    """What a stored journal tells."""

    existing: tuple[str, ...]
    vm_hours: float
    has_ended: bool
    is_over: bool


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("first-version", Told(("osmef-a",), 0, has_ended=False, is_over=False)),
        ("without-most", Told((), 2 * 0.5 + 10 / 60, has_ended=True, is_over=True)),
        ("pool", Told(("osmef-a",), 0.5, has_ended=False, is_over=False)),
        ("lost-endpoint", Told((), 2 * 1.376 / 3600, has_ended=True, is_over=True)),
    ],
)
def test_a_journal_of_an_older_version(name: str, told: Told) -> None:
    found = history(name)
    assert found.damage() == []
    assert tuple(one.name for one in found.existing) == told.existing
    assert spent(found).vm_hours == pytest.approx(told.vm_hours, abs=1e-6)
    assert (found.has_ended, found.latest.is_over) == (told.has_ended, told.is_over)


def test_a_journal_of_the_first_version_has_no_controller_and_no_price() -> None:
    found = history("first-version")
    assert found.plan == Planned(7, found.plan.digest if found.plan else "")
    assert found.all(Started) == [Started(7, 4)]
    assert found.latest.start == Started(7, 4)
    assert [one.info.data_address for one in found.endpoints.values()] == ["10.0.0.5"]
    assert found.cost_periods == []


def test_a_version_without_the_most_costs_at_most_what_is_paid() -> None:
    first, second = history("without-most").cost_periods
    assert first.prices == {"a": PRICE, "b": PRICE} == first.most
    assert second.prices == {"b": PRICE} == second.most
    assert (first.begin.minute, first.end.minute) == (1, 31), "until the next start: it was killed"


def test_the_journal_of_a_pool_records_the_sessions_that_used_it() -> None:
    found = history("pool")
    users = [(type(one), one.session) for one in found.all(PoolEvent)]
    assert users[:3] == [(Requested, 11), (EndpointsLent, 11), (Returned, 11)]
    assert users[3:] == [(Charged, 11), (EndpointsLent, 12), (Returned, 12)]
    assert found.latest.deadline == 1795182000.0
    at, last = found.timed(PoolEvent)[-1]
    assert (at, last) == (datetime(2026, 11, 20, 12, 31, 0, 250000, UTC), Returned(12))


def test_an_endpoint_that_came_back_is_no_session_that_did() -> None:
    found = history("lost-endpoint")
    assert [one.endpoint for one in found.all(Recovered)] == ["receiver-h2-t1"]
    assert [one.trial for one in found.all(Disturbed)] == [3]
    assert found.all(PoolEvent) == []


@pytest.mark.parametrize("path", sorted(JOURNALS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_journal_line_of_an_older_version_is_rewritten_unchanged(path: Path) -> None:
    """But for what that version did not write, and for events that are gone."""
    for line in path.read_text().splitlines():
        told = json.loads(line)
        event = parse(1, told).event
        if isinstance(event, Other):
            continue
        assert event is not None
        again = written(event)
        if isinstance(event, ResourceEvent | Deployed):  # whose parts have more to tell by now
            assert again["event"] == told["event"]
        else:
            assert {"most": again.get("most"), **told} == {"most": None, "at": told["at"], **again}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("provider", 7), ("kind", None), ("name", ""), ("run", "a\x1b[2J"), ("id", "")),
        *(("deadline", float("nan")), ("made", "now"), ("access", ["b"]), ("access", {"uri": 1})),
    ],
)
def test_the_invalid_value_of_a_resource_is_named(key: str, value: object) -> None:
    line = {"at": AT, **written(Created(THING))}
    entry = parse(1, {**line, "resource": {**line["resource"], key: value}})
    assert (entry.event, str(entry.damage).partition(":")[0]) == (None, f"resource.{key}")
