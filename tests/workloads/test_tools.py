"""Programs of the field as workloads: what they are told, and the numbers of what they print."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from osmef.agent.messages import ExecResult
from osmef.errors import OutputError, ProgramError
from osmef.kinds import WORKLOADS
from osmef.results.measure import OverPairs
from osmef.results.observations import EndpointUse
from osmef.scenario.load import load_text
from osmef.workloads.programs import EndedProgram, ProgramRun
from osmef.workloads.reading import Printed
from osmef.workloads.tool import Tool

OUTPUTS = Path(__file__).parents[1] / "formats" / "data"
TOOLS = [name for name in WORKLOADS.own if issubclass(WORKLOADS.get(name), Tool)]
OF_PAIRS = [name for name in TOOLS if not WORKLOADS.settings(name).together]

_NAMES = [one.name for one in WORKLOADS.get("dbench").output_measures]

# The settings of outputs that are not those of the usual ones.
OF_OUTPUTS: dict[str, dict[str, Any]] = {
    "unixbench": {"tests": ["execl", "fstime", "shell1", "spawn"], "iterations": 1, "copies": 2}
}


def tool(kind: str, **keys: Any) -> Tool[Any]:
    settings = WORKLOADS.settings(kind).model_validate_json(json.dumps(keys), strict=True)
    made: Tool[Any] = WORKLOADS.get(kind)(settings)
    return made


def ended(run: ProgramRun, stdout: bytes, *, stopped: bool = False) -> EndedProgram:
    endpoint = {name: 0 for name, one in EndpointUse.model_fields.items() if one.is_required()}
    result = ExecResult.model_validate(
        {
            "event": "result",
            "id": "1",
            "job": "exec",
            "start_realtime_ns": 1,
            "elapsed_s": 1.0,
            "status": None if stopped else 0,
            "signal": signal.SIGTERM if stopped else None,
            "stopped": stopped,
            "stdout_bytes": len(stdout),
            "stderr_bytes": 0,
            "endpoint": endpoint,
            "process": {"cpu_user_s": 0.1, "cpu_system_s": 0.1, "max_rss_kb": 1},
        }
    )
    return EndedProgram(run, run.ends[0], "vm-1", result, Printed(stdout, b""))


def numbers(made: Tool[Any], stdout: bytes, pairs: int = 1) -> dict[str, float | None]:
    pair = [ended(run, stdout) for run in made.runs()]
    return dict(made.numbers([pair] * pairs))


@pytest.mark.parametrize("kind", TOOLS)
def test_its_example_is_a_scenario(kind: str, tmp_path: Path) -> None:
    study = load_text(f"name: x\n{WORKLOADS.get(kind).example}\n", tmp_path / "x.yaml")
    assert study.scenario.workload.kind == kind
    if WORKLOADS.settings(kind).together:
        return  # it has a program for each of its settings
    started = {word for run in tool(kind).runs() for word in run.argv}
    assert started >= {program.name for program in tool(kind).programs}


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


def test_the_thread_count_of_stream_is_set_by_the_environment() -> None:
    assert tool("stream", threads=3).runs()[0].env == {"OMP_NUM_THREADS": "3"}


def test_a_program_is_needed_where_it_runs() -> None:
    both = tool("iperf3")
    assert [one.name for one in (*both.needs("sender"), *both.needs("receiver"))] == ["iperf3"] * 2
    alone = tool("dbench")
    assert [one.name for one in alone.needs("sender")] == ["dbench"]
    assert alone.needs("receiver") == ()


def test_extra_needed_programs_are_required_on_every_end_that_runs_one() -> None:
    """Such as what a script starts."""
    run = {"on": "sender", "argv": ["sh", "-c", "iperf3 --version"]}
    made = tool("program", run=[run], needs=["iperf3"])
    assert [one.name for one in made.needs("sender")] == ["iperf3"]
    assert made.needs("receiver") == ()


@pytest.mark.parametrize(
    ("keys", "ways", "bundle"),
    [
        ({}, ("present", "bundle", "build"), None),
        ({"ways": ["install", "present"]}, ("install", "present"), None),
        ({"bundles": {"iperf3": "/x/iperf3.tar.gz"}}, ("bundle",), Path("/x/iperf3.tar.gz")),
        (
            {"bundles": {"iperf3": "~/x"}, "ways": ["present", "bundle"]},
            ("present", "bundle"),
            Path("~/x").expanduser(),
        ),
        ({"bundles": {"other": "/x"}}, ("present", "bundle", "build"), None),
    ],
)
def test_how_its_programs_are_had_is_a_setting(
    keys: dict[str, Any], ways: tuple[str, ...], bundle: Path | None
) -> None:
    (program,) = tool("iperf3", **keys).needs("sender")
    assert (program.how, program.bundle) == (ways, bundle)


@pytest.mark.parametrize("keys", [{"ways": ["present", "present"]}, {"ways": []}, {"ways": ["x"]}])
def test_invalid_ways_to_provide_a_program_are_rejected(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        tool("iperf3", **keys)


@pytest.mark.parametrize("kind", OF_PAIRS)
@pytest.mark.parametrize("pairs", [1, 2])
def test_every_measure_has_the_number_that_was_printed(kind: str, pairs: int) -> None:
    made = tool(kind, **OF_OUTPUTS.get(kind, {}))
    told = 0
    for path in sorted((OUTPUTS / kind.replace("-", "_")).glob("*.txt")):
        expected = json.loads(path.with_suffix(".json").read_text())
        try:
            found = numbers(made, path.read_bytes(), pairs)
        except OutputError:
            continue
        told += 1
        assert list(found) == [one.name for one in made.selected_measures()]
        leading = next(one for one in made.selected_measures() if one.leading)
        value = found[leading.name]
        assert value is not None
        added = pairs if leading.over_pairs is OverPairs.SUM else 1
        texts = {f"{number:.6g}" for number in _numbers_in(expected)}
        assert f"{value / added:.6g}" in texts, path.name
    assert told


def _numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for one in value.values() for number in _numbers_in(one)]
    if isinstance(value, list):
        return [number for one in value for number in _numbers_in(one)]
    return [float(value)] if isinstance(value, int | float) else []


@pytest.mark.parametrize("kind", TOOLS)
@pytest.mark.parametrize("stdout", [b"", b"\xff\xfe", b"{", b"Throughput 0 MB/sec"])
def test_unparsable_tool_output_is_an_error_that_names_the_endpoint(
    kind: str, stdout: bytes
) -> None:
    with pytest.raises(OutputError) as caught:
        numbers(tool(kind), stdout)
    assert caught.value.where == "vm-1"
    assert caught.value.tail


@pytest.mark.parametrize("kind", TOOLS)
def test_a_tool_stopped_before_its_output_has_no_metrics(kind: str) -> None:
    made = tool(kind)
    pair = [ended(run, b"", stopped=not run.ready) for run in made.runs()]
    assert made.numbers([pair]) == {one.name: None for one in made.selected_measures()}


def test_a_stopped_server_does_not_excuse_missing_client_output() -> None:
    made = tool("iperf3")
    pair = [ended(run, b"", stopped=bool(run.ready)) for run in made.runs()]
    with pytest.raises(OutputError):
        made.numbers([pair])


@pytest.mark.parametrize("names", [["latency_max_us"], [*_NAMES, "more"]])
def test_parse_and_what_is_declared_agree(
    monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    made = tool("dbench")

    def parse(_ended: object) -> Mapping[str, float | None]:
        return dict.fromkeys(names, 1.0)

    monkeypatch.setattr(made, "parse", parse)
    with pytest.raises(ProgramError, match="differ by") as caught:
        numbers(made, b"")
    assert ({*names} ^ {*_NAMES}).pop() in str(caught.value)


def test_arrays_that_did_not_validate_are_an_error() -> None:
    with pytest.raises(OutputError, match="did not validate"):
        numbers(tool("stream"), (OUTPUTS / "stream" / "invalid.txt").read_bytes())


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ({"on": "receiver", "argv": ["iperf3"], "ready": "port"}, "only servers"),
        ({"on": "sender", "argv": ["iperf3", "-p", "{port}"]}, r"\{port\} is the port of a server"),
        (
            {"on": "sender", "argv": ["iperf3"], "env": {"AT": "{data_port}"}},
            r"\{data_port\} is the port of a server",
        ),
    ],
)
def test_unusable_program_definitions_are_reported_before_the_run(
    monkeypatch: pytest.MonkeyPatch, run: dict[str, Any], said: str
) -> None:
    made = tool("iperf3")
    monkeypatch.setattr(made, "runs", lambda: (ProgramRun.model_validate(run),))
    with pytest.raises(ProgramError, match=said) as caught:
        made.parts()
    assert caught.value.where == "runs() of Iperf3"
    assert caught.value.cure
