"""What the agent reads of CPU quotas, from trees of control groups as systems and containers have.

tests/agents/test_limits_real.py has real ones.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.agents import shared

Told = tuple[float, int, int, int] | None
"""CPUs, periods, throttled periods and microseconds."""
Read = Callable[[Mapping[str, str]], Told]


class Quota(ctypes.Structure):
    _fields_ = (
        ("cpus", ctypes.c_double),
        ("periods", ctypes.c_int64),
        ("throttled", ctypes.c_int64),
        ("throttled_us", ctypes.c_int64),
    )


class Quotas(ctypes.Structure):
    _fields_ = (("count", ctypes.c_int), ("of", Quota * 8))


STAT_2 = "usage_usec 9\nnr_periods 100\nnr_throttled 80\nthrottled_usec 7000000\nnr_bursts 0\n"
STAT_1 = "nr_periods 100\nnr_throttled 80\nthrottled_time 7000000000\n"
FIRST = "30 25 0:26 {root} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
SECOND = "35 25 0:30 {root} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
OTHERS = (
    "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n29 25 0:25 / /sys/fs/cgroup/cpuset rw - cgroup c rw,"
    "cpuset\n"
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    below = str(Path(__file__).parent / "c" / "below.c")
    folder = tmp_path_factory.mktemp("quota")
    library = shared.load(folder, "quota.c", below, flags=("-Dfopen=fopen_below",))
    library.quotas_tightest.restype = ctypes.POINTER(Quota)
    return library


@pytest.fixture
def read(library: ctypes.CDLL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    monkeypatch.setenv("QUOTA_TEST_ROOT", str(tmp_path))

    def call(files: Mapping[str, str]) -> Told:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        found = Quotas()
        library.quotas_read(ctypes.byref(found))
        tightest = library.quotas_tightest(ctypes.byref(found))
        if not tightest:
            return None
        one = tightest.contents
        return one.cpus, one.periods, one.throttled, one.throttled_us

    return call


def tree(mount: str, group: str, lines: str) -> dict[str, str]:
    return {"proc/self/mountinfo": OTHERS + mount, "proc/self/cgroup": lines.format(group)}


FIRST_LINES = "12:cpuset:/elsewhere\n5:cpu,cpuacct:{}\n0::/unified\n"
SECOND_LINES = "0::{}\n"
V1, V2 = "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup"


def limit_1(quota_us: int) -> dict[str, str]:
    return {"cpu.cfs_quota_us": f"{quota_us}\n", "cpu.cfs_period_us": "100000\n"}


def at(place: str, files: Mapping[str, str]) -> dict[str, str]:
    return {f"{place}/{name}": text for name, text in files.items()}


def test_the_quota_of_control_groups_version_1_is_read(read: Read) -> None:
    files = tree(FIRST.format(root="/"), "/docker/abc", FIRST_LINES)
    files |= at(f"{V1}/docker/abc", limit_1(50_000) | {"cpu.stat": STAT_1})
    assert read(files) == (0.5, 100, 80, 7_000_000)


def test_version_1_in_a_container_that_sees_its_own_group_only(read: Read) -> None:
    files = tree(FIRST.format(root="/docker/abc"), "/docker/abc", FIRST_LINES)
    files |= at(V1, limit_1(50_000) | {"cpu.stat": STAT_1})
    assert read(files) == (0.5, 100, 80, 7_000_000)


def test_the_quota_of_a_parent_of_a_control_group_version_2_counts(read: Read) -> None:
    files = tree(SECOND.format(root="/"), "/system.slice/agent.service", SECOND_LINES)
    files |= at(f"{V2}/system.slice/agent.service", {"cpu.max": "max 100000\n", "cpu.stat": STAT_2})
    files |= at(f"{V2}/system.slice", {"cpu.max": "20000 100000\n", "cpu.stat": STAT_2})
    files |= at(V2, {"cpu.stat": "usage_usec 9\n"})
    assert read(files) == (0.2, 100, 80, 7_000_000)


@pytest.mark.parametrize(("root", "group"), [("/", "/"), ("/../..", "/../../pod"), ("/", "/../x")])
def test_the_quota_is_read_in_a_namespace_of_control_groups(
    read: Read, root: str, group: str
) -> None:
    files = tree(SECOND.format(root=root), group, SECOND_LINES)
    files |= at(V2, {"cpu.max": "150000 100000\n", "cpu.stat": STAT_2})
    assert read(files) == (1.5, 100, 80, 7_000_000)


def test_the_tightest_cpu_quota_of_nested_cgroups_is_reported(read: Read) -> None:
    files = tree(SECOND.format(root="/"), "/pod/app", SECOND_LINES)
    files |= at(f"{V2}/pod/app", {"cpu.max": "20000 100000", "cpu.stat": "nr_throttled 3\n"})
    files |= at(f"{V2}/pod", {"cpu.max": "30000 100000", "cpu.stat": STAT_2})
    assert read(files) == (0.3, 100, 80, 7_000_000)


def test_control_groups_without_a_limit_have_no_quota(read: Read) -> None:
    files = tree(FIRST.format(root="/"), "/", FIRST_LINES)
    assert read(files | at(V1, limit_1(-1) | {"cpu.stat": STAT_1})) is None


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/self/cgroup": "5:cpu:/\n"},
        {"proc/self/cgroup": "5\n\n:\n::\n" + "x" * 9000, "proc/self/mountinfo": " - \n - a\n"},
        tree(SECOND.format(root="/"), "/" + "deep/" * 400, SECOND_LINES),
    ],
    ids=["nothing", "no mounts", "other lines", "a long path"],
)
def test_cgroup_files_without_a_quota_give_no_quota(read: Read, files: dict[str, str]) -> None:
    assert read(files) is None
