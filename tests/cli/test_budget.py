"""Budgets and deadlines, by plan and while a run measures, on the local cloud."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Osmef
from tests.invoked import invoke

# By plan both trials fit. What a cloud takes to make and remove VMs is not in the plan, and the
# last tenth of what the budget pays for is kept for it: the second trial is cut off.
SCENARIO = """
name: priced
workload: {{kind: btc, duration: 14s, interval: 1s}}
repeat: 2
budget: {budget} USD
prices: [{{provider: local, flavor: small, per_hour: 1000 USD, date: 2026-01-01, source: us}}]
"""


def test_a_budget_that_is_spent_ends_a_running_trial(
    osmef: Osmef, left_behind: Callable[[], list[str]]
) -> None:
    planned = osmef("plan", osmef.write(SCENARIO.format(budget=1000)), "--json").json()["cost"]
    budget = round(planned["amount"] * 1.001, 3)
    ended = osmef("run", osmef.write(SCENARIO.format(budget=budget)))
    assert ended.code == 4, ended.err
    assert f"the budget of the run, {budget} USD, is nearly spent" in ended.err
    assert f"osmef resume results/{osmef.run.name}" in ended.err
    assert left_behind() == []
    (kept,) = osmef.trials
    assert kept["status"] == "ok", "what was measured is kept"
    run = osmef.summary["run"]
    assert run["complete"] is False
    assert 0.5 * budget < run["cost"]["amount"] < 2 * budget  # a slow machine is slow to clean up
    again = osmef("resume", str(osmef.run))
    assert again.code == 2
    assert "so far, and its budget is" in again.err
    assert left_behind() == []


@pytest.mark.parametrize(
    ("budget", "problem"),
    [
        ("5 EUR", "the budget is in EUR, and not all prices are"),
        ("1 USD", "and its budget is 1.00 USD"),
    ],
)
@pytest.mark.parametrize("command", ["validate", "run"])
def test_a_scenario_with_a_budget_that_cannot_be_kept_is_invalid(
    tmp_path: Path, command: str, budget: str, problem: str
) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO.format(budget=1).replace("1 USD\nprices", f"{budget}\nprices"))
    ended = invoke(command, file)
    assert ended.exit_code == 2, ended.output
    assert f"{file}:5:9: " in ended.output
    assert problem in ended.output


def test_a_scenario_within_its_budget_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO.format(budget=1000))
    assert invoke("validate", file).output == f"{file}: valid, 1 cell\n"


def test_a_plan_over_its_budget_is_one_document(osmef: Osmef) -> None:
    name = osmef.write(SCENARIO.format(budget=1))
    ended = osmef("plan", name, "--json")
    assert ended.code == 2
    (problem,) = ended.json()["error"]["problems"]
    assert "its budget is 1.00 USD" in problem["message"]
    assert "its budget is 1.00 USD" in osmef("plan", name).err


@pytest.mark.parametrize(("deadline", "notes"), [("8s", 1), ("1h", 0)])
def test_a_plan_beyond_its_deadline_has_a_note(tmp_path: Path, deadline: str, notes: int) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(f"name: late\nworkload: {{kind: btc, duration: 3s}}\ndeadline: {deadline}\n")
    note = "by plan the trials take longer than the deadline, 8.0 s"
    planned = invoke("plan", file)
    assert planned.exit_code == 0
    assert planned.output.count(f"note: {note}\n") == notes
    warnings = json.loads(invoke("plan", file, "--json").output)["warnings"]
    assert warnings.count(note) == notes
