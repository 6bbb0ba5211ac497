"""Compiles agents that watch themselves or meet faults, and programs that help the tests."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from agents import build

WARNINGS = ("-Wall", "-Wextra", "-Werror")


def compile_with(compiler: str, out: Path, flags: Sequence[str], sources: Sequence[Path]) -> Path:
    """Compile and link; skip the test where the compiler or one of its libraries is missing."""
    found = shutil.which(compiler)
    if found is None:
        pytest.skip(f"no {compiler} on this machine")
    argv = [found, "-std=c11", "-D_GNU_SOURCE", "-pthread", '-DOSMEF_VERSION="test"', *flags]
    argv += [*map(str, sources), "-lm", "-o", str(out)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if "cannot find" in done.stderr:
        pytest.skip(f"{compiler} lacks a library:\n{done.stderr}")
    assert done.returncode == 0, done.stderr
    return out


def compile_agent(
    compiler: str, out: Path, flags: Sequence[str], extra: Sequence[Path] = ()
) -> Path:
    """Compile the agent's own sources and some more."""
    return compile_with(compiler, out, flags, [*build.sources(), *extra])
