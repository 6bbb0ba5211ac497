from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from osmef.engine.cost import (
    RunPrices,
    Spent,
    affordable_s,
    check_budget,
    cost_of,
    note_provision,
    spent,
)
from osmef.engine.journal import Journal
from osmef.engine.plan import Plan, make_plan
from osmef.errors import InputError
from osmef.scenario.load import load_text
from tests.journals import read_notes, write_note

HEAD = "name: priced\nrepeat: 6\nworkload: {kind: btc, duration: 10min}\n"
PRICE = "{provider: local, flavor: small, per_hour: 0.5 USD, date: 2026-01-01, source: us}"
EURO = "{provider: local, flavor: medium, per_hour: 1 EUR, date: 2026-01-01, source: us}"
TWO_FLAVORS = "endpoints: {sender: {}, receiver: {flavor: medium}}"


@pytest.fixture(autouse=True)
def _no_price_list_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def plan_of(text: str) -> Plan:
    return make_plan(load_text(HEAD + text, Path("priced.yaml")))


def test_a_plan_costs_its_vms_for_as_long_as_it_takes() -> None:
    cost = cost_of(plan_of(f"prices: [{PRICE}]"))
    assert cost.money is not None
    assert cost.money.amount == pytest.approx(2 * 0.5 * 1.0, rel=0.02)
    assert cost.money.currency == "USD"


def test_an_unknown_price_is_unknown_and_named() -> None:
    cost = cost_of(
        plan_of(f"prices: [{PRICE}]\nendpoints: {{sender: {{flavor: large}}, receiver: {{}}}}")
    )
    assert cost.money is None
    assert cost.unknown == ("local large",)


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        (f"budget: 0.9 USD\nprices: [{PRICE}]", "would cost about"),
        (f"budget: 9 EUR\nprices: [{PRICE}]", "the budget is in EUR"),
        ("budget: 9 USD", "there is no price for local small"),
        (f"budget: 9 USD\nprices: [{PRICE}, {EURO}]\n{TWO_FLAVORS}", "not all prices are"),
    ],
)
def test_a_budget_that_can_t_be_held_is_a_problem_of_the_file(rest: str, words: str) -> None:
    plan = plan_of(rest)
    with pytest.raises(InputError) as caught:
        check_budget(plan, cost_of(plan))
    assert words in str(caught.value)
    assert str(caught.value).startswith("priced.yaml:4:9")


def test_a_run_within_its_budget_may_start() -> None:
    plan = plan_of(f"budget: 1.1 USD\nprices: [{PRICE}]")
    check_budget(plan, cost_of(plan))


def test_money_spent_before_counts_against_the_budget(tmp_path: Path) -> None:
    plan = plan_of(f"budget: 1.1 USD\nprices: [{PRICE}]")
    price = (
        '{"amount": 0.5, "currency": "USD", "region": null, "date": "2026-01-01", "source": "us"}'
    )
    notes = [
        '{"at": "2026-01-01T10:00:00+00:00", "event": "start"}',
        f'{{"at": "2026-01-01T10:00:00+00:00", "event": "provision", "prices": {{"a": {price}}}}}',
        '{"at": "2026-01-01T12:00:00+00:00", "event": "gone"}',
        '{"at": "2026-01-01T20:00:00+00:00", "event": "start"}',
    ]
    (tmp_path / "journal.jsonl").write_text("\n".join(notes) + "\n")
    before = spent(Journal(tmp_path / "journal.jsonl").history())
    assert (before.vm_hours, before.money("USD"), before.money("EUR")) == (2.0, 1.0, None)
    with pytest.raises(InputError, match="so far"):
        check_budget(plan, cost_of(plan), before)


SPOT = (
    "provider: {kind: gce, region: r, default_flavor: f, controller_cidr: 192.0.2.1/32, spot: true}"
)
DATED = "date: 2026-01-01, source: us"
LIST = f"prices: [{{provider: gce, region: r, flavor: f, per_hour: 0.5 USD, {DATED}}}]"


def journal_of(tmp_path: Path, plan: Plan, hours: int) -> Journal:
    """Return the journal of a run whose VMs have stood for some hours."""
    journal = Journal(tmp_path / "journal.jsonl")
    write_note(journal, "start")
    note_provision(journal, RunPrices(plan.study.scenario), plan.endpoints, deadline=0.0)
    write_note(journal, "gone")
    first, second, third = read_notes(journal)
    third["at"] = (datetime.fromisoformat(second["at"]) + timedelta(hours=hours)).isoformat()
    lines = [json.dumps(note) for note in (first, second, third)]
    journal.path.write_text("\n".join(lines) + "\n")
    return journal


