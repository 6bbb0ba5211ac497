"""Runs whose cells end once they are known."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from osmef.analysis.quantiles import confidence_sequence
from osmef.engine.plan import PlannedTrial
from osmef.errors import InputError, Interrupted
from tests.memory.cloud import APART, NEAR, ROUTED, World
from tests.memory.lab import Lab

RULE = "{until: 5%, least: 6, most: 12}"


def scenario(repeat: str = RULE, more: str = "") -> str:
    sweep = "sweep: {placement: [same-host, different-host]}"
    return f"name: until\n{sweep}\nrepeat: {repeat}\nseed: 7\n{more}\n"


@pytest.fixture
def world(world: World) -> World:
    """Make one cell quiet, and the other one so noisy that it is never known."""
    world.usual = (replace(NEAR, noise=0.005), replace(APART, noise=0.3), ROUTED)
    return world


def ended(summary: dict[str, Any]) -> dict[str, int]:
    return {cell["achieved_placement"]: cell["n_ok"] for cell in summary["cells"]}


@pytest.mark.parametrize("order", ["random", "sequential"])
def test_a_cell_ends_once_it_is_known_and_others_go_on(lab: Lab, world: World, order: str) -> None:
    summary = lab.run(scenario(more=f"order: {order}"))
    assert ended(summary) == {"same-host": 8, "different-host": 12}
    assert summary["run"]["complete"]
    assert any("known to ±5 %" in text for text in summary["run"]["warnings"])


def test_the_interval_is_one_that_may_be_looked_at_after_each_trial(lab: Lab, world: World) -> None:
    for cell in lab.run(scenario())["cells"]:
        metric = cell["metrics"]["aggregate_btc_bps"]
        values = [one.metrics["aggregate_btc_bps"] for one in lab.trials if one.cell == cell["key"]]
        expected = confidence_sequence([value for value in values if value is not None])
        assert (metric["ci95_low"], metric["ci95_high"]) == (expected.low, expected.high)


def test_another_metric_can_be_the_stopping_criterion(lab: Lab, world: World) -> None:
    summary = lab.run(scenario("{until: 5%, least: 10, most: 12, metric: jain_fairness}"))
    assert ended(summary) == {"same-host": 10, "different-host": 10}


def test_an_interrupted_run_is_resumed_to_the_same_result(lab: Lab, world: World) -> None:
    def stop(planned: PlannedTrial) -> None:
        if planned.index == 11:
            lab.watcher.stop.request("that is enough")

    lab.begin(scenario())
    lab.watcher.beginning = stop
    with pytest.raises(Interrupted):
        lab.measure()
    assert not lab.summary["run"]["complete"]
    lab.measure()
    assert ended(lab.summary) == {"same-host": 8, "different-host": 12}
    assert lab.summary["run"]["complete"]
    assert Counter(one.index for one in lab.trials).most_common(1)[0][1] == 1
    lab.measure()
    assert lab.watcher.started == []


def test_several_at_once(lab: Lab, world: World) -> None:
    summary = lab.run(scenario(more="parallel: 2"))
    assert summary["run"]["complete"]
    assert 8 <= ended(summary)["same-host"] <= 9


def test_a_metric_that_the_workload_does_not_have_is_a_scenario_error(lab: Lab) -> None:
    with pytest.raises(InputError, match="no metric 'iops'") as caught:
        lab.begin(scenario("{until: 5%, metric: iops}"))
    assert "aggregate_btc_bps" in str(caught.value.problems[0].cure)


def test_the_progress_counts_what_is_left(lab: Lab, world: World) -> None:
    code, said = lab.osmef_run(scenario())
    assert code == 0, said
    assert "[20/20]" in said


def test_a_running_run_is_shown_as_running(lab: Lab, world: World) -> None:
    shown: list[str] = []

    def show(planned: PlannedTrial) -> None:
        if planned.index in {3, 11} and lab.directory is not None:
            shown.append(lab.command("show", str(lab.directory.path))[1])
        if planned.index == 11:
            lab.watcher.stop.request("that is enough")

    lab.begin(scenario())
    lab.watcher.beginning = show
    with pytest.raises(Interrupted):
        lab.measure()
    assert len(shown) == 2
    for text in shown:
        assert "still measuring" in text
        assert "osmef resume" not in text
        assert "could not be checked" not in text
    assert lab.directory is not None
    lab.directory.close()
    later = lab.command("show", str(lab.directory.path))[1]
    assert "to go on: osmef resume" in later
