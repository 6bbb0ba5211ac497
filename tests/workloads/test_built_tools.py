"""STREAM and UnixBench: the scripts that start them, and real runs of what is built of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from osmef.errors import OutputError
from osmef.results.observations import Purpose
from osmef.supply.bundle import BundleStore, default_directory
from osmef.supply.program import this_architecture
from osmef.supply.supply import Supplier, build_from_source
from osmef.workloads.kinds.stream import StreamSettings
from osmef.workloads.kinds.unixbench import BASELINE, UnixbenchSettings
from osmef.workloads.tasks import TaskTimeouts
from osmef.workloads.trial_runner import TrialJob, run_parts
from tests.workloads.conftest import MakeHosts, pairs
from tests.workloads.test_tools import OUTPUTS, numbers, tool

SOURCES = Path(__file__).parents[3] / "shared" / "sources"
CACHES = Path("/sys/devices/system/cpu")


def script(path: Path, text: str) -> Path:
    """Write a program of the shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def tool_settings(**keys: Any) -> UnixbenchSettings:
    return UnixbenchSettings.model_validate_json(json.dumps(keys), strict=True)


def caches_here() -> int:
    """Return the size of all caches of this machine's last level, in bytes."""
    found: dict[tuple[int, str], int] = {}
    for folder in CACHES.glob("cpu[0-9]*/cache/index*"):
        level, size, cpus = (
            (folder / name).read_text().strip() for name in ("level", "size", "shared_cpu_list")
        )
        found[int(level), cpus] = 1024 * int(size.removesuffix("K"))
    last = max((level for level, _ in found), default=0)
    return sum(size for (level, _), size in found.items() if level == last)


def chosen(tmp_path: Path, *sizes: int) -> list[str]:
    """Return what the script of STREAM prints, given programs with arrays of these sizes."""
    argv = tool("stream").runs()[0].argv[:4]
    for size in sizes:
        argv += [str(size), str(script(tmp_path / str(size), f"echo {size}"))]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_arrays_have_four_times_all_last_level_caches(tmp_path: Path) -> None:
    caches = caches_here()
    if not caches:
        pytest.skip("this machine tells no caches")
    enough = caches // 2  # elements of 8 bytes
    assert chosen(tmp_path, enough - 1, enough, enough + 1) == [
        f"last-level caches: {caches} bytes",
        str(enough),
    ]
    assert chosen(tmp_path, 1, 2)[-1] == "2", "the largest, where none has enough"


def test_arrays_fit_into_the_memory_that_is_left(tmp_path: Path) -> None:
    assert chosen(tmp_path, 1, 10**15)[-1] == "1"
    assert chosen(tmp_path, 10**15)[-1] == str(10**15), "the only one that was wanted"


def test_a_size_or_a_program_of_yours_is_taken() -> None:
    argv = tool("stream", array_size=40_000_000).runs()[0].argv
    assert argv[3:] == ["sh", "40000000", "stream-40M"]
    own = tool("stream", program="/opt/stream", threads=3)
    assert own.runs()[0].argv[3:] == ["sh", "0", "/opt/stream"]
    assert own.runs()[0].env == {"OMP_NUM_THREADS": "3"}
    assert own.programs == ()
    with pytest.raises(ValidationError, match="is fixed when STREAM is compiled"):
        tool("stream", array_size=40_000_000, program="/opt/stream")


def test_the_ratio_of_array_size_to_cache_size_is_reported() -> None:
    output = (OUTPUTS / "stream" / "threads.txt").read_bytes()
    assert numbers(tool("stream"), output)["array_caches"] is None
    found = numbers(tool("stream"), b"last-level caches: 8000000 bytes\n" + output)
    assert found["array_caches"] == pytest.approx(2.0)
    assert found["stream_threads"] == 2


@pytest.mark.parametrize(
    ("caches", "said"),
    [(3.96, "had 3.96 times"), (1.9, "had 1.90 times"), (4.0, ""), (None, "no endpoint")],
)
def test_a_variant_of_stream_is_called_so(caches: float | None, said: str) -> None:
    rates = {"triad_bytes_per_s": 1e9}
    found = [*StreamSettings().warnings_from_metrics({**rates, "array_caches": caches})]
    assert [said in one and "variant" in one for one in found] == ([True] if said else [])
    assert [*StreamSettings().warnings_from_metrics({})] == []


