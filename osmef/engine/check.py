"""Whether a study can run: what its clouds can't do is a problem of the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from osmef.engine.plan import Plan, endpoints_of
from osmef.errors import InputError, ProviderError, SupplyError
from osmef.providers.base import Check, go_on
from osmef.providers.sites import sites_of
from osmef.scenario.fields import EndpointKind, tries_of
from osmef.scenario.study import Cell, Study
from osmef.supply.supply import check as check_supply
from osmef.workloads import Programme, measures_of


def check_study(study: Study) -> None:
    """Raise InputError with everything that the clouds can't do, where the file asks for it.

    What each cell can have they may lack for all of them together. Likewise where two workloads
    call two things by one name, or no endpoint could have a program that is needed.
    """
    measures_of(cell.scenario for cell in study.cells)
    sites = sites_of(study.scenario)
    problems = [
        cell.problem(key, message, cure)
        for cell in study.cells
        for key, message, cure in (*sites.problems(cell), *_lacking(cell))
    ]
    if problems:
        raise InputError.from_problems(problems)
    try:
        sites.machines(endpoints_of(study))
    except ProviderError as error:
        place = f"{error.where or 'provider'}.hosts"
        message = f"for all cells together {error.message}"
        problem = study.cells[0].problem(place, message, str(error.cure))
        raise InputError.from_problems([problem]) from error


def _lacking(cell: Cell) -> Iterator[tuple[str, str, str]]:
    """Yield the programs that no endpoint could have: the key, what is wrong, and the cure."""
    programme = Programme(cell.scenario)
    for program in dict.fromkeys((*programme.needs("sender"), *programme.needs("receiver"))):
        try:
            check_supply(program)
        except SupplyError as error:
            yield "workload", error.message, str(error.cure)


def check_provider(plan: Plan, still: Check = go_on) -> None:
    """Check tools, credentials and quotas before anything is made. Raises ProviderError.

    Every wait calls ``still``, which may raise Interrupted.
    """
    scenario = plan.study.scenario
    retry = tries_of(scenario.on_mismatch) > 0
    requests = [
        replace(one, movable=retry and one.kind is EndpointKind.VM) for one in plan.endpoints
    ]
    sites_of(scenario).check(requests, still)


def warnings_of(study: Study) -> list[str]:
    """Return what a reader of the numbers has to know, each once: of clouds and workload."""
    sites = sites_of(study.scenario)
    cells = study.cells
    return sorted({text for cell in cells for text in (*sites.warnings(cell), *_of_work(cell))})


def _of_work(cell: Cell) -> Iterator[str]:
    """Say what makes the numbers others than those of the workload alone, as programs do it."""
    scenario = cell.scenario
    if scenario.background is not None:
        yield f"measured beside a background of {scenario.background.kind}"
    for whose, settings in (("", scenario.workload), ("background's ", scenario.background)):
        for text in settings.warnings() if settings else ():
            yield f"{whose}{text}"
