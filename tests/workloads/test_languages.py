"""Ping-pong in other languages as a workload: what is run, and all with real agents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from osmef.errors import InputError, ProgramError, SupplyError
from osmef.results.observations import Purpose
from osmef.scenario.load import load
from osmef.supply.bundle import BundleStore
from osmef.supply.supply import Supplier
from osmef.workloads.kinds.pingpong import LANGUAGES, Implementation, PingPong, PingPongSettings
from osmef.workloads.trial_runner import TrialJob, run_parts
from tests.agents.languages import runtime_of
from tests.workloads.conftest import MakeHosts, Victim, pairs

_QUICK, _LONG = pytest.mark.quick, pytest.mark.real("tools")
"""Runtimes take seconds to start; what all of them answer is compared byte by byte elsewhere."""


def workload(**settings: Any) -> PingPong:
    return PingPong(PingPongSettings.model_validate(settings))


def provide(work: PingPong, sender: Victim, receiver: Victim, folder: Path) -> None:
    supplier = Supplier(BundleStore(folder))
    sender.station.provide(work.needs("sender"), supplier)
    receiver.station.provide(work.needs("receiver"), supplier)


# --- what is run


def test_the_agent_itself_needs_nothing() -> None:
    work = workload(implementation="c")
    assert work.needs("sender") == work.needs("receiver") == ()
    assert [step.command for step in work.parts()[0].steps] == ["pong", "ping", "siege"]


def test_ping_and_pong_are_programs_and_siege_is_the_agent() -> None:
    work = workload(implementation="python", retries=2, timeout="8s")
    pong, ping, siege = work.parts()[0].steps
    assert [(one.end, one.command, one.listens, one.serves) for one in (pong, ping, siege)] == [
        ("receiver", "exec", True, True),
        ("sender", "exec", True, True),
        ("sender", "siege", False, False),
    ]
    own = ["--bind", "{bind}", "--port", "{port}"]
    assert pong.parameters["argv"] == ["python3", "pingpong.py", "pong", *own]
    asks = ["--pong", "{host}:{upstream}", "--retries", "2", "--timeout", "4"]
    assert ping.parameters["argv"] == ["python3", "pingpong.py", "ping", *asks, *own]
    assert [one.name for one in work.needs("sender")] == ["python3", "pingpong-python"]


def test_without_ping_the_sender_needs_nothing() -> None:
    work = workload(implementation="java", relay=False)
    assert [step.command for step in work.parts()[0].steps] == ["exec", "siege"]
    assert work.needs("sender") == ()
    assert [one.name for one in work.needs("receiver")] == ["java", "pingpong-java"]


def test_the_runtime_may_be_installed_where_the_scenario_allows_it() -> None:
    runtime, program = workload(implementation="ruby", ways=["present", "install"]).needs("sender")
    assert (runtime.how, program.how) == (("present", "install"), ("build",))
    assert runtime.packages == ("ruby-webrick",)


@pytest.mark.parametrize("ways", [["bundle"], ["build"], [], ["present", "present"]])
def test_no_bundle_is_made_of_an_interpreter(ways: list[str]) -> None:
    with pytest.raises(ValidationError):
        workload(implementation="ruby", ways=ways)


def test_a_sweep_over_all_languages_is_one_study(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    names = ", ".join(Implementation)
    path.write_text(f"name: x\nworkload: pingpong\nsweep: {{implementation: [{names}]}}\n")
    assert [cell.scenario.workload.implementation for cell in load(path).cells] == [*Implementation]  # type: ignore[attr-defined]


def test_an_unknown_implementation_language_is_reported_with_its_position(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("name: x\nworkload: {kind: pingpong, implementation: rust}\n")
    with pytest.raises(InputError) as caught:
        load(path)
    assert "x.yaml:2:44" in str(caught.value)
    assert "python" in str(caught.value)


# --- with real agents


@pytest.mark.parametrize(
    "language",
    [pytest.param(one, marks=_QUICK if one in {"c", "python"} else _LONG) for one in LANGUAGES],
)
def test_every_request_gets_an_answer(
    hosts: MakeHosts, tmp_path: Path, language: Implementation
) -> None:
    runtime_of(language)
    work = workload(implementation=language, sizes=["10B", "50kB"], repetitions=50, connections=3)
    (sender,), (receiver,) = hosts("s1"), hosts("r1")
    provide(work, sender, receiver, tmp_path / "programs")
    performed = run_parts(TrialJob(1, pairs([sender], [receiver])), work.parts())
    outcome = work.outcome(1, Purpose.MEASURED, performed.ran)
    rows = pa.concat_tables(outcome.requests).to_pylist()
    assert len(rows) == 100
    assert {(row["size"], row["length"], row["code"], row["error"]) for row in rows} == {
        (size, size, 200, None) for size in (10, 50_000)
    }
    assert all(0 < row["relay_s"] <= row["duration_s"] for row in rows)
    metrics = outcome.metrics
    assert metrics.keys() == {one.name for one in work.measures}
    assert (metrics["failed_requests"], metrics["retries"]) == (0, 0)
    for end in ("sender", "receiver"):
        assert metrics[f"cpu_{end}_percent"]
    lasted_s = max(row["intended_start_s"] + row["duration_s"] for row in rows)
    if lasted_s >= 0.1:  # the endpoints' CPU is not known of less
        assert metrics["endpoint_cpu_sender_percent"]
    programs = sender.station.facts()["programs"]
    assert programs[f"pingpong-{language}"]["build"]["sha256"]
    runtime = LANGUAGES[language].runtime
    assert runtime is None or programs[runtime.name]["version"]


def test_a_missing_runtime_is_reported_before_anything_runs(
    hosts: MakeHosts, tmp_path: Path
) -> None:
    (host,) = hosts("r1")
    runtime, program = workload(implementation="dart").needs("receiver")
    missing = replace(runtime, name="no-such-runtime", package="its-package")
    with pytest.raises(SupplyError, match="the endpoint does not have it") as caught:
        host.station.provide([missing, program], Supplier(BundleStore(tmp_path)))
    assert caught.value.cure == "install its-package on the endpoint"


def test_a_server_that_does_not_start_is_reported_with_its_output(
    hosts: MakeHosts, tmp_path: Path
) -> None:
    work = workload(implementation="python", sizes=["10B"])
    (sender,), (receiver,) = hosts("s1"), hosts("r1")
    provide(work, sender, receiver, tmp_path / "programs")
    (there,) = (one.location for one in receiver.station._supplied if one.location)
    receiver.station._session.put(
        b"raise SystemExit('no room')\n", f"{there.folder}/pingpong.py", 0o600
    )
    with pytest.raises(ProgramError, match="no room") as caught:
        run_parts(TrialJob(1, pairs([sender], [receiver])), work.parts())
    assert caught.value.where == "r1"