def test_stream_without_openmp_has_one_thread() -> None:
    output = (OUTPUTS / "stream" / "serial.txt").read_bytes()
    assert numbers(tool("stream", threads=1), output)["stream_threads"] == 1
    with pytest.raises(OutputError, match="it ran with 1 threads, not 2"):
        numbers(tool("stream", threads=2), output)


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the script of UnixBench with made-up programs, without its pauses."""
    for name in ("sleep", "sync"):
        script(tmp_path / "bin" / name, "exit 0")
    for name in ("syscall", "fstime", "pipe", "spawn"):
        script(tmp_path / "UnixBench" / "pgms" / name, f'echo "COUNT|{len(name)}|1|lps" >&2')
    (tmp_path / "UnixBench" / "testdir").mkdir()
    (tmp_path / "UnixBench" / "testdir" / "sort.src").write_text("words\n")

    def run(**keys: Any) -> subprocess.CompletedProcess[str]:
        made = tool("unixbench", directory=str(tmp_path / "UnixBench"), **keys)
        argv = [word.replace("{cpus}", "2") for word in made.runs()[0].argv]
        path = f"{tmp_path}/bin:{os.environ['PATH']}"
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        done = subprocess.run(
            argv, cwd=home, env={"PATH": path}, capture_output=True, text=True, check=False
        )
        assert list(home.iterdir()) == [], "nothing is left"
        return done

    return run


def test_our_unixbench_script_follows_the_run_program(
    bench: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    keys = {"tests": ["syscall", "spawn"], "iterations": 5}
    done = bench(**keys)
    assert done.stderr == ""
    assert done.stdout.count("#### Pass") == 5 + 2
    assert done.stdout.count("# COUNT0: 7") == 2 * 5
    assert "System Call Overhead -- 2 copies\n==> syscall 10\n" in done.stdout
    text = re.sub(r"elapsed: [0-9]+\.[0-9]{2}\n", "elapsed: 2.00\n", done.stdout)
    found = numbers(tool("unixbench", **keys), text.encode())
    assert found["syscall_per_s"] == pytest.approx(2 * 7 / 2)
    assert list(found) == ["unixbench_partial_index", "syscall_per_s", "spawn_per_s"]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("echo no good >&2", "# ERROR: no good\n# elapsed"),
        ('echo "COUNT|1|1|lps" >&2; exit 3', "# status: 3\n"),
        ("kill -9 $$", "# status: 137\n"),
    ],
)
def test_a_test_that_fails_ends_it(
    bench: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
    program: str,
    said: str,
) -> None:
    script(tmp_path / "UnixBench" / "pgms" / "pipe", program)
    done = bench(tests=["syscall", "pipe", "spawn"], iterations=1, copies=1)
    assert done.returncode == 1
    assert said in done.stdout
    assert "Process Creation" not in done.stdout
    assert "System Call Overhead -- 1 copy\n" in done.stdout


def test_late_output_of_a_child_process_overwrites_nothing(
    bench: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """The two of context1 both print, and its process ends first."""
    script(
        tmp_path / "UnixBench" / "pgms" / "context1",
        """echo "COUNT|5|1|lps" >&2
if mkdir first 2>/dev/null; then
    log=$(readlink /proc/$$/fd/2)
    (while ! grep -q status "$log"; do :; done; echo "COUNT|6|1|lps" >&2; : >last) &
else
    while [ ! -e last ]; do :; done
