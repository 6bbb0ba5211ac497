"""Validation of a study against its clouds, before anything is created."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from osmef.engine.plan import Plan, PlannedCell, endpoints_of, programs_of_layers
from osmef.errors import InputError, Problem, ProviderError, SupplyError
from osmef.providers.base import CancellationCheck, EndpointRequest, never_cancelled
from osmef.providers.sites import sites_of
from osmef.results.trial import Status, Trial
from osmef.scenario.fields import EndpointKind, read_bound, tries_of
from osmef.scenario.names import nearest_or_all
from osmef.scenario.study import Cell, Study
from osmef.scenario.workload import Role, UntilKnown, WorkloadSettings
from osmef.workloads import TrialWorkload, measures_of
from osmef.workloads.base import End

_ENDS: tuple[End, ...] = ("sender", "receiver")


def check_study(study: Study) -> None:
    """Raise InputError with everything that the clouds do not support, at its line of the file.

    What each cell can have they may lack for all of them together. Likewise where two workloads
    call two things by one name, or no endpoint could have a program that is needed.
    """
    measures_of(cell.scenario for cell in study.cells)
    sites = sites_of(study.scenario)
    problems = [
        cell.problem(key, message, cure)
        for cell in study.cells
        for key, message, cure in (*sites.problems(cell), *_lacking(cell), *_unmeasured_rule(cell))
    ]
    problems += _unexpected(study)
    problems += _unused_bundles(study)
    if problems:
        raise InputError.from_problems(problems)
    try:
        sites.machines(endpoints_of(study))
    except ProviderError as error:
        key = f"{error.where or 'provider'}.hosts"
        message = f"for all cells together {error.message}"
        problem = study.cells[0].problem(key, message, str(error.cure))
        raise InputError.from_problems([problem]) from error


def _lacking(cell: Cell) -> Iterator[tuple[str, str, str]]:
    """Yield the programs that no endpoint could have: key, problem, and cure."""
    workload = TrialWorkload(cell.scenario)
    run = dict.fromkeys((one for end in _ENDS for one in workload.needs(end)), "workload")
    layers = dict.fromkeys(programs_of_layers(cell.scenario), "layer")
    if not run and not layers:
        return
    # slow to load, and our own workloads need none of it
    from osmef.supply.supply import check as check_supply  # noqa: PLC0415

    for program, key in {**layers, **run}.items():
        try:
            check_supply(program)
        except SupplyError as error:
            yield key, error.message, str(error.cure)


def _unused_bundles(study: Study) -> Iterator[Problem]:
    """Yield the bundles of programs that no cell runs: such a name is a slip."""
    given = {
        (key, name): cell
        for cell in study.cells
        for key in ("workload", "background")
        for name in getattr(getattr(cell.scenario, key), "bundles", ())  # programs have them
    }
    works = [TrialWorkload(cell.scenario) for cell in study.cells] if given else []
    used = dict.fromkeys(one.name for work in works for end in _ENDS for one in work.needs(end))
    for (key, name), cell in given.items():
        if name not in used:
            cure = nearest_or_all(name, used) if used else "leave it out"
            yield cell.problem(f"{key}.bundles", f"nothing here runs a program {name!r}", cure)


def _unmeasured_rule(cell: Cell) -> Iterator[tuple[str, str, str]]:
    """Yield the stopping rule's metric if the workload does not measure it."""
    rule = cell.scenario.repeat
    if not isinstance(rule, UntilKnown) or rule.metric is None:
        return
    names = [one.name for one in TrialWorkload(cell.scenario).measures]
    if rule.metric not in names:
        kind = cell.scenario.workload.kind
        message = f"workload {kind} has no metric {rule.metric!r}"
        yield "repeat.metric", message, nearest_or_all(rule.metric, names)


def _unexpected(study: Study) -> Iterator[Problem]:
    """Yield expectations on metrics that no cell has, or in another unit."""
    first = study.cells[0]
    units = {one.name: one.unit for one in measures_of(cell.scenario for cell in study.cells)}
    for name, text in study.scenario.expect.items():
        key = f"expect.{name}"
        if name not in units:
            cure = nearest_or_all(name, units)
            yield first.problem(key, f"no cell has a metric {name!r}", cure)
            continue
        try:
            read_bound(text).within(units[name])
        except ValueError as error:
            unit = units[name] or "1"
            cure = f"write the bound in {unit}, or in a multiple of it"
            yield first.problem(key, f"{name} is in {unit}: {error}".partition(";")[0], cure)


def check_provider(plan: Plan, check_cancelled: CancellationCheck = never_cancelled) -> None:
    """Check tools, credentials and quotas before provisioning. Raises ProviderError.

    Every wait calls ``check_cancelled``, which may raise Interrupted.
    """
    scenario = plan.study.scenario
    retry = tries_of(scenario.on_mismatch) > 0
    requests = [
        replace(one, movable=retry and one.kind is EndpointKind.VM) for one in plan.endpoints
    ]
    sites_of(scenario).check(requests, check_cancelled)


def warnings_of(study: Study) -> list[str]:
    """Return the warnings of clouds and workload for the summary, each once."""
    sites = sites_of(study.scenario)
    cells = study.cells
    return sorted({text for cell in cells for text in (*sites.warnings(cell), *_of_work(cell))})


def warnings_from_facts(
    cells: Iterable[PlannedCell], facts: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Return the warnings that follow from the facts of endpoints, by name."""
    return named(
        (f"{whose}{text}", end.name)
        for planned in cells
        for role, end in _ends(planned)
        for whose, settings in _workloads(planned.cell)
        for text in settings.warnings_from_facts(role, facts.get(end.name, {}))
    )


def warnings_from_metrics(
    cells: Iterable[PlannedCell], trials: Mapping[str, Sequence[Trial]]
) -> list[str]:
    """Return what the numbers of the trials of each cell say against each other, each once."""
    reported = (
        text
        for planned in cells
        for trial in trials.get(planned.cell.key, ())
        if trial.status is Status.OK
        for text in planned.cell.scenario.workload.warnings_from_metrics(trial.metrics)
    )
    return list(dict.fromkeys(reported))


def _ends(planned: PlannedCell) -> Iterator[tuple[Role, EndpointRequest]]:
    for end in planned.senders:
        yield "sender", end
    for end in planned.receivers:
        yield "receiver", end


def named(reported: Iterable[tuple[str, str]]) -> list[str]:
    """Return each text once, prefixed by the names of its endpoints."""
    whose: dict[str, dict[str, None]] = defaultdict(dict)
    for text, name in reported:
        whose[text][name] = None
    return [f"{', '.join(names)}: {text}" for text, names in whose.items()]


def _workloads(cell: Cell) -> Iterator[tuple[str, WorkloadSettings]]:
    """Yield the workload of a cell and its background, with the prefixes of their warnings."""
    yield "", cell.scenario.workload
    if cell.scenario.background is not None:
        yield "background: ", cell.scenario.background


def _of_work(cell: Cell) -> Iterator[str]:
    """Yield the warnings of a workload: deviations from what usual programs measure."""
    scenario = cell.scenario
    if isinstance(scenario.repeat, UntilKnown):
        until = f"{100 * scenario.repeat.until:g}"
        yield f"cells end once they are known to ±{until} %; their intervals allow for the checks"
    if scenario.background is not None:
        yield f"measured beside a background of {scenario.background.kind}"
    for whose, settings in _workloads(cell):
        for text in settings.warnings():
            yield f"{whose}{text}"
