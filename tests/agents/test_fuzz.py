"""The fuzzing targets for some seconds each, from their seeds; `make fuzz` does it for minutes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from agents import fuzzing

SECONDS = int(os.environ.get("FUZZ_SECONDS", "5"))


@pytest.mark.parametrize("target", fuzzing.TARGETS)
def test_nothing_is_found(target: str, tmp_path: Path) -> None:
    try:
        program = fuzzing.compile_target(target, tmp_path)
    except fuzzing.FuzzError as error:
        if "apt install" not in str(error):
            raise
        pytest.skip(str(error))
    for seconds in (0, SECONDS):
        done = fuzzing.fuzz(program, target, tmp_path, seconds)
        assert done.returncode == 0, f"the inputs are in {tmp_path}:\n{done.stderr}"
    # It has done something, and more than the seeds.
    executed = re.search(r"stat::number_of_executed_units: (\d+)", done.stderr)
    assert executed is not None
    seeds = list((fuzzing.FUZZ / "corpus" / target).iterdir())
    assert seeds, "a target needs seeds"
    assert int(executed[1]) > len(seeds)


def test_every_corpus_has_its_target() -> None:
    folders = {path.name for path in (fuzzing.FUZZ / "corpus").iterdir()}
    assert folders == set(fuzzing.TARGETS)
