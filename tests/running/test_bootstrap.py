"""Installing packages while another package manager is at work."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

BOOTSTRAP = Path(__file__).parents[2] / "tools" / "bootstrap"
APT = """#!/bin/sh
echo "$@" >>{calls}
[ "$(wc -l <{calls})" -gt {held} ] && exit 0
echo "{error}" >&2
exit 100
"""
HELD = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs that stand for the machine's: nobody waits, and nothing is installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (
        ("sleep", "#!/bin/sh\n"),
        ("sudo", '#!/bin/sh\n[ "$1" = -n ] || exec "$@"\n'),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def bootstrap(
    programs: Path, held: int, error: str
) -> tuple[subprocess.CompletedProcess[str], int]:
    """Return how it ended, and how often apt-get was called."""
    calls = programs / "calls"
    (programs / "apt-get").write_text(APT.format(calls=calls, held=held, error=error))
    (programs / "apt-get").chmod(0o755)
    env = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    command = [str(BOOTSTRAP), "no-such-package"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    return done, len(calls.read_text().splitlines())


def test_it_waits_for_the_lock_of_another_one(programs: Path) -> None:
    done, calls = bootstrap(programs, 3, HELD)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("waiting for another package manager") == 1
    assert calls == 3 + 2  # an update and an installation


def test_it_does_not_wait_for_ever(programs: Path) -> None:
    done, calls = bootstrap(programs, 1000, HELD)
    assert done.returncode != 0
    assert HELD in done.stderr
    assert calls == 61


def test_other_errors_are_reported_at_once(programs: Path) -> None:
    done, calls = bootstrap(programs, 1000, "E: Unable to locate package no-such-package")
    assert done.returncode != 0
    assert "Unable to locate" in done.stderr
    assert calls == 1
