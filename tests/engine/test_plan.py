from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.engine.placement import sequential_reason
from osmef.engine.plan import (
    Plan,
    PlannedTrial,
    beyond_deadline,
    make_plan,
    most_at_once,
    programs_of,
    stagger_reason,
)
from osmef.scenario.fields import FlavorNeed
from osmef.scenario.load import load_text


def plan_of(text: str, seed: int | None = None) -> Plan:
    return make_plan(load_text("name: test\n" + text, Path("test.yaml")), seed)


PLACEMENTS = """
sweep:
  placement: [same-host, different-host]
  tenancy: [same-tenant, different-tenant]
  connections: [1, 10]
repeat: 3
"""


def test_the_four_placements_of_the_paper_have_distances_0_2_4_4() -> None:
    plan = plan_of(PLACEMENTS)
    found = {
        (cell.cell.scenario.placement.value, cell.cell.scenario.tenancy.value): cell.distance
        for cell in plan.cells
    }
    assert found == {
        ("same-host", "same-tenant"): 0,
        ("different-host", "same-tenant"): 2,
        ("same-host", "different-tenant"): 4,
        ("different-host", "different-tenant"): 4,
    }


def test_trials_that_take_longer_than_a_deadline_are_a_warning() -> None:
    plan = plan_of("repeat: 6\nworkload: {kind: btc, duration: 3s}")
    warning = "by plan the trials take longer than the deadline, 8.0 s"
    assert beyond_deadline(plan.trials, 8.0) == warning
    assert beyond_deadline(plan.trials[:1], 8.0) is None
    assert beyond_deadline(plan.trials, None) is None


def test_a_deadline_shorter_than_every_trial_is_a_warning_with_the_shortest() -> None:
    trials = plan_of("sweep: {workload.duration: [20s, 10s]}").trials
    assert beyond_deadline(trials, 6.0) == (
        "by plan no trial fits into the deadline, 6.0 s: the shortest takes 10 s."
        " Write a longer deadline"
    )
    assert "no trial fits" not in str(beyond_deadline(trials, 12.0))


def test_skipped_cells_do_not_change_the_others() -> None:
    whole = plan_of(PLACEMENTS, 7)
    known = [one.cell.key for one in whole.cells if one.distance == 4]
    part = make_plan(whole.study, 7, known)
    assert set(part.left_out) == set(known)
    assert len(known) == 4
    assert whole.left_out == ()
    assert list(part.cells) == [one for one in whole.cells if one.cell.key not in known]
    assert part.endpoints == whole.endpoints  # which host is which follows from all of them
    assert len(part.trials) == 4 * 3
    assert part.trials == make_plan(whole.study, 7, set(known)).trials


def test_cells_that_differ_only_in_the_workload_share_their_endpoints() -> None:
    plan = plan_of(PLACEMENTS)
    assert len(plan.endpoints) == 1 + 4
    assert {end.name for end in plan.endpoints} == {
        "sender-h1-t1", "receiver-h1-t1", "receiver-h2-t1", "receiver-h1-t2", "receiver-h2-t2",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("endpoints", "names", "distance"),
    [
        ("{loopback: {kind: host}}", ("host-1", "host-1"), 0),
        ("{loopback: {flavor: small}}", ("loopback-small-h1-t1", "loopback-small-h1-t1"), 0),
        ("{sender: {kind: host}, receiver: {kind: host}}", ("host-1", "host-2"), 2),
        ("{sender: {}, receiver: {kind: host}}", ("sender-h1-t1", "host-2"), 2),
        (
            "{sender: {kind: host}, receiver: {flavor: large}}",
            ("host-1", "receiver-large-h2-t1"),
            2,
        ),
    ],
)
def test_endpoints_of_every_kind(endpoints: str, names: tuple[str, str], distance: int) -> None:
    (cell,) = plan_of(f"endpoints: {endpoints}").cells
    assert (cell.senders[0].name, cell.receivers[0].name) == names
    assert cell.distance == distance


def test_a_flavor_by_need_is_swept_and_named() -> None:
    flavors = "sweep: {flavor: [small, {vcpus: 2}, {vcpus: 4, ram: 1536MiB}]}"
    cells = plan_of(flavors).cells
    assert [cell.senders[0].name for cell in cells] == [
        "sender-small-h1-t1", "sender-2vcpu-h1-t1", "sender-4vcpu-1536mib-h1-t1",
    ]  # fmt: skip
    assert cells[1].senders[0].flavor == FlavorNeed(vcpus=2)
    assert cells[2].cell.key == "flavor={vcpus: 4, ram: 1536MiB}"
    grown = plan_of("endpoints: {loopback: {flavor: {vcpus: 1}}}\nsweep: {vcpus: [1, 2]}").cells
    assert [c.senders[0].name for c in grown] == ["loopback-1vcpu-h1-t1", "loopback-2vcpu-h1-t1"]


