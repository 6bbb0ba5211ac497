from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from osmef.engine.measure import startable
from osmef.engine.plan import PlannedTrial, make_plan
from osmef.scenario.load import load_text

PLAN = make_plan(
    load_text(
        """
name: many
provider: {kind: local, hosts: 8}
parallel: 4
repeat: 4
sweep:
  placement: [same-host, different-host]
  tenancy: [same-tenant, different-tenant]
  flavor: [small, medium]
""",
        Path("many.yaml"),
    ),
    seed=1,
)


@given(
    waiting=st.lists(st.sampled_from(PLAN.trials), unique_by=lambda trial: trial.index),
    parallel=st.integers(1, 6),
)
def test_trials_that_share_a_host_never_run_at_once(
    waiting: list[PlannedTrial], parallel: int
) -> None:
    running = startable(waiting, [], parallel)
    assert len(running) <= parallel
    for number, one in enumerate(running):
        for other in running[number + 1 :]:
            assert one.cell.hosts.isdisjoint(other.cell.hosts)
    left = [trial for trial in waiting if trial not in running]
    if left and len(running) < parallel:
        assert startable(left, running, parallel) == []
    if waiting:
        assert running[0] == waiting[0]


def test_different_hosts_run_at_once() -> None:
    assert len(startable(PLAN.trials, [], 4)) > 1


def test_traffic_between_tenants_shares_the_router() -> None:
    between_tenants = [trial for trial in PLAN.trials if trial.cell.distance == 4]
    assert len(startable(between_tenants, [], 4)) == 1
