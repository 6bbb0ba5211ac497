"""The oldest versions of the packages that pyproject.toml allows: the numbers are the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running.parts import ROOT

pytestmark = pytest.mark.real("packages")
OLDEST_PYTHON = (3, 11)
CLOUDS = ("conformance", "aws", "azure", "gce", "openstack", "sites")
INSTALL = """
import subprocess, sys
from tools.install import UV, requirements, uv_environment
named = [name for extra in ("run", "test") for name in requirements(extra)]
install = [UV, "pip", "install", "--python", sys.argv[1], "--resolution", "lowest-direct"]
sys.exit(subprocess.run([*install, *named], env=uv_environment()).returncode)
"""


@pytest.mark.timeout(1200)
def test_the_oldest_packages_pass_the_fast_tests_and_those_of_clouds(tmp_path: Path) -> None:
    if sys.version_info[:2] != OLDEST_PYTHON:
        pytest.skip("the oldest packages are for Python 3.11")
    python = str(tmp_path / "venv/bin/python")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    subprocess.run([sys.executable, "-c", INSTALL, python], check=True, cwd=ROOT)
    # Their own warnings are of things that later versions of them have mended.
    quiet = ["-o", "filterwarnings=default", "-W", "ignore", "-q", "-p", "no:cacheprovider"]
    command = [python, "-m", "pytest", *quiet, "-n", "4", "--tier"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    for tests in (["check"], ["test", *(f"tests/providers/{cloud}" for cloud in CLOUDS)]):
        done = subprocess.run(
            [*command, *tests], cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-4000:]
