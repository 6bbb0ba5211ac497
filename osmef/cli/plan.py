"""``osmef validate`` and ``plan``: check a scenario file, and what would be measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer
from rich.markup import escape

from osmef.cli.console import (
    AsJson,
    Overrides,
    ScenarioFile,
    error_record,
    out,
    parse_overrides,
    print_json,
    print_note,
    reporting,
)
from osmef.cli.progress import length_of
from osmef.engine.check import check_study, warnings_of
from osmef.engine.cost import PlannedCost, check_budget, cost_of, has_price_list
from osmef.engine.placement import sequential_reason
from osmef.engine.plan import (
    Plan,
    PlannedCell,
    beyond_deadline,
    duration_of,
    make_plan,
    programs_of,
    stagger_reason,
)
from osmef.errors import InputError
from osmef.providers.base import EndpointRequest
from osmef.providers.sites import sites_of
from osmef.report.fit import TextColumn, column, table
from osmef.report.summary import short_names, written
from osmef.scenario.fields import Money
from osmef.scenario.load import load
from osmef.scenario.model import Scenario
from osmef.scenario.study import Study
from osmef.supply.supply import plan as how_to_have
from osmef.units import counted, format_duration, format_size
from osmef.workloads.base import Span

VALIDATE_EPILOG = """Example:

osmef validate scenarios/quickstart.yaml

All problems are listed at once, as file:line:column with a cure. Exit codes: 0 valid, 2 not."""


def validate_command(
    file: ScenarioFile,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    as_json: AsJson = False,
) -> None:
    """Check a scenario file, and whether its provider can do what it asks."""
    with reporting(as_json):
        try:
            study = load(file, parse_overrides(overrides))
            check_study(study)
            _check_budget(study)
        except InputError as error:
            if not as_json:
                raise
            print_json({"valid": False, **error_record(error)})
            raise typer.Exit(error.exit_code) from error
    if as_json:
        print_json({"valid": True, "cells": len(study.cells), "problems": []})
    else:
        out.print(f"{escape(str(file))}: valid, {counted(len(study.cells), 'cell')}")


def _check_budget(study: Study) -> None:
    """Raise InputError where the budget of a scenario can't be kept."""
    if study.scenario.budget is not None:
        plan = make_plan(study)
        check_budget(plan, cost_of(plan))


PLAN_EPILOG = """Example:

osmef plan scenarios/osmef-paper/vm-to-vm.yaml

Nothing is created, and no connection is made."""


def plan_command(file: ScenarioFile, overrides: Overrides = [], as_json: AsJson = False) -> None:  # noqa: B006 - typer copies it
    """Show the cells and endpoints of a scenario, and how long it will take. Creates nothing."""
    with reporting(as_json):
        study = load(file, parse_overrides(overrides))
        check_study(study)
        plan = make_plan(study)
        notes, cost = [*warnings_of(study), *_of_plan(plan)], cost_of(plan)
        machines = sites_of(study.scenario).machines(plan.endpoints)
        if not as_json:
            _print(plan, notes, cost, machines)
        check_budget(plan, cost)
        if as_json:
            print_json(_record(plan, notes, cost, machines))


def _print(plan: Plan, notes: list[str], cost: PlannedCost, machines: Mapping[str, str]) -> None:
    out.print(table(_cells(plan), out.width))
    out.print()
    out.print(table(_endpoints(plan, machines), out.width))
    for note in notes:
        print_note(out, note)
    for line in _needs(plan):
        out.print(f"needs {escape(line)}")
    scenario = plan.study.scenario
    out.print(
        f"{_count(plan)} = {counted(len(plan.trials), 'trial')}{_at_most(scenario)}, "
        f"{scenario.order} order, on {counted(len(plan.endpoints), 'endpoint')} "
        f"({_clouds(scenario)}): [bold]{length_of(Span(plan.usual_s, plan.estimate_s))}[/]"
    )
    if traffic := _traffic(plan):
        out.print(f"traffic: {traffic}")
    if cost.vms and (cost.per_hour or scenario.budget or has_price_list(scenario)):
        out.print(f"cost: {_cost(cost, _about(plan))}, without traffic, disks and addresses")


def _about(plan: Plan) -> str:
    return "about" if plan.usual_s == plan.estimate_s else "at most"


def _traffic(plan: Plan) -> str:
    """Describe the largest payload; empty where only time bounds it."""
    if plan.most_bytes is not None:
        return f"at most {format_size(plan.most_bytes)} of payload"
    if plan.usual_s is None and any(
        t.cell.cell.scenario.workload.changes_next_trial for t in plan.trials
    ):
        return "as much as goes through in that time; `bytes` or `cost` bounds it"
    return ""


def _of_plan(plan: Plan) -> list[str]:
    """Return the notes on what has no effect, and on a deadline that is too short."""
    late = beyond_deadline(plan.trials, plan.study.scenario.deadline)
    found = (sequential_reason(plan), stagger_reason(plan.trials), late)
    return [note for note in found if note]


def _count(plan: Plan) -> str:
    """Describe the number of trials: one per cell and repetition, or one per pair."""
    cells, repeat = counted(len(plan.cells), "cell"), plan.study.scenario.repetitions
    turns = [len(cell.turns) for cell in plan.cells]
    if max(turns) == 1:
        return f"{cells} x {repeat}"
    pairs = str(turns[0]) if min(turns) == max(turns) else f"{min(turns)} to {max(turns)}"
    return f"{cells} x {pairs} pairs x {repeat}"


def _at_most(scenario: Scenario) -> str:
    return " at most" if scenario.is_until_known else ""


