"""Programs that a scenario names, run by real agents: their numbers, and every way to fail."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from osmef.errors import AgentError, EndpointError, OutputError, ProgramError
from osmef.results.observations import Purpose
from osmef.scenario.fields import DATA_PORTS, EndpointKind
from osmef.workloads.base import Outcome
from osmef.workloads.kinds.program import ProgramSettings, ScenarioPrograms
from osmef.workloads.tasks import Pair, TaskTimeouts
from osmef.workloads.trial_runner import TrialJob, run_parts
from tests.workloads.conftest import MakeHosts, Victim, pairs

SHORT = TaskTimeouts(arm_s=3.0, grace_s=1.0)


def sh(script: str, *arguments: str, **keys: object) -> dict[str, object]:
    """Return a run of a shell script."""
    return {"on": "sender", "argv": ["sh", "-c", script, "sh", *arguments], **keys}


def settings_of(*runs: Mapping[str, object], **keys: object) -> ProgramSettings:
    usual: dict[str, object] = {"kind": "program", "duration": "100ms", "run": list(runs)}
    return ProgramSettings.model_validate_json(json.dumps(usual | keys), strict=True)


def measure(
    hosts: Sequence[Victim], *runs: Mapping[str, object], **keys: object
) -> dict[str, float | None]:
    """Run programs between the first two hosts, and return the metrics."""
    return dict(outcome(hosts, *runs, **keys).metrics)


def outcome(hosts: Sequence[Victim], *runs: Mapping[str, object], **keys: object) -> Outcome:
    workload = ScenarioPrograms(settings_of(*runs, **keys))
    there = pairs([hosts[0]], list(hosts[1:]))
    job = TrialJob(trial=0, pairs=there, waits=SHORT)
    try:
        done = run_parts(job, workload.parts())
        return workload.outcome(0, Purpose.MEASURED, done.ran)
    finally:
        for host in hosts:  # whatever happened, all agents are idle or gone
            assert left(host) == []


def left(host: Victim) -> list[str]:
    """Return what runs in a host's directory that is no agent."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            where, argv = (directory / "cwd").readlink(), (directory / "cmdline").read_bytes()
        except OSError:
            continue
        if where.name == host.directory and b"osmef-agent" not in argv and argv:
            found.append(argv.decode(errors="replace"))
    return found


@pytest.fixture
def two(hosts: MakeHosts) -> list[Victim]:
    return hosts("sender", "receiver")


ODD = ("-n", "--", "$(id)", "a b", "'\"", "\n", "", "*", "é", "{peer}", "{}", "{ x }", "}{")

ASK = """import sys, urllib.request
assert urllib.request.urlopen(sys.argv[1]).read() == b"poong"
"""
"""A script that expects an answer of pong."""

NUMBER = {"rate": {"pattern": "rate ([0-9.]+)", "unit": "B/s", "written_in": "MB/s"}}


def test_a_metric_is_read_and_the_resource_usage_is_reported(two: list[Victim]) -> None:
    found = measure(two, sh("echo rate 2.5; i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"),
                    metrics=NUMBER)  # fmt: skip
    assert found["rate"] == pytest.approx(2.5e6)
    assert found["program_s"] is not None
    assert 0 < found["program_s"] < 60
    assert (found["program_cpu_percent"] or 0) > 0
    assert (found["program_memory_bytes"] or 0) > 100_000


def test_a_server_and_its_client(two: list[Victim]) -> None:
    server = {
        **sh("echo here {port} {bind}; exec sleep 60", on="receiver"),
        "ready": {"line": "here"},
        "serves": True,
    }
    client = sh("echo from {bind} to {peer} port {port} in {duration}")
    theirs = {"pattern": r"here (\d+)", "on": "receiver"}
    metrics = {"port": {"pattern": r"port (\d+)"}, "theirs": theirs}
    found = measure(two, server, client, metrics=metrics)
    assert found["port"] == found["theirs"]


