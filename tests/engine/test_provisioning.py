"""Endpoints that the cloud put elsewhere, and those that are made anew for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.engine.cancellation import CancellationToken
from osmef.engine.events import Observer
from osmef.engine.journal import Journal
from osmef.engine.placement import (
    ProvisionedEndpoints,
    endpoints_to_replace,
    mismatches,
    pair_placements,
    provision,
    requested,
)
from osmef.engine.plan import Plan, make_plan
from osmef.engine.run import Run
from osmef.errors import CapacityError, Interrupted, OsmefError, ProviderError, ReachError
from osmef.providers import sites
from osmef.providers.base import Endpoint, RunContext
from osmef.providers.local.provider import LocalProvider
from osmef.providers.sites import Sites
from osmef.remote.login import HostKeys, KeyPair, Login
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary
from osmef.scenario.load import load_text
from osmef.scenario.location import Location
from tests.journals import read_notes
from tests.memory.cloud import MemoryProvider, World


def plan_of(text: str) -> Plan:
    return make_plan(load_text(f"name: test\n{text}", Path("test.yaml")))


PLACEMENTS = plan_of("sweep: {placement: [same-host, different-host]}")
SENDER, NEAR, FAR = (end.name for end in PLACEMENTS.endpoints)
AS_ASKED: dict[str, str | None] = {SENDER: "a", NEAR: "a", FAR: "b"}


def login(name: str) -> Login:
    return Login(name, "user", "nowhere", HostKeys(()), KeyPair.generate("test"))


def at(hosts: Mapping[str, str | None]) -> dict[str, Location]:
    return {name: Location(host=host, tenant="t") for name, host in hosts.items()}


@pytest.mark.parametrize(
    ("hosts", "moved"),
    [
        (AS_ASKED, []),
        ({SENDER: "a", NEAR: "b", FAR: "b"}, [NEAR]),
        ({SENDER: "a", NEAR: "a", FAR: "a"}, [FAR]),
        ({SENDER: "b", NEAR: "a", FAR: "b"}, [SENDER]),
        ({SENDER: "a", NEAR: None, FAR: "b"}, []),
    ],
)
def test_as_few_endpoints_as_needed_are_recreated(
    hosts: dict[str, str | None], moved: list[str]
) -> None:
    assert endpoints_to_replace(PLACEMENTS.cells, at(hosts)) == moved


def test_a_physical_host_stays_where_it_is() -> None:
    plan = plan_of("endpoints: {sender: {kind: host}, receiver: {}}")
    host, vm = (end.name for end in plan.endpoints)
    assert endpoints_to_replace(plan.cells, {host: Location(host="a"), vm: Location(host="a")}) == [
        vm
    ]
    hosts = plan_of("endpoints: {sender: {kind: host}, receiver: {kind: host}}")
    same = {end.name: Location(host="a") for end in hosts.endpoints}
    assert endpoints_to_replace(hosts.cells, same) == []


GROUPS = plan_of(
    "endpoints: {sender: {count: 3}, receiver: {count: 3}}\n"
    "sweep: {placement: [same-host, different-host]}"
)


@given(st.fixed_dictionaries({end.name: st.sampled_from("abc") for end in GROUPS.endpoints}))
def test_every_misplaced_pair_has_an_endpoint_replaced(hosts: dict[str, str]) -> None:
    locations = {name: Location(host=host, tenant="t") for name, host in hosts.items()}
    moved = set(endpoints_to_replace(GROUPS.cells, locations))
    for cell in GROUPS.cells:
        for pair, found in pair_placements(cell, locations).items():
            if mismatches(requested(cell), [found]):
                assert moved & set(pair)


@dataclass
class Scheduler(LocalProvider):
    """A cloud of names alone: puts an endpoint where its script says, and on where it was told."""

    script: dict[str, list[str]]
    failure: OsmefError | None = None
    replaced: list[str] = field(default_factory=list)

    def create(self, context: RunContext) -> list[Endpoint]:
        return [
            Endpoint(request, "1", login(request.name), "a", None, None)
            for request in context.requests
        ]

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        return [Location(host=self.script[e.name][0], tenant="t") for e in endpoints]

    def replace(self, endpoint: Endpoint, context: RunContext) -> Endpoint:  # noqa: ARG002
        if self.failure:
            raise self.failure
        self.replaced.append(endpoint.name)
        self.script[endpoint.name].pop(0)
        return replace(endpoint, resource_id=f"{len(self.replaced) + 1}")


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    journal = Journal(tmp_path / "journal.jsonl")
    return RunContext("run", PLACEMENTS.endpoints, KeyPair.generate("test"), journal, 0.0)


Try = Callable[[Scheduler, int], ProvisionedEndpoints]


@pytest.fixture
def tried(context: RunContext) -> Try:
    assert isinstance(context.ledger, Journal)
    note = context.ledger.note
    return lambda cloud, tries: provision(
        Sites({None: cloud}), context, PLACEMENTS.cells, tries, note
    )


def test_an_endpoint_is_recreated_until_it_is_placed_as_requested(
    tried: Try, context: RunContext
) -> None:
    cloud = Scheduler({SENDER: ["a"], NEAR: ["b", "c", "a"], FAR: ["b"]})
    provisioned = tried(cloud, 3)
    assert cloud.replaced == [NEAR, NEAR]
    assert provisioned.locations == at(AS_ASKED)
    assert provisioned.endpoints[NEAR].resource_id == "3"
    assert [place.host for place in provisioned.earlier[NEAR]] == ["b", "c"]
    assert isinstance(context.ledger, Journal)
    notes = read_notes(context.ledger, "replace")
    assert [(n["endpoints"], n["attempt"], n["error"]) for n in notes] == [
        ([NEAR], 1, None),
        ([NEAR], 2, None),
    ]


@pytest.mark.parametrize("tries", [0, 1, 2])
def test_no_more_tries_than_allowed(tried: Try, tries: int) -> None:
    cloud = Scheduler({SENDER: ["a"], NEAR: ["b"] * 9, FAR: ["b"]})
    assert tried(cloud, tries).locations[NEAR].host == "b"
    assert cloud.replaced == [NEAR] * tries


@pytest.mark.parametrize(
    "failure", [CapacityError("no room elsewhere"), ReachError("no room for a connection")]
)
def test_a_failed_recreation_of_an_endpoint_ends_the_retries_and_not_the_run(
    tried: Try, context: RunContext, failure: OsmefError
) -> None:
    cloud = Scheduler({SENDER: ["a"], NEAR: ["b", "a"], FAR: ["b"]}, failure)
    provisioned = tried(cloud, 3)
    assert provisioned.locations[NEAR].host == "b"
    assert provisioned.earlier == {}
    assert isinstance(context.ledger, Journal)
    (note,) = read_notes(context.ledger, "replace")
    assert "no room" in note["error"]


def test_a_stop_ends_the_tries(context: RunContext) -> None:
    def stop() -> None:
        raise Interrupted("stopped by the test")

    cloud = Scheduler({SENDER: ["a"], NEAR: ["b", "a"], FAR: ["b"]})
    with pytest.raises(Interrupted):
        provision(
            Sites({None: cloud}),
            replace(context, check=stop),
            PLACEMENTS.cells,
            3,
            lambda *_a, **_k: None,
        )
    assert cloud.replaced == []


def test_a_provider_that_cannot_move_endpoints_reports_it() -> None:
    request = PLACEMENTS.endpoints[0]
    endpoint = Endpoint(request, "1", login(request.name), "a", None, None)
    plain = LocalProvider.__new__(LocalProvider)
    key = KeyPair.generate("test")
    with pytest.raises(ProviderError, match="can't move") as caught:
        plain.replace(endpoint, RunContext("run", [], key, Journal(Path("-")), 0.0))
    assert caught.value.cure is not None


# --- a whole run on a cloud in memory, that says of one endpoint that it stands elsewhere


class Wandering(MemoryProvider):
    """A cloud in memory, where a receiver seems to stand wrongly until it is made anew so often."""

    needed = 1
    made_anew = 0

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        found = super().describe(endpoints)
        wrong = Wandering.made_anew < Wandering.needed
        return [
            replace_host(place, "elsewhere") if wrong and e.request.role == "receiver" else place
            for e, place in zip(endpoints, found, strict=True)
        ]

    def replace(self, endpoint: Endpoint, context: RunContext) -> Endpoint:  # noqa: ARG002
        Wandering.made_anew += 1
        return endpoint


def replace_host(place: Location, host: str) -> Location:
    return place.model_copy(update={"host": host})


RunIt = Callable[[str], Summary]


@pytest.fixture
def run(tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunIt]:
    monkeypatch.setattr(sites, "provider_for", Wandering)
    monkeypatch.setattr(Wandering, "made_anew", 0)
    stop = CancellationToken()

    def execute(on_mismatch: str) -> Summary:
        text = (
            "name: settle\nplacement: same-host\nrepeat: 1\n"
            "workload: {kind: btc, duration: 200ms, interval: 100ms}\n"
            f"on_mismatch: {on_mismatch}\n"
        )
        plan = make_plan(load_text(text, Path("settle.yaml")))
        with RunDirectory.create(tmp_path, "settle", text, ".yaml") as directory:
            return Run(plan, directory, Observer(), stop).execute()

    yield execute
    stop.close()


@pytest.mark.parametrize(
    ("on_mismatch", "anew", "good"),
    [("fail", 0, False), ("retry 1", 1, True), ("retry 3", 1, True), ("record", 0, True)],
)
def test_a_run_records_the_requested_and_the_achieved_placement(
    run: RunIt, on_mismatch: str, anew: int, good: bool
) -> None:
    summary = run(on_mismatch)
    (cell,) = summary.cells
    assert (cell.n_ok, cell.n_failed) == (int(good), int(not good))
    assert Wandering.made_anew == anew
    assert [len(end.earlier) for end in summary.endpoints] == [anew, 0]
    assert (cell.requested_distance, cell.distance) == (0, 0 if anew else 2)
    assert cell.mismatch == ([] if anew else ["placement", "distance"])
    assert any("were not placed as requested" in w for w in summary.run.warnings) == (
        on_mismatch == "record"
    )


def test_after_the_tries_the_cell_fails(run: RunIt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wandering, "needed", 5)
    (cell,) = run("retry 2").cells
    assert Wandering.made_anew == 2
    assert (cell.n_ok, cell.n_failed) == (0, 1)
