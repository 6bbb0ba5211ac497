"""Programs that measure disks and a key-value store: what they are told, what they tell, and runs.

The runs are real ones; each needs its program on this machine, and IOzone its source.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from osmef.errors import AgentError, InputError, OutputError, ProgramError
from osmef.kinds import WORKLOADS
from osmef.results.observations import Purpose
from osmef.scenario.load import load_text
from osmef.supply.bundle import BundleStore
from osmef.supply.program import this_architecture
from osmef.supply.supply import Supplier, build_from_source
from osmef.workloads.kinds.iozone import Iozone
from osmef.workloads.programs import DiskSettings
from osmef.workloads.tool import Tool
from osmef.workloads.trial_runner import TrialJob, run_parts
from tests.workloads.conftest import MakeHosts, Victim, pairs
from tests.workloads.test_tools import OUTPUTS, numbers, tool

DISKS = [name for name in WORKLOADS.own if issubclass(WORKLOADS.settings(name), DiskSettings)]
SOURCE = Path(__file__).parents[2].parent / "shared" / "sources" / "iozone.tar.gz"
IN_MEMORY = "the directory of the run is in memory there (tmpfs): no disk is measured"


def words(kind: str, **keys: Any) -> str:
    """Return the command line of the program that measures."""
    return " ".join(tool(kind, **keys).runs()[-1].argv)


@pytest.mark.parametrize(
    ("kind", "keys", "expected"),
    [
        ("dbench", {"sync": True}, "-D {dir} -c /usr/share/dbench/client.txt -s -S -F 1"),
        ("fio", {}, "--rw=randread --bs=4096 --size=1073741824 --numjobs=1 --iodepth=1"),
        ("fio", {"duration": "2500ms"}, "--runtime=3 --time_based=1 --directory={dir}"),
        ("fio", {"direct": False, "sync": True, "engine": "psync"}, "ioengine=psync --direct=0"),
        ("fio", {"rw": "randrw", "read_percent": 70}, "--rwmixread=70"),
        ("fio", {"rate": 100, "warmup": "2s"}, "--rate_iops=100 --ramp_time=2"),
        ("fio", {"options": {"overwrite": 1, "fallocate": "none"}}, "overwrite=1 --fallocate=none"),
        ("ioping", {}, "ioping -J -w 10s -i 10000000ns -s 4096 -S 67108864 -D {dir}"),
        ("ioping", {"operation": "write", "linear": True}, "-D -W -L {dir}"),
        ("ioping", {"interval": 0, "direct": False}, "-i 0ns -s 4096 -S 67108864 -q {dir}"),
        ("ioping", {"interval": "1ms", "duration": "60s"}, "-D -q {dir}"),
        ("iozone", {}, "-i 0 -i 1 -i 2 -s 1048576k -r 1024k -e -I -f {dir}/iozone.0"),
        ("iozone", {"tests": ["random"], "flush": False}, "-i 0 -i 2 -s 1048576k -r 1024k -I"),
        ("iozone", {"streams": 2, "sync": True}, "-e -o -I -t 2 -F {dir}/iozone.0 {dir}/iozone.1"),
        ("redis-benchmark", {"tests": ["set", "mset"]}, "-t set,mset -c 50 -n 100000 -d 3 -P 1"),
        ("redis-benchmark", {"keys": 9, "threads": 2, "size": "1kB"}, "-d 1000 -P 1 -k 1 -r 9"),
        ("redis-benchmark", {"keep_alive": False, "pipeline": 16}, "-P 16 -k 0"),
        ("memtier", {}, "-t 4 -c 50 --ratio 1:10 -d 32 --pipeline 1 --key-maximum 10000000"),
        ("memtier", {"duration": "2500ms", "ratio": "0:1"}, "--test-time 3 --hide-histogram"),
    ],
)  # fmt: skip
def test_settings_are_options(kind: str, keys: dict[str, Any], expected: str) -> None:
    assert expected in words(kind, **keys)


def test_only_redis_s_own_clients_know_its_password() -> None:
    server, client = tool("redis-benchmark", io_threads=2).runs()
    password = server.argv[server.argv.index("--requirepass") + 1]
    assert client.argv[client.argv.index("-a") + 1] == password
    assert "--io-threads 2" in " ".join(server.argv)
    assert (server.serves, server.ready) == (True, "port")
    assert password not in words("redis-benchmark")


@pytest.mark.parametrize("kind", DISKS)
def test_files_have_a_directory_of_the_trial_with_room_for_them(kind: str) -> None:
    made = tool(kind, directory="/mnt/x")
    (run,) = made.runs()
    assert run.directory == "/mnt/x"
    assert made._settings.file_bytes < run.room < 1.1 * made._settings.file_bytes
    assert "/mnt/x" not in run.argv
    assert tool(kind).runs()[0].directory == "{dir}"


@pytest.mark.parametrize(
    ("kind", "keys", "files", "timeout_s"),
    [
        ("dbench", {"clients": 100}, 3e9, 370),
        ("fio", {"size": "1GB", "jobs": 4}, 4e9, 470),
        ("ioping", {"size": "10MB"}, 1e7, 71),
        ("iozone", {"size": "1024MiB", "streams": 2}, 2**31, 70 + 6 * 2**31 / 1e7),
        ("iozone", {"deadline": "5s"}, 2**30, 5),
    ],
)
def test_large_files_take_their_time(
    kind: str, keys: dict[str, Any], files: float, timeout_s: float
) -> None:
    made = tool(kind, **keys)
    assert made._settings.file_bytes == files
    assert made.parts()[0].deadline_s == pytest.approx(timeout_s)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{kind: fio, rw: trim}", "rw"),
        ("{kind: fio, depth: 8, engine: psync}", "one request under way at a time"),
        ("{kind: fio, options: {filename: /dev/sda}}", "filename is no option of its own"),
        ("{kind: fio, options: {size: 1g}}", "size is no option of its own"),
        ("{kind: fio, options: {'exec prerun': x}}", "exec prerun"),
        ("{kind: fio, block: 100B}", "block"),
        ("{kind: fio, directory: tmp}", "no directory"),
        ("{kind: iozone, record: 1000B}", "record"),
        ("{kind: iozone, size: 1048577B}", "whole KiB"),
        ("{kind: iozone, tests: []}", "tests"),
        ("{kind: ioping, operation: trim}", "operation"),
        ("{kind: ioping, size: 1kB}", "size"),
        ("{kind: redis-benchmark, tests: [flushall]}", "tests"),
        ("{kind: redis-benchmark, clients: 0}", "clients"),
        ("{kind: memtier, ratio: '0:0'}", "ratio"),
        ("{kind: memtier, ratio: half}", "ratio"),
    ],
)
def test_invalid_disk_settings_are_rejected_before_the_run(
    text: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        load_text(f"name: x\nworkload: {text}\n", tmp_path / "x.yaml")
    assert said in str(caught.value)


def facts(memory: int = 8 * 10**9, kind: str = "ext2/ext3") -> dict[str, Any]:
    there = {"type": kind, "total_bytes": 1, "available_bytes": 1}
    return {"memory": {"total_bytes": memory}, "file_systems": {"{dir}": there}}


@pytest.mark.parametrize(
    ("kind", "keys", "known", "said"),
    [
        ("fio", {}, facts(), []),
        ("fio", {"direct": False}, facts(), ["1.07 GB of files fit into 8 GB of memory"]),
        ("fio", {"direct": False, "jobs": 9}, facts(), []),
        ("fio", {}, facts(kind="tmpfs"), [IN_MEMORY]),
        ("fio", {"direct": False}, {}, []),
        ("fio", {"direct": False}, {"error": "gone"}, []),
        ("fio", {"direct": False}, {"memory": None, "file_systems": {"{dir}": None}}, []),
        ("iozone", {"direct": False, "size": "8GB"}, facts(), ["8 GB of files fit"]),
        ("ioping", {"direct": False}, facts(), []),
        ("dbench", {}, facts(), ["30 MB of files fit"]),
        ("dbench", {"sync": True}, facts(), []),
    ],
)  # fmt: skip
def test_a_disk_test_that_measures_memory_is_warned_of(
    kind: str, keys: dict[str, Any], known: Mapping[str, Any], said: list[str]
) -> None:
    settings = tool(kind, **keys)._settings
    found = list(settings.warnings_from_facts("sender", known))
    assert len(found) == len(said)
    assert all(text in one for one, text in zip(found, said, strict=True))
    assert list(settings.warnings_from_facts("receiver", known)) == []


def test_a_queue_depth_without_effect_is_warned_of() -> None:
    assert "not the depth" in next(tool("fio", depth=4, direct=False)._settings.warnings())
    assert list(tool("fio", depth=4)._settings.warnings()) == []


def output(kind: str, name: str) -> bytes:
    return (OUTPUTS / kind.replace("-", "_") / f"{name}.txt").read_bytes()


def test_both_reads_and_writes_of_fio_are_reported() -> None:
    found = numbers(tool("fio", rw="randrw"), output("fio", "mixed-jobs"))
    assert found["read_iops"] == pytest.approx(32603.3966)
    assert found["read_p999_us"] == pytest.approx(2277.376)
    assert found["write_bytes_per_s"] == 57192599
    assert found["write_p50_us"] == pytest.approx(150.528)
    assert [one.name for one in tool("fio", rw="randrw").output_measures if one.leading] == [
        "read_iops"
    ]
    with pytest.raises(OutputError, match="reports no write"):
        numbers(tool("fio", rw="write"), output("fio", "randread"))


def test_percentiles_of_ioping_are_computed_from_the_printed_requests() -> None:
    found = numbers(tool("ioping"), output("ioping", "direct"))
    assert (found["latency_p50_us"], found["latency_p99_us"]) == (380.895, 1319.604)
    assert numbers(tool("ioping"), output("ioping", "quiet"))["latency_p99_us"] is None


def test_iozone_must_have_done_what_was_asked_for() -> None:
    asked = tool("iozone", tests=["random"])
    assert [one.name for one in asked.output_measures] == [
        f"{name}_bytes_per_s" for name in ("write", "rewrite", "random_read", "random_write")
    ]
    assert numbers(asked, output("iozone", "no-read"))["random_write_bytes_per_s"]
    with pytest.raises(OutputError, match="no rate of read"):
        numbers(tool("iozone"), output("iozone", "no-read"))


def test_redis_benchmark_must_have_done_what_was_asked_for() -> None:
    found = numbers(tool("redis-benchmark", tests=["mset"]), output("redis-benchmark", "all"))
    assert list(found) == [f"mset_{one}" for one in ("per_s", "mean_us", "p50_us", "p95_us",
                                                     "p99_us", "max_us")]  # fmt: skip
    old = numbers(tool("redis-benchmark"), output("redis-benchmark", "old"))
    assert (old["set_per_s"], old["set_p99_us"]) == (50000.0, None)
    with pytest.raises(OutputError, match="nothing of set"):
        numbers(tool("redis-benchmark"), output("redis-benchmark", "threads"))


def test_memtier_metrics_depend_on_its_version() -> None:
    found = numbers(tool("memtier"), output("memtier", "both"))
    assert (found["requests_per_s"], found["sets_per_s"]) == (717671.01, 65244.72)
    assert found["hits_percent"] == pytest.approx(9.469, abs=0.001)
    assert (found["p50_us"], found["p99_9_us"]) == (2863.0, 380927.0)
    old = numbers(tool("memtier"), output("memtier", "old"))
    assert (old["mean_us"], old["p99_us"], old["hits_percent"]) == (4907.0, None, 0.0)
    only_sets = numbers(tool("memtier"), output("memtier", "cluster"))
    assert (only_sets["gets_per_s"], only_sets["hits_percent"]) == (None, None)


# --- real runs -----------------------------------------------------------------------------------

PACKAGES = {"fio": "fio", "ioping": "ioping", "dbench": "dbench", "redis-server": "redis-server",
            "redis-benchmark": "redis-tools"}  # fmt: skip
SMALL: dict[str, dict[str, Any]] = {
    "dbench": {"duration": "3s", "sync": True},
    "fio": {"duration": "1s", "size": "4MiB", "rw": "randrw"},
    "ioping": {"duration": "1s", "size": "1MiB"},
    "redis-benchmark": {"requests": 2000, "tests": ["set", "get", "lrange_100", "mset"]},
}


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    found = tmp_path / "disk"
    found.mkdir()
    return found


def measure(two: list[Victim], made: Tool[Any]) -> dict[str, float | None]:
    job = TrialJob(trial=0, pairs=pairs([two[0]], [two[1]]))
    done = run_parts(job, made.parts())
    return dict(made.outcome(0, Purpose.MEASURED, done.ran).metrics)


def needs(made: Tool[Any]) -> None:
    for program in made.programs:
        if shutil.which(program.name) is None:
            pytest.skip(f"no {program.name} here (Debian: apt install {PACKAGES[program.name]})")


def with_direct(kind: str, disk: Path, **keys: Any) -> dict[str, Any]:
    """Return settings of a program in a directory, with direct I/O only where that works."""
    if kind not in DISKS:
        return keys
    argv = ["dd", "if=/dev/zero", f"of={disk}/probe", "bs=4096", "count=1", "oflag=direct"]
    works = subprocess.run(argv, capture_output=True, check=False).returncode == 0
    (disk / "probe").unlink(missing_ok=True)
    has_direct = "direct" in WORKLOADS.settings(kind).model_fields
    return {**keys, "directory": str(disk), **({"direct": works} if has_direct else {})}


@pytest.mark.real("tools")
@pytest.mark.parametrize("kind", SMALL)
def test_a_real_run_has_every_number_and_leaves_nothing(
    kind: str, hosts: MakeHosts, disk: Path
) -> None:
    made = tool(kind, **with_direct(kind, disk, **SMALL[kind]))
    needs(made)
    found = measure(hosts("sender", "receiver"), made)
    assert [one.name for one in made.output_measures if not found[one.name]] == []
    assert list(disk.iterdir()) == []


@pytest.mark.real("tools")
@pytest.mark.parametrize("kind", ["fio", "dbench"])
def test_a_deadline_in_the_middle_leaves_nothing(kind: str, hosts: MakeHosts, disk: Path) -> None:
    made = tool(kind, **with_direct(kind, disk, **SMALL[kind], deadline="700ms"))
    needs(made)
    with pytest.raises(ProgramError, match="still ran"):
        measure(hosts("sender", "receiver"), made)
    assert list(disk.iterdir()) == []


@pytest.mark.real("tools")
@pytest.mark.parametrize("kind", ["fio", "ioping"])
def test_too_little_disk_space_is_reported_before_the_program_starts(
    kind: str, hosts: MakeHosts, disk: Path
) -> None:
    made = tool(kind, **with_direct(kind, disk, size="1000TB"))
    needs(made)
    with pytest.raises(AgentError, match=f"MB in {disk}, and .* MB are missing") as caught:
        measure(hosts("sender", "receiver"), made)
    assert caught.value.cure


@pytest.mark.real("tools")
def test_the_error_of_a_failed_program_is_shown(hosts: MakeHosts, disk: Path) -> None:
    made = tool("fio", **with_direct("fio", disk, **{**SMALL["fio"], "engine": "nosuch"}))
    needs(made)
    with pytest.raises(ProgramError, match="engine nosuch not loadable"):
        measure(hosts("sender", "receiver"), made)
    assert list(disk.iterdir()) == []


@pytest.fixture(scope="module")
def iozone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """IOzone as `osmef program build` makes it of its source."""
    if not SOURCE.exists():
        pytest.skip("needs the source of IOzone, ../shared/sources/iozone.tar.gz")
    folder = tmp_path_factory.mktemp("iozone")
    (program,) = Iozone.programs
    assert program.source is not None
    source = replace(program.source, path=SOURCE)
    bundle = build_from_source(
        program, source, this_architecture(), Supplier(BundleStore(folder / "store"))
    )
    path = folder / "iozone"
    path.write_bytes(bundle.contents["iozone"])
    path.chmod(0o755)
    return path


@pytest.mark.real("tools")
@pytest.mark.parametrize("streams", [1, 2])
def test_a_real_run_of_iozone(
    hosts: MakeHosts, disk: Path, iozone: Path, monkeypatch: pytest.MonkeyPatch, streams: int
) -> None:
    monkeypatch.setattr(Victim, "command_line", lambda _self, argv: [str(iozone), *argv[1:]])
    keys = {"size": "2MiB", "record": "64KiB", "streams": streams, "tests": ["write"]}
    made = tool("iozone", **with_direct("iozone", disk, **keys))
    found = measure(hosts("sender", "receiver"), made)
    assert found["write_bytes_per_s"]
    assert found["rewrite_bytes_per_s"]
    assert list(disk.iterdir()) == []
