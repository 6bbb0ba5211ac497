"""Programs of the field as workloads: what they are told, and the numbers of what they print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from osmef.agent.messages import ExecResult
from osmef.errors import OutputError
from osmef.kinds import WORKLOADS
from osmef.results.measure import OverPairs
from osmef.results.use import EndpointUse
from osmef.scenario.load import load_text
from osmef.workloads.programs import Ended, Run
from osmef.workloads.reading import Printed
from osmef.workloads.tool import Tool

OUTPUTS = Path(__file__).parents[1] / "formats" / "data"
TOOLS = [name for name in WORKLOADS.own if issubclass(WORKLOADS.get(name), Tool)]


def tool(kind: str, **keys: Any) -> Tool[Any]:
    settings = WORKLOADS.settings(kind).model_validate_json(json.dumps(keys), strict=True)
    made: Tool[Any] = WORKLOADS.get(kind)(settings)
    return made


def ended(run: Run, stdout: bytes) -> Ended:
    endpoint = {name: 0 for name, one in EndpointUse.model_fields.items() if one.is_required()}
    result = ExecResult.model_validate(
        {
            "event": "result",
            "id": "1",
            "job": "exec",
            "start_realtime_ns": 1,
            "elapsed_s": 1.0,
            "status": 0,
            "signal": None,
            "stopped": False,
            "stdout_bytes": len(stdout),
            "stderr_bytes": 0,
            "endpoint": endpoint,
            "process": {"cpu_user_s": 0.1, "cpu_system_s": 0.1, "max_rss_kb": 1},
        }
    )
    return Ended(run, run.ends[0], "vm-1", result, Printed(stdout, b""))


def numbers(made: Tool[Any], stdout: bytes, pairs: int = 1) -> dict[str, float | None]:
    pair = [ended(run, stdout) for run in made.runs()]
    return dict(made.numbers([pair] * pairs))


@pytest.mark.parametrize("kind", TOOLS)
def test_its_example_is_a_scenario(kind: str, tmp_path: Path) -> None:
    study = load_text(f"name: x\n{WORKLOADS.get(kind).example}\n", tmp_path / "x.yaml")
    assert study.scenario.workload.kind == kind
    started = {run.argv[0] for run in tool(kind).runs()}
    assert {program.name for program in tool(kind).needs} <= started


@pytest.mark.parametrize(
    ("kind", "keys", "words"),
    [
        ("iperf3", {"connections": 4, "duration": "2500ms"}, "-P 4 -t 3"),
        ("iperf3", {"protocol": "udp", "rate": "10Mbit/s"}, "-b 10000000 -u"),
        ("iperf3", {"direction": "reverse", "window": "64KiB"}, "-w 65536 -R"),
        ("iperf3", {"omit": "1s", "length": "1KiB"}, "-l 1024 -O 1"),
        (
            "dbench",
            {"clients": 3, "duration": "5s"},
            "client.txt 3",
        ),
        ("dbench", {"loadfile": "/x/client.txt"}, "-c /x/client.txt 1"),
        ("stream", {"program": "/opt/stream"}, "/opt/stream"),
    ],
)
def test_settings_are_its_options(kind: str, keys: dict[str, Any], words: str) -> None:
    assert words in " ".join(tool(kind, **keys).runs()[-1].argv)


def test_threads_of_stream_are_told_by_the_environment() -> None:
    assert tool("stream", threads=3).runs()[0].env == {"OMP_NUM_THREADS": "3"}


@pytest.mark.parametrize("kind", TOOLS)
@pytest.mark.parametrize("pairs", [1, 2])
def test_every_measure_has_the_number_that_was_printed(kind: str, pairs: int) -> None:
    made = tool(kind)
    told = 0
    for path in sorted((OUTPUTS / kind.replace("-", "_")).glob("*.txt")):
        expected = json.loads(path.with_suffix(".json").read_text())
        try:
            found = numbers(made, path.read_bytes(), pairs)
        except OutputError:
            continue
        told += 1
        assert list(found) == [one.name for one in made.told]
        leading = next(one for one in made.told if one.leading)
        value = found[leading.name]
        assert value is not None
        texts = {f"{number:.6g}" for number in _numbers_in(expected)}
        of_one = value / pairs if leading.over_pairs is OverPairs.SUM else value
        assert f"{of_one:.6g}" in texts, path.name
    assert told


def _numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for one in value.values() for number in _numbers_in(one)]
    if isinstance(value, list):
        return [number for one in value for number in _numbers_in(one)]
    return [float(value)] if isinstance(value, int | float) else []


@pytest.mark.parametrize("kind", TOOLS)
@pytest.mark.parametrize("stdout", [b"", b"\xff\xfe", b"{", b"Throughput 0 MB/sec"])
def test_what_it_never_prints_is_an_error_that_says_where(kind: str, stdout: bytes) -> None:
    with pytest.raises(OutputError) as caught:
        numbers(tool(kind), stdout)
    assert caught.value.where == "vm-1"


def test_arrays_that_did_not_validate_are_an_error() -> None:
    with pytest.raises(OutputError, match="did not validate"):
        numbers(tool("stream"), (OUTPUTS / "stream" / "invalid.txt").read_bytes())
