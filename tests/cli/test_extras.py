"""What ``pip install osmef`` brings alone, and how it names the extra that something needs."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Set
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Refuses what no requirement of the base brings, as where it is not installed.
_BARE = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refused())
"""
_REFUSED = {
    *("cronsim", "jinja2", "markupsafe", "matplotlib", "prometheus_client", "pyroute2", "scipy"),
    *("sqlalchemy", "statsmodels", "ziglang", "fsspec", "distributed", "psycopg", "boto3"),
    *("openstack", "azure", "google", "libvirt"),
}
_BASE = """
import importlib, pkgutil, osmef
EXTRA = {extra!r}
for one in pkgutil.walk_packages(osmef.__path__, "osmef.", onerror=lambda name: None):
    if one.name != "osmef.__main__" and not one.name.startswith(EXTRA):
        importlib.import_module(one.name)
"""
# What draws, writes pages, conducts campaigns, or reaches a cloud.
_EXTRA = (
    *("osmef.campaigns", "osmef.cli.campaign", "osmef.report.html", "osmef.report.campaign"),
    *("osmef.providers.aws", "osmef.providers.azure", "osmef.providers.gce"),
    *("osmef.providers.libvirt", "osmef.providers.openstack", "osmef.providers.local."),
    *(f"osmef.report.{name}" for name in (
        "figures", "layers", "line_charts", "machine_figures", "pingpong", "spread", "style",
        "throughput", "time_series",
    )),
)  # fmt: skip


def _bare(
    code: str, *arguments: str, refused: Set[str] = _REFUSED
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _BARE.format(refused=refused) + code, *arguments],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env={"PYTHONPATH": ":".join(sys.path), "COLUMNS": "120"},
    )  # fmt: skip


_OSMEF = "sys.argv[0] = 'osmef'; from osmef.__main__ import main; main()"


def test_measuring_and_reading_need_no_package_of_an_extra() -> None:
    done = _bare(_BASE.format(extra=_EXTRA))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("report", "RUN"), "report"),
        (("plot", "btc-connections", "RUN", "-o", "x.png"), "report"),
        (("campaign", "status", "weeks"), "campaigns"),
        (("quick", "local"), "local"),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else one,
)
def test_a_missing_extra_is_named_with_its_install_command(
    arguments: tuple[str, ...], extra: str
) -> None:
    done = _bare(_OSMEF, *arguments)
    assert done.returncode == 3, done.stderr
    assert f"pip install 'osmef[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_driver_of_a_database_is_named_with_its_install_command() -> None:
    words = ("campaign", "status", "--state", "postgresql+psycopg://here/osmef")
    done = _bare(_OSMEF, *words, refused={"psycopg"})
    assert done.returncode == 3, done.stderr
    assert "pip install 'osmef[postgresql]'" in done.stderr


def test_the_help_of_all_commands_needs_none() -> None:
    done = _bare(_OSMEF, "--help")
    assert done.returncode == 0, done.stderr
    assert "campaign" in done.stdout


def test_the_base_has_few_requirements_and_all_has_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert len(project["dependencies"]) <= 10
    extras = project["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(everything.removeprefix("osmef[").removesuffix("]").split(","))
    assert named == extras.keys() - {"all", "docs", "test", "dev"}
