"""The tiers of the tests: ``check`` in a minute, ``test`` in a quarter of an hour, and ``real``.

``--tier check`` selects what needs no machine, ``--tier test`` all that is enough to be sure of a
change, ``--tier real`` the rest, of which ``--part`` selects one part. Without ``--tier`` all are
selected, so that a file named by hand is run whole.

A test belongs to a part by ``@pytest.mark.real(PART)`` or by a fixture that takes long to make;
``@pytest.mark.quick`` takes one of them into ``test`` all the same. Properties are tried on few
examples there, and on many as a part of their own.
"""

from __future__ import annotations

import platform
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from tests.running.parts import PARTS, ROOT

# Fixtures that take long or need much, by the folder in which they are defined.
_FIXTURES = {
    ("", "openstack_cloud"): "openstack",
    ("", "volume_cloud"): "openstack-volumes",
    ("", "real_cloud"): "openstack-guests",
    ("tests", "lab"): "libvirt",
    ("tests", "guest_image"): "libvirt",
    ("tests/campaigns", "postgresql"): "campaigns",
    ("tests/images/test_openstack.py", "service"): "libvirt",
    ("tests/importers/test_published_lines.py", "lines"): "published",
    ("tests/providers/libvirt/test_nocloud.py", "disk"): "libvirt",
    ("tests/providers/libvirt/test_units.py", "fake"): "libvirt",
}
# Files and folders all of whose tests belong to a part.
_FILES = {
    "docs/notebooks/campaign.ipynb": "notebooks",
    "docs/notebooks/containers-2014.ipynb": "notebooks",
    "docs/notebooks/paper-2013.ipynb": "notebooks",
    "docs/notebooks/variability-2017.ipynb": "notebooks",
    "tests/agents/test_build.py": "agents",
    "tests/agents/test_fuzz.py": "agents",
    "tests/agents/test_sanitized.py": "agents",
    "tests/campaigns/test_dask.py": "campaigns",
    "tests/campaigns/test_deval.py": "simulations",
    "tests/campaigns/test_killed.py": "campaigns",
    "tests/campaigns/test_kills.py": "campaigns",
    "tests/campaigns/test_postgresql.py": "campaigns",
    "tests/cli/test_damage.py": "faults",
    "tests/importers/test_every_command.py": "published",
    "tests/importers/test_findings_2013.py": "published",
    "tests/importers/test_published.py": "published",
    "tests/libvirt/": "libvirt",
    "tests/openstack/test_cloud.py": "openstack",
    "tests/openstack/test_real.py": "openstack-guests",
    "tests/providers/aws/test_faults.py": "clouds",
    "tests/providers/aws/test_nics.py": "clouds",
    "tests/providers/azure/test_nics.py": "clouds",
    "tests/providers/azure/test_teardown.py": "clouds",
    "tests/providers/gce/test_faults.py": "clouds",
    "tests/providers/gce/test_nics.py": "clouds",
    "tests/providers/libvirt/test_cloud_init.py": "cloud-init",
    "tests/providers/local/test_rootless.py": "faults",
    "tests/providers/openstack/test_volumes.py": "openstack-volumes",
}
PROPERTIES = "properties"
FEW, MANY = 25, 400
"""Examples of a property, in ``test`` and in its part of ``real``."""

# What is in memory or files only, whole runs among it, and one measurement on the local provider.
CHECK = (
    *("tests/analysis/", "tests/benchmarks/", "tests/docs/", "tests/engine/", "tests/facts/"),
    *("tests/formats/", "tests/importers/", "tests/memory/", "tests/prices/", "tests/report/"),
    *("tests/results/", "tests/scenario/", "tests/workloads/", "tests/running/test_parts.py"),
    *("tests/supply/test_bundle.py", "tests/supply/test_closure.py", "tests/supply/test_elf.py"),
    *("tests/supply/test_plan.py", "tests/supply/test_program.py"),
    *("tests/test_errors.py", "tests/test_programs.py", "tests/test_units.py"),
    *("tests/cli/test_quickstart.py", "tests/providers/cloud/"),
)
# What would take almost half of the time of all these: whole pages, a figure of each kind from
# trials on the local provider, files of ten thousand keys, and how often intervals hold the truth,
# in simulations.
_LONG = (
    *("tests/report/html/", "tests/report/test_every_kind.py", "tests/scenario/test_bounds.py"),
    *("tests/analysis/test_effects.py", "tests/analysis/test_nested.py"),
    *("tests/analysis/test_similarity.py::test_intervals", "tests/analysis/test_spreads.py"),
)
# What starts processes all the same: sshd, agents, clouds in namespaces.
_MACHINES = {
    *("sshd", "session", "hosts", "scripted", "machine", "binary", "osmef", "local_cloud"),
    "stranger",
}


