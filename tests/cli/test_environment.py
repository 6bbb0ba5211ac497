"""What the user's environment does not allow is an error with a cure, never a traceback."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Osmef, obeying_permissions

SAMPLE = Path(__file__).parents[1] / "results/data/quickstart-20261121T031500Z-3f9a"
SCENARIO = """
name: tiny
provider: local
endpoints: {sender: {}, receiver: {}}
workload: {kind: btc, duration: 100ms, interval: 100ms}
"""
READING = (
    "show {}",
    "list {}",
    "report {}",
    "compare {} {}",
    "statistics {}",
    "resume {}",
    "campaign report {}",
    "import iperf3 {}",
)


@pytest.mark.parametrize("command", READING)
def test_a_path_below_a_closed_directory_is_an_error_with_a_cure(
    osmef: Osmef, command: str
) -> None:
    (osmef.directory / "closed/run").mkdir(parents=True)
    (osmef.directory / "closed").chmod(0)
    words = command.replace("{}", "closed/run").split()
    ended = osmef(*words, prefix=obeying_permissions())
    (osmef.directory / "closed").chmod(0o700)
    assert (ended.code, ended.out) == (4, "")
    assert re.search("error: closed/run: can't look (at|into): Permission denied", ended.err)
    assert "cure: check the permissions: can you read it as this user?" in ended.err


def test_a_name_that_is_too_long_is_an_error_with_a_cure(osmef: Osmef) -> None:
    ended = osmef("show", "x" * 300, "--json")
    assert (ended.code, ended.err) == (4, "")
    assert ended.json()["error"]["cure"] == "choose a shorter name"


def test_completion_that_can_not_be_installed_is_an_error_with_a_cure(osmef: Osmef) -> None:
    # The shell is told by the parent process.
    shell = ("env", "HOME=/proc", "bash", "-c", '"$@"; exit $?', "bash")
    ended = osmef("--install-completion", prefix=shell)
    assert ended.code == 4
    assert "error: /proc/.bashrc: can't write: " in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("limit", "reason", "cure"),
    [
        ("--nofile=18", "Too many open files", "raise the limit of open files (ulimit -n)"),
        # Its address space has no room for such a stack.
        (f"--stack={10**14}:unlimited", "can't start new thread", "allow more processes (ulimit"),
    ],
)
def test_a_limit_that_is_too_low_for_a_run_is_named(
    osmef: Osmef, left_behind: Callable[[], list[str]], limit: str, reason: str, cure: str
) -> None:
    ended = osmef("run", osmef.write(SCENARIO), prefix=("prlimit", limit))
    assert ended.code in {3, 4}
    assert f"{reason}\n" in ended.err
    assert f"cure: {cure}" in ended.err
    assert "Traceback" not in ended.err
    assert left_behind() == []


def test_a_run_that_is_too_large_for_the_memory_is_no_traceback(osmef: Osmef) -> None:
    run: Path = osmef.directory / "results" / "udp-1"
    run.mkdir(parents=True)
    with (run / "summary.json").open("wb") as file:
        file.truncate(200 << 20)
    ended = osmef("show", "latest", prefix=("prlimit", f"--as={250 << 20}"))
    assert ended.code == 4
    assert "error: out of memory\n" in ended.err
    assert "cure: free some memory, or raise its limit" in ended.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize("command", ["prices list", "campaign status", "program list"])
def test_a_user_without_a_home_directory_is_an_error_with_a_cure(
    osmef: Osmef, command: str
) -> None:
    reads = [f"--{caps}-caps=+dac_read_search" for caps in ("inh", "ambient")]  # a clone in /root
    unknown = ("setpriv", "--reuid=54321", *reads, "env", "-u", "HOME")
    names = ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "OSMEF_STATE")
    without = [word for name in names for word in ("-u", name)]
    ended = osmef(*command.split(), prefix=("nice", *unknown, *without))
    assert (ended.code, ended.out) == (2, "")
    assert "error: this user has no home directory\n" in ended.err
    assert "cure: set HOME to a directory" in ended.err


@pytest.mark.parametrize("command", ["report", "plot btc-distance"])
def test_no_library_complains_about_a_cache_that_can_not_be_written(
    osmef: Osmef, command: str
) -> None:
    ended = osmef(*command.split(), str(SAMPLE), prefix=("env", "MPLCONFIGDIR=/proc/none", "nice"))
    assert (ended.code, ended.err) == (0, "")


def test_no_run_begins_in_a_directory_whose_tables_could_not_be_read(osmef: Osmef) -> None:
    ended = osmef("run", osmef.write(SCENARIO), "--out", "latin\udce91")
    assert ended.code == 2
    assert "latin\\udce91/tiny-" in ended.err
    assert "this path is not UTF-8" in ended.err
    assert not (osmef.directory / "latin\udce91").exists()


@pytest.mark.parametrize("words", [("workloads",), ("campaign", "--help"), ("init", "-o", "-")])
def test_without_docstrings_a_note_says_what_is_missing(
    osmef: Osmef, words: tuple[str, ...]
) -> None:
    for level, count in (("2", 1), ("1", 0)):
        ended = osmef(
            *words, prefix=("env", f"PYTHONOPTIMIZE={level}", "PYTHONDONTWRITEBYTECODE=1")
        )
        assert (ended.code, ended.err.count("-OO (PYTHONOPTIMIZE=2)")) == (0, count), ended.err


def test_a_name_in_another_encoding_is_an_error_with_a_cure(osmef: Osmef) -> None:
    run = osmef.directory / "latin\udce91" / SAMPLE.name
    shutil.copytree(SAMPLE, run)
    (run / "intervals.parquet").touch()
    ended = osmef("report", "latin\udce91")
    assert (ended.code, ended.out) == (2, "")
    assert "this is not UTF-8" in ended.err
    assert "cure: check how it is written, or rename it" in ended.err
