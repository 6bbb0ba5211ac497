"""Which trials may run at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.engine.placement import TrialConflicts
from osmef.engine.plan import PlannedTrial, make_plan
from osmef.scenario.load import load_text
from osmef.scenario.location import Location

PLAN = make_plan(
    load_text(
        """
name: many
provider: {kind: local, hosts: 8}
parallel: 4
repeat: 4
sweep:
  placement: [same-host, different-host, any]
  tenancy: [same-tenant, different-tenant]
  flavor: [small, medium]
""",
        Path("many.yaml"),
    ),
    seed=1,
)
NAMES = [end.name for end in PLAN.endpoints]
BLIND = TrialConflicts({})


def slots(trial: PlannedTrial) -> set[str | None]:
    return {end.host for end in trial.cell.endpoints}


def decided(trials: list[PlannedTrial]) -> list[PlannedTrial]:
    return [trial for trial in trials if None not in slots(trial)]


places = st.fixed_dictionaries(
    {},
    optional={
        name: st.builds(Location, host=st.sampled_from("abc"), tenant=st.sampled_from("xy"))
        for name in NAMES
    },
)


@given(
    waiting=st.lists(st.sampled_from(PLAN.trials), unique_by=lambda trial: trial.index),
    parallel=st.integers(1, 6),
    found=places,
)
def test_trials_that_share_a_host_never_run_at_once(
    waiting: list[PlannedTrial], parallel: int, found: dict[str, Location]
) -> None:
    sharing = TrialConflicts(found)
    running = sharing.startable(waiting, [], parallel)
    assert len(running) <= parallel
    for number, one in enumerate(running):
        for other in running[number + 1 :]:
            hosts = [
                {found[end.name].host for end in trial.cell.endpoints if end.name in found}
                for trial in (one, other)
            ]
            assert hosts[0].isdisjoint(hosts[1])
    left = [trial for trial in waiting if trial not in running]
    if left and len(running) < parallel:
        assert sharing.startable(left, running, parallel) == []
    if waiting:
        assert running[0] == waiting[0]


def test_different_hosts_run_at_once() -> None:
    running = BLIND.startable(decided(list(PLAN.trials)), [], 4)
    assert len(running) > 1
    for number, one in enumerate(running):
        assert all(slots(one).isdisjoint(slots(other)) for other in running[number + 1 :])


def test_traffic_between_tenants_shares_the_router() -> None:
    between_tenants = [trial for trial in PLAN.trials if trial.cell.distance == 4]
    assert len(BLIND.startable(between_tenants, [], 4)) == 1


def apart() -> tuple[PlannedTrial, PlannedTrial]:
    """Return two trials within one tenant whose slots have no host in common."""
    one, other = BLIND.startable(
        [t for t in decided(list(PLAN.trials)) if t.cell.distance != 4], [], 2
    )
    return one, other


def test_conflicts_of_trials_follow_the_achieved_and_not_the_requested_placement() -> None:
    one, other = apart()
    everywhere = {
        end.name: Location(host="one host", tenant="t")
        for trial in (one, other)
        for end in trial.cell.endpoints
    }
    assert TrialConflicts(everywhere).startable([one, other], [], 2) == [one]


def test_incomparable_hosts_of_two_tenants_are_taken_as_requested() -> None:
    one, other = apart()
    found = {
        end.name: Location(host="h", host_scope=scope, tenant=scope)
        for trial, scope in ((one, "a"), (other, "b"))
        for end in trial.cell.endpoints
    }
    assert TrialConflicts(found).startable([one, other], [], 2) == [one, other]


def test_a_trial_with_unknown_hosts_runs_alone() -> None:
    anywhere = next(trial for trial in PLAN.trials if None in slots(trial))
    for other in PLAN.trials:
        assert BLIND.startable([anywhere, other], [], 2) == [anywhere]


@pytest.mark.parametrize(("tenant", "started"), [("t", 2), ("u", 1)])
def test_the_router_is_shared_where_the_cloud_made_other_tenants(tenant: str, started: int) -> None:
    one, other = apart()
    found = {
        end.name: Location(host=end.name, tenant=tenant if end.role == "receiver" else "t")
        for trial in (one, other)
        for end in trial.cell.endpoints
    }
    assert len(TrialConflicts(found).startable([one, other], [], 2)) == started