GROUPS = "endpoints: {sender: {flavor: small, count: 3}, receiver: {count: 2}}\n"


@given(st.lists(st.text(min_size=1), min_size=2, max_size=2, unique=True))
def test_endpoints_of_any_flavor_have_names_of_their_own_that_files_can_have(
    flavors: list[str],
) -> None:
    text = json.dumps({"name": "t", "endpoints": {"loopback": {}}, "sweep": {"flavor": flavors}})
    plan = make_plan(load_text(text, Path("test.json")))
    names = [end.name for end in plan.endpoints]
    assert [end.flavor for end in plan.endpoints] == flavors
    assert len(set(names)) == 2
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,80}", name) for name in names)


def test_a_group_is_every_sender_with_every_receiver() -> None:
    (cell,) = plan_of(GROUPS).cells
    assert [end.name for end in cell.senders] == [
        "sender-small-h1-t1", "sender-small-h1-t1-m2", "sender-small-h1-t1-m3",
    ]  # fmt: skip
    assert [end.name for end in cell.receivers] == ["receiver-h2-t1", "receiver-h2-t1-m2"]
    assert len(cell.pairs) == 6
    assert len(set(cell.pairs)) == 6
    assert set(plan_of(GROUPS).endpoints) == {*cell.senders, *cell.receivers}


@pytest.mark.parametrize(
    ("place", "names", "hosts", "distance"),
    [
        (
            "placement: different-host",
            ["node-h1-t1", "node-h2-t1", "node-h3-t1"],
            ["host-1", "host-2", "host-3"],
            2,
        ),
        (
            "placement: same-host",
            ["node-h1-t1", "node-h1-t1-m2", "node-h1-t1-m3"],
            ["host-1"] * 3,
            0,
        ),
        (
            "placement: any",
            ["node-any1-t1", "node-any1-t1-m2", "node-any1-t1-m3"],
            [None] * 3,
            None,
        ),
    ],
)
def test_every_node_sends_to_all_others_and_not_to_itself(
    place: str, names: list[str], hosts: list[str | None], distance: int | None
) -> None:
    (cell,) = plan_of(f"{place}\nendpoints: {{node: {{count: 3}}}}").cells
    assert [end.name for end in cell.endpoints] == names
    assert [end.host for end in cell.endpoints] == hosts
    assert cell.senders == cell.receivers == cell.endpoints
    assert {(one.name, other.name) for one, other in cell.pairs} == {
        (one, other) for one in names for other in names if one != other
    }
    assert [(one.name, other.name) for one, other in cell.ring] == [
        (names[0], names[1]), (names[1], names[2]), (names[2], names[0]),
    ]  # fmt: skip
    assert cell.distance == distance


def test_physical_hosts_as_nodes_are_hosts_of_their_own() -> None:
    (cell,) = plan_of("placement: any\nendpoints: {node: {kind: host, count: 3}}").cells
    assert [end.name for end in cell.endpoints] == ["host-1", "host-2", "host-3"]
    assert len(cell.pairs) == 6


def test_fewer_nodes_are_the_first_of_more() -> None:
    hosts = "provider: {kind: local, hosts: 8}\nparallel: 4"
    sweep = "sweep: {endpoints.node.count: [2, 4]}"
    plan = plan_of(f"{hosts}\nendpoints: {{node: {{}}}}\n{sweep}")
    two, four = plan.cells
    assert four.endpoints[:2] == two.endpoints
    assert len(plan.endpoints) == 4
    assert [cell.distance for cell in plan.cells] == [2, 2]


@pytest.mark.parametrize("ends", ["{node: {count: 3}}", "{sender: {count: 2}, receiver: {}}"])
def test_programs_of_a_cluster_workload_are_needed_on_all_endpoints(ends: str) -> None:
    plan = plan_of(f"endpoints: {ends}\nworkload: {{kind: npb, benchmark: ep}}")
    needed = programs_of(plan.cells)
    assert set(needed) == {end.name for end in plan.endpoints}
    assert {program.name for programs in needed.values() for program in programs} == {"ep.S.x"}


