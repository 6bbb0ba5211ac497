"""Endpoints of the local cloud that stand for several runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from osmef.engine.cancellation import CancellationToken
from osmef.engine.events import Observer
from osmef.engine.held_endpoints import HeldEndpoints, User
from osmef.engine.journal import Journal
from osmef.engine.plan import Plan, make_plan
from osmef.engine.reap import Search, find_orphans
from osmef.engine.recovery import note_plan
from osmef.engine.run import Run
from osmef.errors import ApiError, CapacityError, Interrupted, NotFoundError, OsmefError
from osmef.providers.base import Endpoint
from osmef.providers.local.provider import LocalProvider
from osmef.providers.sites import Sites
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.load import load_text
from osmef.scenario.location import Gone, Location

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs namespaces")
SCENARIO = """\
name: pair
workload: {duration: 200ms, interval: 100ms}
repeat: 1
prices:
  - {provider: local, flavor: small, per_hour: 0.10 USD, date: 2026-03-01, source: contract}
"""


@pytest.fixture
def plan() -> Plan:
    return make_plan(load_text(SCENARIO, Path("pair.yaml")), 1)


@pytest.fixture
def held(tmp_path: Path, plan: Plan) -> Iterator[HeldEndpoints]:
    with closing(CancellationToken()) as stop:
        holding = HeldEndpoints.begin(plan, tmp_path, time.time() + 600, User(stop, Observer()))
        try:
            yield holding
        finally:
            holding.close()


def run(plan: Plan, out: Path, held: HeldEndpoints) -> Summary:
    with (
        closing(CancellationToken()) as stop,
        RunDirectory.create(out, "pair", SCENARIO, ".yaml") as directory,
    ):
        note_plan(directory, plan)
        return Run(plan, directory, Observer(), stop, held).execute()


def ours(held: HeldEndpoints) -> list[str | None]:
    return [one.id for one in LocalProvider.owned({}, held.id)]


def test_two_runs_measure_on_the_same_endpoints(
    tmp_path: Path, plan: Plan, held: HeldEndpoints
) -> None:
    held.make()
    made = ours(held)
    assert made
    summaries = []
    for _ in range(2):
        held.verify(plan)
        summaries.append(run(plan, tmp_path, held))
        assert ours(held) == made
    for summary in summaries:
        assert summary.run.complete
        assert (summary.run.vms_held_by, summary.run.vms_since) == (held.id, held.since)
        assert summary.run.cost is not None
    assert not find_orphans(Search(tmp_path)).orphans
    held.close()
    assert ours(held) == []
    assert Journal(held.directory.journal).existing() == []
    whole = held.per_hour
    assert whole is not None
    assert whole.amount == pytest.approx(0.2)


def test_unusable_held_endpoints_are_reported(plan: Plan, held: HeldEndpoints) -> None:
    held.reach_s = 0.2
    held.make()
    other = make_plan(load_text(SCENARIO + "description: another\n", Path("pair.yaml")), 1)
    with pytest.raises(OsmefError, match="has changed"):
        held.verify(other)
    held.sites.close()
    with pytest.raises(OsmefError):
        held.verify(plan)


class Forgetful(LocalProvider):
    """Says once where its endpoints stand, and then something else, or why it does not."""

    def __init__(self, then: OsmefError | Location) -> None:
        super().__init__(LocalSettings(kind="local"))
        self._then, self._asked = then, 0

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        self._asked += 1
        if self._asked == 1:
            return super().describe(endpoints)
        if isinstance(self._then, OsmefError):
            raise self._then
        return [self._then for _ in endpoints]


class Heard(Observer):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, text: str) -> None:
        self.warnings.append(text)


def test_a_cloud_that_does_not_answer_costs_no_endpoints(plan: Plan, held: HeldEndpoints) -> None:
    heard = Heard()
    held.user.observer = heard
    held.sites = Sites({None: Forgetful(ApiError("503 Service Unavailable"))})
    held.make()
    held.verify(plan)
    assert ["503" in text for text in heard.warnings] == [True]


def test_held_endpoints_that_the_cloud_no_longer_has_are_treated_as_lost(
    plan: Plan, held: HeldEndpoints
) -> None:
    held.sites = Sites({None: Forgetful(NotFoundError("no such server"))})
    held.make()
    with pytest.raises(NotFoundError):
        held.verify(plan)


def test_vms_that_their_cloud_has_taken_back_do_not_serve(plan: Plan, held: HeldEndpoints) -> None:
    held.sites = Sites({None: Forgetful(Gone())})
    held.make()
    with pytest.raises(CapacityError, match="reclaimed, as spot VMs may be"):
        held.verify(plan)


class Stale(LocalProvider):
    """Has lost its connection while its endpoints stood."""

    lost = True

    def close(self) -> None:
        if self.lost:
            raise ApiError("connection reset by peer")
        super().close()


def test_a_connection_that_was_lost_meanwhile_leaves_nothing(
    plan: Plan, held: HeldEndpoints
) -> None:
    cloud = Stale(LocalSettings(kind="local"))
    held.sites = Sites({None: cloud})
    held.make()
    assert ours(held)
    held.close()
    assert ours(held) == []
    assert Journal(held.directory.journal).existing() == []
    cloud.lost = False


def test_a_stop_while_they_are_made_leaves_nothing(held: HeldEndpoints) -> None:
    held.user.stop.request("stopped by SIGINT")
    with pytest.raises(Interrupted):
        held.make()
    held.close()
    assert ours(held) == []
    assert Journal(held.directory.journal).existing() == []
