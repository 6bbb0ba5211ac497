"""The wheel in an environment of its own: what ``pip install osmef`` brings, and what it can do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.running.parts import ROOT

pytestmark = pytest.mark.real("packages")
MOST_PACKAGES = 25
MOST_BYTES = 400e6


@dataclass(frozen=True)
class Environment:
    """A bare environment, and a directory in which its ``osmef`` runs."""

    root: Path
    work: Path
    wheel: Path

    def python(self, *arguments: str) -> str:
        """Run its Python; return what that printed."""
        command = [str(self.root / "bin/python"), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def install(self, extra: str = "") -> None:
        """Install the wheel, with an extra of it."""
        self.python("-m", "pip", "-q", "--disable-pip-version-check", "install",
                    f"{self.wheel}{extra}")  # fmt: skip

    def osmef(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command as somebody who has just installed it."""
        env = {"PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "HOME": str(self.work)}
        return subprocess.run(
            ["osmef", *arguments], cwd=self.work, env=env, capture_output=True, text=True,
            check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment that has the wheel and what that requires, from the registry."""
    place = tmp_path_factory.mktemp("bare")
    build = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(place)]
    subprocess.run([sys.executable, *build, str(ROOT)], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
    (wheel,) = place.glob("*.whl")
    (place / "work").mkdir()
    environment = Environment(place / "venv", place / "work", wheel)
    environment.install()
    return environment


def _added(root: Path) -> int:
    """Return the bytes of what has been installed, compiled as pip does, beside pip itself."""
    own = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
    (packages,) = root.glob("lib/python*/site-packages")
    return sum(
        file.lstat().st_size
        for one in packages.iterdir()
        if not one.name.startswith(own)
        for file in (one, *one.rglob("*"))
    )


def _quick(bare: Environment, more: Sequence[str] = ()) -> Path:
    done = bare.osmef("quick", "local", "--duration", "300ms", "--json", *more)
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)["directory"])


@pytest.mark.timeout(1200)
def test_the_base_is_small_and_measures_and_reads(bare: Environment) -> None:
    own = {"osmef", "pip", "setuptools"}
    packages = {
        one["name"] for one in json.loads(bare.python("-m", "pip", "list", "--format=json"))
    }
    assert len(packages - own) <= MOST_PACKAGES, sorted(packages)
    assert _added(bare.root) <= MOST_BYTES

    missing = bare.osmef("quick", "local")
    assert missing.returncode == 3
    assert "pip install 'osmef[local]'" in missing.stderr
    bare.install("[local]")
    first, second = _quick(bare), _quick(bare)
    shown = bare.osmef("show", str(first))
    assert shown.returncode == 0, shown.stderr
    assert "aggregate" in shown.stdout
    compared = bare.osmef("compare", str(first), str(second))
    assert compared.returncode == 0, compared.stderr
    for command in (("list",), ("statistics", str(first)), ("export", "csv", str(first))):
        done = bare.osmef(*command)
        assert done.returncode == 0, done.stderr

    drawn = bare.osmef("report", str(first))
    assert drawn.returncode == 3
    assert "pip install 'osmef[report]'" in drawn.stderr
    bare.install("[report]")
    drawn = bare.osmef("report", str(first))
    assert drawn.returncode == 0, drawn.stderr
    assert "</svg>" in (bare.work / "report.html").read_text()
    planned = bare.osmef("campaign", "status", "weeks")
    assert "pip install 'osmef[campaigns]'" in planned.stderr