@pytest.mark.parametrize(
    ("place", "hosts", "tenants", "distance"),
    [
        ("placement: same-host", {"host-1"}, ("tenant-1", "tenant-1"), 0),
        ("placement: different-host", {"host-1", "host-2"}, ("tenant-1", "tenant-1"), 2),
        ("tenancy: different-tenant", {"host-1", "host-2"}, ("tenant-1", "tenant-2"), 4),
    ],
)
def test_all_pairs_of_a_group_are_equally_far_apart(
    place: str, hosts: set[str], tenants: tuple[str, str], distance: int
) -> None:
    (cell,) = plan_of(GROUPS + place).cells
    assert {end.host for end in cell.endpoints} == hosts
    assert {end.host for end in cell.senders} == {"host-1"}
    assert ({e.tenant for e in cell.senders}, {e.tenant for e in cell.receivers}) == tuple(
        {tenant} for tenant in tenants
    )
    assert cell.distance == distance


def test_a_larger_group_has_the_members_of_a_smaller_one() -> None:
    one, four = plan_of("sweep: {endpoints.sender.count: [1, 4]}").cells
    assert four.senders[:1] == one.senders
    assert four.receivers == one.receivers


def test_a_random_order_runs_every_cell_once_in_every_repetition() -> None:
    plan = plan_of(PLACEMENTS)
    for repetition, block in groupby(plan.trials, key=lambda trial: trial.repetition):
        trials = list(block)
        assert Counter(t.cell.cell.key for t in trials) == {c.cell.key: 1 for c in plan.cells}
        assert {trial.group for trial in trials} == {repetition}


def test_a_sequential_order_runs_cell_after_cell() -> None:
    plan = plan_of(PLACEMENTS + "order: sequential\n")
    expected = [(cell.cell.key, r) for cell in plan.cells for r in (1, 2, 3)]
    assert [(t.cell.cell.key, t.repetition) for t in plan.trials] == expected


@given(seed=st.integers(0, 2**63 - 1))
def test_the_same_seed_gives_the_same_plan(seed: int) -> None:
    assert plan_of(PLACEMENTS, seed) == plan_of(PLACEMENTS, seed)
    assert plan_of(PLACEMENTS, seed).seed == seed


def test_other_seeds_give_other_orders() -> None:
    orders = {tuple(t.cell.cell.key for t in plan_of(PLACEMENTS, s).trials) for s in range(20)}
    assert len(orders) > 15


def test_the_scenario_s_seed_is_used_and_another_one_is_drawn_without_it() -> None:
    assert plan_of("seed: 7").seed == 7
    assert len({plan_of("").seed for _ in range(5)}) > 1


def test_the_estimate_counts_durations_and_pauses() -> None:
    quick = plan_of("workload: {duration: 2s}\nrepeat: 10\npause: 1s")
    assert 30 < quick.estimate_s < 40


def test_the_estimate_counts_the_background() -> None:
    alone = plan_of("workload: {duration: 2s}\nrepeat: 10")
    beside = plan_of("workload: {duration: 2s}\nrepeat: 10\nbackground: btc\nlead: 3s")
    assert beside.estimate_s - alone.estimate_s == pytest.approx(10 * 2 * 3)


ANY = "placement: any\nsweep: {tenancy: [same-tenant, different-tenant]}\n"


@pytest.mark.parametrize(
    ("text", "usual_s", "most_s", "most_bytes"),
    [
        pytest.param("workload: {kind: btc, duration: 10s}", 13, 13, None, id="by-time"),
        pytest.param("workload: {kind: btc, duration: 10s, bytes: 1MB, connections: 3}", 13, 13,
                     3_000_000, id="by-bytes"),
        pytest.param("workload: {kind: btc, until: knee}", None, 1803, None, id="knee"),
        pytest.param("workload: {kind: btc, until: knee, bytes: 3GB, refill: [1min, 5min]}",
                     None, 3 * 1800 + 360 + 3, 9_000_000_000, id="refilled"),
        pytest.param("workload: {kind: btc, until: knee, cost: 1 EUR, per_gb: 0.1 EUR}", None, 1803,
                     9_523_809_523, id="by-cost"),
        pytest.param("workload: {kind: btc, duration: 10s}\nrepeat: {until: 5 %}", None,
                     30 * 10 + 3, None, id="until-known"),
        pytest.param("workload: {kind: udp, duration: 10s, rate: 8Mbit/s}\nbackground: {kind: udp,"
                     " rate: 8Mbit/s}", 15, 15, 10_000_000 + 12_000_000, id="with-background"),
        pytest.param(
            "workload: {kind: udp, duration: 60s, rate: 1Gbit/s, search: {loss: 0.1 %, most: 20}}",
            2 + 10 * 3 + 2 * 61 + 3, 2 + 19 * 61 + 3, round(1e9 / 8 * (2 + 19 * 60)),
            id="search",
        ),
    ],
)  # fmt: skip
def test_how_long_and_how_much_is_about_or_at_most(
    text: str, usual_s: float | None, most_s: float, most_bytes: int | None
) -> None:
    repeat = "" if "repeat" in text else "repeat: 1\n"
    made = make_plan(load_text(f"name: a\n{repeat}{text}\n", Path("a.yaml")))
    assert made.estimate_s == pytest.approx(most_s, abs=4)
    assert made.usual_s == (None if usual_s is None else pytest.approx(usual_s, abs=4))
    assert made.most_bytes == most_bytes