fi""",
    )
    text = bench(tests=["context1"], iterations=1, copies=2).stdout
    assert "# COUNT0: 6\n" in text
    assert text.count("# elapsed: ") == text.count("# status: 0\n") == 2


def test_a_directory_without_unixbench_is_reported(
    bench: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = bench(tests=["hanoi"], iterations=1, copies=1)
    assert done.returncode == 1
    assert re.search(r"not found\n# elapsed: \S+\n# status: 127\n", done.stdout)


def test_unixbench_scripts_find_their_files(
    bench: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    script(
        tmp_path / "UnixBench" / "pgms" / "multi.sh",
        '[ "$(cat sort.src)" = words ] && echo "COUNT|$1|60|lpm" >&2',
    )
    looper = '[ "$UB_BINDIR" = "${0%/*}" ] && shift && exec "$@"'
    script(tmp_path / "UnixBench" / "pgms" / "looper", looper)
    done = bench(tests=["shell8"], iterations=1, copies=1)
    assert "# COUNT0: 8\n# COUNT1: 60\n# COUNT2: lpm\n" in done.stdout


def test_a_user_provided_unixbench_is_distinguished_from_a_built_one() -> None:
    made = tool("unixbench")
    assert [one.name for one in made.programs] == ["unixbench"]
    assert "make another index" in next(tool_settings().warnings())
    own = tool_settings(directory="/opt/UnixBench/")
    assert [*own.warnings()] == []
    built = tool("unixbench", directory="/opt/UnixBench/")
    assert built.programs == ()
    assert built.runs()[0].argv[3] == "/opt/UnixBench/pgms/looper"


def test_the_index_takes_half_an_hour_and_a_short_try_seconds() -> None:
    assert 1500 < tool("unixbench").parts()[0].duration_s < 2000
    short = tool("unixbench", tests=["pipe", "spawn"], iterations=1)
    assert short.parts()[0].duration_s == (10 + 3) + (30 + 3)
    assert tool("unixbench", duration="1min").parts()[0].duration_s == 60


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"tests": ["nosuch"]}, "'nosuch' is no test; there are dhry2reg"),
        ({"tests": ["pipe", "spawn", "pipe"]}, "pipe is there twice"),
        ({"directory": "UnixBench"}, "should match pattern"),
    ],
)
def test_impossible_settings_are_rejected_before_the_run(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        tool("unixbench", **keys)


@pytest.mark.parametrize(("score", "known"), [(28_472_624, True), (542_205_191, False)])
def test_arithmetic_that_the_compiler_left_out_is_no_number(score: int, known: bool) -> None:
    """The scores of gcc and of zig on one machine."""
    built = tool("unixbench", tests=["int", "pipe"], iterations=1, copies=1)
    log = "".join(
        f"\n{'#' * 56}\n{name} -- 1 copy\n==> x\n\n#### Pass 1\n\n\n# COUNT0: {10 * count}\n"
        "# COUNT1: 1\n# COUNT2: lps\n# elapsed: 10\n# pid: 1\n# status: 0\n\n"
        for name, count in (("Arithmetic Test (int)", score), ("Pipe Throughput", 700_000_000))
    )
    metrics = numbers(built, log.encode())
    assert metrics["int_per_s"] == (pytest.approx(score) if known else None)
    assert metrics["pipe_per_s"] == pytest.approx(700_000_000)
    notes = [*tool_settings(tests=["int", "pipe"]).warnings_from_metrics(metrics)]
    assert len(notes) == (0 if known else 1)


def test_a_log_of_other_tests_or_passes_is_an_error() -> None:
    output = (OUTPUTS / "unixbench" / "index-2.txt").read_bytes()
    assert numbers(tool("unixbench", iterations=5), output)["unixbench_index"]
    for keys in (
        {"iterations": 10},
        {"iterations": 5, "copies": 1},
        {"iterations": 5, "tests": [*BASELINE, "hanoi"]},
    ):
        with pytest.raises(OutputError, match="not the tests that were wanted"):
            numbers(tool("unixbench", **keys), output)


def measured(hosts: MakeHosts, kind: str, archive: str, **keys: Any) -> Mapping[str, float | None]:
    """Return the numbers of a run of a program that is built of its source."""
    source = SOURCES / archive
    if not source.exists():
        pytest.skip(f"the source of {kind} is not on this machine")
    made = tool(kind, **keys)
    (program,) = made.programs
    assert program.source is not None
    store = BundleStore(default_directory())
    build_from_source(
        program, replace(program.source, path=source), this_architecture(), Supplier(store)
    )
    there = hosts("sender", "receiver")
    there[0].station.provide(made.programs, Supplier(store))
    job = TrialJob(trial=0, pairs=pairs(there[:1], there[1:]), waits=TaskTimeouts(arm_s=30.0))
    done = run_parts(job, made.parts())
    return made.outcome(0, Purpose.MEASURED, done.ran).metrics


@pytest.mark.real("tools")
def test_stream_for_real(hosts: MakeHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = measured(hosts, "stream", "STREAM.tar.gz", array_size=10_000_000)
    assert (found["triad_bytes_per_s"] or 0) > 1e7
    caches = caches_here()
    assert found["array_caches"] == (pytest.approx(8e7 / caches) if caches else None)


# zig compiles its C library the first time, for minutes.
@pytest.mark.real("programs")
@pytest.mark.timeout(1200)
def test_unixbench_for_real(
    hosts: MakeHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    keys = {"tests": ["syscall"], "iterations": 1, "copies": 2}
    found = measured(hosts, "unixbench", "byte-unixbench.tar.gz", **keys)
    loops = found["syscall_per_s"] or 0
    assert loops > 1000
    assert found["unixbench_partial_index"] == pytest.approx(10 * loops / BASELINE["syscall"])
