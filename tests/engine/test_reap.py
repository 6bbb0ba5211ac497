from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from osmef.engine.journal import Journal
from osmef.engine.reap import find_orphans, reap
from osmef.providers.base import EndpointRequest, Order
from osmef.providers.local.provider import LocalProvider
from osmef.remote.keys import KeyPair
from osmef.results.rundir import RunDirectory
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.fields import EndpointKind


@contextmanager
def cloud(run: str, journal: Journal, deadline: float) -> Iterator[LocalProvider]:
    provider = LocalProvider(LocalSettings())
    request = EndpointRequest("vm", "sender", EndpointKind.VM, None, "host-1", "tenant-1")
    try:
        provider.create(Order(run, [request], KeyPair.generate("test"), journal, deadline))
        yield provider
    finally:
        provider.close()


@pytest.fixture
def run() -> str:
    return f"reap-{os.getpid()}-{time.monotonic_ns()}"


def found(out: Path, run: str) -> list[str]:
    return [orphan.reason for orphan in find_orphans(out) if orphan.resource.run == run]


@pytest.mark.parametrize(("left_s", "reasons"), [(600, []), (-60, ["its deadline has passed"])])
def test_what_no_journal_knows_is_taken_by_its_mark_once_its_deadline_has_passed(
    tmp_path: Path, run: str, left_s: float, reasons: list[str]
) -> None:
    with cloud(run, Journal(tmp_path / "elsewhere.jsonl"), time.time() + left_s):
        assert found(tmp_path, run) == reasons
        for orphan in find_orphans(tmp_path):
            if orphan.resource.run == run:
                reap(orphan)
                assert found(tmp_path, run) == []


def test_a_run_with_a_live_controller_is_left_alone_and_taken_when_it_is_dead(
    tmp_path: Path,
) -> None:
    with RunDirectory.create(tmp_path, "reap", "name: reap\n", ".yaml") as directory:
        journal = Journal(directory.journal)
        with cloud(directory.id, journal, time.time() - 60):
            assert found(tmp_path, directory.id) == []
            directory.close()  # as the death of the controller does
            assert found(tmp_path, directory.id) == ["its controller is gone"]
            (orphan,) = (o for o in find_orphans(tmp_path) if o.resource.run == directory.id)
            reap(orphan)
            assert LocalProvider.owned({}, directory.id) == []
            assert journal.standing() == []


def test_what_is_gone_already_is_noted_so(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path, "reap", "name: reap\n", ".yaml") as directory:
        journal = Journal(directory.journal)
        with cloud(directory.id, journal, time.time() + 60):
            standing = journal.standing()
        journal.created(standing[0])
        directory.close()
        (orphan,) = (o for o in find_orphans(tmp_path) if o.resource.run == directory.id)
        reap(orphan)
        assert found(tmp_path, directory.id) == []