def _needs(plan: Plan) -> list[str]:
    """Describe how endpoints get each external program."""
    needed = programs_of(plan.cells).values()
    programs = dict.fromkeys(program for some in needed for program in some)
    return [how_to_have(program, None) for program in programs]


def _clouds(scenario: Scenario) -> str:
    """Return the kind of the cloud, or each site with its kind."""
    sites = [f"{name}: {cloud.kind}" for name, cloud in scenario.sites.items()]
    return ", ".join(sites) or scenario.provider.kind


def _cost(cost: PlannedCost, about: str) -> str:
    """Describe the cost of the VMs, or why it is unknown."""
    hours = f"{cost.vms} VMs for {format_duration(cost.hours * 3600)}"
    if cost.unknown:
        what = escape(", ".join(cost.unknown))
        return f"[bold]unknown[/], because there is no price for {what} ({hours})"
    if cost.per_hour is None or cost.money is None:
        return f"[bold]unknown[/], because the prices are in several currencies ({hours})"
    each = Money(cost.per_hour.amount, cost.per_hour.currency)
    hours = f"{hours}, {each} an hour together, by prices of {cost.since} or later"
    if not cost.on_demand:
        return f"[bold]unknown[/] for spot, at most {cost.money} on demand ({hours})"
    return f"{about} [bold]{cost.money}[/] ({hours})"


def _cost_record(cost: PlannedCost) -> dict[str, Any]:
    return {
        "vm_hours": cost.vms * cost.hours,
        "amount": cost.money and cost.money.amount,
        "currency": cost.money and cost.money.currency,
        "at_most": not cost.on_demand,
        "unpriced": list(cost.unknown),
        "prices_since": cost.since and cost.since.isoformat(),
    }


def _cells(plan: Plan) -> list[TextColumn]:
    names = list(dict.fromkeys(name for cell in plan.cells for name, _ in cell.cell.values))
    shown: dict[str, list[str]] = {name: [] for name in short_names(names).values() or ["cell"]}
    ends: dict[str, list[str]] = {"distance": [], "senders": [], "receivers": []}
    for cell in plan.cells:
        values = dict(cell.cell.values)
        texts = [written(values.get(name, "-")) for name in names] or [cell.cell.key]
        senders, receivers = _ends(cell)
        among = len(senders) > 1 and senders == receivers
        reported = (_distance(cell), _group(senders), "each other" if among else _group(receivers))
        for column_of, found in ((shown, texts), (ends, reported)):
            for of, text in zip(column_of.values(), found, strict=True):
                of.append(text)
    return [
        *(column(name, texts) for name, texts in shown.items()),
        *(column(name, texts, rank=1) for name, texts in ends.items()),
    ]


def _distance(cell: PlannedCell) -> str:
    if cell.cell.scenario.workload.server_address is not None:
        return "unknown"
    return "any" if cell.distance is None else str(cell.distance)


def _ends(cell: PlannedCell) -> tuple[list[str], list[str]]:
    return [end.name for end in cell.senders], cell.receiver_names


_MOST_NAMED = 3


def _group(names: list[str]) -> str:
    """Return the names of one end: of many in a row the first and the last."""
    first, *others = names
    if not others:
        return first
    if others[0].startswith(first):
        return f"{len(names)} x {first}"
    if len(names) <= _MOST_NAMED:
        return ", ".join(names)
    stem, _, number = first.rpartition("-")
    in_a_row = number.isdecimal() and names == [
        f"{stem}-{int(number) + n}" for n in range(len(names))
    ]
    span = f"{first} to {others[-1]}"
    return span if in_a_row else f"{len(names)}, from {span}"


def _endpoints(plan: Plan, machines: Mapping[str, str]) -> list[TextColumn]:
    of: dict[str, list[str]] = {
        "endpoint": [end.name for end in plan.endpoints],
        "site": [end.site or "-" for end in plan.endpoints],
        "kind": [end.kind for end in plan.endpoints],
        "flavor": [
            "-" if end.kind == "host" else _flavor(end) or "the provider's default"
            for end in plan.endpoints
        ],
        "host": [end.host or "any" for end in plan.endpoints],
        "tenant": [end.tenant or "-" for end in plan.endpoints],
        "machine": [machines.get(end.name, "-") for end in plan.endpoints],
    }
    left = {"site": plan.study.scenario.sites, "machine": machines}
    return [
        column(name, texts, rank=0 if name == "endpoint" else 1)
        for name, texts in of.items()
        if left.get(name, True)
    ]


def _flavor(end: EndpointRequest) -> str | None:
    return None if end.flavor is None else str(end.flavor)


def _record(
    plan: Plan, notes: list[str], cost: PlannedCost, machines: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "scenario": plan.study.scenario.name,
        "provider": plan.study.scenario.kinds_of_clouds,
        "trials": len(plan.trials),
        "estimate_s": plan.estimate_s,
        "usual_s": plan.usual_s,
        "most_bytes": plan.most_bytes,
        "warnings": notes,
        "needs": _needs(plan),
        "cost": _cost_record(cost),
        "endpoints": [
            {**vars(end), "flavor": _flavor(end), "machine": machines.get(end.name)}
            for end in plan.endpoints
        ],
        "cells": [
            {
                "key": cell.cell.key,
                "values": dict(cell.cell.values),
                "placement": cell.cell.scenario.placement.value,
                "tenancy": cell.cell.scenario.tenancy.value,
                "distance": cell.distance,
                "senders": _ends(cell)[0],
                "receivers": _ends(cell)[1],
                "duration_s": max(map(duration_of, cell.turns)),
            }
            for cell in plan.cells
        ],
    }
