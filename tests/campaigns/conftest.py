from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from osmef.supply.program import SourceCode, this_architecture
from osmef.supply.supply import Supplier, build_from_source
from osmef.workloads.kinds.unixbench import Unixbench
from tests.postgres import Postgres, postgres


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


@pytest.fixture
def no_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller that keeps no bundles of programs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def brought_unixbench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A controller that has something by the name of UnixBench, which is in no registry."""
    folder = tmp_path_factory.mktemp("source")
    (folder / "unixbench").write_text("#!/bin/sh\n")
    source = SourceCode((), ("unixbench",), path=folder, language="script")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        for program in Unixbench.programs:
            build_from_source(program, source, this_architecture(), Supplier())
        yield
