"""A test that is disturbed once passes by --again, one that fails for its own sake does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.running.parts import ROOT

TESTS = """
import pytest

made = []

@pytest.fixture
def times():
    made.append(1)
    return len(made)

@pytest.fixture
def breaks(times):
    if times == {breaks}:
        raise OSError("in the set-up")
    yield
    if times == {breaks_after}:
        raise OSError("in the teardown")

def test_one(breaks, times):
    assert times != {fails}, "in the call"

def test_other():
    pass
"""


PROPERTY = """
from hypothesis import given, strategies as st

@given(st.integers())
def test_any(number):
    print("tried", number)
"""


def run(tmp_path: Path, *options: str, **when: object) -> tuple[int, str]:
    """Run two tests, one of which fails when it is told to; return the exit code and the output."""
    tests = TESTS.format(**{"breaks": 0, "breaks_after": 0, "fails": 0, **when})
    return run_tests(tmp_path, tests, *options)


def run_tests(tmp_path: Path, tests: str, *options: str) -> tuple[int, str]:
    path = tmp_path / "test_it.py"
    path.write_text(tests)
    plugins = ["tests.running.again", "tests.running.tiers"]
    (tmp_path / "conftest.py").write_text(f"pytest_plugins = {plugins}\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, *options, str(path)],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("when", "how"),
    [
        ({"breaks": 1}, "in the set-up"),
        ({"fails": 1}, "in the call"),
        ({"breaks_after": 1}, "in the teardown"),
    ],
)
def test_a_test_that_fails_once_is_run_again(
    tmp_path: Path, when: dict[str, object], how: str
) -> None:
    code, told = run(tmp_path, "--again", **when)
    assert (code, "2 passed, 1 run again" in told) == (0, True), told
    assert "test_it.py::test_one passed when run again" in told
    assert how in told
    assert run(tmp_path, **when)[0] == 1


def test_a_test_that_fails_twice_is_a_failure(tmp_path: Path) -> None:
    code, told = run(tmp_path, "--again", fails="times")
    assert (code, "1 failed, 1 passed" in told, "run again" in told) == (1, True, False), told


def test_properties_are_tried_with_the_same_examples(tmp_path: Path) -> None:
    def tried(*options: str) -> list[str]:
        code, told = run_tests(tmp_path, PROPERTY, "-s", *options)
        assert code == 0, told
        return [line for line in told.splitlines() if "tried" in line]

    assert tried("--again") == tried("--again")
    assert tried() != tried()
