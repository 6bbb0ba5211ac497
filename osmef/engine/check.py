"""Whether a study can run: what its provider can't do is a problem of the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from osmef.engine.plan import Plan
from osmef.errors import InputError
from osmef.providers import provider_for
from osmef.providers.base import Provider
from osmef.scenario.fields import EndpointKind, tries_of
from osmef.scenario.study import Cell, Study
from osmef.scenario.workload import BtcSettings, Mode


def check_study(study: Study) -> None:
    """Raise InputError with everything that the provider can't do, where the file asks for it."""
    provider = provider_for(study.scenario.provider)
    problems = [
        cell.problem(key, message, cure)
        for cell in study.cells
        for key, message, cure in (*_family(provider, cell), *provider.problems(cell))
    ]
    if problems:
        raise InputError.from_problems(problems)


def _family(provider: Provider, cell: Cell) -> Iterator[tuple[str, str, str]]:
    family = cell.scenario.family
    if family not in provider.families:
        message = f"the provider {provider.kind} gives its endpoints no addresses of {family}"
        yield "family", message, f"use one of: {', '.join(sorted(provider.families))}"


def check_provider(plan: Plan) -> None:
    """Check tools, credentials and quotas before anything is made. Raises ProviderError."""
    scenario = plan.study.scenario
    retry = tries_of(scenario.on_mismatch) > 0
    provider_for(scenario.provider).check(
        [replace(one, movable=retry and one.kind is EndpointKind.VM) for one in plan.endpoints]
    )


def warnings_of(study: Study) -> list[str]:
    """Return what a reader of the numbers has to know, each once: of the cloud and the workload."""
    provider = provider_for(study.scenario.provider)
    cells = study.cells
    return sorted({text for cell in cells for text in (*provider.warnings(cell), *_of_work(cell))})


_MODES = {
    Mode.ZEROCOPY: "the sending end hands over its pages and copies nothing",
    Mode.DISCARD: "the receiving end throws the data away in the kernel",
    Mode.ZEROCOPY_DISCARD: "the sending end copies nothing, and the receiving end throws it away",
}


def _of_work(cell: Cell) -> Iterator[str]:
    """Say what makes the numbers others than those of the workload alone, as programs do it."""
    scenario = cell.scenario
    if scenario.background is not None:
        yield f"measured beside a background of {scenario.background.kind}"
    for whose, settings in (("", scenario.workload), ("background's ", scenario.background)):
        if isinstance(settings, BtcSettings) and settings.mode in _MODES:
            yield f"{whose}mode {settings.mode}: {_MODES[settings.mode]}"