def test_a_server_may_take_several_ports_in_a_row(two: list[Victim]) -> None:
    server = {
        **sh("echo here {port} {data_port}; exec sleep 60", on="receiver"),
        "ready": {"line": "here"},
        "serves": True,
        "ports": 3,
    }
    client = sh("echo port {port} data {data_port}")
    theirs = {"pattern": r"here \d+ (\d+)", "on": "receiver"}
    own = {"port": {"pattern": r"port (\d+)"}, "data": {"pattern": r"data (\d+)"}}
    found = measure(two, server, client, metrics={**own, "theirs": theirs})
    port = int(found["port"] or 0)
    assert found["theirs"] == found["data"] == port + 1
    assert two[1].data_ports(1) == (port + 3 if port + 3 in DATA_PORTS else DATA_PORTS.start)


@pytest.mark.parametrize(
    ("address", "told"),
    [("127.0.0.1", "127.0.0.1 127.0.0.1 a"), ("::1", "::1 [::1] a -6")],
)
def test_addresses_and_options_follow_the_address_family(
    two: list[Victim], address: str, told: str
) -> None:
    workload = ScenarioPrograms(settings_of(sh('echo {peer} {host} "$@"', "a", ipv6=["-6"])))
    there = [Pair(two[0], two[1], address, address)]
    ((ran,),) = run_parts(TrialJob(trial=0, pairs=there), workload.parts()).ran
    assert ran.printed[0].stdout.decode() == f"{told}\n"


def test_the_agent_is_a_program_that_is_there(two: list[Victim]) -> None:
    server = {
        "on": "receiver",
        "argv": ["osmef-agent", "pong", "--bind", "{bind}", "--port", "{port}"],
        "ready": "port",
        "serves": True,
    }
    answers = {"requests": {"pattern": "([0-9]+) requests", "on": "receiver"}}
    ask = [sys.executable, "-c", ASK, "http://{host}:{port}/pong/5"]
    found = measure(two, server, {"on": "sender", "argv": ask}, metrics=answers)
    assert found["requests"] == 1


def test_both_ends_run_it(two: list[Victim]) -> None:
    metrics = {
        "total": {"pattern": "is ([0-9]+)", "unit": "1/s"},
        "mean": {"pattern": "is ([0-9]+)"},
        "worst": {"pattern": "is ([0-9]+)", "better": "lower", "over_pairs": "worst"},
    }
    found = measure(two, sh("echo is 4", on="both"), metrics=metrics)
    assert (found["total"], found["mean"], found["worst"]) == (8, 4, 4)


def test_several_pairs_make_one_number(hosts: MakeHosts) -> None:
    three = hosts("sender", "receiver", "other")
    found = measure(three, sh("echo is 4"), metrics={"rate": {"pattern": "is (4)", "unit": "B/s"}})
    assert found["rate"] == 8


def test_the_cpus_of_its_own_end_are_known(two: list[Victim]) -> None:
    metrics = {"cpus": {"pattern": r"cpus (\d+)"}}
    cpus = len(os.sched_getaffinity(0))
    for script, words in (("echo cpus $1", ("{cpus}",)), ("echo cpus $CPUS", ())):
        run = sh(script, *words, env={"CPUS": "{cpus}"})
        assert measure(two, run, metrics=metrics)["cpus"] == cpus


def test_it_runs_in_the_run_s_own_directory_with_its_environment(two: list[Victim]) -> None:
    done = outcome(
        two,
        sh('cat; echo "$GREETING $(basename "$PWD")"', env={"GREETING": "{peer}"}, stdin="in\n"),
    )
    assert done.metrics["program_s"] is not None


@pytest.mark.parametrize(("env", "locale"), [({}, "C"), ({"LC_ALL": "de_DE.UTF-8"}, "de_DE.UTF-8")])
def test_it_prints_numbers_as_everywhere(
    two: list[Victim], env: dict[str, str], locale: str
) -> None:
    script = f'test "$LC_ALL" = {locale} && echo rate 7'
    assert measure(two, sh(script, env=env), metrics=NUMBER)["rate"] == 7e6


