from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.engine.cancellation import CancellationToken
from osmef.engine.events import Observer
from osmef.engine.journal import Journal
from osmef.engine.plan import make_plan
from osmef.engine.run import Run, longest_s
from osmef.errors import CapacityError, OsmefError, ProviderError, ReachError
from osmef.providers import sites
from osmef.providers.base import Endpoint, RunContext
from osmef.providers.local.provider import LocalProvider
from osmef.results.rundir import RunDirectory
from osmef.scenario.load import load_text
from osmef.workloads.tasks import TaskTimeouts
from tests.journals import read_notes


@given(repeat=st.integers(1, 300), seconds=st.integers(1, 600))
def test_a_run_whose_every_trial_uses_up_its_timeouts_ends_before_its_deadline(
    repeat: int, seconds: int
) -> None:
    text = f"name: slow\nrepeat: {repeat}\nworkload: {{kind: btc, duration: {seconds}s}}\n"
    plan = make_plan(load_text(text, Path("slow.yaml")))
    waits = TaskTimeouts()
    timeouts = 2 * waits.arm_s + waits.drain_s + waits.stall_s
    assert longest_s(list(plan.trials)) > repeat * (seconds + timeouts + 100)


class Full(LocalProvider):
    """A cloud that has no room; ``closed`` counts how often it was told to take all away."""

    closed = 0
    left: OsmefError | None = None

    def create(self, context: RunContext) -> list[Endpoint]:
        context.progress("looking for room")
        raise CapacityError("no room")

    def close(self) -> None:
        Full.closed += 1
        if self.left is not None:
            raise self.left


class Deaf(Observer):
    """Raises at each step, or at that of one text."""

    def __init__(self, error: BaseException, at: str = "") -> None:
        self.error, self.at = error, at
        self.warnings: list[str] = []

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    def activity(self, text: str) -> None:
        if self.at in text:
            raise self.error


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunDirectory]:
    monkeypatch.setattr(sites, "provider_for", Full)
    monkeypatch.setattr(Full, "closed", 0)
    with RunDirectory.create(tmp_path, "full", "name: full\n", ".yaml") as directory:
        yield directory


def measure(directory: RunDirectory, observer: Observer) -> None:
    plan = make_plan(load_text("name: full\n", Path("full.yaml")))
    Run(plan, directory, observer, CancellationToken()).execute()


def test_a_run_whose_observer_fails_ends_as_it_does_otherwise(full: RunDirectory) -> None:
    with pytest.raises(CapacityError, match="no room"):
        measure(full, Deaf(BrokenPipeError()))
    assert Full.closed == 1
    assert read_notes(Journal(full.journal))[-1]["event"] == "gone"


def test_an_exception_does_not_prevent_the_teardown(full: RunDirectory) -> None:
    with pytest.raises(SystemExit):
        measure(full, Deaf(SystemExit(1), at="tearing down"))
    assert Full.closed == 1


@pytest.mark.parametrize("kind", [ReachError, ProviderError])
def test_an_error_of_the_teardown_does_not_replace_the_reason_of_the_failure(
    full: RunDirectory, monkeypatch: pytest.MonkeyPatch, kind: type[OsmefError]
) -> None:
    left = kind("no answer from 10.0.0.7", where="b", cure="osmef reap")
    monkeypatch.setattr(Full, "left", left)
    observer = Deaf(BrokenPipeError(), at="never")
    with pytest.raises(CapacityError, match="no room"):
        measure(full, observer)
    assert observer.warnings[-1] == (
        "b may still have what the run made there: no answer from 10.0.0.7; osmef reap"
    )
    assert read_notes(Journal(full.journal), "gone") == []
