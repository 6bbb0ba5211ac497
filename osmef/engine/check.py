"""Whether a study can run: what its provider can't do is a problem of the file."""

from __future__ import annotations

from osmef.errors import InputError
from osmef.providers import provider_for
from osmef.scenario.study import Study


def check_study(study: Study) -> None:
    """Raise InputError with everything that the provider can't do, where the file asks for it."""
    provider = provider_for(study.scenario.provider)
    problems = [
        cell.problem(key, message, cure)
        for cell in study.cells
        for key, message, cure in provider.problems(cell)
    ]
    if problems:
        raise InputError.from_problems(problems)


def check_provider(study: Study) -> None:
    """Check tools, credentials and quotas before anything is made. Raises ProviderError."""
    provider_for(study.scenario.provider).check()


def warnings_of(study: Study) -> list[str]:
    """Return what a reader of the numbers has to know about the provider, each once."""
    provider = provider_for(study.scenario.provider)
    return sorted({text for cell in study.cells for text in provider.warnings(cell)})