@pytest.mark.parametrize(
    ("run", "kind", "said"),
    [
        ({"on": "sender", "argv": ["no-such-program-here"]}, ProgramError, "no folder of PATH"),
        ({"on": "sender", "argv": ["/etc/passwd"]}, ProgramError, "Permission denied"),
        (sh("echo a reason >&2; exit 3"), ProgramError, "exit status 3"),
        (sh("echo a reason >&2; exit 3"), ProgramError, "a reason"),
        (sh("kill -SEGV $$"), ProgramError, "killed by SIGSEGV"),
        (sh("kill -KILL $$"), ProgramError, "did it take too much memory?"),
        (sh("echo half of it; exec sleep 600"), ProgramError, "half of it"),
        (sh("sleep 600 & setsid sleep 600 & exit 3"), ProgramError, "exit status 3"),
        (sh("head -c 100000000 /dev/zero"), ProgramError, "raise most_output"),
        (sh("true"), OutputError, "nothing"),
        (sh("echo rate none"), OutputError, "rate none"),
        (sh("head -c 5000 /dev/urandom"), OutputError, "sh printed no rate: nothing on its stdout"),
        (sh("printf 'rate \\377'"), OutputError, "matches rate ([0-9.]+)"),
        (sh("echo rate 7 >&2"), OutputError, "write stream: stderr"),
    ],
)
def test_a_failed_program_is_reported_with_the_end_of_its_output(
    two: list[Victim], run: dict[str, object], kind: type[EndpointError], said: str
) -> None:
    with pytest.raises(kind) as caught:
        measure(two, run, metrics=NUMBER, deadline="1s", most_output="100kB")
    assert said in str(caught.value)
    assert caught.value.where == "sender"


def test_half_a_json_is_an_error(two: list[Victim]) -> None:
    with pytest.raises(OutputError, match="no complete JSON"):
        measure(two, sh("printf '{\"a\": 1'"), metrics={"a": {"json": "a"}})


def test_other_exit_statuses_can_be_declared_successful(two: list[Victim]) -> None:
    assert measure(two, sh("echo rate 1; exit 3", exits=[3]), metrics=NUMBER)["rate"] == 1e6


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (sh("exec sleep 600", on="receiver", ready={"line": "never"}), "did not print 'never'"),
        (sh("exec sleep 600", on="receiver", ready="port"), "did not listen on port 2"),
        (sh("exec sleep 600", on="receiver", ready="udp-port"), "did not bind UDP port 2"),
        (sh("echo no; exit 1", on="receiver", ready="port"), "before it was ready.*: no"),
        (sh("kill $$", on="receiver", ready="port"), r"by signal 15 \(Terminated\)"),
    ],
)
def test_a_server_that_is_never_ready(
    two: list[Victim], server: dict[str, object], said: str
) -> None:
    with pytest.raises(ProgramError, match=said) as caught:
        measure(two, server, sh("true"))
    assert caught.value.where == "receiver"


def test_a_program_that_does_not_end_is_reported_with_the_serves_setting(two: list[Victim]) -> None:
    server = sh("exec sleep 600", on="receiver", ready="start")
    with pytest.raises(ProgramError, match="write serves: true") as caught:
        measure(two, server, sh("true"), deadline="500ms")
    assert caught.value.where == "receiver"


def test_a_client_that_fails_is_the_cause_and_its_server_is_not_waited_for(
    two: list[Victim],
) -> None:
    server = sh("exec sleep 600", on="receiver", ready="start")
    with pytest.raises(ProgramError, match="exit status 1") as caught:
        measure(two, server, sh("echo refused >&2; exit 1"), deadline="600s")
    assert (caught.value.where, caught.value.tail) == ("sender", "refused")


@pytest.mark.parametrize("purpose", [Purpose.MEASURED, Purpose.BACKGROUND])
def test_the_output_of_a_failed_program_is_kept(two: list[Victim], purpose: Purpose) -> None:
    kept: dict[str, bytes] = {}
    job = TrialJob(trial=0, pairs=pairs([two[0]], [two[1]]), keep=kept.__setitem__)
    failing = ScenarioPrograms(settings_of(sh("echo one; echo two >&2; exit 1")))
    parts = [replace(part, purpose=purpose) for part in failing.parts()]
    with pytest.raises(ProgramError) as caught:
        run_parts(job, [*ScenarioPrograms(settings_of(sh("exec sleep 600"))).parts(), *parts])
    assert caught.value.message.startswith("the background: ") == (purpose is Purpose.BACKGROUND)
    assert {name: data for name, data in kept.items() if name.startswith("1-")} == {
        "1-sender.stdout": b"one\n",
        "1-sender.stderr": b"two\n",
    }


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20), max_size=4
    ).map(lambda texts: [*texts, *ODD])
)
def test_arguments_arrive_as_they_are_written(two: list[Victim], arguments: list[str]) -> None:
    written = [re.sub(r"\{([a-z_]+)\}", r"{{\1}}", one) for one in arguments]
    workload = ScenarioPrograms(
        settings_of({"on": "sender", "argv": ["printf", "%s\\0", *written]})
    )
    ((ran,),) = run_parts(TrialJob(trial=0, pairs=pairs([two[0]], [two[1]])), workload.parts()).ran
    assert ran.printed[0].stdout.decode().split("\0")[:-1] == arguments


