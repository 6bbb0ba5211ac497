"""Programs that measure a machine: what they are told, and a short real run of each."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from osmef.errors import OutputError
from osmef.results.observations import Purpose
from osmef.workloads.tasks import TaskTimeouts
from osmef.workloads.trial_runner import TrialJob, run_parts
from tests.workloads.conftest import MakeHosts, pairs
from tests.workloads.test_tools import OUTPUTS, numbers, tool

PATIENT = TaskTimeouts(arm_s=30.0)


def words(kind: str, **keys: Any) -> str:
    """Return the command line of a tool's last program."""
    return " ".join(tool(kind, **keys).runs()[-1].argv)


def sample(path: str) -> bytes:
    """Return what a program printed."""
    return (OUTPUTS / f"{path}.txt").read_bytes()


def measured(hosts: MakeHosts, kind: str, package: str, **keys: Any) -> Mapping[str, float | None]:
    """Return the numbers of a short run of the program that this machine has."""
    made = tool(kind, **keys)
    missing = [one.name for one in made.programs if shutil.which(one.name) is None]
    if missing:
        pytest.skip(f"no {missing[0]} here (Debian: apt install {package})")
    there = pairs(*[[host] for host in hosts("sender", "receiver")])
    done = run_parts(TrialJob(trial=0, pairs=there, waits=PATIENT), made.parts())
    return made.outcome(0, Purpose.MEASURED, done.ran).metrics


@pytest.mark.parametrize(
    ("kind", "keys", "expected"),
    [
        (
            "sysbench",
            {"duration": "1500ms"},
            "sysbench cpu --threads={cpus} --time=2 --cpu-max-prime=10000 run",
        ),
        (
            "sysbench",
            {"threads": 3, "primes": 20000},
            "cpu --threads=3 --time=10 --cpu-max-prime=20000",
        ),
        (
            "sysbench",
            {"test": "memory", "block": "4KiB", "operation": "read", "access": "random"},
            "block-size=4096 --memory-oper=read --memory-access-mode=rnd --memory-scope=global",
        ),
        (
            "openssl-speed",
            {"duration": "1500ms"},
            "-elapsed -seconds 2 -multi {cpus} -bytes 16384 -evp aes-256-gcm",
        ),
        (
            "openssl-speed",
            {"algorithm": "rsa2048", "threads": 3, "duration": "4s"},
            "-seconds 2 -multi 3 rsa2048",
        ),
        ("openssl-speed", {"algorithm": "ecdhx25519"}, "-seconds 10 -multi {cpus} ecdhx25519"),
        ("openssl-speed", {"algorithm": "sha256", "block": "1KiB"}, "-bytes 1024 -evp sha256"),
        ("sevenzip", {}, "7zr b 1 -mmt={cpus}"),
        ("sevenzip", {"threads": 1, "dictionary": "256KiB", "passes": 3}, "b 3 -mmt=1 -md=262144b"),
        (
            "stress-ng",
            {"duration": "1500ms"},
            "--cpu {cpus} --timeout 2s --metrics-brief --temp-path {dir}",
        ),
        (
            "stress-ng",
            {"stressor": "matrix-3d", "method": "add", "threads": 2},
            "--matrix-3d 2 --matrix-3d-method add --timeout",
        ),
        ("tachyon", {}, "scenes/teapot.dat -numthreads {cpus} -res 2048 2048 -aasamples 0 -format"),
        (
            "tachyon",
            {"scene": "/x.dat", "threads": 2, "resolution": 64, "antialiasing": 3},
            "tachyon /x.dat -numthreads 2 -res 64 64 -aasamples 3",
        ),
    ],
)
def test_settings_are_its_options(kind: str, keys: dict[str, Any], expected: str) -> None:
    assert expected in words(kind, **keys)