def part_of(item: pytest.Item) -> str | None:
    """Return the part of ``make test-real`` that a test belongs to; None for a quick one."""
    if item.get_closest_marker("quick") is not None:
        return None
    marker = item.get_closest_marker("real")
    if marker is not None:
        return str(marker.args[0])
    part = _part_of_file(item.path)
    if part is not None:
        return part
    fixtures = getattr(item, "_fixtureinfo", None)
    for name, definitions in (fixtures.name2fixturedefs if fixtures else {}).items():
        part = _FIXTURES.get((definitions[-1].baseid, name))
        if part is not None:
            return part
    spec = getattr(item, "callspec", None)
    if spec is not None and spec.params.get("any_binary") not in {None, platform.machine()}:
        return "agents"
    return None


def _part_of_file(path: Path) -> str | None:
    name = path.relative_to(ROOT).as_posix()
    return next((part for start, part in _FILES.items() if name.startswith(start)), None)


def _is_property(item: pytest.Item) -> bool:
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


def is_in_check(item: pytest.Item) -> bool:
    """Tell whether a quick test is one of those that need no machine."""
    if "test_quickstart" in item.nodeid:
        return True
    needed = set(getattr(item, "fixturenames", ()))
    return _may_be_in_check(item.nodeid) and not _MACHINES & needed


def _may_be_in_check(name: str) -> bool:
    return name.startswith(CHECK) and not name.startswith(_LONG)


def is_wanted(item: pytest.Item, tier: str, part: str | None) -> bool:
    """Tell whether a test is one of a tier, and of a part if there is one."""
    found = part_of(item)
    if tier == "test":
        return found is None
    if tier == "check":
        return found is None and is_in_check(item)
    if part == PROPERTIES:
        return _is_property(item)
    return found == part if part else found is not None or _is_property(item)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--tier", choices=("check", "test", "real"), help="run the tests of a tier")
    group.addoption("--part", choices=tuple(PARTS), help="of --tier real, run one part")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real(part): takes long, or much of the machine")
    config.addinivalue_line("markers", "quick: is in `make test` although its fixtures are not")
    # A busy machine is slow now and then; how long one example takes says nothing about the code.
    many = config.option.part == PROPERTIES or config.option.tier is None
    examples = MANY if many else FEW
    # What CI tries is the same for each change: a new example is for who looks for one.
    same = config.getoption("--again", default=False)
    settings.register_profile("osmef", deadline=None, max_examples=examples, derandomize=same)
    settings.load_profile("osmef")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Don't read files of which the tier can't want anything: importing clouds takes a while."""
    if collection_path.is_dir() or not collection_path.is_relative_to(ROOT):
        return None
    tier, part = config.option.tier, config.option.part
    of_file = _part_of_file(collection_path)
    if tier == "real":
        return True if of_file is not None and part not in {None, of_file, PROPERTIES} else None
    if tier == "check" and not _may_be_in_check(collection_path.relative_to(ROOT).as_posix()):
        return None if collection_path.name == "conftest.py" else True
    return True if tier is not None and of_file is not None else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier, part = config.option.tier, config.option.part
    if tier is None:
        return
    chosen = [item for item in items if is_wanted(item, tier, part)]
    others = [item for item in items if not is_wanted(item, tier, part)]
    items[:] = chosen
    if others:
        config.hook.pytest_deselected(items=others)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped in a line for each reason, which names the cure."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(_reason(report.longrepr) for report in reports)
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"skipped {count}: {reason}")


def _reason(told: object) -> str:
    text = str(told[2] if isinstance(told, tuple) else told)
    return text.removeprefix("Skipped: ").strip().partition("\n")[0]
