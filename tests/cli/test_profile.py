"""``osmef profile``: the vectors of two flavors of the local cloud."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import Osmef
from tests.formats.samples import DATA

SCENARIO = """\
name: two-flavors
placement: different-host
workload: latency
sweep: {flavor: [small, medium]}
repeat: 2
"""
QUICK = "{kind: btc, duration: 100ms, interval: 50ms}"


def test_each_flavor_has_a_vector_of_six_trials(osmef: Osmef) -> None:
    path = osmef.write(SCENARIO)
    found = osmef("profile", path, "--with", QUICK, "--json").json()["vectors"]
    network = [row for row in found if row["component"] == "network_mb_per_s"]
    assert {row["flavor"] for row in network} == {"small", "medium"}
    for row in network:
        assert (row["by"], row["n"]) == ("aggregate_btc_bps of btc", 6)
        assert 0 < row["ci95_low"] <= row["median"] <= row["ci95_high"]
    threads = {row["flavor"]: row["median"] for row in found if row["component"] == "threads"}
    assert threads == {"small": 1, "medium": 2}


def test_one_flavor_is_named_on_the_command_line_and_shown(osmef: Osmef) -> None:
    path = osmef.write(SCENARIO)
    ended = osmef("profile", path, "--with", QUICK, "--flavor", "medium")
    assert ended.code == 0, ended.err
    assert "local medium" in ended.out
    assert "local small" not in ended.out
    assert "note: repeat is 6, not 2: the fewest with an interval of the median" in ended.err


def test_unknown_workloads_are_reported_before_anything_is_created(osmef: Osmef) -> None:
    ended = osmef("profile", osmef.write(SCENARIO), "--with", "unixbank")
    assert ended.code == 2
    assert "unixbank" in ended.err
    assert not (osmef.directory / "results").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--with", "unixbank"), "--with: there is no workload 'unixbank'"),
        (("--with", ""), "--with: the axis workload has no values"),
        (("--with", f"{QUICK}, latency"), "latency measures no component of a machine type"),
        (("--set", "workload=[unixbank]"), "--set workload: there is no workload"),
        (("--with", QUICK, "--flavor", ""), "--flavor: the axis flavor has no values"),
    ],
)
def test_a_problem_names_the_option_that_was_given(
    osmef: Osmef, more: Sequence[str], said: str
) -> None:
    ended = osmef("profile", osmef.write(SCENARIO), *more)
    assert ended.code == 2
    assert said in ended.err
    assert not (osmef.directory / "results").exists()


def test_endpoints_without_flavors_have_no_vector(osmef: Osmef) -> None:
    host = "endpoints: {sender: {kind: host}, receiver: {kind: host}}\n"
    path = osmef.write(f"name: hosts\nprovider: local\n{host}workload: latency\n")
    ended = osmef("profile", path, "--with", QUICK)
    assert ended.code == 0, ended.err
    assert "no endpoint has a flavor" in ended.err
    assert "machine type" not in ended.out


IPERF3 = """\
for word; do
  [ "$last" = -p ] && port=$word
  [ "$last" = -c ] && peer=$word
  last=$word
done
{python} -c "
import socket
if '$peer':
    socket.create_connection(('$peer', $port)).close()
else:
    socket.create_server(('', $port)).accept()
"
[ -n "$peer" ] || exit 0
"""
"""A server that ends with its client, or what a client has printed."""


@pytest.fixture
def poor(osmef: Osmef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sequence[str]:
    """The prefix of a command on a machine without apt, whose endpoints have no Tachyon.

    They have sysbench, IOzone and iperf3, which print what real ones have; STREAM is built.
    """
    apt = shutil.which("apt-get")
    if os.geteuid() != 0 or apt is None or shutil.which("tachyon") or shutil.which("tachyon-nox"):
        pytest.skip("this hides apt-get, as root, where there is no Tachyon")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    samples = {"sysbench": "cpu", "iozone": "direct", "iperf3": "tcp-8"}
    (tmp_path / "bin").mkdir()
    for program, sample in samples.items():
        begins = IPERF3.format(python=sys.executable) if program == "iperf3" else ""
        file = tmp_path / "bin" / program
        file.write_text(f"#!/bin/sh\n{begins}cat {DATA / program / sample}.txt\n")
        file.chmod(0o755)
    (tmp_path / "STREAM").mkdir()
    printed = json.dumps((DATA / "stream" / "threads.txt").read_text())
    text = f"#include <stdio.h>\nint main(void) {{ return fputs({printed}, stdout) == EOF; }}\n"
    (tmp_path / "STREAM" / "stream.c").write_text(text)
    built = osmef("program", "build", "stream", "--source", str(tmp_path / "STREAM"))
    assert built.code == 0, built.err
    hide = f"mount --bind /dev/null {Path(apt).resolve()}"
    bring = f"mount --bind {tmp_path / 'bin'} /usr/local/bin"
    return "unshare", "--mount", "sh", "-c", f'{hide} && {bring} && exec "$@"', "sh"


@pytest.mark.real("programs")
def test_sysbench_takes_the_place_of_tachyon(osmef: Osmef, poor: Sequence[str]) -> None:
    path = osmef.write(SCENARIO)
    ended = osmef("profile", path, "--flavor", "small", "--json", prefix=(*poor,))
    assert ended.code == 0, ended.err
    assert "the program 'tachyon' can't be supplied" in ended.err
    assert "sysbench takes the place of tachyon" in ended.err
    by = {row["component"]: row["by"] for row in ended.json()["vectors"]}
    assert by["cpu_s"] == "events_per_s of sysbench"
    assert by["memory_mb_per_s"] == "triad_bytes_per_s of stream"
    assert by["disk_write_mb_per_s"] == "write_bytes_per_s of iozone"


@pytest.mark.real("programs")
def test_a_named_program_is_not_substituted(osmef: Osmef, poor: Sequence[str]) -> None:
    path = osmef.write(SCENARIO)
    ended = osmef("profile", path, "--with", "tachyon", prefix=(*poor,))
    assert ended.code == 3
    assert "the program 'tachyon' can't be supplied" in ended.err
    assert "takes the place" not in ended.err