def test_the_cloud_decides_where_vms_of_placement_any_stand() -> None:
    same, different = plan_of(ANY).cells
    assert [end.name for end in same.endpoints] == ["sender-any1-t1", "receiver-any1-t1"]
    assert {end.host for cell in (same, different) for end in cell.endpoints} == {None}
    assert (same.distance, different.distance) == (None, 4)


def test_a_physical_host_is_where_it_is() -> None:
    text = "placement: any\nendpoints: {sender: {}, receiver: {kind: host}}"
    (cell,) = plan_of(text).cells
    assert [end.host for end in cell.endpoints] == [None, "host-2"]
    assert cell.distance is None
    (pair,) = plan_of(
        "placement: any\nendpoints: {sender: {kind: host}, receiver: {kind: host}}"
    ).cells
    assert pair.distance == 2


def test_pairs_of_other_lanes_are_other_endpoints() -> None:
    first, second = plan_of("provider: {hosts: 4}\nparallel: 2\n" + ANY).cells
    assert {end.lane for end in first.endpoints} == {1}
    assert not set(first.endpoints) & set(second.endpoints)


FLAVORS = "sweep: {flavor: [small, medium]}\nprovider: {kind: local, hosts: 4}\n"


def test_pairs_share_two_hosts_so_that_their_numbers_compare() -> None:
    assert {end.host for end in plan_of(FLAVORS).endpoints} == {"host-1", "host-2"}


def test_pairs_that_may_run_at_once_get_hosts_of_their_own() -> None:
    first, second = plan_of(FLAVORS + "parallel: 2\n").cells
    assert {end.host for end in first.endpoints} == {"host-1", "host-2"}
    assert {end.host for end in second.endpoints} == {"host-3", "host-4"}


def test_a_plan_never_asks_for_more_hosts_than_the_provider_has() -> None:
    plan = plan_of("sweep: {flavor: [small, medium]}\nparallel: 8\n")
    assert {end.host for end in plan.endpoints} == {"host-1", "host-2"}


def test_the_digest_is_of_the_text() -> None:
    text = "name: test\nrepeat: 2"
    study = load_text(text, Path("x.yaml"))
    assert study.digest == hashlib.sha256(text.encode()).hexdigest()


PAIRS = "provider: {kind: local, hosts: 4}\nrepeat: 2\n"


def names(trials: Iterable[PlannedTrial]) -> list[tuple[str, str]]:
    return [(one.name, other.name) for trial in trials for one, other in trial.cell.pairs]


def test_pairs_at_once_are_one_trial_of_senders_with_receivers_of_their_own() -> None:
    plan = plan_of(PAIRS + "pairs: {at: once, count: 3}\nsweep: {pairs.count: [1, 3]}")
    one, three = plan.cells
    assert [len(cell.pairs) for cell in (one, three)] == [1, 3]
    assert three.pairs[0] == one.pairs[0]
    assert [(a.name, b.name) for a, b in three.pairs] == [
        ("sender-h1-t1", "receiver-h2-t1"),
        ("sender-h1-t1-m2", "receiver-h2-t1-m2"),
        ("sender-h1-t1-m3", "receiver-h2-t1-m3"),
    ]
    assert len(plan.trials) == 2 * 2
    assert {trial.cell.number for trial in plan.trials} == {None}


def test_pairs_in_turn_have_trials_of_their_own_on_hosts_of_their_own() -> None:
    plan = plan_of(PAIRS + "pairs: 3", seed=1)
    assert len(plan.cells) == 1
    assert sorted((t.repetition, t.cell.number) for t in plan.trials) == [
        (r, n) for r in (1, 2) for n in (1, 2, 3)
    ]
    assert [trial.group for trial in plan.trials] == [1, 2, 3, 4, 5, 6]
    assert set(names(plan.trials)) == {
        ("sender-h1-t1", "receiver-h2-t1"),
        ("sender-h3-t1", "receiver-h4-t1"),
        ("sender-h1-t1-m2", "receiver-h2-t1-m2"),  # there are no more hosts
    }
    assert len(plan.endpoints) == 6