@pytest.mark.parametrize(
    ("kind", "keys", "said"),
    [
        ("sysbench", {"block": "1KiB"}, "block goes with test: memory"),
        ("sysbench", {"test": "memory", "primes": 100}, "primes goes with test: cpu"),
        ("sevenzip", {"dictionary": "300KiB"}, "a dictionary has 2, 4, 8"),
        ("stress-ng", {"stressor": "--help"}, "should match pattern"),
        ("openssl-speed", {"algorithm": "-help"}, "should match pattern"),
    ],
)
def test_impossible_settings_are_rejected_before_the_run(
    kind: str, keys: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        tool(kind, **keys)
    assert said in str(caught.value)


def test_numbers_of_sysbench_are_those_of_its_test() -> None:
    memory = tool("sysbench", test="memory")
    assert numbers(memory, sample("sysbench/memory-random"), pairs=2) == {
        "memory_bytes_per_s": pytest.approx(2 * 266.52 * 2**20),
        "blocks_per_s": pytest.approx(2 * 68227.89),
    }
    for test, other in (("memory", "cpu"), ("cpu", "memory-2")):
        with pytest.raises(OutputError, match="it ran the test"):
            numbers(tool("sysbench", test=test), sample(f"sysbench/{other}"))


@pytest.mark.parametrize(
    ("algorithm", "path", "expected"),
    [
        (
            "rsa2048",
            "rsa-3.5",
            {"signatures_per_s": 1279.207921, "verifications_per_s": 15487.128713},
        ),
        ("ecdhx25519", "ecdh-1.1", {"exchanges_per_s": 14215.0}),
        ("sha256", "aes-multi-3.0", {"processed_bytes_per_s": 1508061103.17}),
    ],
)
def test_numbers_of_openssl_are_those_of_its_algorithm(
    algorithm: str, path: str, expected: dict[str, float]
) -> None:
    found = numbers(tool("openssl-speed", algorithm=algorithm), sample(f"openssl_speed/{path}"))
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"algorithm": "rsa2048"}, "ecdh-3.0"),
        ({"algorithm": "sha256"}, "rsa-3.0"),
        ({"block": "1KiB"}, "aes-multi-3.0"),
        ({}, "sha256-sizes"),
    ],
)
def test_openssl_of_something_else_is_an_error(keys: dict[str, Any], path: str) -> None:
    with pytest.raises(OutputError, match="another algorithm or size"):
        numbers(tool("openssl-speed", **keys), sample(f"openssl_speed/{path}"))


def test_a_smaller_dictionary_than_wanted_is_an_error() -> None:
    output = sample("sevenzip/7zz-twice")
    assert numbers(tool("sevenzip", dictionary="512KiB"), output)["rating_mips"] == 1501
    with pytest.raises(OutputError, match="largest dictionary was one of 524288 bytes"):
        numbers(tool("sevenzip", dictionary="1MiB"), output)


def test_7_zip_before_17_reports_no_speed() -> None:
    newer = sample("sevenzip/7zr-bookworm").decode()
    older = re.sub(r"(?m)^Avr: +[0-9]+( .*\| +)[0-9]+", r"Avr:\1", newer)
    found = numbers(tool("sevenzip"), older.encode())
    assert (found["rating_mips"], found["compressing_bytes_per_s"]) == (1198, None)


def test_stress_ng_of_another_stressor_is_an_error() -> None:
    with pytest.raises(OutputError, match="it ran the stressor matrix"):
        numbers(tool("stress-ng"), sample("stress_ng/matrix-0.15"))


@pytest.mark.real("tools")
@pytest.mark.parametrize(
    ("kind", "package", "keys"),
    [
        ("sysbench", "sysbench", {"duration": "1s"}),
        ("sysbench", "sysbench", {"duration": "1s", "test": "memory"}),
        ("openssl-speed", "openssl", {"duration": "1s"}),
        ("openssl-speed", "openssl", {"duration": "2s", "algorithm": "ed25519", "threads": 1}),
        ("sevenzip", "p7zip", {"dictionary": "256KiB"}),
        ("stress-ng", "stress-ng", {"duration": "1s", "method": "fft"}),
        ("tachyon", "tachyon tachyon-doc", {"resolution": 256}),
    ],
)
def test_for_real(hosts: MakeHosts, kind: str, package: str, keys: dict[str, Any]) -> None:
    made = tool(kind, **keys)
    found = measured(hosts, kind, package, **keys)
    assert list(found) == [one.name for one in made.measures]
    leading = next(found[one.name] for one in made.selected_measures() if one.leading)
    assert leading is not None
    assert leading > 0