def test_spare_capacity_is_charged_at_most_at_the_list_price(tmp_path: Path) -> None:
    plan = plan_of(f"budget: 4.1 USD\n{SPOT}\n{LIST}")
    cost, before = cost_of(plan), spent(journal_of(tmp_path, plan, 3).history())
    assert (before.vm_hours, before.cost) == (6.0, None)
    assert before.money("USD") == pytest.approx(3.0)
    check_budget(plan, cost, before)
    assert affordable_s(plan.study.scenario, cost, before) == pytest.approx(1.1 * 3600)
    dear = plan_of(f"budget: 3.9 USD\n{SPOT}\n{LIST}")
    with pytest.raises(InputError, match="so far"):
        check_budget(dear, cost, before)


def test_an_unknown_cost_is_not_taken_as_zero() -> None:
    plan = plan_of(f"budget: 9 USD\n{SPOT}\n{LIST}")
    cost, before = cost_of(plan), Spent(1.0, (None, None), (None, None))
    with pytest.raises(InputError, match="the cost of the run so far is not known"):
        check_budget(plan, cost, before)
    assert affordable_s(plan.study.scenario, cost, before) == 0.0


def test_a_price_is_that_of_the_region_of_the_endpoint_s_zone() -> None:
    ends = "endpoints: {sender: {}, receiver: {zone: s-a}}"
    found = cost_of(plan_of(f"{SPOT}\n{ends}\n{LIST}"))
    assert (found.money, found.unknown) == (None, ("gce f in s",))
    there = LIST.replace("region: r", "region: s").replace("0.5", "2").partition("[")[2]
    both = cost_of(plan_of(f"{SPOT}\n{ends}\n{LIST[:-1]}, {there}"))
    assert both.per_hour is not None
    assert both.per_hour.amount == 2.5


GOOGLE = "kind: gce, region: r, default_flavor: e2-standard-2, controller_cidr: 192.0.2.1/32"


def cure_of(text: str) -> str:
    """Return what is to be done about a budget that can't be held."""
    plan = plan_of(f"budget: 9 USD\n{text}")
    with pytest.raises(InputError) as caught:
        check_budget(plan, cost_of(plan))
    (problem,) = caught.value.problems
    return problem.cure


def test_the_cure_fetches_exactly_the_prices_that_are_unknown() -> None:
    ends = "endpoints: {sender: {flavor: n2-highmem-4}, receiver: {zone: s-a}}"
    prices = LIST.replace("flavor: f", "flavor: e2-standard-2")
    cure = cure_of(f"provider: {{{GOOGLE}}}\n{ends}\n{prices}")
    assert "`osmef prices update gce --region r --flavor n2-highmem-4`" in cure
    assert "`osmef prices update gce --region s --flavor e2-standard-2`" in cure
    assert cure_of("") == "write the price under prices, or remove budget"


@pytest.mark.parametrize(
    ("provider", "rest", "cure"),
    [
        (f"{GOOGLE}, tier_1: true", LIST, "remove budget: hardware of one's own, and Tier 1, "),
        (GOOGLE, "endpoints: {loopback: {flavor: {vcpus: 4}}}", "name the flavor, or remove budg"),
        (GOOGLE, "endpoints: {loopback: {flavor: e2-micro}}", "write the price under prices, or "),
    ],
    ids=["no price by the flavor", "by need", "not in the catalog"],
)
def test_a_cure_names_only_remedies_that_apply(provider: str, rest: str, cure: str) -> None:
    assert cure_of(f"provider: {{{provider}}}\n{rest}").startswith(cure)


def test_the_date_of_the_oldest_price_is_reported() -> None:
    ends = "endpoints: {sender: {flavor: small}, receiver: {flavor: large}}"
    prices = ", ".join(
        f"{{provider: local, flavor: {flavor}, per_hour: 1 USD, date: {day}, source: us}}"
        for flavor, day in (("small", "2026-02-01"), ("large", "2021-11-01"))
    )
    assert str(cost_of(plan_of(f"{ends}\nprices: [{prices}]\n")).since) == "2021-11-01"
    assert cost_of(plan_of("")).since is None


@pytest.mark.parametrize(
    ("kind", "alone", "why"),
    [
        ("aws", "dedicated: true", "hardware of its own"),
        ("aws", "placement_by: dedicated-host", "hardware of its own"),
        ("gce", "node_group: nodes, zone: r-a", "sole-tenant nodes or Tier 1"),
        ("gce", "tier_1: true", "sole-tenant nodes or Tier 1"),
        ("azure", "dedicated_host: DSv5-Type1", "hardware of its own"),
    ],
)
def test_dedicated_hardware_is_not_priced_by_the_flavor(kind: str, alone: str, why: str) -> None:
    usual = f"kind: {kind}, region: r, default_flavor: f, controller_cidr: 192.0.2.1/32"
    price = (
        f"{{provider: {kind}, region: r, flavor: f, per_hour: 1 USD, date: 2026-01-01, source: us}}"
    )
    shared = cost_of(plan_of(f"prices: [{price}]\nprovider: {{{usual}}}\n"))
    assert shared.money is not None
    dear = cost_of(plan_of(f"prices: [{price}]\nprovider: {{{usual}, {alone}}}\n"))
    assert dear.money is None
    assert dear.unknown == (f"{kind} f in r with {why}",)