def test_a_block_of_pairs_in_turn_has_all_cells_once_on_one_pair() -> None:
    plan = plan_of(PAIRS + "pairs: 3\nsweep: {connections: [1, 2, 4]}")
    assert len(plan.trials) == 2 * 3 * 3
    for _, block in groupby(plan.trials, key=lambda trial: trial.group):
        trials = list(block)
        assert len({trial.cell.number for trial in trials}) == 1
        assert len(set(names(trials))) == 1
        assert sorted(t.cell.cell.key for t in trials) == [f"connections={n}" for n in (1, 2, 4)]


def test_concurrent_pairs_are_in_one_block_and_may_run_at_once() -> None:
    plan = plan_of(PAIRS + "pairs: {count: 2, at: side by side}")
    assert [trial.group for trial in plan.trials] == [1, 1, 2, 2]
    assert most_at_once(plan.trials) == 2
    assert sequential_reason(plan) is None


HOSTS = "{sender: {kind: host}, receiver: {kind: host}}"


@pytest.mark.parametrize("at", ["once", "in turn", "side by side"])
def test_pairs_of_physical_hosts_are_hosts_each_of_one_pair(at: str) -> None:
    plan = plan_of(f"endpoints: {HOSTS}\npairs: {{count: 5, at: {at}}}\nrepeat: 1")
    assert sorted(names(plan.trials)) == [(f"host-{n}", f"host-{n + 1}") for n in (1, 3, 5, 7, 9)]


def test_a_group_of_physical_hosts_is_a_machine_each() -> None:
    ends = "{sender: {kind: host, count: 3}, receiver: {kind: host, count: 2}}"
    (cell,) = plan_of(f"endpoints: {ends}").cells
    assert [end.name for end in cell.senders] == ["host-1", "host-3", "host-5"]
    assert [end.name for end in cell.receivers] == ["host-2", "host-4"]
    assert len(cell.pairs) == 6


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("parallel: 2", "parallel has no effect"),
        ("parallel: 2\nsweep: {flavor: [small, medium]}", "parallel has no effect"),
        (FLAVORS + "parallel: 2", None),
        ("provider: {kind: local, hosts: 4}\nparallel: 2\n" + ANY, None),
        (
            FLAVORS + "parallel: 2\norder: sequential",
            "parallel has no effect",
        ),
        ("pairs: {count: 2, at: side by side}", "pairs: side by side has no effect"),
        ("sweep: {flavor: [small, medium]}", None),
    ],
)
def test_a_parallel_setting_without_effect_is_reported(text: str, told: str | None) -> None:
    found = sequential_reason(plan_of(text))
    assert (found is None) if told is None else (found is not None and told in found)


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("stagger: 1s", True),
        ("stagger: 1s\npairs: 3", True),
        ("sweep: {stagger: [0s, 1s]}", True),
        ("stagger: 1s\npairs: {count: 3, at: once}", False),
        ("stagger: 1s\nsweep: {endpoints.sender.count: [1, 2]}", False),
        ("provider: {kind: local, hosts: 3}\nstagger: 1s\nendpoints: {node: {count: 3}}", False),
        ("sweep: {stagger: [0s, 1s], endpoints.sender.count: [1, 2]}", True),
        ("sweep: {stagger: [0s, 1s], endpoints.sender.count: [2, 3]}", False),
        ("pairs: 3", False),
    ],
)
def test_a_stagger_without_effect_is_reported(text: str, *, is_told: bool) -> None:
    found = stagger_reason(plan_of(text).trials)
    assert (found is not None and "stagger has no effect" in found) == is_told


def test_cells_that_only_a_stagger_tells_apart_are_named_in_one_order() -> None:
    """The order of trials is random, and has no effect on what is reported."""
    text = "sweep: {stagger: [0s, 1s], endpoints.sender.count: [1, 2], connections: [1, 2]}"
    (found,) = {stagger_reason(plan_of(text, seed).trials) for seed in range(5)}
    assert found == (
        "stagger has no effect on one pair, so these cells measure the same:"
        " stagger=0s,endpoints.sender.count=1,connections=1;"
        " stagger=1s,endpoints.sender.count=1,connections=1, and so do those of 1 other setting."
        " Leave all but one of each out with exclude"
    )
