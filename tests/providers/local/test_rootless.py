from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ONLY_ROOT = {"only root can be two users", "only root can give them addresses"}
AN_ORDINARY_USER = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run without root already")
@pytest.mark.parametrize("module", ["test_provider.py", "test_lifecycle.py"])
def test_an_ordinary_user_has_the_same_cloud(machine: None, module: str, tmp_path: Path) -> None:
    """The user has no passwd entry and, outside of what it makes itself, no capability."""
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*AN_ORDINARY_USER, *pytest_command, f"--basetemp={tmp_path / 'inner'}", HERE / module],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parents[2],
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert set(re.findall(r"^skipped \d+: (.*)$", done.stdout, re.MULTILINE)) <= ONLY_ROOT
    assert "passed" in done.stdout