def test_a_background_runs_until_the_others_have_ended(two: list[Victim]) -> None:
    beside = ScenarioPrograms(
        settings_of(sh("echo rate 7; : >begun; exec sleep 600"), metrics=NUMBER)
    )
    wait = "until test -e begun; do :; done"
    measured = ScenarioPrograms(settings_of(sh(f"{wait}; echo rate 1"), metrics=NUMBER))
    parts = [
        *measured.parts(),
        *(replace(part, purpose=Purpose.BACKGROUND) for part in beside.parts()),
    ]
    done = run_parts(TrialJob(trial=0, pairs=pairs([two[0]], [two[1]])), parts)
    ((first, second),) = done.ran
    assert measured.outcome(0, Purpose.MEASURED, [[first]]).metrics["rate"] == 1e6
    assert beside.outcome(0, Purpose.BACKGROUND, [[second]]).metrics["rate"] == 7e6
    assert left(two[0]) == []


def test_beside_a_bulk_transfer(two: list[Victim]) -> None:
    from osmef.workloads.kinds.btc import BtcSettings, BulkTransfer  # noqa: PLC0415

    bulk = BulkTransfer(BtcSettings(duration="200ms", interval="100ms"))
    beside = ScenarioPrograms(settings_of(sh("exec sleep 600")))
    parts = [*bulk.parts(), *(replace(p, purpose=Purpose.BACKGROUND) for p in beside.parts())]
    done = run_parts(TrialJob(trial=0, pairs=pairs([two[0]], [two[1]])), parts)
    assert bulk.outcome(0, Purpose.MEASURED, [[done.ran[0][0]]]).metrics["aggregate_btc_bps"]
    assert left(two[0]) == []


def test_an_agent_that_is_killed_takes_the_program_with_it(two: list[Victim]) -> None:
    two[0].doomed = True
    with pytest.raises(AgentError, match="gone"):
        measure(two, sh("exec sleep 600"))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"run": []}, "at least 1 item"),
        ({"run": [sh("x", ready="port")]}, "all of these are servers"),
        ({"run": [sh("{port}")]}, "is that of a server"),
        ({"run": [sh("{prot}")]}, "{prot} is no known placeholder"),
        ({"run": [sh("x", serves=True)]}, "a server reports when it is ready"),
        ({"run": [sh("x", ports=2)]}, "only a server takes ports"),
        ({"run": [sh("x", ready="port"), sh("{data_port}")]}, "none takes two"),
        ({"run": [sh("x"), {**sh("x"), "on": "loopback"}]}, "has no other end"),
        ({"run": [sh("a\0b")]}, "NUL"),
        ({"metrics": {"a": {"pattern": "(x)", "on": "receiver"}}}, "no program runs on the"),
        ({"metrics": {"program_s": {"pattern": "(x)"}}}, "every program has a metric program_s"),
        ({"metrics": {"Bad Name": {"pattern": "(x)"}}}, "pattern"),
    ],
)
def test_impossible_settings_are_rejected_before_the_run(keys: dict[str, Any], said: str) -> None:
    usual = {"kind": "program", "run": [sh("x")]}
    with pytest.raises(ValidationError) as caught:
        ProgramSettings.model_validate_json(json.dumps(usual | keys), strict=True)
    assert said in str(caught.value)


def test_the_example_is_valid(tmp_path: Path) -> None:
    from osmef.scenario.load import load_text  # noqa: PLC0415

    study = load_text(f"name: x\n{ScenarioPrograms.example}\n", tmp_path / "x.yaml")
    assert study.scenario.ends[0].kind is EndpointKind.VM
